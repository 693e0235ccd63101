"""``cupy.cuda.compiler``: the error of a compilation that fails."""

from __future__ import annotations

from .._errors import CompileException

__all__ = ["CompileException"]
