"""numba-cuda-mlir, the successor of numba-cuda, on the virtual GPU and as ``numba.cuda``."""
