"""Where in a learner's program an equation comes from. JAX keeps it, but has no public way to ask."""

from __future__ import annotations


def line_of(equation) -> str:
    """"file.py:12 (function)", or "unknown line" where JAX does not tell."""
    try:
        from jax._src import source_info_util

        found = source_info_util.summarize(equation.source_info)
    except (ImportError, AttributeError, TypeError):
        return "unknown line"
    return found if found and "unknown" not in found else "unknown line"
