"""A virtual GPU for PTX that comes from people who are not trusted."""

from __future__ import annotations

from virtualgpu.api import Budget, GlobalMemory, VirtualDevice

# Device memory where none is said: what a launch is played on again has that of one submission.
MEMORY = 1 << 30


class UntrustingDevice(VirtualDevice):
    """A virtual GPU whose addresses say nothing of this process, and which only interprets.

    Its memory lies at a random place of this process, so a number that a kernel takes for an
    address of the host, or of Python's objects, is none. LLVM compiles nothing: it was not made for
    what strangers send.
    """

    def __init__(self, total_memory: int | None = None, budget: Budget | None = None) -> None:
        memory = GlobalMemory(total_memory or MEMORY, apart=True)
        super().__init__(memory.capacity, budget, memory)
        self.compiles = False
