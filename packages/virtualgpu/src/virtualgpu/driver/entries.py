"""Table of the driver's functions: Python functions that C code can call.

:func:`entry` puts a function into the table under its own name. The signature gives one letter for
each C argument: ``i`` int, ``I`` unsigned int, ``z`` size_t, a handle or any pointer, ``B`` and
``H`` unsigned char and short, ``f`` float, ``h`` a handle of 64 bytes by value. The prefix ``>``
marks a pointer through which a result is returned. The Python function takes the other arguments
and returns the results. :func:`forward` does the same with functions that
:mod:`virtualgpu.cuda.driver_api` already has.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable
from typing import Any

from cuda.bindings import driver as binding

from virtualgpu import errors
from virtualgpu.cuda.driver_api import API, DriverFailure
from virtualgpu.driver import interrupts

Result = binding.CUresult


class Handle(ctypes.Structure):
    """The C structure ``CUipcMemHandle``."""

    _fields_ = (("reserved", ctypes.c_ubyte * 64),)


_TYPES: dict[str, type] = {
    "i": ctypes.c_int,
    "I": ctypes.c_uint,
    "z": ctypes.c_size_t,
    "B": ctypes.c_ubyte,
    "H": ctypes.c_ushort,
    "f": ctypes.c_float,
    "h": Handle,
}

#: Error classes of the virtual GPU → the driver's result codes; the first match counts.
_CODES = (
    (errors.MisalignedAddressError, Result.CUDA_ERROR_MISALIGNED_ADDRESS),
    (errors.MemoryAccessError, Result.CUDA_ERROR_ILLEGAL_ADDRESS),
    (errors.OutOfMemory, Result.CUDA_ERROR_OUT_OF_MEMORY),
    (errors.LaunchError, Result.CUDA_ERROR_INVALID_VALUE),
    (errors.TrapError, Result.CUDA_ERROR_ASSERT),
    ((errors.DeadlockError, errors.BudgetExceeded), Result.CUDA_ERROR_LAUNCH_TIMEOUT),
    (errors.UnsupportedInstruction, Result.CUDA_ERROR_NOT_SUPPORTED),
    (errors.PTXSyntaxError, Result.CUDA_ERROR_INVALID_PTX),
    (errors.BytecodeError, Result.CUDA_ERROR_INVALID_IMAGE),
    (errors.LinkError, Result.CUDA_ERROR_NOT_FOUND),
    (NotImplementedError, Result.CUDA_ERROR_NOT_SUPPORTED),
    (errors.VirtualGPUError, Result.CUDA_ERROR_INVALID_VALUE),
)

_OWN = (DriverFailure, errors.VirtualGPUError, NotImplementedError)

_functions: dict[str, tuple[Callable, list[str]]] = {}
_pointers: dict[str, Any] = {}  # C pointers to the functions, made on first use
_last = threading.local()  # .code, .words and .error of this thread's last failure
_texts: dict[bytes, ctypes.Array] = {}  # strings returned to C, which must keep their addresses
#: Addresses inside the shared library; calling them is harmless even after Python has ended.
exported: dict[str, int] = {}
is_on = False
# Resources may be freed at any time, in their own context (cuda.core makes it current and then
# restores the other one). Function addresses are looked up once for all contexts.
_ALWAYS = (
    "Free",
    "Destroy",
    "Unload",
    "Release",
    "GetProcAddress",
    "CtxGetCurrent",
    "CtxSetCurrent",
)


# If one of these is called again after a signal, its resource may already be freed.
_GIVES_BACK = ("Free", "Destroy", "Unload", "Release", "Unregister")


def entry(signature: str) -> Callable[[Callable], Callable]:
    """Return a decorator that puts a function into the table (for signatures, see the module)."""

    def put(function: Callable) -> Callable:
        _functions[function.__name__] = function, signature.split()
        return function

    return put


def forward(**signatures: str) -> None:
    """Enter the functions of :data:`~virtualgpu.cuda.driver_api.API` into the table, by name.

    All front ends use the same functions.
    """
    for name, signature in signatures.items():
        _functions[name] = getattr(API, name), signature.split()


def switch(on: bool) -> None:
    """Switch the functions on or off.

    When they are switched off, every function reports that there is no device, except those that
    free resources or look up functions.
    """
    global is_on
    is_on = on


def names() -> list[str]:
    """Return the exported names, with the ``_v2`` names of later CUDA that most callers look up."""
    return [name + suffix for name in [*_functions, "cuGetProcAddress"] for suffix in ("", "_v2")]


def address(name: str) -> int:
    """Return the C address of a function. A function that is not in the table fails when called."""
    if name in exported:
        return exported[name]
    if name not in _pointers:
        plain = re.sub(r"(_v\d+)?(_ptds|_ptsz)?$", "", name)
        if plain == "cuGetProcAddress":
            kinds = ["z", "z", "i", "z", *(["z"] if name.endswith("_v2") else [])]
            function: Callable = _get_proc_address
        else:
            function, kinds = _functions.get(plain) or (_absent(plain), [])
        _pointers[name] = _for_c(plain, function, kinds)
    return ctypes.cast(_pointers[name], ctypes.c_void_p).value or 0


def words_of(code: int) -> str:
    """Return the message for this thread's failed call with ``code``, or an empty string."""
    return getattr(_last, "words", "") if getattr(_last, "code", None) == code else ""


