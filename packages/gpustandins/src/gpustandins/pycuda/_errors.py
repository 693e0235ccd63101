"""PyCUDA's errors, and those of CuPy and of the virtual GPU as PyCUDA's.

Which driver result becomes which class is PyCUDA's own rule: running out of memory is
``MemoryError``, a launch that fails or asks for too much ``LaunchError``, everything else that a
caller did wrong ``LogicError``.
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
    """Base of all errors of PyCUDA."""

    def _render_traceback_(self) -> list[str]:
        """Return the error on one line, which IPython shows instead of the machine's frames."""
        return [f"{type(self).__name__}: {self}"]


class LogicError(Error):
    """Something that the caller did wrong: a bad address, an unknown name, no context."""


class LaunchError(Error):
    """A kernel that failed while it ran, or that the device cannot start."""


class RuntimeError(Error, builtins.RuntimeError):
    """The machine is at fault."""


class MemoryError(Error, builtins.MemoryError):
    """No device memory left."""


class CompileError(Error):
    """CUDA C++ that does not compile.

    Attributes
    ----------
    msg : str
        What is wrong, the line and a caret.
    command_line : list of str
        The compiler and its options.
    stdout, stderr : str
        The compiler's own text is in ``stderr``.
    """

    def __init__(self, msg, command_line, stdout=None, stderr=None):
        self.msg, self.command_line, self.stdout, self.stderr = msg, command_line, stdout, stderr
        super().__init__(msg, command_line, stdout, stderr)

    def __str__(self) -> str:
        command = f"\n[command: {' '.join(self.command_line)}]" if self.command_line else ""
        return f"{self.msg}{command}"


class IllegalAddress(LogicError, MemoryAccessError):
    """A kernel's access outside every allocation; PyCUDA says ``LogicError``."""


class FailedLaunch(LaunchError, VirtualGPUError):
    """A kernel that stopped while it ran."""


class InvalidLaunch(LogicError, ImpossibleLaunch):
    """A launch that no device takes."""


@contextmanager
def call(function: str) -> Iterator[None]:
    """Turn errors inside the block into a failure of the driver's ``function``."""
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


#: CUDA's numbers, the same in both of its interfaces; all others are a LogicError.
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
