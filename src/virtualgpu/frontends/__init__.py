"""How programs reach a device: Numba's dispatcher, CUDA C++, arrays on the device."""
