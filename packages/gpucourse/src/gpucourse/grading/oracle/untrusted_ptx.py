"""Virtual GPU for PTX from untrusted people."""

from __future__ import annotations

from virtualgpu.api import Budget, GlobalMemory, VirtualDevice

# Default device memory, the same as a submission's. Replayed launches use it.
MEMORY = 1 << 30


class UntrustingDevice(VirtualDevice):
    """A virtual GPU that only interprets, with addresses that reveal nothing about this process.

    Its memory is mapped at a random offset, so an address that a kernel computes for host memory
    or for Python objects is not valid. LLVM compiles nothing, because it was not designed for
    untrusted input.
    """

    def __init__(self, total_memory: int | None = None, budget: Budget | None = None) -> None:
        memory = GlobalMemory(total_memory or MEMORY, apart=True)
        super().__init__(memory.capacity, budget, memory)
        self.compiles = False
