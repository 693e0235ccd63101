"""Awkward Arrays on their way to the grader's worker, PyCUDA's stand-in on a GPU."""
