"""``cupy.cuda.compiler``: the error of a compilation that fails."""

from __future__ import annotations

from .._kernel_errors import CompileException

__all__ = ["CompileException"]
