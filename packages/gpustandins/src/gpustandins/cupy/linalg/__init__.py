"""``cupy.linalg``: linear algebra computed by LAPACK on the host.

Real CuPy calls cuSOLVER and cuBLAS, so the signs of singular vectors and eigenvectors and the last
digits may differ. As in CuPy, ``solve`` and ``inv`` raise no error for a singular matrix unless
``cupyx.errstate(linalg='raise')`` is set. The result is then NaN, where cuSOLVER leaves
unspecified values.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.linalg import LinAlgError

from .._arrays.core import from_host
from .._arrays.operands import operand
from .._arrays.routines import table
from .._table import LINALG


def matrix_rank(M, tol=None):
    """Return the number of singular values above ``tol``."""
    return from_host(np.asarray(np.linalg.matrix_rank(operand(M), tol)))


# NumPy's errors about values rather than shapes. cuSOLVER returns a code for them, which CuPy
# ignores.
_OF_NUMBERS = ("Singular", "positive definite", "converge")


def _quiet(function):
    """Return NaN where NumPy raises an error about a matrix's values, as cuSOLVER does."""

    @functools.wraps(function)
    def run(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except LinAlgError as error:
            if not any(words in str(error) for words in _OF_NUMBERS) or _raises():
                raise
        if function in _EACH and args[0].ndim > 2:  # the other matrices of the stack are valid
            rows = args[0].reshape(-1, *args[0].shape[-2:])
            return np.stack([run(one, *args[1:], **kwargs) for one in rows]).reshape(args[0].shape)
        return _as_nan(function(_harmless(args[0]), *args[1:], **kwargs))

    return run


def _raises() -> bool:
    from cupyx import geterr

    return geterr()["linalg"] == "raise"


_EACH = (np.linalg.inv, np.linalg.cholesky)


def _harmless(matrix: np.ndarray) -> np.ndarray:
    """Return a matrix of this shape and dtype that every decomposition accepts."""
    rows, columns = matrix.shape[-2:]
    if rows == columns:
        return np.broadcast_to(np.eye(rows, dtype=matrix.dtype), matrix.shape)
    side = math.isqrt(matrix.size)
    if matrix.ndim > 2 and side * side == matrix.size:  # for tensorsolve and tensorinv
        return np.eye(side, dtype=matrix.dtype).reshape(matrix.shape)
    return np.zeros(matrix.shape, matrix.dtype)


def _as_nan(result):
    if isinstance(result, tuple):
        parts = tuple(map(_as_nan, result))
        return type(result)(*parts) if hasattr(result, "_fields") else parts
    kind = np.result_type(result, np.float32)
    return np.full(np.shape(result), np.nan, kind)


FUNCTIONS = table(
    LINALG,
    np.linalg,
    "cupy.linalg",
    {
        name: _quiet(getattr(np.linalg, name))
        for name in (
            "solve",
            "inv",
            "cholesky",
            "svd",
            "eigh",
            "eigvalsh",
            "tensorsolve",
            "tensorinv",
            "matrix_power",
            "pinv",
            "lstsq",
        )
    },
)
globals().update(FUNCTIONS)
__all__ = ["LinAlgError", "matrix_rank", *FUNCTIONS]


def __getattr__(name: str):
    from .._missing import missing

    if not hasattr(np.linalg, name):
        raise AttributeError(f"module 'cupy.linalg' has no attribute {name!r}")
    raise missing(__name__, name, f"numpy.linalg.{name} on x.get()")
