"""Kernels and functions taken from the course's own sources, so that none is written twice.

``take("06_thinking_in_threads", "sum_all")`` runs the definition of ``sum_all`` as it stands in the
solved lesson, and of whatever it needs, and nothing else of the lesson: no plots, no launches, no
imports that nothing asks for. It reads ``course/`` itself and needs neither jupytext nor the
generated notebooks; a test holds its cells equal to those of the build.
"""

from __future__ import annotations

import ast
import builtins
import dis
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import CodeType, SimpleNamespace

from gpucourse.course.regions import HIDDEN_TESTS, SOLUTION, remove_regions, unwrap_regions

COURSE = Path(__file__).resolve().parent.parent / "course"
_MARKER = re.compile(r"# %%(?P<markdown> \[markdown\])?.*\bid=\"(?P<name>[^\"]+)\".*")


def code_cells(lesson: str) -> dict[str, str]:
    """The code cells of a solved lecture or project by their ids, without hidden tests."""
    (path,) = COURSE.glob(f"*/{lesson}/notebook.py")
    cells: dict[str, str] = {}
    name, lines = None, []
    for line in [*path.read_text(encoding="utf-8").split("\n"), '# %% [markdown] id="end"']:
        marker = _MARKER.fullmatch(line)
        if not marker:
            lines.append(line)
            continue
        if name is not None:
            text = remove_regions("\n".join(lines), HIDDEN_TESTS)
            cells[name] = unwrap_regions(text, SOLUTION).strip("\n")
        name, lines = None if marker["markdown"] else marker["name"], []
    return cells


class Missing(LookupError):
    """A lesson that does not define what is asked of it."""


@cache
def _statements(lesson: str) -> list[tuple[frozenset[str], ast.stmt, str]]:
    """The top-level statements of a lesson that bind names: (names, statement, cell)."""
    found = []
    for cell, text in code_cells(lesson).items():
        for statement in ast.parse(text).body:
            if names := frozenset(_bound(statement)):
                found.append((names, statement, cell))
    return found


def _bound(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.split(".")[0] for alias in statement.names)
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            for node in ast.walk(target):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id


def _globals(code: CodeType) -> Iterator[str]:
    """The global names that a statement's code reads, in nested functions too."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals(constant)


def _compiled(statement: ast.stmt, cell: str) -> CodeType:
    # As a notebook compiles it: this file's own `annotations` must not reach the cell.
    module = ast.Module([statement], [])
    return compile(module, f"<course: {cell}>", "exec", dont_inherit=True)


def take(lesson: str, *names: str, given: Mapping[str, object] | None = None) -> SimpleNamespace:
    """The named definitions of a solved lesson, with all that they need from it.

    A name that a lesson binds several times means its last binding; inside of a definition, the
    last one before it. ``given`` names are used in place of the lesson's (``{"np": jnp}``).

    Raises :class:`Missing` for a name that the lesson does not define. Asked twice, it gives the
    same objects: a kernel is compiled once.
    """
    return _take(lesson, names, tuple((given or {}).items()))


@cache
def _take(lesson: str, names: tuple[str, ...], replaced: tuple) -> SimpleNamespace:
    given = dict(replaced)
    statements = _statements(lesson)
    wanted: set[int] = set()

    def want(name: str, before: int) -> None:
        places = [k for k, (bound, _, _) in enumerate(statements) if name in bound]
        if not places:
            if before == len(statements):
                raise Missing(f"{lesson} defines no {name!r}")
            return  # a builtin, or something that only exists when a notebook runs
        place = max((k for k in places if k < before), default=places[0])
        if place in wanted:
            return
        wanted.add(place)
        _, statement, cell = statements[place]
        for needed in set(_globals(_compiled(statement, cell))) - set(given):
            if not hasattr(builtins, needed):
                want(needed, place)

    for name in names:
        want(name, len(statements))
    scope: dict[str, object] = {"__name__": f"course_{lesson}", **given}
    for place in sorted(wanted):
        _, statement, cell = statements[place]
        exec(_compiled(statement, cell), scope)
        scope.update(given)  # one statement may bind them beside a name that is wanted
    return SimpleNamespace(**{name: scope[name] for name in names})
