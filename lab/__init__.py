"""Measurements: benchmarks, long checks, other places, a real GPU; ``results/``."""
