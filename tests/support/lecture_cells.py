"""Cells of a solved lecture, run once, with their outputs and variables.

Most run in this process. A lecture that sets variables which a library reads only once, when it
starts, runs in a separate process, and so do the checks of its wrong answers, so that other tests
are not affected.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import io
import linecache
import os
import pickle
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError

import virtualgpu
from gpucourse.course.regions import SOLUTION, unwrap_regions
from gpucourse.course.registry import load_course
from gpucourse.exercises.checks import load_lesson
from gpucourse.exercises.outcomes import Outcome
from gpucourse.publish.source.reader import read_source
from gpucourse.system.language import speaking
from gpucourse.system.libraries import absent
from gpucourse.views.page import View
from gpucourse.views.picture import Picture
from wrong_answers import REPOSITORY, answers_of, made

#: Lectures with a separate process, with the variables that their cells set.
OWN_PROCESS = {
    "21_more_than_one_gpu": {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"},
    "19_a_port_done": {"JAX_ENABLE_X64": "1"},
}


def without_gpu() -> None:
    """Set up a kernel as ``%load_ext gpucourse`` does without a GPU; other tests undo it."""
    virtualgpu.activate(force=True)


def free_what_earlier_tests_left() -> None:
    """Free the memory of arrays from earlier tests.

    Numba frees memory late, by address only, on the device that is then current. So an array from
    another device in an earlier test would free an array of the lecture.
    """
    gc.collect()
    pending = cuda.current_context().deallocations
    while len(pending):
        with contextlib.suppress(CudaAPIError):  # no such address on this device
            pending.clear()


@cache
def solved(repository: Path, id: str, language: str = "") -> dict[str, SimpleNamespace]:
    """Return the outcome of each cell of the lecture in that language.

    It has the printed ``text``, ``picture`` (True if the cell showed one), the ``error`` raised,
    and ``names``, the namespace afterwards. Only errors that a cell announces with ``raises=`` are
    caught. From a separate process, only numbers, strings and arrays (as NumPy arrays) are
    returned among the names, and an :class:`Exception` with the error's message.
    """
    if id in OWN_PROCESS:
        return _in_own_process("cells", id, {})
    with speaking(language):
        return _run_cells(repository, id)


def outcome(id: str, exercise: str, answers: tuple) -> Outcome:
    """Return the result of the lecture's check for one of its wrong or right answers."""
    if id not in OWN_PROCESS:
        without_gpu()
        return load_lesson(id).outcome(exercise, *made(answers))
    known = [case.values[1] for case in _known_answers(id)]
    place = next(k for k, other in enumerate(known) if other is answers)
    return _outcomes(id)[place]


@cache
def _outcomes(id: str) -> list[Outcome]:
    return _in_own_process("outcomes", id, OWN_PROCESS[id])


def _known_answers(id: str) -> list:
    right = (REPOSITORY / "course" / "lectures" / id / "right.py").is_file()
    return [*answers_of(id).WRONG, *(answers_of(id, "right").RIGHT if right else ())]


def _run_cells(repository: Path, id: str) -> dict[str, SimpleNamespace]:
    without_gpu()
    free_what_earlier_tests_left()
    course = load_course(repository)
    names: dict = {"__name__": "lecture"}
    cells = {}
    for cell in read_source(course, course.lesson(id)).cells:
        if cell.kind != "code":
            continue
        source = unwrap_regions(cell.source, SOLUTION).removeprefix("%load_ext gpucourse\n")
        printed, value, error = io.StringIO(), None, None
        with contextlib.redirect_stdout(printed):
            try:
                needed = re.match(r"%%needs (\w+)\n", source)
                if needed and (sentence := absent(needed[1])):
                    print(sentence)
                else:
                    value = _run(re.sub(r"^%%needs", "# %%needs", source), cell.name, names)
            except Exception as raised:
                if type(raised).__name__ not in cell.raises:
                    raise
                error = raised
        cells[cell.name] = SimpleNamespace(
            text=printed.getvalue(),
            error=error,
            names=dict(names),
            picture=isinstance(value, View | Picture),
        )
    return cells


def _run(source: str, name: str, names: dict) -> object:
    """Run a cell as a notebook does; return the value of its last line if it is an expression."""
    body = ast.parse(source, name)
    # As in a notebook, the source is available, because cuTile compiles it.
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
    # This file's own `annotations` import must not affect the cell.
    exec(compile(body, name, "exec", dont_inherit=True), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), name, "eval", dont_inherit=True), names)


def _in_own_process(what: str, id: str, environment: dict):
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        command = [sys.executable, __file__, what, id, file.name]
        # The paths are those of pytest: the tests' shared modules, and the folder of the
        # benchmarks.
        found = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        ran = subprocess.run(
            command, env=os.environ | found | environment, capture_output=True, text=True
        )
        if ran.returncode:
            raise AssertionError(f"the process of {id} failed:\n{ran.stderr[-8000:]}")
        return pickle.loads(Path(file.name).read_bytes())


def _plain(value: object) -> object:
    """Return a value that another process can receive, or :data:`_plain` itself."""
    if value is None or isinstance(value, bool | int | float | str | np.ndarray | np.generic):
        return value
    if isinstance(value, sys.modules["jax"].Array if "jax" in sys.modules else ()):
        return np.asarray(value)
    if type(value) is dict:
        pairs = _plain(list(value.items()))
        return _plain if pairs is _plain else dict(pairs)
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        parts = [_plain(part) for part in value]
        return _plain if any(part is _plain for part in parts) else type(value)(parts)
    return _plain


def _main(what: str, id: str, path: str) -> None:
    repository = Path(__file__).resolve().parents[2]
    if what == "cells":
        result = _run_cells(repository, id)
        for cell in result.values():
            plain = {name: _plain(value) for name, value in cell.names.items()}
            cell.names = {name: value for name, value in plain.items() if value is not _plain}
            cell.error = cell.error and Exception(f"{type(cell.error).__name__}: {cell.error}")
    else:
        without_gpu()
        lesson = load_lesson(id)
        result = [lesson.outcome(*_exercise_and_answers(case)) for case in _known_answers(id)]
    Path(path).write_bytes(pickle.dumps(result))


def _exercise_and_answers(case: object) -> tuple:
    exercise, answers, _ = case.values
    return (exercise, *made(answers))


if __name__ == "__main__":
    _main(*sys.argv[1:])


def sums(text: str) -> list[float]:
    """Return the numbers that are followed by GeV in a cell's output."""
    found = re.findall(r"(-?[\d.,]+(?:e[+-]\d+)?) GeV", text)
    return [float(number.replace(",", "")) for number in found]
