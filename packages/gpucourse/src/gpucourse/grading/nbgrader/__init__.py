"""Extensions of nbgrader: traits and preprocessors, the gradebook, and feedback."""
