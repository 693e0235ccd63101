"""Lines of kernels and of device functions in the PTX, though numba-cuda was not asked for them.

Every message names the line, so what is compiled has ``lineinfo``, the user's device functions
too. Three things of numba-cuda 0.28 to 0.30 are replaced for it:

- ``dispatcher.compile_cuda`` takes ``lineinfo``, of kernels and of device functions.
- ``lowering.get_func_def_lineno`` parses a function's source lines, which of a lambda inside a
  longer statement (``{"a": jit(lambda i: i)}``) are no Python by themselves: then it knows no line.
- ``CUDATargetContext.DIBuilder`` writes debug information. With ``lineinfo`` it also describes
  variables and the types of arguments, which lines have no use for and which may do harm: libNVVM
  13 leaves out the label of a basic block that ``llvm.dbg.declare`` of an inlined function's
  argument is alone in (the branch to it stays, and no assembler takes the PTX), and a type that is
  unknown to debuggers, such as a tuple of empty tuples, fails to compile. So of device functions,
  and of kernels that fail for it, lines alone are written. A function whose author asks for
  ``lineinfo`` is left as it is.
"""

from __future__ import annotations

import functools
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from virtualgpu.signal_handlers import raised_by_handler

# What these do for a kernel (grid.sync(), a reduction) counts as the line that calls it.
_LIBRARIES = {"numba", "awkward", "virtualgpu"}


class _Now(threading.local):
    """Compilation of this thread: a kernel, soon; a function with lines alone, or of the user's."""

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
            # A function made by exec has no source to point at.
            warnings.simplefilter("ignore", NumbaDebugInfoWarning)
            try:
                return compiled(not kernel, True, pyfunc, *args, **options)
            except Exception as error:
                if not kernel or not _of_descriptions(error) or raised_by_handler(error):
                    raise  # the author's own: compiling it again would say the same
            return compiled(True, True, pyfunc, *args, **options)

    return compile_with_lines


def _of_descriptions(error: Exception) -> bool:
    """Return True if a kernel may have failed only because of debug information on variables."""
    return any(
        frame.f_globals.get("__name__") == "numba.cuda.debuginfo"
        for frame, _ in traceback.walk_tb(error.__traceback__)
    )


def _lines_alone() -> type:
    """Return a builder of debug information that writes lines alone where :data:`now` says so."""
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
