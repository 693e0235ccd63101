"""Loops over lanes, written in plain Python and compiled by LLVM.

Some bookkeeping goes lane by lane and has no NumPy form: who wrote this byte last, and does the
writer's access come before mine? :func:`compiled` turns such a function into machine code when it
is first called, in 20 to 80 ms; later processes load it (:mod:`..compilers.cache`) in 2 or 3.
(Numba would do it too, but takes 2 s the first time in a process.)

The language is a corner of Python: ``int`` variables of 64 bits, arrays given by their pointers
and annotated with an element type of :data:`.loop_language.ELEMENTS`; assignment, ``if``,
``while``, ``for … in range``, ``break``, ``continue``, ``return``; arithmetic, shifts and bit
operations (``//`` and ``%`` for operands that are not negative), comparisons,
``and``/``or``/``not``; calls of other compiled functions; integer constants of the module. Anything
else is refused.

``.interpret`` runs the same function as Python: tests compare the two.
"""

from __future__ import annotations

import ctypes
import types
from collections.abc import Callable
from typing import Any

from virtualgpu.compilers.llvm import lock, machine_code
from virtualgpu.compilers.loop_language import (  # noqa: F401  (annotations of loops)
    I32,
    I64,
    U8,
    U32,
    U64,
    Compilable,
    translate,
)


def compiled(function: Callable | None = None, *, inline: bool = True):
    """Decorator: ``function`` as machine code over pointers and ints.

    ``inline=False`` keeps what is rarely needed out of the loops that call it.
    """
    if function is None:
        return lambda function: Loop(function, inline)
    return Loop(function, inline)


class Loop(Compilable):
    """A compiled function. Call it with ints: pointers of arrays, and numbers."""

    _run: Any = None  # what ctypes makes of a signature and an address

    def __call__(self, *arguments: int) -> int:
        return self._compiled()(*arguments)

    def address(self) -> int:
        """Where its machine code begins, for code that calls it."""
        return ctypes.cast(self._compiled(), ctypes.c_void_p).value or 0

    def _compiled(self) -> Any:
        if self._run is None:
            with lock:
                self._run = self._run or self._compile()
        return self._run

    def interpret(self, *arguments):
        """Run the function as Python, on arrays in place of pointers."""
        functions = {
            name: value.interpret if isinstance(value, Loop) else value
            for name, value in self.python.__globals__.items()
        }
        return types.FunctionType(self.python.__code__, functions)(*arguments)

    def _compile(self) -> Any:
        texts: dict[str, str] = {}
        translate(self, texts)
        address = machine_code("\n".join(texts.values()), self.python.__name__, passes="all")
        signature = ctypes.CFUNCTYPE(
            ctypes.c_int64, *[ctypes.c_int64] * self.python.__code__.co_argcount
        )
        return signature(address)
