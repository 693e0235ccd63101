"""Fuzzing of the virtual GPU with random and mutated PTX: ``python -m lab.evidence.fuzz``."""
