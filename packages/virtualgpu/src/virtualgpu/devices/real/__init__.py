"""Real GPUs: presence, driver calls, a separate process, machine code, and array copies."""
