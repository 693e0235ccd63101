"""What other packages lack: Awkward Arrays on CUDA, PyCUDA's calls on CuPy."""
