"""Back end for a GPU: CUDA C++ with one kernel for each loop nest, launched through CuPy."""
