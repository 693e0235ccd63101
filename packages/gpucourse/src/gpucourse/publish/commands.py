"""Implementation of ``gpucourse build`` and ``gpucourse check``.

Each function returns the command's exit code.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from gpucourse.course.problems import CourseError, Problem
from gpucourse.course.registry import Course, find_root, load_course
from gpucourse.publish.notebooks.execution import KernelLost
from gpucourse.publish.notebooks.outputs import plan, write
from gpucourse.publish.notebooks.rehearsal import rehearse
from gpucourse.publish.source.reader import Source
from gpucourse.system.language import speaking
from gpucourse.wording import many
from virtualgpu.api import NUMBA_VARIABLE, numba_package
from virtualgpu.processors import usable

# Largest number of lessons that run at a time, because a kernel takes up to 1 GB.
MOST_KERNELS = 4
SUCCESSOR = "numba-cuda-mlir"
_console = Console(highlight=False, soft_wrap=True, markup=False)


def _tells_mistakes(command: Callable[..., int]) -> Callable[..., int]:
    """Print mistakes of the course's source, or the end of a kernel, without a traceback."""

    @functools.wraps(command)
    def guarded(*args, **options) -> int:
        try:
            return command(*args, **options)
        except (CourseError, KernelLost) as error:
            _console.print(str(error))
            return 1

    return guarded


@_tells_mistakes
def build(*, force: bool = False, language: str = "") -> int:
    """Generate the notebooks from ``course/``, in English or in another language.

    A lesson in another language is generated as far as it is translated.
    """
    with speaking(""):
        state = plan(find_root(), language)
    if state.used and not force:
        for path in state.used:
            _console.print(f"{path}: has been run, so it may contain somebody's work")
        _console.print(
            "Nothing was written. Copy the work that you want to keep, then run: "
            "gpucourse build --force"
        )
        return 1
    write(state)
    for path in state.changed:
        _console.print(f"wrote {path}")
    for path in state.superfluous:
        _console.print(f"removed {path}")
    _console.print(f"{many(len(state.texts), 'notebook')} in step with the source.")
    return 0


@_tells_mistakes
def check_current() -> int:
    """List generated notebooks that differ from what their source generates."""
    with speaking(""):
        state = plan(find_root())
    for path in state.changed:
        what = "differs from its source"
        if not (state.root / path).exists():
            what = "missing"
        elif path in state.used:
            what = "has been run: outputs are not committed"
        _console.print(f"{path}: {what}")
    for path in state.superfluous:
        _console.print(f"{path}: no longer generated")
    if state.current:
        _console.print(f"{many(len(state.texts), 'notebook')} in step with the source.")
        return 0
    _console.print("To fix this: make build   (edit course/, never these notebooks)")
    return 1


@_tells_mistakes
def check(ids: list[str], language: str = "", *, successor: bool = False) -> int:
    """Inspect and rehearse lessons, by default all; then also check that all files are current.

    With a ``language``, rehearse the translated notebooks of the lessons. With ``successor``,
    rehearse on numba-cuda-mlir those of the lessons that ``course/successor.toml`` lists.
    """
    with speaking(language):
        return _check_successor(ids) if successor else _check(ids)


def _check_successor(ids: list[str]) -> int:
    from gpucourse.publish.notebooks import successor
    from gpucourse.publish.source.reader import read_source

    root = find_root()
    listed = successor.lessons(root)
    if unknown := [id for id in ids if id not in listed]:
        _console.print(
            f"{successor.REGISTRY} does not list {', '.join(unknown)}; it lists: "
            f"{', '.join(listed)}"
        )
        return 1
    if sys.platform != "linux":
        _console.print("numba-cuda-mlir reaches the virtual GPU only on Linux, so nothing was run.")
        return 0
    course = load_course(root)
    sources = [read_source(course, course.lesson(id)) for id in ids or listed]
    before = os.environ.get(NUMBA_VARIABLE)
    os.environ[NUMBA_VARIABLE] = SUCCESSOR  # the kernels inherit it
    try:
        answers = numba_package()
        problems = [
            problem
            for source, found in zip(sources, _rehearsed(course, sources), strict=True)
            for problem in successor.unexpected(root, source.lesson.id, found)
        ]
    except ValueError as not_installed:
        _console.print(str(not_installed))
        return 1
    finally:
        os.environ.pop(NUMBA_VARIABLE)
        if before is not None:
            os.environ[NUMBA_VARIABLE] = before
    for problem in problems:
        _console.print(str(problem))
    if not problems:
        _console.print(f"{len(sources)} rehearsed on {answers}: everything as it should be.")
    return 1 if problems else 0


def _check(ids: list[str]) -> int:
    from gpucourse.publish.notebooks import syllabi
    from gpucourse.publish.notebooks.inspection import inspect
    from gpucourse.publish.source import translating
    from gpucourse.publish.source.gallery import read_gallery
    from gpucourse.publish.source.reader import read_course, read_source

    root = find_root()
    code = 0
    if ids:
        # Named lessons are checked alone, so that one can be finished while another is half
        # written.
        course = load_course(root)
        try:
            sources = [read_source(course, course.lesson(id)) for id in ids]
        except LookupError as error:
            _console.print(str(error))
            return 1
    else:
        course, sources = read_course(root)
        code = check_current()
    problems: list[Problem] = [found for source in sources for found in inspect(course, source)]
    if not ids:
        problems += syllabi.problems(course, sources)
        if gallery := read_gallery(course):
            problems += inspect(course, gallery)
    for found in _rehearsed(course, sources):
        problems += found
    for problem in problems:
        _console.print(str(problem))
    for remark in translating.remarks(root, [source.lesson.id for source in sources]):
        _console.print(f"remark: {remark}")
    if not problems:
        _console.print(f"{len(sources)} rehearsed: everything as it should be.")
    return 1 if problems else code


def _rehearsed(course: Course, sources: Sequence[Source]) -> Iterator[list[Problem]]:
    """Yield the findings of each lesson's rehearsal, in order; show running lessons on screen."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        with ThreadPoolExecutor(max(1, min(MOST_KERNELS, int(usable())))) as pool:
            yield from pool.map(
                lambda source: rehearse(
                    course, source, lambda text: progress.update(task, description=text)
                ),
                sources,
            )


@_tells_mistakes
def translate(language: str, ids: list[str]) -> int:
    """Create the catalogues of a language, or update them to the English texts."""
    from gpucourse.publish.source import translating

    try:
        with speaking(""):
            for line in translating.update(find_root(), language, ids):
                _console.print(line)
    except LookupError as error:
        _console.print(str(error))
        return 1
    return 0
