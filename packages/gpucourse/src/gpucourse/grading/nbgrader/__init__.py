"""nbgrader's side: its traits and preprocessors, its gradebook, its feedback."""
