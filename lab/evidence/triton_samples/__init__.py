"""Triton kernels written for :mod:`lab.evidence.triton_kernels`."""
