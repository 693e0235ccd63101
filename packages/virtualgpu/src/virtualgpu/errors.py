"""Errors of the virtual GPU, each with a message that teaches.

Each error says what happened, where (kernel, source line, block, thread) and what to do next. All
of them derive from :class:`VirtualGPUError`, so one ``except`` catches them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from virtualgpu import sources
from virtualgpu.languages import triton_files


class Index(tuple[int, int, int]):
    """Index ``(x, y, z)`` of a block or a thread, printed with the dimensions of its launch.

    It prints as ``5`` in one dimension and as ``(5, 1)`` in two. ``size`` is the size of the grid
    or of the block. If the size is unknown, all three components are printed.
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

    ``filename`` and ``line`` refer to the kernel's source (a notebook cell or a file). ``block``
    and ``thread`` are ``(x, y, z)`` as in ``cuda.blockIdx`` and ``cuda.threadIdx``, or None if the
    fault belongs to no single thread. ``kernel`` is empty if the host caused the fault.
    ``callers`` are the file and line of each call at which the compiler inlined the line,
    innermost first.
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
        """Return the line, the thread and, on its own line, the code, without the kernel's name."""
        parts = [f"{sources.name(self.filename)} line {self.line}"] if self.line else []
        if self.filename in triton_files:  # Triton's compiler chooses the threads
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
    """Base class of the virtual GPU's errors."""

    def __init__(self, message: str, location: Location | None = None):
        self.message = message
        self.location = location
        # Not super(): a frontend may mix in the error class that a real GPU would raise.
        Exception.__init__(self, message if location is None else f"{message}\n  at {location}")

    def _render_traceback_(self) -> list[str]:
        """Return the error on one line, which IPython shows instead of a long traceback."""
        return [f"{type(self).__name__}: {self}"]


class PTXSyntaxError(VirtualGPUError):
    """PTX text that cannot be parsed; the message quotes the line."""


class UnsupportedInstruction(VirtualGPUError, NotImplementedError):
    """PTX instruction, or modifier of one, that the virtual GPU does not support."""


class BytecodeError(VirtualGPUError):
    """Tile IR bytecode that is damaged or badly typed; ``offset`` is the position of the fault."""

    def __init__(self, message: str, location: Location | None = None, *, offset: int = 0):
        self.offset = offset
        super().__init__(message, location)


class LinkError(VirtualGPUError):
    """Symbol that no loaded PTX defines, or that two PTX modules define differently."""


class LaunchError(VirtualGPUError, ValueError):
    """Launch that no device of this compute capability would accept."""


class OutOfMemory(VirtualGPUError, MemoryError):
    """Allocation of more memory than the virtual device has left."""


class MemoryAccessError(VirtualGPUError):
    """Load, store or atomic outside every live allocation.

    ``address`` is the device address. ``space`` is global, shared, local, const or param.
    """

    def __init__(self, message, location=None, *, address: int = 0, space: str = "global"):
        self.address = address
        self.space = space
        super().__init__(message, location)


class MisalignedAddressError(MemoryAccessError):
    """Access whose address is not a multiple of its size (PTX ISA, "Alignment")."""


class DeadlockError(VirtualGPUError):
    """Deadlock in which every live thread waits at a barrier that can never complete."""


class BarrierError(VirtualGPUError):
    """Misuse of a cluster barrier or of a barrier in shared memory (``mbarrier``).

    It is also raised for a copy that arrives at such a barrier, and for an instruction of whole
    warps that only part of a warp executes.
    """


class BudgetExceeded(VirtualGPUError):
    """Kernel that used up its budget of instructions or processor time."""


class EndlessError(DeadlockError, BudgetExceeded):
    """Kernel that can never end.

    Either a loop changes nothing that its exit condition depends on, or every live thread waits
    for something that none of them will do.
    """


class TrapError(VirtualGPUError):
    """Execution of ``trap``, for example by a failed ``assert`` in CUDA C++."""


# Users write `except virtualgpu.MemoryAccessError`, so tracebacks must show that name too.
for _error in [*globals().values()]:
    if isinstance(_error, type) and issubclass(_error, VirtualGPUError):
        _error.__module__ = "virtualgpu"
del _error
