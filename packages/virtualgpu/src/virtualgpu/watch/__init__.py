"""What watches a launch: races, barriers, uninitialised reads, counters."""
