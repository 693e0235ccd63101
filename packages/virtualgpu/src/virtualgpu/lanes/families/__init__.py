"""Instructions of newer GPUs: mbarriers, asynchronous copies, tensor cores, textures."""
