"""``cupy.linalg``: LAPACK on the host does the work; results lie on the device.

Real CuPy calls cuSOLVER and cuBLAS: signs of singular and eigenvectors may differ, and so may
the last digits. For a singular matrix ``solve`` and ``inv`` raise nothing, as CuPy does not
unless ``cupyx.errstate(linalg='raise')`` asks for it; they give NaN where cuSOLVER leaves
whatever it had come to.
"""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError

from .._core import from_host
from .._operands import operand
from .._routines import table
from .._table import LINALG


def matrix_rank(M, tol=None):
    """The number of singular values above ``tol``."""
    return from_host(np.asarray(np.linalg.matrix_rank(operand(M), tol)))


def _quiet(function):
    """Give NaN where NumPy raises for a singular matrix, as cuSOLVER's routines do."""
    def run(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except LinAlgError as error:
            if "Singular" not in str(error):
                raise
            result = args[1] if len(args) > 1 else args[0]
            return np.full(np.shape(result), np.nan, np.result_type(*args, np.float32))

    return run


FUNCTIONS = table(LINALG, np.linalg, "cupy.linalg", {
    "solve": _quiet(np.linalg.solve), "inv": _quiet(np.linalg.inv)})
globals().update(FUNCTIONS)
__all__ = ["LinAlgError", "matrix_rank", *FUNCTIONS]


def __getattr__(name: str):
    from .._missing import missing

    raise missing(__name__, name, f"numpy.linalg.{name} on x.get()")
