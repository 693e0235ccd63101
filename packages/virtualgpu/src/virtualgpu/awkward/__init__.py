"""Awkward Arrays in kernels and on the CUDA backend: what Awkward itself does not do yet."""
