"""Compilation and launch errors with CuPy's classes, plus the virtual GPU's details."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cuda.bindings import driver as binding

from virtualgpu.standins.interface import (
    CompilationError,
    LaunchError,
    LinkError,
    MemoryAccessError,
    MisalignedAddressError,
    TrapError,
    VirtualGPUError,
)

_Result = binding.CUresult
_WORDS = {
    _Result.CUDA_ERROR_INVALID_VALUE: "invalid argument",
    _Result.CUDA_ERROR_NOT_FOUND: "named symbol not found",
    _Result.CUDA_ERROR_ILLEGAL_ADDRESS: "an illegal memory access was encountered",
    _Result.CUDA_ERROR_MISALIGNED_ADDRESS: "misaligned address",
    _Result.CUDA_ERROR_ASSERT: "device-side assert triggered",
    _Result.CUDA_ERROR_LAUNCH_FAILED: "unspecified launch failure",
}


class CUDADriverError(RuntimeError):
    """Error result of the CUDA driver, like ``cupy.cuda.driver.CUDADriverError``.

    ``status`` is the ``CUresult``.
    """

    def __init__(self, status: int):
        self.status = _Result(status)
        super().__init__(f"{self.status.name}: {_WORDS.get(self.status, self.status.name)}")

    def __reduce__(self):
        return CUDADriverError, (int(self.status),)


class _Explained(CUDADriverError, VirtualGPUError):
    """CuPy's and the virtual GPU's error in one: the driver's name, and the cause and place."""

    def __init__(self, error: VirtualGPUError, status: int):
        CUDADriverError.__init__(self, status)
        self.message, self.location = error.message, error.location
        self._text = f"{RuntimeError.__str__(self)}\n{error}"
        for name in ("address", "space"):
            if hasattr(error, name):
                setattr(self, name, getattr(error, name))

    def __str__(self) -> str:
        return self._text

    def __reduce__(self):
        return CUDADriverError, (int(self.status),)


class IllegalAddress(_Explained, MemoryAccessError):
    """Error for an access outside every array."""


class MisalignedAddress(IllegalAddress, MisalignedAddressError):
    """Error for an access at an address that is not a multiple of the access size."""


class InvalidLaunch(_Explained, LaunchError):
    """Error for a launch that no GPU accepts."""


class FailedLaunch(_Explained, TrapError):
    """Error for a kernel that stopped at a trap or a failed assertion."""


class CompileException(Exception):
    """Error for CUDA C++ that NVRTC refuses, like ``cupy.cuda.compiler.CompileException``."""

    def __init__(self, msg: str, source: str, name: str, options: tuple, backend: str = "nvrtc"):
        self._msg, self.source, self.name = msg, source, name
        self.options, self.backend = options, backend
        super().__init__(msg)

    def __reduce__(self):
        return type(self), (self._msg, self.source, self.name, self.options, self.backend)

    def __str__(self) -> str:
        return self.get_message()

    def _render_traceback_(self) -> list[str]:
        """Return the error as one line, which IPython shows instead of the compiler's frames."""
        return [f"{type(self).__name__}: {self}"]

    def get_message(self) -> str:
        """Return the compiler's message."""
        return self._msg

    def dump(self, f) -> None:
        """Write the source with line numbers and the compiler options to the file ``f``."""
        lines = self.source.splitlines()
        width = len(str(len(lines)))
        f.write(f"{self.backend} options: {' '.join(self.options)}\n")
        f.writelines(f"{number:0{width}} {line}\n" for number, line in enumerate(lines, 1))
        f.flush()


@contextmanager
def as_cupy_does(source: str = "", name: str = "", options: tuple = ()) -> Iterator[None]:
    """Convert the virtual GPU's errors to CuPy's."""
    try:
        yield
    except CompilationError as error:
        raise CompileException(str(error), source, name, options) from None
    except CUDADriverError:
        raise
    except MisalignedAddressError as error:
        raise MisalignedAddress(error, _Result.CUDA_ERROR_MISALIGNED_ADDRESS) from None
    except MemoryAccessError as error:
        raise IllegalAddress(error, _Result.CUDA_ERROR_ILLEGAL_ADDRESS) from None
    except LinkError as error:
        raise InvalidLaunch(error, _Result.CUDA_ERROR_NOT_FOUND) from None
    except LaunchError as error:
        missing = error.message.startswith("no kernel ")
        raise InvalidLaunch(
            error, _Result.CUDA_ERROR_NOT_FOUND if missing else _Result.CUDA_ERROR_INVALID_VALUE
        ) from None
    except TrapError as error:
        raise FailedLaunch(
            error,
            _Result.CUDA_ERROR_ASSERT
            if "assertion `" in error.message
            else _Result.CUDA_ERROR_LAUNCH_FAILED,
        ) from None
