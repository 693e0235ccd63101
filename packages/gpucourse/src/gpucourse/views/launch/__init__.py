"""Cards and pictures of a launch: its counts, lines, memory, warps, races; launches compared."""
