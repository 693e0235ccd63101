"""Triton kernels on the virtual GPU: Triton compiles to PTX, and the device runs it.

Tested with Triton 3.9.0. It uses two interfaces of Triton: a custom driver
(``triton.runtime.driver.set_active``), and the hook that can change the stages of compilation.
"""
