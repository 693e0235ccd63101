"""Errors of the compiler; each message names the fault, the line and what to do."""

from __future__ import annotations


class JaxpileError(Exception):
    """Any refusal of this package."""


class UnsupportedPrimitive(JaxpileError, NotImplementedError):
    """A primitive that no registered translator takes, or a form of it that it does not take."""


class UnsupportedType(JaxpileError, TypeError):
    """An element type without machine code here: half precision; or an operation on one."""


class UnsupportedProgram(JaxpileError, ValueError):
    """A program that has effects, or that cannot be laid out as loops."""


class NoGPU(JaxpileError, RuntimeError):
    """The CUDA back end found neither CuPy nor a stand-in of that name."""
