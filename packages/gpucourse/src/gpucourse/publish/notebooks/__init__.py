"""Notebooks derived from the sources, the time that they take, and the runs that test them."""
