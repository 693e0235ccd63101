"""Line information in Numba's PTX, also without ``lineinfo=True``.

Every message names a line, so all code is compiled with ``lineinfo``, including the user's device
functions. Three parts of numba-cuda 0.28 to 0.30 are replaced for this:

- ``dispatcher.compile_cuda`` is called with ``lineinfo``, for kernels and for device functions.
- ``lowering.get_func_def_lineno`` parses a function's source lines. Those of a lambda inside a
  longer statement (``{"a": jit(lambda i: i)}``) are not valid Python by themselves; the replacement
  then returns no line.
- ``CUDATargetContext.DIBuilder`` writes debug information. With ``lineinfo`` it also describes
  variables and the types of arguments, which line information does not need and which may do harm.
  If a basic block contains only the ``llvm.dbg.declare`` of an inlined function's argument,
  libNVVM 13 omits the block's label but not the branch to it, and no assembler accepts the PTX. A
  type that is unknown to debuggers, such as a tuple of empty tuples, does not compile. So only
  lines are written for device functions, and for kernels that fail because of this. A function
  whose author requests ``lineinfo`` is left unchanged.
"""

from __future__ import annotations

import functools
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from virtualgpu.signal_handlers import raised_by_handler

# Code of these packages (grid.sync(), a reduction) counts as the line that calls it.
_LIBRARIES = {"numba", "awkward", "virtualgpu"}


class _Now(threading.local):
    """Flags of this thread's compilation: kernel, line numbers only, user's function."""

    kernel = False
    alone = False
    users = False


now = _Now()


def replacements() -> Iterator[tuple[Any, str, Any]]:
    """Return owner, name and replacement of each method."""
    from numba.cuda import dispatcher, lowering
    from numba.cuda.target import CUDATargetContext

    yield lowering, "get_func_def_lineno", _line_or_none(lowering.get_func_def_lineno)
    yield dispatcher, "compile_cuda", _with_lines(dispatcher.compile_cuda)
    yield CUDATargetContext, "DIBuilder", _lines_alone()


def _line_or_none(find: Callable) -> Callable:
    @functools.wraps(find)
    def line(function: Any) -> int | None:
        try:
            found: int | None = find(function)
            return found
        except SyntaxError:
            return None

    return line


def _with_lines(compile_cuda: Callable) -> Callable:
    from numba.cuda.core.errors import NumbaDebugInfoWarning

    def compiled(alone: bool, users: bool, *args: Any, **options: Any) -> Any:
        before, (now.alone, now.users) = (now.alone, now.users), (alone, users)
        try:
            return compile_cuda(*args, **options)
        finally:
            now.alone, now.users = before

    @functools.wraps(compile_cuda)
    def compile_with_lines(pyfunc: Any, *args: Any, **options: Any) -> Any:
        kernel, now.kernel = now.kernel, False
        users = kernel or (pyfunc.__module__ or "").partition(".")[0] not in _LIBRARIES
        if options.get("debug") or options.get("lineinfo") or not users:
            return compiled(False, users, pyfunc, *args, **options)
        options["lineinfo"] = True
        with warnings.catch_warnings():
            # A function created by exec has no source lines.
            warnings.simplefilter("ignore", NumbaDebugInfoWarning)
            try:
                return compiled(not kernel, True, pyfunc, *args, **options)
            except Exception as error:
                if not kernel or not _of_descriptions(error) or raised_by_handler(error):
                    raise  # an error of the user's code would occur again
            return compiled(True, True, pyfunc, *args, **options)

    return compile_with_lines


def _of_descriptions(error: Exception) -> bool:
    """Return True if a kernel may have failed only because of debug information on variables."""
    return any(
        frame.f_globals.get("__name__") == "numba.cuda.debuginfo"
        for frame, _ in traceback.walk_tb(error.__traceback__)
    )


def _lines_alone() -> type:
    """Return a builder of debug information that writes only lines if :data:`now` says so."""
    from numba.cuda.debuginfo import CUDADIBuilder

    class Lines(CUDADIBuilder):
        def __init__(self, *args: Any, **named: Any):
            self.alone = now.alone
            super().__init__(*args, **named)

        def mark_variable(self, *args: Any, **named: Any) -> None:
            if not self.alone:
                super().mark_variable(*args, **named)

        def update_variable(self, *args: Any, **named: Any) -> None:
            if not self.alone:
                super().update_variable(*args, **named)

        def _di_subroutine_type(self, line: int, function: Any, argmap: dict) -> Any:
            if not self.alone:
                return super()._di_subroutine_type(line, function, argmap)
            return self.module.add_debug_info(
                "DISubroutineType", {"types": self.module.add_metadata([])}
            )

    return Lines
