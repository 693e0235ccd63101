"""Source lines of equations, for which JAX has no public interface."""

from __future__ import annotations

from pathlib import Path

HERE = str(Path(__file__).resolve().parent)


def line_of(equation) -> str:
    """Return "file.py:12 (function)".

    Return "" if JAX does not know the line, and for equations made by this package.
    """
    try:
        from jax._src import source_info_util

        found = source_info_util.summarize(equation.source_info)
    except (ImportError, AttributeError, TypeError):
        return ""
    return "" if not found or "unknown" in found or found.startswith(HERE) else found
