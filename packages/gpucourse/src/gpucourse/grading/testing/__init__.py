"""Functions for writing tests, used in notebooks and in the grader, and checks of kernels."""
