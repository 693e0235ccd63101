"""Storage for exceptions of signal handlers (Ctrl-C) that run inside a driver function.

Python runs a signal handler when Python code next executes, which may be inside a driver function
that compiled code has called. An exception of the handler cannot propagate through C: ctypes would
print it and return garbage. So the exception is stored, and raised when Python code next runs
outside the driver. On a machine whose driver is written in C it would be raised at the same time.
"""

from __future__ import annotations

import atexit
import ctypes
import dis
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

from virtualgpu.driver import library
from virtualgpu.signal_handlers import raised_by_handler

_kept: list[BaseException] = []  # at most one
#: Code objects of the functions that C calls; :mod:`virtualgpu.driver.entries` adds its own.
called_by_c: set[CodeType] = set()
_destructors: list[Any] = []  # C pointers, kept as long as C may call them


def for_c(function: Any) -> Any:
    """Let ``function`` be called by C without a signal handler running before its first line.

    CPython runs handlers when a function is entered, before a ``try`` of the function can catch
    what they raise. ctypes would print the exception and return garbage to the C code. CPython
    does not run them where a frame resumes after ``yield from``, for which the ``RESUME``
    instruction has the argument 2 (CPython's documentation of :mod:`dis`). So this function gives
    the first ``RESUME`` that argument: handlers run at the next call, inside the ``try``.
    """
    code = function.__code__
    at = next(one.offset for one in dis.get_instructions(code) if one.opname == "RESUME")
    function.__code__ = code.replace(
        co_code=code.co_code[: at + 1] + b"\2" + code.co_code[at + 2 :]
    )
    called_by_c.add(function.__code__)
    return function


def keep(error: BaseException) -> bool:
    """Store ``error`` if a signal handler raised it, and return True in this case.

    An exception that is already stored is replaced only by one of higher priority: a Ctrl-C
    replaces a handler's TimeoutError.
    """
    if threading.current_thread() is not threading.main_thread() or not raised_by_handler(error):
        return False
    if not _kept or isinstance(_kept[0], Exception):
        _kept[:] = [error]
    _arm()
    return True


def raise_kept() -> None:
    """Raise a stored interrupt, if there is one, in the main thread."""
    if _kept and threading.current_thread() is threading.main_thread():
        raise _kept.pop() from None


@contextmanager
def keeping_lost() -> Iterator[None]:
    """Store exceptions of handlers that run in C callbacks for freed objects (DLPack deleters).

    Such a callback has no caller that could receive the exception, so Python passes it to
    ``sys.unraisablehook``.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if unraisable.exc_value is None or not keep(unraisable.exc_value):
            before(unraisable)

    called_by_c.add(hook.__code__)
    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def calls() -> list[int]:
    """Return the addresses of :data:`virtualgpu.driver.library.CALLS`."""
    of_python = [getattr(ctypes.pythonapi, name) for name in library.CALLS[:-1]]
    return [_address(function) for function in [*of_python, _fetched_by_c]]


def destructors(name: str, functions: dict[str, Callable[[int], None]]) -> dict[str, int]:
    """Return C functions that call functions of one address, to free an object: name → address.

    An object may be freed while a Python error is set, when an exception leaves the function that
    holds it. ctypes cannot call Python code then, and the error would be lost. Functions of a
    :class:`~virtualgpu.driver.library.SharedLibrary` set the error again afterwards. Names contain
    ``Free``, so that they do nothing once Python has ended.
    """
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    pointers = {one: kind(for_c(function)) for one, function in functions.items()}
    _destructors.extend(pointers.values())
    addresses = {one: _address(pointer) for one, pointer in pointers.items()}
    if not library.is_possible():
        return addresses
    try:
        made = library.SharedLibrary(name, addresses, calls())
    except (OSError, MemoryError):  # a sandbox that forbids code in memory
        return addresses
    atexit.register(made.end)
    return {one: made.address(one) for one in addresses}


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _fetched(kind: int, value: int, trace: int | None) -> None:
    """Store an exception returned by ``PyErr_Fetch``, and release its references."""
    error = ctypes.cast(value, ctypes.py_object).value
    if trace:
        error.__traceback__ = ctypes.cast(trace, ctypes.py_object).value
    for reference in (kind, value, trace):
        if reference:
            ctypes.pythonapi.Py_DecRef(ctypes.c_void_p(reference))
    _kept[:] = _kept or [error]
    _arm()


_fetched_by_c = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(for_c(_fetched))


class _Raises:
    """Object whose ``__bool__`` runs between two bytecode instructions and raises there."""

    def __bool__(self) -> bool:
        if not _kept:
            return False
        frame = sys._getframe()
        while (frame := frame.f_back) is not None:  # type: ignore[assignment]
            if frame.f_code in called_by_c:
                _arm()  # try again: C code is still waiting for this function
                return False
        raise_kept()
        return False


_raises = _Raises()
_add: Callable[[Any, Any], int] = ctypes.pythonapi.Py_AddPendingCall
_add.argtypes = (ctypes.c_void_p, ctypes.py_object)  # type: ignore[attr-defined]


def _arm() -> None:
    """Make Python evaluate :data:`_raises` in the main thread soon, so that it raises its error."""
    _add(_address(ctypes.pythonapi.PyObject_IsTrue), _raises)
