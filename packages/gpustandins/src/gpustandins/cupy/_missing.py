"""Names that the stand-in lacks: errors with the name and what to use instead."""

from __future__ import annotations

from gpustandins.importing import as_import_error


class Missing(NotImplementedError, AttributeError):
    """A part of CuPy that the stand-in lacks.

    Also an AttributeError, so that ``hasattr`` answers False rather than fail.
    """


def missing(module: str, name: str, instead: str = ""):
    """Return the error for ``module.name``; a plain AttributeError for private names."""
    if name.startswith("_"):
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    advice = f"; use {instead}" if instead else ""
    return as_import_error(
        Missing(f"{module}.{name} is not in CuPy's stand-in for machines without a GPU{advice}")
    )
