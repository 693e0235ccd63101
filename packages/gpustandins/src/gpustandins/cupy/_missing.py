"""Errors for names that the stand-in lacks; each message names an alternative."""

from __future__ import annotations

from gpustandins.importing import as_import_error


class Missing(NotImplementedError, AttributeError):
    """Error for a name of CuPy that the stand-in lacks.

    It is also an AttributeError, so that ``hasattr`` returns False.
    """


def missing(module: str, name: str, instead: str = ""):
    """Return the error for ``module.name``; private names give a plain AttributeError."""
    if name.startswith("_"):
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    advice = f"; use {instead}" if instead else ""
    return as_import_error(
        Missing(f"{module}.{name} is not in CuPy's stand-in for machines without a GPU{advice}")
    )
