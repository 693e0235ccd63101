"""Grading of whole classes: course directories, workers, clusters and reports."""
