"""``cupy.cuda.compiler``: the error class of failed compilations."""

from __future__ import annotations

from .._errors import CompileException

__all__ = ["CompileException"]
