"""Lazy names of a module, imported on first use.

The module's stub (``.pyi``) lists the names. Type checkers read it too, so there is only one list
(SPEC 1 of Scientific Python, "lazy loading of submodules and functions").
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any


def attach(
    module: dict[str, Any],
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for the module with these ``globals()``.

    The stub may contain ``from PART import NAME as NAME``, or ``import PART as _PART`` followed by
    ``OTHER = _PART.NAME`` or ``OTHER = _PART``. A part is imported when one of its names is first
    used. Each use looks the name up in the part again, so that a replacement there takes effect.
    """
    where = _names(Path(module["__file__"]).with_suffix(".pyi"))

    def find(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        part, original = where[name]
        value = importlib.import_module(part)
        return getattr(value, original) if original else value

    return find, lambda: sorted({*module, *where}), sorted(where)


def _names(stub: Path) -> dict[str, tuple[str, str]]:
    """Return the module of each name, and the name in that module ("" for the module itself)."""
    where, parts = {}, {}
    for line in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(line, ast.ImportFrom):
            where.update({alias.name: (str(line.module), alias.name) for alias in line.names})
        elif isinstance(line, ast.Import):
            parts.update({alias.asname: alias.name for alias in line.names})
        elif isinstance(line, ast.Assign):
            part, _, original = ast.unparse(line.value).partition(".")
            where[ast.unparse(line.targets[0])] = parts[part], original
    return where
