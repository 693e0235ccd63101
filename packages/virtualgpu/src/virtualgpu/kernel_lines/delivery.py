"""Delivery of executed lines to the coverage.py that measures this process.

Files that coverage.py does not measure (``--cov``, ``source``, ``omit``) are left out. A kernel's
file was imported before the kernel ran, so coverage.py has seen it if it measures it. A line is
attributed to the context (``--cov-context``) in which it first ran.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from virtualgpu.errors import VirtualGPUError
from virtualgpu.kernel_lines import evidence, inference
from virtualgpu.kernel_lines.evidence import Reached
from virtualgpu.program.program import Program

if TYPE_CHECKING:
    from virtualgpu.tile.body import TileKernel

_lock = threading.Lock()


def measuring() -> Any:
    """Return the ``coverage.Coverage`` that measures this process, or None."""
    kind = getattr(sys.modules.get("coverage"), "Coverage", None)
    return None if kind is None else kind.current()


@contextmanager
def of_program(program: Program, tried: bool = False) -> Iterator[None]:
    """Deliver lines that a launch inside the context reaches and earlier ones did not.

    A launch that is only ``tried``, and undone, is not counted.
    """
    if (running := measuring()) is None:
        yield
        return
    if program.ran is None:
        program.mark_blocks()
    assert program.ran is not None
    before, stopped = program.ran.copy(), None
    try:
        yield
    except VirtualGPUError as error:
        stopped = error.location
        raise
    finally:
        now = id(running), program.ran.tobytes()
        if tried:
            program.ran[:] = before
        elif now != program.delivered:
            program.delivered = now
            deliver(running, evidence.of_program(program, stopped))


@contextmanager
def of_tiles(kernel: TileKernel, tried: bool = False) -> Iterator[None]:
    """Deliver the lines of a launch of a kernel over tiles in the same way."""
    if (running := measuring()) is None:
        yield
        return
    before = kernel.ran = kernel.ran or set()
    if tried:
        kernel.ran = set(before)
    try:
        yield
    finally:
        now = id(running), len(kernel.ran)
        if tried:
            kernel.ran = before
        elif now != kernel.delivered:
            kernel.delivered = now
            deliver(running, evidence.of_lines(kernel.ran, kernel.body.lines()))


def deliver(running: Any, files: dict[str, Reached]) -> None:
    """Add lines, and branches where they are measured, to the data of ``running``."""
    with _lock:
        data = running.get_data()
        measured = {os.path.realpath(name): name for name in data.measured_files()}
        lines: dict[str, set[int]] = {}
        arcs: dict[str, set[inference.Arc]] = {}
        for filename, reached in files.items():
            name = measured.get(os.path.realpath(filename))
            syntax = inference.syntax(os.path.realpath(filename)) if name else None
            if name and syntax is not None and reached.ran:
                lines[name], arcs[name] = inference.complete(reached, syntax)
        if data.has_arcs():
            data.add_arcs(arcs)
        elif lines:
            data.add_lines(lines)
