"""``cupyx.scipy.sparse.linalg``: sparse solvers and norms, computed with SciPy's routines."""

from __future__ import annotations

import scipy.sparse.linalg

from .._routines import absent
from ._matrix import functions

_FUNCTIONS = functions(
    "cg cgs eigsh gmres lsmr lsqr minres norm spsolve spsolve_triangular svds",
    scipy.sparse.linalg,
    "cupyx.scipy.sparse.linalg",
)
globals().update(_FUNCTIONS)
__all__ = list(_FUNCTIONS)
__getattr__ = absent(
    "cupyx.scipy.sparse.linalg",
    ("LinearOperator", "aslinearoperator", "factorized", "lobpcg", "spilu", "splu"),
    "scipy.sparse.linalg",
)
