"""Running the text of notebook cells outside a notebook.

Both sides of the grader do it: the worker runs set-up and solution cells, the oracle set-up and
test cells. A cell is compiled under a file name of its own, so that every message can name the
cell and the line, and the name is the same on both sides.
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

# A folder that exists nowhere: such a file can only be a cell.
CELLS = PurePosixPath("/notebook cells")
ASSIGNED = re.compile(r"\w[\w.\[\], ]*=\s*[%!]")
# A name, or what lies in it, with a question mark: a comment or a text may end with one too.
HELP = re.compile(r"%{0,2}[\w*.\[\]]+\?\??")
# Magics that run their cell as it stands, and do something around it.
WRAPPING = frozenset({"time", "capture", "prun", "debug", "gpu_report"})
TIMED = re.compile(r"%time\s+(?!-)(?=\S)")


def filename_of(grade_id: str) -> str:
    """Return the file name under which the cell `grade_id` is compiled."""
    return str(CELLS / f"{grade_id}.py")


def cell_of(filename: str | None) -> str | None:
    """Return the grade_id of the cell that `filename` names, or None."""
    path = PurePosixPath(filename or "")
    return path.stem if path.parent == CELLS else None


def namer(filename: str) -> str | None:
    """Return the name of a cell for :mod:`virtualgpu.sources`' messages."""
    cell = cell_of(filename)
    return None if cell is None else f"cell '{cell}'"


def without_magics(source: str) -> tuple[str, list[str]]:
    """Return `source` with IPython's own lines made harmless, and those lines.

    The grader runs Python, not IPython: ``%magic``, ``!command`` and ``name?`` do nothing in it,
    and a cell below ``%%magic`` is not run unless the magic only wraps it (:func:`wraps`); nor is
    there anything to measure for ``%time``, which runs the rest of its line. Only text that is not
    Python is touched, and line numbers stay.
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
    """Return the lines of an answer that are not Python, in all its parts."""
    return [line for _, part in parts_of(source) for line in without_magics(part)[1]]


def wraps(magic: str) -> bool:
    """Return True if a line ``%%magic …`` lets the cell run as it would without."""
    name = magic.removeprefix("%%").split(maxsplit=1)
    return bool(name) and name[0] in WRAPPING


def remember(grade_id: str, source: str) -> None:
    """Let :mod:`linecache`, and so inspect, tracebacks and numba, find the text of a cell."""
    lines = source.splitlines(keepends=True)
    linecache.cache[filename_of(grade_id)] = (len(source), None, lines, filename_of(grade_id))


def run(source: str, grade_id: str, namespace: dict) -> object:
    """Run a cell in `namespace`; the value of its last line if that is an expression.

    As in IPython, ``await`` may stand outside of functions, and ``from __future__ import …`` holds
    in later cells. The parts of an answer run as cells do: one that fails stops no other, and those
    that lack a name run once more at the end, as a notebook's cells run in any order.
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
    """Return the value of the last text, and those that failed."""
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
    # Without this module's own `from __future__ import annotations`.
    _run(compile(tree, filename, "exec", flags, dont_inherit=True), namespace)
    return (
        None
        if last is None
        else _run(compile(last, filename, "eval", flags, dont_inherit=True), namespace)
    )


def _future(namespace: dict) -> int:
    """Return the compiler's flags for a cell's imports from ``__future__``."""
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
