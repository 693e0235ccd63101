"""Arrays over NumPy: the array itself, its operators, indices, functions and reductions."""
