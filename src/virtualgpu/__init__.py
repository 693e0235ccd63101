"""A virtual GPU: runs the PTX of CUDA kernels on the CPU, and watches them."""
