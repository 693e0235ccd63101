"""numba-cuda-mlir, the successor of numba-cuda, on a device of ours and under numba-cuda's name."""
