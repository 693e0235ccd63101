"""Inference of lines and branches that must have run, because others did.

coverage.py derives from a file's syntax which line may follow which (its *arcs*). Together with
the executed lines, and those at which threads took both directions, this decides most branches,
and the lines that have no code (``pass``, ``continue``). Lines and branches that it does not
decide remain missing.
"""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Callable

from virtualgpu.kernel_lines.evidence import Reached

Arc = tuple[int, int]


class Syntax:
    """Lines of a Python file: the arcs inside its functions, and where statements begin."""

    def __init__(self, text: str, filename: str):
        from coverage.parser import PythonParser

        parser = PythonParser(text=text, filename=filename)
        parser.parse_source()
        self.first_line: Callable[[int], int] = parser.first_line
        self.owner = owner = _functions(text)
        self.after: dict[int, set[int]] = {line: set() for line in owner}
        self.before: dict[int, set[int]] = defaultdict(set)
        for start, end in parser.arcs():
            if start in owner and (end < 0 or owner.get(end) == owner[start]):
                self.after[start].add(end)
                self.before[end].add(start)
        self.entry: dict[ast.AST, int] = {}
        for line in sorted(self.after):
            if self.after[line]:
                self.entry.setdefault(owner[line], line)

    def leads_past(self, line: int, goal: int) -> bool:
        """Return True if a thread may reach ``goal`` in its function without passing ``line``."""
        first = self.entry.get(self.owner[goal], goal)
        seen, todo = {line}, [first]
        while todo:
            here = todo.pop()
            if here == goal and here not in seen:
                return True
            if here not in seen:
                seen.add(here)
                todo += self.after.get(here, ())
        return False


def _functions(text: str) -> dict[int, ast.AST]:
    """Return the innermost function of each line in a function's body."""
    owner: dict[int, ast.AST] = {}
    for node in ast.walk(ast.parse(text)):  # outer functions come first
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for line in range(node.body[0].lineno, (node.end_lineno or 0) + 1):
                if line > node.lineno:
                    owner[line] = node
    return owner


@functools.lru_cache(maxsize=256)
def syntax(filename: str) -> Syntax | None:
    """Return the syntax of a file, or None if it is not valid Python."""
    from coverage.exceptions import CoverageException
    from coverage.python import get_python_source

    try:
        return Syntax(get_python_source(filename), filename)
    except (CoverageException, SyntaxError, ValueError):
        return None


def complete(reached: Reached, lines: Syntax) -> tuple[set[int], set[Arc]]:
    """Return all lines of a file that are known to have run, and the arcs between them."""
    ran, known, both = (
        {lines.first_line(line) for line in some}
        for some in (reached.ran, reached.known, reached.both)
    )
    seen = {(lines.first_line(one), lines.first_line(other)) for one, other in reached.arcs}
    arcs: set[Arc] = {(line, way) for line, way in seen if way in lines.after.get(line, ())}
    left = list(ran)
    while left:
        line = left.pop()
        # If a line has code and did not run, it was not reached from here either.
        ways = {
            way for way in lines.after.get(line, ()) if way < 0 or way in ran or way not in known
        }
        if len(ways) > 1 and line not in both:
            ways = {way for way in ways if way in ran and lines.before[way] == {line}}
        arcs |= {(line, way) for way in ways}
        new = {way for way in ways if way > 0} | {
            other  # it has no code, but every path leads through it
            for other, onward in lines.after.items()
            if onward  # no statement begins on other lines
            and not (other in known or other in ran)
            and lines.owner.get(line) == lines.owner[other]
            and not lines.leads_past(other, line)
        }
        left += new - ran
        ran |= new
    return ran, arcs | {(line, line) for line in ran}
