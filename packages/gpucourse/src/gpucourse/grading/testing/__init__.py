"""Language of tests, in a notebook and in the grader, and the watching of kernels."""
