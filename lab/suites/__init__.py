"""Other people's test suites on the virtual GPU: ``python -m lab.suites``."""
