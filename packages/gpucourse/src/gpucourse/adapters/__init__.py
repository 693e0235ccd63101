"""Adapters for optional libraries: Awkward Arrays in the grader, CUDA C++ text, PyCUDA."""
