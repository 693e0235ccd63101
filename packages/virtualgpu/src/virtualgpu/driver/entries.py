"""The table of the driver's functions: Python functions that C code can call.

:func:`entry` puts a function into the table, under its own name. Its signature says what C hands
over, a letter each: ``i`` int, ``I`` unsigned int, ``z`` size_t, a handle or any pointer, ``B`` and
``H`` unsigned char and short, ``f`` float, ``h`` a handle of 64 bytes by value; with ``>`` before,
a pointer to where a result goes.
The Python function takes the others and returns the results. :func:`forward` does the same with
functions that :mod:`virtualgpu.cuda.driver_api` has already.
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
    """``CUipcMemHandle``."""

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

#: What goes wrong on the machine → the driver's word for it; the first that fits.
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
_pointers: dict[str, Any] = {}  # C's pointers to them, made when first asked for
_last = threading.local()  # .code, .words and .error of what failed last in this thread
_texts: dict[bytes, ctypes.Array] = {}  # what C was told stays where it is
#: Where the library has them: there, a call after Python's end does no harm.
exported: dict[str, int] = {}
is_on = False
# What was taken may be given back at any time, in its own context (cuda.core makes it current and
# the other one again afterwards); functions are looked up once for all.
_ALWAYS = (
    "Free",
    "Destroy",
    "Unload",
    "Release",
    "GetProcAddress",
    "CtxGetCurrent",
    "CtxSetCurrent",
)


# Done again after a signal, these may find that what they give back is gone already.
_GIVES_BACK = ("Free", "Destroy", "Unload", "Release", "Unregister")


def entry(signature: str) -> Callable[[Callable], Callable]:
    """Put a function into the table (see the module)."""

    def put(function: Callable) -> Callable:
        _functions[function.__name__] = function, signature.split()
        return function

    return put


def forward(**signatures: str) -> None:
    """Enter the functions of :data:`~virtualgpu.cuda.driver_api.API` into the table, by name.

    They serve every front end alike.
    """
    for name, signature in signatures.items():
        _functions[name] = getattr(API, name), signature.split()


def switch(on: bool) -> None:
    """Switch the functions on or off.

    Switched off, every function reports that there is no device, except those that free or look up
    others.
    """
    global is_on
    is_on = on


def names() -> list[str]:
    """Return the exported names: most callers look functions up by the ``_v2`` of later CUDA."""
    return [name + suffix for name in [*_functions, "cuGetProcAddress"] for suffix in ("", "_v2")]


def address(name: str) -> int:
    """Return the C address of a function; one that is not in the table reports so when called."""
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
    """Return the machine's message for this thread's failed call with ``code``; empty if none."""
    return getattr(_last, "words", "") if getattr(_last, "code", None) == code else ""


def error_of(words: str) -> errors.VirtualGPUError | None:
    """Return the machine's own error behind a message of another library that quotes it.

    None unless it is what failed last in this thread.
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
        contexts = API.contexts
        before = [*contexts]
        try:
            return run(arguments)
        except BaseException as error:  # nothing may leave by way of C
            try:
                if isinstance(error, _OWN) or not interrupts.keep(error):
                    return _failed(name, error)
                # A launch has ended; anything else takes microseconds, and C code may rely on it.
                if "Launch" in name:
                    return 0
                contexts[:] = before  # it may have been pushed or popped before the signal came
                again = call(*arguments)
                return 0 if any(word in name for word in _GIVES_BACK) else again
            except BaseException as second:  # a signal came just then
                interrupts.keep(second)
                return _failed(name, error)

    interrupts.called_by_c.add(call.__code__)
    types = [ctypes.c_size_t if kind[0] == ">" else _TYPES[kind] for kind in kinds]
    return ctypes.CFUNCTYPE(ctypes.c_int, *types)(call)


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
    # Its frames would keep the program's arrays until the next failure.
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return int(code)


def _absent(name: str) -> Callable:
    def function() -> None:
        raise NotImplementedError(
            f"{name} is not in the virtual GPU's driver (docs/virtualgpu.md says what is)"
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
    while len(_texts) > 1000:  # the oldest of the messages: read long ago
        del _texts[next(iter(_texts))]
    return ctypes.addressof(known)


@entry("i >z")
def cuGetErrorName(code: int) -> int:
    return _text(Result(code).name)


@entry("i >z")
def cuGetErrorString(code: int) -> int:
    plain = Result(code).name.removeprefix("CUDA_").lower().replace("_", " ")
    return _text(words_of(code) or plain)
