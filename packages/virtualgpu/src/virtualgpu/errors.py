"""Errors of the virtual GPU, each with a message that teaches.

Every error names what happened, where (kernel, source line, block, thread) and what to do
next. All derive from :class:`VirtualGPUError`, so one ``except`` catches them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from virtualgpu import sources
from virtualgpu.languages import triton_files


class Index(tuple[int, int, int]):
    """Index ``(x, y, z)`` of a block or a thread, written as its launch counts them.

    It is ``5`` in one dimension, ``(5, 1)`` in two. ``size`` is that of the grid or the block;
    where it is not known, all three are written.
    """

    size: tuple[int, int, int]

    def __new__(cls, index: Iterable[int], size: tuple[int, int, int] = (2, 2, 2)) -> Index:
        self = super().__new__(cls, index)
        self.size = size
        return self

    def __reduce__(self) -> tuple:
        return Index, (tuple(self), self.size)

    def __str__(self) -> str:
        dimensions = max((axis + 1 for axis in range(3) if self.size[axis] > 1), default=1)
        return str(self[0] if dimensions == 1 else self[:dimensions])


@dataclass(frozen=True, slots=True)
class Location:
    """Location of a thread: kernel, source line, block and thread index.

    ``filename`` and ``line`` are those of the kernel's own source (a notebook cell, a file);
    ``block`` and ``thread`` are ``(x, y, z)`` as ``cuda.blockIdx`` and ``cuda.threadIdx``
    give them, or None where the fault belongs to no single thread. ``kernel`` is empty where the
    host did it. ``callers`` are file and line of the calls that the compiler inlined the line at,
    the innermost first.
    """

    kernel: str
    filename: str | None = None
    line: int | None = None
    block: Index | None = None
    thread: Index | None = None
    callers: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(
        cls,
        kernel: str,
        source: sources.SourceLine | None,
        block: Index | None = None,
        thread: Index | None = None,
    ) -> Location:
        """Return the location of an instruction; ``source`` is None if the PTX has no lines."""
        if source is None:
            return cls(kernel, block=block, thread=thread)
        return cls(kernel, *source, block, thread, source.callers)

    def __str__(self) -> str:
        place = self.place()
        return ", ".join(filter(None, (self.kernel and f"kernel {self.kernel}", place)))

    def place(self) -> str:
        """Return the line, the thread and, on its own line, the code; without the kernel's name."""
        parts = [f"{sources.name(self.filename)} line {self.line}"] if self.line else []
        if self.filename in triton_files:  # whose threads are the compiler's
            parts += [] if self.block is None else [f"program {self.block}"]
        elif self.thread is not None:
            parts.append(f"thread {self.thread} of block {self.block}")
        elif self.block is not None:
            parts.append(f"block {self.block}")
        lines = [", ".join(parts), sources.text(self.filename, self.line)]
        within = self.filename
        for filename, line in self.callers:
            file = "" if filename == within else f"{sources.name(filename)} "
            code = sources.text(filename, line)
            lines.append(f"called from {file}line {line}" + (f": {code}" if code else ""))
            within = filename
        return "\n    ".join(filter(None, lines))


class VirtualGPUError(Exception):
    """Base of every error that the virtual GPU raises by itself."""

    def __init__(self, message: str, location: Location | None = None):
        self.message = message
        self.location = location
        # Not super(): a frontend may mix in the error class that a real GPU would raise.
        Exception.__init__(self, message if location is None else f"{message}\n  at {location}")

    def _render_traceback_(self) -> list[str]:
        """Return the error on one line, which IPython shows instead of a long traceback."""
        return [f"{type(self).__name__}: {self}"]


class PTXSyntaxError(VirtualGPUError):
    """The PTX text cannot be parsed; the message quotes the line."""


class UnsupportedInstruction(VirtualGPUError, NotImplementedError):
    """A PTX instruction (or a modifier of one) that the machine does not have."""


class BytecodeError(VirtualGPUError):
    """Tile IR bytecode that is damaged, or whose types do not fit; ``offset`` says where."""

    def __init__(self, message: str, location: Location | None = None, *, offset: int = 0):
        self.offset = offset
        super().__init__(message, location)


class LinkError(VirtualGPUError):
    """A symbol that no loaded PTX defines, or that two define differently."""


class LaunchError(VirtualGPUError, ValueError):
    """A launch that no device of this compute capability would accept."""


class OutOfMemory(VirtualGPUError, MemoryError):
    """More device memory was asked for than the virtual device has."""


class MemoryAccessError(VirtualGPUError):
    """A load, store or atomic outside every live allocation.

    ``address`` is the device address, ``space`` one of global, shared, local, const, param.
    """

    def __init__(self, message, location=None, *, address: int = 0, space: str = "global"):
        self.address = address
        self.space = space
        super().__init__(message, location)


class MisalignedAddressError(MemoryAccessError):
    """An access whose address is not a multiple of its size (PTX ISA, "Alignment")."""


class DeadlockError(VirtualGPUError):
    """Every live thread waits at a barrier that can never be complete."""


class BarrierError(VirtualGPUError):
    """Barrier of a cluster or in shared memory (``mbarrier``) misused.

    Also raised for a copy that arrives there, and for an instruction of whole warps that a part of
    a warp runs.
    """


class BudgetExceeded(VirtualGPUError):
    """The kernel ran past its budget of instructions or processor time."""


class EndlessError(DeadlockError, BudgetExceeded):
    """The kernel can never end.

    A loop changes nothing that decides whether it goes on, or every live thread waits for what none
    of them will do.
    """


class TrapError(VirtualGPUError):
    """The kernel executed ``trap`` (an ``assert`` that failed in CUDA C++, for one)."""


# Users know them from here: `except virtualgpu.MemoryAccessError`, and tracebacks say so.
for _error in [*globals().values()]:
    if isinstance(_error, type) and issubclass(_error, VirtualGPUError):
        _error.__module__ = "virtualgpu"
del _error
