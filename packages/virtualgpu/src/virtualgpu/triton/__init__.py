"""Triton kernels on a device of ours: Triton compiles to PTX, the device runs it.

Tried with Triton 3.9.0. The two ways in are Triton's own: a driver of another make
(``triton.runtime.driver.set_active``), and the hook that may change the stages of compiling.
"""
