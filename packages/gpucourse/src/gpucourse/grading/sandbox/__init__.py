"""The student's process: where it runs, what it may do, and what may pass in and out."""
