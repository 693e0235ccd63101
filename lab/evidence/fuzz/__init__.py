"""Random and mutated PTX against the virtual GPU: ``python -m lab.evidence.fuzz``."""
