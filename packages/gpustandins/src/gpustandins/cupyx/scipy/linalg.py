"""``cupyx.scipy.linalg``: special matrices and decompositions, computed with SciPy's routines."""

from __future__ import annotations

import scipy.linalg

from ._routines import absent, functions

_NAMES = """
bandwidth block_diag circulant companion convolution_matrix dft expm fiedler fiedler_companion
hadamard hankel helmert hilbert invhilbert invpascal khatri_rao kron leslie lu lu_factor lu_solve
pascal rq sinm solve_triangular toeplitz tri tril triu
"""
_LACKING: list[str] = []

_FUNCTIONS = functions(_NAMES, scipy.linalg, "cupyx.scipy.linalg", first_on_device=False)
globals().update(_FUNCTIONS)
__all__ = list(_FUNCTIONS)
__getattr__ = absent("cupyx.scipy.linalg", _LACKING, "scipy.linalg")
