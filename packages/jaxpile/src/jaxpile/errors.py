"""Errors of the compiler, whose messages name the fault, the line and the remedy."""

from __future__ import annotations


class JaxpileError(Exception):
    """Base class of all errors of this package."""


class UnsupportedPrimitive(JaxpileError, NotImplementedError):
    """A primitive without a registered translator, or a form of it that is not supported."""


class UnsupportedType(JaxpileError, TypeError):
    """An element type that has no machine code here (half precision), or an operation on it."""


class UnsupportedProgram(JaxpileError, ValueError):
    """A program with side effects, or one that cannot be expressed as loops."""


class NoGPU(JaxpileError, RuntimeError):
    """The CUDA back end found neither CuPy nor a stand-in of that name."""
