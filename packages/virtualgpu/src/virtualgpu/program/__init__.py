"""A linked kernel, decoded: basic blocks, control flow, liveness, loops, shared memory."""
