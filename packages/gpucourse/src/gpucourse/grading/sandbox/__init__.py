"""The student's process: its isolation, its rights, and the values that pass in and out."""
