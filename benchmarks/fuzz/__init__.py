"""Random and mutated PTX against the virtual GPU: ``python -m benchmarks.fuzz``."""
