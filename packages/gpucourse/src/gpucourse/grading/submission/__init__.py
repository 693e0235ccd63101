"""Safe notebooks from submitted files."""
