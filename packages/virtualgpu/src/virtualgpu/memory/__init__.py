"""Device memory on the host: one mapping, allocations in it, which bytes are written, textures."""
