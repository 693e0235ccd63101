"""Launches: linked modules, execution of the grid in waves, launch limits, detection of hangs."""
