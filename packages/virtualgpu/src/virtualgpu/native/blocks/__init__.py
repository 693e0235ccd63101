"""Distribution of a grid's blocks over cores, including blocks that wait for each other."""
