"""Observers of a launch: checkers for races, barriers and uninitialised reads, and counters."""