def error_of(words: str) -> errors.VirtualGPUError | None:
    """Return the virtual GPU's error that a message of another library quotes.

    Returns None unless that error is the last failure of this thread.
    """
    error = getattr(_last, "error", None)
    told = isinstance(error, errors.VirtualGPUError) and str(error) in words
    return error if told else None


def _for_c(name: str, function: Callable, kinds: list[str]) -> Any:
    outs = [(at, _TYPES[kind[1]]) for at, kind in enumerate(kinds) if kind[0] == ">"]
    given = [at for at, kind in enumerate(kinds) if kind[0] != ">"]

    def run(arguments: tuple[Any, ...]) -> int:
        if not (is_on or any(word in name for word in _ALWAYS)):
            return int(Result.CUDA_ERROR_NO_DEVICE)
        made = function(*[arguments[at] for at in given])
        results = made if len(outs) > 1 else (made,)[: len(outs)]
        for (at, kind), value in zip(outs, results, strict=True):
            if arguments[at]:
                kind.from_address(arguments[at]).value = (  # type: ignore[attr-defined]
                    value if kind is ctypes.c_float else int(value)
                )
        return 0

    def call(*arguments: Any) -> int:
        before = None
        try:
            before = [*API.contexts]
            return run(arguments)
        except BaseException as error:  # no exception may propagate through C
            try:
                if isinstance(error, _OWN) or not interrupts.keep(error):
                    return _failed(name, error)
                # A launch has ended. Any other call takes microseconds and is repeated, because C
                # code may rely on its result.
                if "Launch" in name:
                    return 0
                if before is not None:  # the signal may have come after a push or a pop
                    API.contexts[:] = before
                again = call(*arguments)
                return 0 if any(word in name for word in _GIVES_BACK) else again
            except BaseException as second:  # another signal arrived at this point
                interrupts.keep(second)
                return _failed(name, error)

    types = [ctypes.c_size_t if kind[0] == ">" else _TYPES[kind] for kind in kinds]
    return ctypes.CFUNCTYPE(ctypes.c_int, *types)(interrupts.for_c(call))


def _failed(name: str, error: BaseException) -> int:
    if isinstance(error, DriverFailure):
        code, words = error.code, error.words
    else:
        code = next(
            (code for kind, code in _CODES if isinstance(error, kind)),
            Result.CUDA_ERROR_LAUNCH_FAILED
            if isinstance(error, errors.VirtualGPUError)
            else Result.CUDA_ERROR_UNKNOWN,
        )
        words = (
            str(error)
            if isinstance(error, errors.VirtualGPUError | NotImplementedError)
            else f"{name}: {type(error).__name__}: {error}"
        )
    _last.code, _last.words, _last.error = int(code), words, error
    # The traceback's frames would keep the program's arrays alive until the next failure.
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return int(code)


def _absent(name: str) -> Callable:
    def function() -> None:
        raise NotImplementedError(
            f"{name} is not in the virtual GPU's driver (docs/virtualgpu.md describes what it "
            "contains)"
        )

    return function


def _get_proc_address(symbol: int, pointer: int, version: int, flags: int, status: int = 0) -> None:
    name = ctypes.string_at(symbol).decode()
    ctypes.c_size_t.from_address(pointer).value = address(name)
    if status:
        ctypes.c_int.from_address(status).value = 0


def _text(words: str) -> int:
    raw = words.encode()
    known = _texts.pop(raw) if raw in _texts else ctypes.create_string_buffer(raw)
    _texts[raw] = known  # the latest
    while len(_texts) > 1000:  # drop the oldest messages, which have been read
        del _texts[next(iter(_texts))]
    return ctypes.addressof(known)


@entry("i >z")
def cuGetErrorName(code: int) -> int:
    return _text(Result(code).name)


@entry("i >z")
def cuGetErrorString(code: int) -> int:
    plain = Result(code).name.removeprefix("CUDA_").lower().replace("_", " ")
    return _text(words_of(code) or plain)
