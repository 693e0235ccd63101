"""Functions that set-up cells define, and protection of those withheld from answers."""

from __future__ import annotations

import ast
from functools import cached_property

from gpucourse.grading.submission.assignment import SETUP, Assignment, AssignmentCell
from gpucourse.grading.testing.withheld import NOT_FOR_ANSWERS


class SetUp:
    """Functions that an assignment's set-up cells define."""

    def __init__(self, assignment: Assignment) -> None:
        self._cells = [cell for cell in assignment.having(SETUP) if cell.cell_type == "code"]

    @cached_property
    def _defined(self) -> dict[str, tuple[AssignmentCell, ast.FunctionDef]]:
        """The last set-up cell that defines each function, and the definition, by name."""
        return {
            node.name: (cell, node)
            for cell in self._cells
            for node in _parsed(cell.source).body
            if isinstance(node, ast.FunctionDef)
        }

    @cached_property
    def withheld(self) -> frozenset[str]:
        """Names of the functions that are marked with :data:`NOT_FOR_ANSWERS`."""
        return frozenset(
            name for name, (cell, node) in self._defined.items() if _is_withheld(cell.source, node)
        )

    def for_answers(self, cell: AssignmentCell) -> str:
        """Return the source of a set-up cell without the functions that are withheld.

        The lines of these functions become empty, so that all other lines keep their numbers.
        """
        if NOT_FOR_ANSWERS not in cell.source:
            return cell.source
        lines = cell.source.split("\n")
        for node in _parsed(cell.source).body:
            if isinstance(node, ast.FunctionDef) and _is_withheld(cell.source, node):
                for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                    lines[number] = ""
        return "\n".join(lines)

    def behind(self, name: str) -> list[AssignmentCell]:
        """Return the cells that define the function `name` and the functions that it uses.

        The list is empty if an answer defines `name`.
        """
        names, found = [name], []
        for one in names:
            if one not in self._defined:
                continue
            cell, node = self._defined[one]
            if cell not in found:
                found.append(cell)
            used = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
            names += sorted(used - set(names))
        return [cell for cell in self._cells if cell in found]


def _parsed(source: str) -> ast.Module:
    """Return the cell's syntax tree; IPython lines such as ``%load_ext`` count as empty."""
    lines = ("" if line.startswith(("%", "!")) else line for line in source.split("\n"))
    return ast.parse("\n".join(lines))


def _is_withheld(source: str, node: ast.FunctionDef) -> bool:
    return source.split("\n")[node.lineno - 1].endswith(NOT_FOR_ANSWERS)
