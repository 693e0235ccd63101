"""Comparisons, each one command; results with machine, date and versions in ``results/``."""
