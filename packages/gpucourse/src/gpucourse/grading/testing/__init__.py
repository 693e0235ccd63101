"""The language of tests, in a notebook and in the grader, and the observation of kernels."""
