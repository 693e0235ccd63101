"""Interpreter: executes basic blocks for many threads at a time, with NumPy arrays."""
