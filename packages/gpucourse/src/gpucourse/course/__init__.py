"""What the course consists of: its lessons, the marked regions of a cell, its locks."""
