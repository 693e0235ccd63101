"""Support for Awkward Arrays in Numba kernels that Awkward itself does not have yet."""
