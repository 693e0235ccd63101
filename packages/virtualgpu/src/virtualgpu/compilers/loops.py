"""Loops over lanes, written in plain Python and compiled by LLVM.

Some bookkeeping has to be done lane by lane and cannot be written with NumPy, for example to find
the last writer of a byte and whether its access precedes the current one. :func:`compiled` compiles
such a function to machine code when it is first called, in 20 to 80 ms. Later processes load the
code (:mod:`..compilers.cache`) in 2 or 3 ms. Numba could also compile it, but its first compilation
in a process takes 2 s.

The language is a small subset of Python:

- ``int`` variables of 64 bits, integer constants of the module, and arrays, which are pointers
  annotated with an element type of :data:`.loop_language.ELEMENTS`;
- assignment, ``if``, ``while``, ``for … in range``, ``break``, ``continue``, ``return``;
- arithmetic, shifts and bit operations (``//`` and ``%`` only for operands that are not negative),
  comparisons, ``and``/``or``/``not``;
- calls of other compiled functions;
- annotations of a number as the address of an array or of named words
  (:class:`.loop_language.Words`);
- functions of :mod:`.loop_language` that fill and copy bytes, call a function by its address, and
  add atomically.

Anything else raises an error.

``.interpret`` runs the same function as Python, if no number is an address. Tests compare the two.
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

    ``inline=False`` keeps a rarely needed function out of the loops that call it. ``passes`` are
    LLVM's, for a function that is called from outside the language.
    """
    if function is None:
        return lambda function: CompiledLoop(function, inline, passes)
    return CompiledLoop(function, inline, passes)


class CompiledLoop(Compilable):
    """A compiled function, called with ints: array addresses and numbers."""

    _run: Any = None  # ctypes function type and address

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
        """Run the function as Python, with arrays in place of pointers."""
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
