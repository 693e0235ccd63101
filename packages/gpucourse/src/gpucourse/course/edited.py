"""Answers written as edits of a project's solution."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpucourse.course.regions import SOLUTION, unwrap_regions


def edits_beside(file: str) -> Callable[..., dict[str, str]]:
    """Return ``changed(cell, old, new, …)`` for the project in whose folder `file` is.

    The function returns the solution of the named cell, with each old text replaced by the new
    text that follows it. It raises ValueError unless each old text occurs exactly once.
    """
    source = Path(file).with_name("notebook.py")

    def changed(cell: str, *changes: str) -> dict[str, str]:
        text = solution(source, cell)
        for old, new in zip(changes[::2], changes[1::2], strict=True):
            if text.count(old) != 1:
                raise ValueError(f"{cell}: {old!r} occurs {text.count(old)} times")
            text = text.replace(old, new)
        return {cell: text}

    return changed


def solution(source: Path, cell: str) -> str:
    """Return the solution of an answer cell of a project's ``notebook.py``."""
    _, found = source.read_text(encoding="utf-8").split(f'# %% id="{cell}" role="solution"\n')
    return unwrap_regions(found.split("\n# %%")[0], SOLUTION)
