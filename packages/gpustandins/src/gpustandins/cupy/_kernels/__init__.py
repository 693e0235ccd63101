"""Kernels through NVRTC: CUDA C++, elementwise, reductions, and fused functions."""
