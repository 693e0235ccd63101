"""The back end for a GPU: CUDA C++, one kernel for each loop nest, launched through CuPy."""
