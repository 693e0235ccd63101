"""Random and mutated PTX against the virtual GPU: ``python -m evidence.fuzz``."""
