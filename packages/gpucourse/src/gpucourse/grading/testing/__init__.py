"""What tests are written in, in a notebook and in the grader, and how a kernel is watched."""
