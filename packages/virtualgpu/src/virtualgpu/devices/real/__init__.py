"""A real GPU: its presence, a process that drives it, machine code for it, arrays in its place."""
