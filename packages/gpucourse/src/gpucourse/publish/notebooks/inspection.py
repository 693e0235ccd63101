"""Inspection of a lesson without running it.

It checks that

- every picture in the text has a description in words, and its file exists;
- no name in the code is undefined, even in branches and kernels that a rehearsal may never run;
- every link to another page of the course leads somewhere;
- every prediction has choices, and its explanation is folded (:mod:`..source.questions`);
- the minutes in ``course.toml`` agree with the count of the words and cells (:mod:`.pace`);
- the timetable in the notes for the instructor takes the minutes in ``course.toml``.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import re
import symtable
from collections.abc import Iterator
from pathlib import Path

from gpucourse.course.checkout import notebook_path
from gpucourse.course.problems import Problem
from gpucourse.course.regions import HIDDEN_TESTS, SOLUTION, unwrap_regions
from gpucourse.course.registry import Course
from gpucourse.publish.notebooks import pace
from gpucourse.publish.notebooks.derive import starter_source
from gpucourse.publish.source import questions
from gpucourse.publish.source.links import links, places, slug, without_code
from gpucourse.publish.source.reader import Cell, Source

#: A shorter description says no more than "a figure".
ALT_LETTERS = 20
# Names that IPython defines in a notebook.
_NOTEBOOK_NAMES = {
    "get_ipython",
    "display",
    "In",
    "Out",
    "_",
    "exit",
    "quit",
    "__name__",
    "__file__",
    "__doc__",
    "__builtins__",
}
_PICTURE = re.compile(r"!\[(?P<alt>[^]]*)\]\((?P<target>[^()\s]+)[^()]*\)", re.DOTALL)
_TAG = re.compile(r"<img\b[^>]*>", re.DOTALL | re.IGNORECASE)
_TIMES = re.compile(r"^\| *(\d+)[-–](\d+) *\|", re.MULTILINE)

Mistakes = Iterator[tuple[Cell, str]]


def inspect(course: Course, source: Source) -> list[Problem]:
    """Return every mistake of one lesson that can be found without running it."""
    path = source.path.relative_to(course.root)
    rules = (_pictures, _links, _names, _timetable, _minutes, questions.mistakes)
    return [Problem(path, cell.line, text) for rule in rules for cell, text in rule(course, source)]


def _prose(source: Source) -> Iterator[tuple[Cell, str]]:
    for cell in source.cells:
        if cell.kind == "markdown":
            yield cell, cell.source


def _folder(course: Course, source: Source) -> Path:
    """Return the folder of the lesson's notebook, from which its links start."""
    return (course.root / notebook_path(source.lesson)).parent


def _pictures(course: Course, source: Source) -> Mistakes:
    for cell, text in _prose(source):
        text = without_code(text)
        for found in _PICTURE.finditer(text):
            name = found["target"]
            if len(found["alt"].strip()) < ALT_LETTERS:
                yield cell, f"say in words what {name} shows: ![words]({name})"
            local = not re.match(r"[a-z]+:", name)
            if local and not (_folder(course, source) / name).resolve().is_file():
                yield cell, f"the picture {name} does not exist"
        for tag in _TAG.findall(text):
            if not re.search(rf"""\balt=["'][^"']{{{ALT_LETTERS},}}""", tag):
                yield cell, f"say in words what the picture shows: alt=… in {tag[:60]}"


def _links(course: Course, source: Source) -> Mistakes:
    """Check links to other lessons and documents; pictures are checked elsewhere."""
    own = {
        slug(heading)
        for _, text in _prose(source)
        for heading in re.findall(r"(?m)^#+ +(.+?) *$", text)
    }
    for cell, text in _prose(source):
        for target in links(_PICTURE.sub("", text)):
            if re.match(r"[a-z][a-z+.-]*:", target):
                continue
            name, _, place = target.partition("#")
            there = (_folder(course, source) / name).resolve()
            if name and not there.exists() and not _generated(course, there):
                yield cell, f"the link {target} leads nowhere"
            elif place and not name and place not in own:
                yield cell, f"the link {target}: no such heading here"
            elif place and there.is_file() and there.suffix in (".md", ".ipynb"):
                if place not in places(there):
                    yield cell, f"the link {target}: no such heading there"


