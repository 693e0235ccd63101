"""Decoded kernels: basic blocks, control flow, liveness, loops, shared memory, index ranges."""
