"""Control flow: decoded jumps, the order of basic blocks, loops that wait or never end."""
