"""``cupyx.scipy.sparse``: sparse matrices on the device, computed with SciPy's routines."""

from __future__ import annotations

import importlib

import scipy.sparse as _scipy

from .._routines import absent
from ._matrix import (
    coo_matrix,
    csc_matrix,
    csr_matrix,
    dia_matrix,
    functions,
    isspmatrix,
    spmatrix,
)

issparse = isspmatrix
_FUNCTIONS = functions(
    """
bmat diags eye find hstack identity kron kronsum rand random spdiags tril triu vstack
""",
    _scipy,
    "cupyx.scipy.sparse",
)
globals().update(_FUNCTIONS)


def isspmatrix_coo(x) -> bool:
    return isinstance(x, coo_matrix)


def isspmatrix_csc(x) -> bool:
    return isinstance(x, csc_matrix)


def isspmatrix_csr(x) -> bool:
    return isinstance(x, csr_matrix)


def isspmatrix_dia(x) -> bool:
    return isinstance(x, dia_matrix)


__all__ = [
    "coo_matrix",
    "csc_matrix",
    "csr_matrix",
    "dia_matrix",
    "issparse",
    "isspmatrix",
    "isspmatrix_coo",
    "isspmatrix_csc",
    "isspmatrix_csr",
    "isspmatrix_dia",
    "spmatrix",
    *_FUNCTIONS,
]
_absent = absent(
    "cupyx.scipy.sparse", ("csgraph", "SparseWarning", "SparseEfficiencyWarning"), "scipy.sparse"
)


def __getattr__(name: str):
    if name == "linalg":
        return importlib.import_module(".linalg", __name__)
    return _absent(name)
