"""PyCUDA's error classes, and the conversion of CuPy's and the virtual GPU's errors.

As in PyCUDA, the driver result determines the class: ``MemoryError`` for too little memory,
``LaunchError`` for a launch that fails or needs too many resources, and ``LogicError`` for all
other mistakes of the caller.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager

from cupy.cuda.driver import CUDADriverError
from cupy.cuda.runtime import CUDARuntimeError

from virtualgpu.standins.interface import (
    CompilationError,
    LinkError,
    MemoryAccessError,
    MisalignedAddressError,
    OutOfMemory,
    VirtualGPUError,
)
from virtualgpu.standins.interface import (
    LaunchError as ImpossibleLaunch,
)


class Error(Exception):
    """Base class of all PyCUDA errors."""

    def _render_traceback_(self) -> list[str]:
        """Return the error as one line, which IPython shows instead of internal frames."""
        return [f"{type(self).__name__}: {self}"]


class LogicError(Error):
    """Error for a mistake of the caller: a bad address, an unknown name, no context."""


class LaunchError(Error):
    """Error for a kernel that failed while it ran, or that the device cannot start."""


class RuntimeError(Error, builtins.RuntimeError):
    """Error for a failure of the machine."""


class MemoryError(Error, builtins.MemoryError):
    """Error for too little device memory."""


class CompileError(Error):
    """Error for CUDA C++ that does not compile.

    Attributes
    ----------
    msg : str
        The compiler's message with the line and a caret.
    command_line : list of str
        The compiler and its options.
    stdout, stderr : str
        ``stderr`` has the compiler's own output.
    """

    def __init__(self, msg, command_line, stdout=None, stderr=None):
        self.msg, self.command_line, self.stdout, self.stderr = msg, command_line, stdout, stderr
        super().__init__(msg, command_line, stdout, stderr)

    def __str__(self) -> str:
        command = f"\n[command: {' '.join(self.command_line)}]" if self.command_line else ""
        return f"{self.msg}{command}"


class IllegalAddress(LogicError, MemoryAccessError):
    """Error for a kernel's access outside every allocation, in PyCUDA a ``LogicError``."""


class FailedLaunch(LaunchError, VirtualGPUError):
    """Error for a kernel that stopped while it ran."""


class InvalidLaunch(LogicError, ImpossibleLaunch):
    """Error for a launch that no device accepts."""


@contextmanager
def call(function: str) -> Iterator[None]:
    """Convert errors inside the block to a failure of the driver's ``function``."""
    try:
        yield
    except OutOfMemory as error:
        raise MemoryError(f"{function} failed: out of memory ({error.message})") from None
    except (Error, CompilationError):
        raise
    except VirtualGPUError as error:
        if function.startswith("cuMem"):  # a copy, not a kernel
            raise LogicError(f"{function} failed: invalid argument ({error.message})") from None
        raise _of_launch(function, error) from None
    except (CUDADriverError, CUDARuntimeError) as error:
        words = str(error).partition(": ")[2] or str(error)
        kind = _OF_STATUS.get(int(error.status), LogicError)
        raise kind(f"{function} failed: {words}") from None


#: CUDA's error numbers, the same in both interfaces; all others become LogicError.
_OF_STATUS = {2: MemoryError, **dict.fromkeys((701, 702, 719), LaunchError)} | dict.fromkeys(
    (100, 209, 214, 301, 600, 999), RuntimeError
)


def _of_launch(function: str, error: VirtualGPUError) -> Error:
    if isinstance(error, MemoryAccessError):
        words = (
            "misaligned address"
            if isinstance(error, MisalignedAddressError)
            else "an illegal memory access was encountered"
        )
        return _both(IllegalAddress, f"{function} failed: {words}", error)
    if isinstance(error, LinkError) or error.message.startswith("no kernel "):
        return LogicError(f"{function} failed: named symbol not found ({error.message})")
    if isinstance(error, ImpossibleLaunch):
        return _both(InvalidLaunch, f"{function} failed: invalid argument", error)
    return _both(FailedLaunch, f"{function} failed: unspecified launch failure", error)


def _both(kind: type, words: str, error: VirtualGPUError) -> Error:
    made = kind.__new__(kind)
    Exception.__init__(made, f"{words}\n{error}")
    for name in ("message", "location", "address", "space"):
        if hasattr(error, name):
            setattr(made, name, getattr(error, name))
    return made
