"""Execution of notebook cells outside a notebook.

Both sides of the grader use this module: the worker runs set-up and solution cells, the oracle
runs set-up and test cells. Each cell is compiled under its own file name, so that every message
can name the cell and the line. The name is the same on both sides.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import linecache
import re
from pathlib import PurePosixPath
from types import CodeType

from gpucourse.grading.submission.statements import parts_of, read_on

# This folder does not exist, so a path in it always refers to a cell.
CELLS = PurePosixPath("/notebook cells")
ASSIGNED = re.compile(r"\w[\w.\[\], ]*=\s*[%!]")
# A name, attribute or item followed by a question mark. Comments and strings may end with one too.
HELP = re.compile(r"%{0,2}[\w*.\[\]]+\?\??")
# Magics that run their cell unchanged, with something done before or after it.
WRAPPING = frozenset({"time", "capture", "prun", "debug", "gpu_report"})
TIMED = re.compile(r"%time\s+(?!-)(?=\S)")


def filename_of(grade_id: str) -> str:
    """Return the file name under which the cell `grade_id` is compiled."""
    return str(CELLS / f"{grade_id}.py")


def cell_of(filename: str | None) -> str | None:
    """Return the grade_id of the cell that `filename` refers to, or None."""
    path = PurePosixPath(filename or "")
    return path.stem if path.parent == CELLS else None


def namer(filename: str) -> str | None:
    """Return a cell's name for the messages of :mod:`virtualgpu.sources`, or None."""
    cell = cell_of(filename)
    return None if cell is None else f"cell '{cell}'"


def without_magics(source: str) -> tuple[str, list[str]]:
    """Return `source` with IPython syntax replaced by Python, and the replaced lines.

    The grader runs Python and not IPython. ``%magic``, ``!command`` and ``name?`` therefore do
    nothing, and a cell below ``%%magic`` runs only if the magic wraps it (:func:`wraps`).
    ``%time`` measures nothing, but the rest of its line runs. Python code and line numbers do not
    change.
    """
    lines = source.split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if lines[first].lstrip().startswith("%%"):
        magic = lines[first].strip()
        if not wraps(magic):
            return "\n".join("# " + line for line in lines), [magic]
        below, removed = without_magics("\n".join(lines[first + 1 :]))
        return "\n".join([*lines[:first], f"# {magic}", below]), [magic, *removed]
    try:
        ast.parse(source)
        return source, []
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    removed = []
    opened: list[str] = []
    for number, line in enumerate(lines):
        text = line.strip()
        if opened:
            read_on(line, opened)
            continue
        indent = line[: len(line) - len(line.lstrip())]
        if TIMED.match(text):
            lines[number] = indent + TIMED.sub("", text)
            removed.append(text)
        elif text.startswith(("%", "!", "?")) or HELP.fullmatch(text) or ASSIGNED.match(text):
            lines[number] = f"{indent}pass  # {text}"
            removed.append(text)
        else:
            read_on(line, opened)
    return "\n".join(lines), removed


def magics(source: str) -> list[str]:
    """Return the lines of an answer, in all its parts, that are not Python."""
    return [line for _, part in parts_of(source) for line in without_magics(part)[1]]


def wraps(magic: str) -> bool:
    """Return True if a line ``%%magic …`` runs the cell as Python would run it."""
    name = magic.removeprefix("%%").split(maxsplit=1)
    return bool(name) and name[0] in WRAPPING


def remember(grade_id: str, source: str) -> None:
    """Register a cell's source in :mod:`linecache` for inspect, tracebacks and Numba."""
    lines = source.splitlines(keepends=True)
    linecache.cache[filename_of(grade_id)] = (len(source), None, lines, filename_of(grade_id))


def run(source: str, grade_id: str, namespace: dict) -> object:
    """Run a cell in `namespace`; return the value of its last line if it is an expression.

    As in IPython, ``await`` is allowed outside functions, and ``from __future__ import …`` also
    applies to later cells. Each part of an answer runs as a cell of its own, so a part that fails
    does not stop the others. Parts that fail because a name is missing run once more at the end,
    because the cells of a notebook may run in any order.
    """
    parts = [(above, without_magics(part)[0]) for above, part in parts_of(source)]
    remember(grade_id, "\n".join(part for _, part in parts))
    texts = ["\n" * above + part for above, part in parts]
    if len(texts) == 1:
        return _run_part(texts[0], grade_id, namespace)
    value, failed = _run_all(texts, grade_id, namespace)
    lacking = [text for text, error in failed if isinstance(error, NameError)]
    if lacking:
        _, again = _run_all(lacking, grade_id, namespace)
        failed = [one for one in failed if one[0] not in lacking] + again
    if failed:
        raise failed[0][1]
    return value


def _run_all(
    texts: list[str], grade_id: str, namespace: dict
) -> tuple[object, list[tuple[str, Exception]]]:
    """Run all texts; return the value of the last one, and the texts that failed."""
    value, failed = None, []
    for text in texts:
        try:
            value = _run_part(text, grade_id, namespace)
        except Exception as error:
            failed.append((text, error))
    return value, failed


def _run_part(source: str, grade_id: str, namespace: dict) -> object:
    filename = filename_of(grade_id)
    tree = ast.parse(source, filename)
    last = None
    if tree.body and isinstance(end := tree.body[-1], ast.Expr):
        last = ast.Expression(end.value)
        tree.body.pop()
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | _future(namespace)
    # dont_inherit leaves out this module's own `from __future__ import annotations`.
    _run(compile(tree, filename, "exec", flags, dont_inherit=True), namespace)
    return (
        None
        if last is None
        else _run(compile(last, filename, "eval", flags, dont_inherit=True), namespace)
    )


def _future(namespace: dict) -> int:
    """Return the compiler flags for a cell's imports from ``__future__``."""
    features = (getattr(__future__, name) for name in __future__.all_feature_names)
    return sum(
        feature.compiler_flag
        for feature in features
        if any(v is feature for v in namespace.values())
    )


def _run(code: CodeType, namespace: dict) -> object:
    value = eval(code, namespace)
    if not code.co_flags & inspect.CO_COROUTINE:
        return value
    import asyncio

    return asyncio.run(value)


def line_of(error: BaseException) -> tuple[str, int] | None:
    """Return the innermost cell and line that `error` passed through, or None."""
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
