"""Device memory on the host: address space, allocations, written bytes, textures."""
