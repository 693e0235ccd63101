"""Loops over lanes, written in plain Python and compiled by LLVM.

Some bookkeeping goes lane by lane and has no NumPy form: who wrote this byte last, and does the
writer's access come before mine? :func:`compiled` turns such a function into machine code when it
is first called, in 20 to 80 ms; later processes load it (:mod:`..compilers.cache`) in 2 or 3.
(Numba would do it too, but takes 2 s the first time in a process.)

The language is a corner of Python: ``int`` variables of 64 bits, arrays given by their pointers
and annotated with an element type of :data:`.loop_language.ELEMENTS`; assignment, ``if``,
``while``, ``for … in range``, ``break``, ``continue``, ``return``; arithmetic, shifts and bit
operations (``//`` and ``%`` for operands that are not negative), comparisons,
``and``/``or``/``not``; calls of other compiled functions; integer constants of the module; a number
that is annotated is the address of an array, or of named words (:class:`.loop_language.Words`);
what :mod:`.loop_language` has to fill and copy bytes, to call a function by its address and to add
as other cores do. Anything else is refused.

``.interpret`` runs the same function as Python, where no number is an address: tests compare the
two.
"""

from __future__ import annotations

import ctypes
import types
from collections.abc import Callable
from functools import cached_property
from typing import Any, overload

from virtualgpu.compilers import llvm
from virtualgpu.compilers.loop_language import (  # noqa: F401  (annotations of loops)
    I32,
    I64,
    U8,
    U32,
    U64,
    Compilable,
    Words,
    atomic_add,
    call,
    copy,
    fill,
    translate,
)


@overload
def compiled(function: Callable[..., Any]) -> CompiledLoop: ...
@overload
def compiled(
    *, inline: bool = True, passes: llvm.Passes = "all"
) -> Callable[[Callable[..., Any]], CompiledLoop]: ...
def compiled(function: Callable | None = None, *, inline: bool = True, passes: llvm.Passes = "all"):
    """Compile the decorated function to machine code over pointers and ints.

    ``inline=False`` keeps what is rarely needed out of the loops that call it. ``passes`` are
    LLVM's, where it is called from outside the language.
    """
    if function is None:
        return lambda function: CompiledLoop(function, inline, passes)
    return CompiledLoop(function, inline, passes)


class CompiledLoop(Compilable):
    """A compiled function. Call it with ints: pointers of arrays, and numbers."""

    _run: Any = None  # what ctypes makes of a signature and an address

    def __init__(self, function: Callable, inline: bool, passes: llvm.Passes):
        super().__init__(function, inline)
        self.passes = passes

    def __call__(self, *arguments: Any) -> int:
        return self._compiled()(*arguments)

    def address(self) -> int:
        """Return the address of the machine code, for code that calls it."""
        return ctypes.cast(self._compiled(), ctypes.c_void_p).value or 0

    def _compiled(self) -> Any:
        if self._run is None:
            with llvm.lock:
                self._run = self._run or self._compile()
        return self._run

    def interpret(self, *arguments):
        """Run the function as Python, on arrays in place of pointers."""
        functions = {
            name: value.interpret if isinstance(value, CompiledLoop) else value
            for name, value in self.python.__globals__.items()
        }
        return types.FunctionType(self.python.__code__, functions)(*arguments)

    @cached_property
    def symbol(self) -> str:
        """The name by which other assembly calls it (:func:`.llvm.linkable`)."""
        texts: dict[str, str] = {}
        translate(self, texts)
        return llvm.linkable("\n".join(texts.values()), self.python.__name__, self.passes)

    def _compile(self) -> Any:
        signature = ctypes.CFUNCTYPE(
            ctypes.c_int64, *[ctypes.c_int64] * self.python.__code__.co_argcount
        )
        return signature(llvm.address(self.symbol))
