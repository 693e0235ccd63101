"""Contents of the course: its lessons, marked regions of cells, and lock files."""
