"""Kernels compiled by NVRTC: raw CUDA C++, elementwise, reductions and fused functions."""
