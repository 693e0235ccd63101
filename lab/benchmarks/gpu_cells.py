"""Kernels and functions from the course's own sources, so that none is written twice.

``take("07_trees_and_barriers", "sum_all")`` runs the definition of ``sum_all`` from the solved
lesson together with everything that it needs. Nothing else of the lesson runs: no plots, no
launches and no unused imports. The module reads ``course/`` itself and needs neither jupytext nor
the generated notebooks; a test checks that its cells equal those of the build.
"""

from __future__ import annotations

import ast
import builtins
import dis
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, SimpleNamespace

from gpucourse.course.regions import HIDDEN_TESTS, SOLUTION, remove_regions, unwrap_regions
from gpucourse.system.libraries import absent

COURSE = Path(__file__).resolve().parents[2] / "course"
_MARKER = re.compile(r"# %%(?P<markdown> \[markdown\])?.*\bid=\"(?P<name>[^\"]+)\".*")
_NEEDS = re.compile(r"# %%needs (\w+)\n")


def code_cells(lesson: str) -> dict[str, str]:
    """Return the code cells of a solved lesson by their ids, without hidden tests.

    A cell under ``%%needs`` is left out if its requirement is missing.
    """
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
            text = unwrap_regions(text, SOLUTION).strip("\n")
            needed = _NEEDS.match(text)
            if not needed or absent(needed[1]) is None:
                cells[name] = text
        name, lines = None if marker["markdown"] else marker["name"], []
    return cells


class Missing(LookupError):
    """Error for a lesson that does not define the requested name."""


@cache
def _of_cell(cell: str, text: str) -> list[tuple[frozenset[str], ast.stmt, str]]:
    """Return the top-level statements of a cell that bind names: (names, statement, cell)."""
    return [
        (names, statement, cell)
        for statement in ast.parse(text).body
        if (names := frozenset(_bound(statement)))
    ]


def _bound(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield statement.name
        # PyTorch's operator is complete only with its fake
        for decorator in statement.decorator_list:
            match decorator:
                case ast.Attribute(ast.Name(name), "register_fake"):
                    yield name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.split(".")[0] for alias in statement.names)
    elif isinstance(statement, ast.Try):  # an import that may fail
        for inner in statement.body:
            yield from _bound(inner)
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            for node in ast.walk(target):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id
    elif isinstance(statement, ast.Expr):
        match statement.value:  # a JAX function is complete only with its derivative rule
            case ast.Call(func=ast.Attribute(ast.Name(name), "defvjp" | "defjvp")):
                yield name


def _globals(code: CodeType) -> Iterator[str]:
    """Yield the global names that a statement's code reads, including nested functions."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals(constant)


def file_name(cell: str) -> str:
    """Return a cell's name in tracebacks."""
    return f"<course: {cell}>"


def _compiled(statement: ast.stmt, cell: str) -> CodeType:
    # Compile like a notebook: this file's own `annotations` import must not affect the cell.
    return compile(ast.Module([statement], []), file_name(cell), "exec", dont_inherit=True)


def take(lesson: str, *names: str, given: Mapping[str, object] | None = None) -> SimpleNamespace:
    """Return the named definitions of a solved lesson, with all that they need from it.

    If a lesson binds a name several times, the last binding counts; inside a definition, the last
    one before it counts. ``given`` names replace the lesson's (``{"np": jnp}``).

    Raises :class:`Missing` for a name that the lesson does not define. A second call returns the
    same objects, so that a kernel is compiled once.
    """
    return _take(lesson, names, tuple((given or {}).items()))


@cache
def _take(lesson: str, names: tuple[str, ...], replaced: tuple) -> SimpleNamespace:
    return SimpleNamespace(**run(lesson, code_cells(lesson), names, dict(replaced)))


def run(
    lesson: str,
    cells: Mapping[str, str],
    names: Sequence[str],
    given: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Return the definitions of :func:`take` by name, from these cells."""
    given = given or {}
    statements = [one for cell, text in cells.items() for one in _of_cell(cell, text)]
    wanted: set[int] = set()

    def want(name: str, before: int) -> None:
        places = [k for k, (bound, _, _) in enumerate(statements) if name in bound]
        if not places:
            if before == len(statements):
                raise Missing(f"{lesson} defines no {name!r}")
            return  # a builtin, or a name that exists only in a notebook
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
        scope.update(given)  # one statement may bind them together with a needed name
    return {name: scope[name] for name in names}
