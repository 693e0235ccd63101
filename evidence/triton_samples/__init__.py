"""Triton kernels written for :mod:`evidence.triton_kernels`."""
