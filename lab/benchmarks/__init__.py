"""Benchmarks, one command each; results in ``results/`` have machine, date and versions."""
