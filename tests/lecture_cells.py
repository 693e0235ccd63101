"""The cells of a solved lecture, run once in this process, with what each showed and left."""

from __future__ import annotations

import contextlib
import io
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import virtualgpu
from gpucourse.build.regions import SOLUTION, unwrap_regions
from gpucourse.build.registry import load_course
from gpucourse.build.source import read_source


@cache
def solved(repository: Path, id: str) -> dict[str, SimpleNamespace]:
    """By cell: ``text`` printed, ``error`` raised, and ``names``, the namespace after it.

    Only errors that a cell announces with ``raises=`` are caught.
    """
    virtualgpu.activate(force=True)
    course = load_course(repository)
    names: dict = {"__name__": "lecture"}
    cells = {}
    for cell in read_source(course, course.lesson(id)).cells:
        if cell.kind != "code":
            continue
        source = unwrap_regions(cell.source, SOLUTION).removeprefix("%load_ext gpucourse\n")
        printed, error = io.StringIO(), None
        with contextlib.redirect_stdout(printed):
            try:
                # As a notebook compiles it: this file's own `annotations` must not reach the cell.
                exec(compile(source, cell.name, "exec", dont_inherit=True), names)
            except Exception as raised:
                if type(raised).__name__ not in cell.raises:
                    raise
                error = raised
        cells[cell.name] = SimpleNamespace(text=printed.getvalue(), error=error, names=dict(names))
    return cells
