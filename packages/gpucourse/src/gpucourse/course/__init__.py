"""Contents of the course: its lessons, the marked regions of a cell, its locks."""