def _generated(course: Course, path: Path) -> bool:
    """Return True if `make build` will write this notebook."""
    return path.suffix == ".ipynb" and path.stem in {lesson.id for lesson in course.lessons}


def _timetable(course: Course, source: Source) -> Mistakes:
    for cell in source.cells:
        times = [(int(a), int(b)) for a, b in _TIMES.findall(cell.source)]
        if "room" not in cell.tags or not times:
            continue
        for (_, end), (begin, _) in itertools.pairwise(times):
            if end != begin:
                yield cell, f"the timetable jumps from minute {end} to minute {begin}"
        if times[0][0] != 0 or times[-1][1] != source.lesson.minutes:
            yield (
                cell,
                (
                    f"the timetable goes from minute {times[0][0]} to {times[-1][1]}, the "
                    f"lesson takes {source.lesson.minutes} (course.toml)"
                ),
            )


def _minutes(course: Course, source: Source) -> Mistakes:
    lesson = source.lesson
    for given, counted, whose in (
        (lesson.minutes, pace.minutes(source), "its"),
        (lesson.optional, pace.optional(source), "its optional part's"),
    ):
        if (given or counted) and (given % pace.GRAIN or abs(given - counted) > pace.GRAIN):
            yield (
                source.cells[0],
                (
                    f"course.toml says {given} minutes; {whose} words, cells, predictions and "
                    f"exercises count {counted:.0f}: write {pace.rounded(counted)} "
                    "(publish/notebooks/pace.py has the rule)"
                ),
            )


# --- names ------------------------------------------------------------------------------------


def _names(course: Course, source: Source) -> Mistakes:
    """Report names that are undefined in the released or in the solved notebook."""
    told: set[tuple[str, str]] = set()
    for solved in (True, False):
        cells = [(cell, code_of(cell, solved)) for cell in source.cells if cell.kind == "code"]
        for cell, name in unknown_names(cells):
            if (cell.name, name) not in told and "NameError" not in cell.raises:
                told.add((cell.name, name))
                yield cell, f"cell {cell.name!r} uses the name {name!r}, which nothing defines"


def code_of(cell: Cell, solved: bool) -> str:
    """Return the cell's Python, with its answer or its starter, but without magics."""
    text = unwrap_regions(cell.source, HIDDEN_TESTS)
    text = unwrap_regions(text, SOLUTION) if solved else starter_source(text)
    lines = text.split("\n")
    if lines[0].startswith("%%"):
        lines[0] = ""
    return "\n".join(re.sub(r"^(\s*)[%!?].*$", r"\1pass", line) for line in lines)


def unknown_names(cells: list[tuple[Cell, str]]) -> Iterator[tuple[Cell, str]]:
    """Return (cell, name) for each name that no cell, import, argument or builtin defines.

    All cells count as one module, because a function may use a name that a later cell defines.
    Cells that are not Python, such as a deliberate SyntaxError, are left out.
    """
    parsed = []
    for cell, text in cells:
        try:
            parsed.append((cell, text, ast.parse(text)))
        except SyntaxError:
            continue
    known = set(dir(builtins)) | _NOTEBOOK_NAMES
    used = []
    for cell, text, _ in parsed:
        table = symtable.symtable(text, cell.name, "exec")
        bound, wanted = global_names(table)
        known |= bound
        used.append((cell, wanted))
    if any(
        isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        for _, _, tree in parsed
        for node in ast.walk(tree)
    ):
        return
    for cell, wanted in used:
        for name in sorted(wanted - known):
            yield cell, name


def global_names(table: symtable.SymbolTable) -> tuple[set[str], set[str]]:
    """Return the module's names that this scope and inner ones bind, and those they use."""
    bound, used = set(), set()
    top = table.get_type() == "module"
    for symbol in table.get_symbols():
        of_module = top or symbol.is_global()
        if of_module and (symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()):
            bound.add(symbol.get_name())
        if of_module and symbol.is_referenced():
            used.add(symbol.get_name())
    for child in table.get_children():
        more_bound, more_used = global_names(child)
        bound |= more_bound
        used |= more_used
    return bound, used
