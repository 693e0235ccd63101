"""Awkward Arrays in Numba kernels, where Awkward itself has no support yet."""
