"""Marks in PTX at the start of each source line, in kernels whose lines are measured.

The compiler's own source locations (``.loc``) do not show which lines ran, because a compiler may
compute both sides of ``if a[i] > 0: y = 1.0 … else: y = 2.0`` and select one. A mark is inline
assembly that does nothing (``.pragma``) and that a compiler may neither move out of its branch nor
remove. It touches no memory that the kernel can access, so loads and stores stay as they are.
Short branches become real branches, which a profile counts. Kernels that Numba caches on disk are
stored separately.
"""

from __future__ import annotations

import functools
import linecache
import os.path
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from virtualgpu.kernel_lines.delivery import measuring
from virtualgpu.numba.line_information import now
from virtualgpu.ptx.module import MARK


def replacements() -> Iterator[tuple[Any, str, Any]]:
    """Yield owner, name and replacement of each function to replace."""
    from numba.cuda.codegen import JITCUDACodegen
    from numba.cuda.lowering import Lower

    yield Lower, "lower_inst", _marked(Lower.lower_inst)
    yield JITCUDACodegen, "magic_tuple", _apart(JITCUDACodegen.magic_tuple)


def _marked(original: Callable) -> Callable:
    from numba.cuda.core import ir

    @functools.wraps(original)
    def lower_inst(self: Any, inst: Any) -> Any:
        if now.users and not (
            isinstance(inst, ir.Del)
            # the line of `def`
            or (isinstance(inst, ir.Assign) and isinstance(inst.value, ir.Arg))
            # the previous line in the text, if this one does not start a line
            or (isinstance(inst, ir.Jump) and not _is_jump(inst.loc.filename, inst.loc.line))
        ):
            here = self.builder.basic_block, inst.loc.line
            if getattr(self, "_marked", None) != here:
                self._marked = here
                _mark(self.builder, inst.loc.filename, inst.loc.line)
        return original(self, inst)

    return lower_inst


def _is_jump(filename: str, line: int) -> bool:
    text = linecache.getline(filename, line).partition("#")[0]
    return re.split("[:;]", text)[-1].strip() in ("break", "continue", "pass")


def _mark(builder: Any, filename: str, line: int) -> None:
    from llvmlite import ir

    if not os.path.isfile(filename) or measuring() is None:
        return
    text = f".pragma \\22{MARK} {line} {quote(filename)}\\22;"
    nothing = ir.FunctionType(ir.VoidType(), ())
    call = builder.call(ir.InlineAsm(nothing, text, "", side_effect=True), ())
    call.attributes.add("nounwind")
    set.add(call.attributes, "inaccessiblememonly")  # missing in llvmlite's list of names


def _apart(original: Callable) -> Callable:
    @functools.wraps(original)
    def magic_tuple(self: Any) -> tuple[Any, ...]:
        return (*original(self), "lines") if measuring() is not None else original(self)

    return magic_tuple
