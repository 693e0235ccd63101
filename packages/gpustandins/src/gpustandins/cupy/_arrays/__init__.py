"""CuPy arrays, implemented with NumPy: the class, operators, indexing, functions, reductions."""
