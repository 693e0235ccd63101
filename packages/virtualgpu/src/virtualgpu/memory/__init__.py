"""Device memory on the host: one mapping, its allocations, written bytes, textures."""
