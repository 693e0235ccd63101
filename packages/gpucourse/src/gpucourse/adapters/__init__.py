"""Awkward Arrays on their way to the grader's worker, PyCUDA's calls on CuPy."""
