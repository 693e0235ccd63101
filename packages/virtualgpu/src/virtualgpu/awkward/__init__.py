"""Awkward Arrays in Numba kernels: what Awkward itself does not do yet."""
