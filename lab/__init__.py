"""Measurements: benchmarks, long checks, other environments, a real GPU; see ``results/``."""
