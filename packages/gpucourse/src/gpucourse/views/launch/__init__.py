"""Cards and pictures of launches: counts, lines, memory, warps, races, comparisons."""
