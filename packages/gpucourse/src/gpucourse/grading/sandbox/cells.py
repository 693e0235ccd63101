"""Running the text of notebook cells outside a notebook.

Both sides of the grader do it: the worker runs set-up and solution cells, the oracle set-up and
test cells. A cell is compiled under a file name of its own, so that every message can name the
cell and the line, and the name is the same on both sides.
"""

from __future__ import annotations

import ast
import linecache
import re
from pathlib import PurePosixPath

# A folder that exists nowhere: such a file can only be a cell.
CELLS = PurePosixPath("/notebook cells")
ASSIGNED = re.compile(r"\w[\w.\[\], ]*=\s*[%!]")


def filename_of(grade_id: str) -> str:
    """The file name under which the cell `grade_id` is compiled."""
    return str(CELLS / f"{grade_id}.py")


def cell_of(filename: str | None) -> str | None:
    """The grade_id of the cell that `filename` stands for, or None."""
    path = PurePosixPath(filename or "")
    return path.stem if path.parent == CELLS else None


def namer(filename: str) -> str | None:
    """How :mod:`virtualgpu.sources` should call a cell in its messages."""
    cell = cell_of(filename)
    return None if cell is None else f"cell '{cell}'"


def without_magics(source: str) -> tuple[str, list[str]]:
    """`source` with IPython's own lines made harmless, and those lines.

    The grader runs Python, not IPython: ``%magic``, ``!command`` and ``name?`` do nothing in it.
    Only text that is not Python is touched, and line numbers stay.
    """
    lines = source.split("\n")
    if lines and lines[0].lstrip().startswith("%%"):
        return "\n".join("# " + line for line in lines), [lines[0].strip()]
    try:
        ast.parse(source)
        return source, []
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    removed = []
    for number, line in enumerate(lines):
        text = line.strip()
        if text.startswith(("%", "!", "?")) or text[1:].endswith("?") or ASSIGNED.match(text):
            lines[number] = f"{line[:len(line) - len(line.lstrip())]}pass  # {text}"
            removed.append(text)
    return "\n".join(lines), removed


def remember(grade_id: str, source: str) -> None:
    """Let :mod:`linecache`, and so inspect, tracebacks and numba, find the text of a cell."""
    lines = source.splitlines(keepends=True)
    linecache.cache[filename_of(grade_id)] = (len(source), None, lines, filename_of(grade_id))


def run(source: str, grade_id: str, namespace: dict) -> object:
    """Run a cell in `namespace`; the value of its last line if that is an expression."""
    source, _ = without_magics(source)
    remember(grade_id, source)
    filename = filename_of(grade_id)
    tree = ast.parse(source, filename)
    last = None
    if tree.body and isinstance(end := tree.body[-1], ast.Expr):
        last = ast.Expression(end.value)
        tree.body.pop()
    exec(compile(tree, filename, "exec"), namespace)
    return None if last is None else eval(compile(last, filename, "eval"), namespace)


def line_of(error: BaseException) -> tuple[str, int] | None:
    """The innermost cell and line that `error` passed through, or None."""
    if isinstance(error, SyntaxError) and (cell := cell_of(error.filename)) is not None:
        return cell, error.lineno or 0
    place = None
    trace = error.__traceback__
    while trace is not None:
        cell = cell_of(trace.tb_frame.f_code.co_filename)
        if cell is not None:
            place = cell, trace.tb_lineno
        trace = trace.tb_next
    return place
