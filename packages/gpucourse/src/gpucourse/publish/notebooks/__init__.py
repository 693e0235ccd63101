"""Generation of notebooks from the sources, their durations, and the runs that test them."""
