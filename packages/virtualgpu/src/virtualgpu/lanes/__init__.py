"""The interpreter: lanes of thread blocks as NumPy arrays, one basic block after the other."""
