"""Search for the earlier cells whose names a part of a lesson uses.

A cell that only defines ``figure`` or ``t`` is not needed if the part defines that name itself.
Otherwise a tutorial would run half a project, including its answers, for the loop variables.
"""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Iterable

from gpucourse.publish.notebooks.inspection import code_of, global_names
from gpucourse.publish.source.reader import Cell, Source


def set_up(source: Source, chosen: list[Cell]) -> list[Cell]:
    """Return the earlier code cells that define names used by the ``chosen`` ones, in order.

    The first cell is always included, because it prepares the notebook.
    """
    if not chosen:
        return []
    mine = {cell.name for cell in chosen}
    code = [cell for cell in source.cells if cell.kind == "code"]
    last = max(n for n, cell in enumerate(code) if cell.name in mine)
    found: list[Cell] = []
    needed: set[str] = set()  # cells before the one examined
    for cell in reversed(code[: last + 1]):
        bound, brought, used = names(cell)
        if cell.name not in mine:
            brings = bool(bound & needed) and not cell.raises and cell.role != "test"
            if not brings and cell is not code[0]:
                continue
            found.append(cell)
        needed = (needed - brought) | used
    return found[::-1]


def quiet(text: str) -> str:
    """Return a cell's Python without statements that only display something.

    A semicolon hides the last value.
    """
    lines = text.split("\n")
    plain = "\n".join("" if line.startswith(("%", "!")) else line for line in lines)
    left = []
    for node in reversed(ast.parse(plain).body):
        if _only_shows(node):
            assert node.end_lineno is not None
            del lines[node.lineno - 1 : node.end_lineno]
        else:
            left.append(node)
    value = bool(left) and isinstance(left[0], ast.Expr)
    return "\n".join(lines).rstrip("; \n") + (";" if value else "")


def _only_shows(node: ast.stmt) -> bool:
    if isinstance(node, ast.For | ast.If):
        return all(map(_only_shows, [*node.body, *node.orelse]))
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and re.match(r"print$|Picture$|draw|show", ast.unparse(node.value.func)) is not None
    )


def names(cell: Cell) -> tuple[set[str], set[str], set[str]]:
    """Return the module's names that a cell may define, surely defines, and reads from others.

    The cell includes its answer. A cell that is meant to fail surely defines nothing.
    """
    text = code_of(cell, solved=True)
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return set(), set(), set()
    bound, _ = global_names(symtable.symtable(text, cell.name, "exec"))
    used: set[str] = set()
    brought = _flow(tree.body, set(), used)
    return bound, set() if cell.raises else brought, used


def _flow(body: Iterable[ast.stmt], before: set[str], used: set[str]) -> set[str]:
    """Return the names bound after these statements; add those not in ``before`` to ``used``."""
    bound = set(before)
    for node in body:
        match node:
            case ast.If():
                _read(node.test, bound, used)
                bound = _flow(node.body, bound, used) & _flow(node.orelse, bound, used)
            case ast.While():
                _read(node.test, bound, used)
                bound |= _flow([*node.body, *node.orelse], bound, used)
            case ast.For():  # the loops of a lesson run at least once
                _read(node.iter, bound, used)
                bound |= _stored(node.target)
                bound |= _flow([*node.body, *node.orelse], bound, used)
            case ast.With():
                for item in node.items:
                    _read(item.context_expr, bound, used)
                    bound |= _stored(item)
                bound |= _flow(node.body, bound, used)
            case ast.Try():
                for handler in node.handlers:
                    if handler.type is not None:
                        _read(handler.type, bound, used)
                    _flow(handler.body, bound, used)
                bound |= _flow([*node.body, *node.orelse, *node.finalbody], bound, used)
            case ast.AugAssign(target=ast.Name(id=name)):
                used |= {name} - bound
                bound |= _read(node, bound, used)
            case _:
                bound |= _read(node, bound, used)
    return bound


def _read(node: ast.AST, bound: set[str], used: set[str]) -> set[str]:
    """Return the names that a statement or expression binds; add those it reads to ``used``.

    Names that the body of a function reads count where the function is defined, except its own.
    """
    table = symtable.symtable(ast.unparse(node), "part", "exec")
    binds, reads = global_names(table)
    itself = {node.name} if isinstance(node, ast.FunctionDef | ast.ClassDef) else set()
    used |= reads - bound - itself
    return binds


def _stored(node: ast.AST) -> set[str]:
    """Return the names in a loop's target, or after ``as``."""
    return {
        name.id
        for name in ast.walk(node)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }
