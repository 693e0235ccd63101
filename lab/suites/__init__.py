"""Test suites of other projects, run on the virtual GPU: ``python -m lab.suites``."""
