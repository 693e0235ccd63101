"""A launch: loaded modules, the grid in waves, limits, loops that never end."""
