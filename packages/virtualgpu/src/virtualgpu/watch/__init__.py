"""Observers of a launch: races, barriers, uninitialised reads, counters."""
