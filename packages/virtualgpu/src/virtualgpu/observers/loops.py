"""Loops over lanes, written in plain Python and compiled by LLVM.

Some bookkeeping goes lane by lane and has no NumPy form: who wrote this byte last, and does the
writer's access come before mine? :func:`compiled` turns such a function into machine code when
it is first called, in 10 to 30 ms. (Numba would do it too, but takes 2 s the first time in a
process, or a directory to write to.)

The language is a corner of Python: ``int`` variables of 64 bits, arrays given by their pointers
and annotated with an element type of :data:`.translation.ELEMENTS`; assignment, ``if``, ``while``,
``for … in range``, ``break``, ``continue``, ``return``; arithmetic, shifts and bit operations
(``//`` and ``%`` for operands that are not negative), comparisons, ``and``/``or``/``not``; calls
of other compiled functions; integer constants of the module. Anything else is refused.

``.interpret`` runs the same function as Python: tests compare the two.
"""

from __future__ import annotations

import ctypes
import itertools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding as llvm

from virtualgpu.compilers.llvm import lock, machine_code
from virtualgpu.observers.translation import (  # noqa: F401  (annotations of loops)
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Compilable,
    translate,
)

_numbers = itertools.count()


def pointer(array: np.ndarray) -> int:
    """Where an array's elements start; the caller keeps the array alive."""
    return array.__array_interface__["data"][0]


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
        # A name of its own: functions of all modules share one table of symbols.
        name, symbol = self.python.__name__, f"loop_{next(_numbers)}"
        texts[name] = texts[name].replace(f"@{name}(", f"@{symbol}(", 1)
        text = _optimised("\n".join(texts.values()))
        signature = ctypes.CFUNCTYPE(
            ctypes.c_int64, *[ctypes.c_int64] * len(self.definition().args.args))
        return signature(machine_code(text, symbol))


def _optimised(text: str) -> str:
    llvm.initialize_native_target()
    module = llvm.parse_assembly(text)
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return str(module)
