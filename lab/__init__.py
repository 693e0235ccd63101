"""What measures and proves: benchmarks, long checks, other places, a real GPU; ``results/``."""
