"""Sparse matrices of device arrays, computed with SciPy's matrix classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from cupy._arrays.core import from_host, ndarray
from cupy._arrays.operands import as_array, wrap

# Arrays of a matrix, by its format.
_PARTS = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
    "dia": ("data", "offsets"),
}
_METHODS = frozenset(
    """
arcsin arcsinh arctan arctanh argmax argmin asformat asfptype astype ceil conj conjugate copy
count_nonzero deg2rad diagonal dot eliminate_zeros expm1 floor getcol getformat getH getmaxprint
getnnz getrow log1p max maximum mean min minimum multiply power rad2deg reshape rint setdiag sign
sin sinh sort_indices sorted_indices sqrt sum sum_duplicates tan tanh toarray tobsr tocoo tocsc
tocsr todense todia transpose trunc has_canonical_format has_sorted_indices
""".split()
)
_KINDS = "?fdFD"


class spmatrix:
    """Base class of the sparse matrices; ``get()`` returns a SciPy matrix on the host."""

    format = ""
    __array_priority__ = 101.0
    __array_ufunc__ = None

    def __init__(self, arg1, shape=None, dtype=None, copy=False):
        if not self.format:
            raise ValueError("This class is not intended to be instantiated directly.")
        if isinstance(arg1, np.ndarray | list):
            raise TypeError(f"Unsupported type {type(arg1)}: copy it with cupy.asarray")
        made = getattr(sp, f"{self.format}_matrix")(to_host(arg1), shape=shape, dtype=dtype)
        if dtype is None and isinstance(arg1, tuple) and all(isinstance(n, int) for n in arg1):
            made = made.astype(np.float64)
        self._take(made)

    def _take(self, made: Any) -> None:
        if made.dtype.char not in _KINDS:
            raise ValueError("Only bool, float32, float64, complex64 and complex128 are supported")
        # The arrays lie on the device, and the SciPy matrix consists of views of them.
        self._arrays = {
            name: from_host(np.ascontiguousarray(getattr(made, name)))
            for name in _PARTS[self.format]
        }
        self._shape = made.shape

    @property
    def _host(self) -> Any:
        parts = {name: array._host for name, array in self._arrays.items()}
        data = parts.pop("data")
        rest = tuple(parts.values())
        given = (data, rest) if self.format == "coo" else (data, *rest)
        return getattr(sp, f"{self.format}_matrix")(given, shape=self._shape, copy=False)

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    @property
    def dtype(self) -> np.dtype:
        return self._arrays["data"].dtype

    @property
    def nnz(self) -> int:
        return int(self._host.nnz)

    @property
    def size(self) -> int:
        return self.nnz

    ndim = 2

    @property
    def T(self) -> Any:
        return self.transpose()

    @property
    def H(self) -> Any:
        return self.conj().transpose()

    @property
    def A(self) -> ndarray:
        return self.toarray()

    def get(self, stream=None) -> Any:
        """Return a copy as a SciPy matrix on the host."""
        return self._host.copy()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._arrays:
            return self._arrays[name]
        if name not in _METHODS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        matrix = self._host
        theirs = getattr(matrix, name)
        if not callable(theirs):
            return theirs

        def method(*args, **kwargs):
            result = theirs(
                *map(to_host, args), **{key: to_host(one) for key, one in kwargs.items()}
            )
            if result is None:  # worked in place
                self._take(matrix)
                return None
            return to_device(result)

        return method

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _PARTS.get(self.format, ()):
            self._arrays[name] = value
        else:
            object.__setattr__(self, name, value)

    def __getitem__(self, key):
        return to_device(self._host[to_host(key)])

    def __setitem__(self, key, value):
        matrix = self._host
        matrix[to_host(key)] = to_host(value)
        self._take(matrix)

    def __bool__(self):
        if self.shape == (1, 1):
            return self.nnz != 0
        raise ValueError(
            "The truth value of an array with more than one element is ambiguous. "
            "Use a.any() or a.all()."
        )

    def __len__(self):
        raise TypeError("sparse matrix length is ambiguous; use getnnz() or shape[0]")

    def __str__(self) -> str:
        return str(self._host)


def _operator(name: str) -> Callable:
    def operate(self, *others):
        found = getattr(self._host, name)(*map(to_host, others))
        return found if found is NotImplemented else to_device(found)

    operate.__name__ = name
    return operate


for _name in (
    "add radd sub rsub mul rmul matmul rmatmul truediv neg abs pow eq ne lt le gt ge"
).split():
    setattr(spmatrix, f"__{_name}__", _operator(f"__{_name}__"))
spmatrix.__hash__ = object.__hash__  # type: ignore[method-assign]


class csr_matrix(spmatrix):
    """Matrix in compressed sparse row format: ``data``, ``indices`` and ``indptr``."""

    format = "csr"


class csc_matrix(spmatrix):
    """Matrix in compressed sparse column format: ``data``, ``indices`` and ``indptr``."""

    format = "csc"


class coo_matrix(spmatrix):
    """Matrix in coordinate format: ``data``, ``row`` and ``col``."""

    format = "coo"

    def sum_duplicates(self) -> None:
        """Add elements with equal coordinates and sort them by columns, as CuPy does."""
        matrix = self._host
        matrix.sum_duplicates()
        order = np.lexsort((matrix.row, matrix.col))
        parts = (matrix.data[order], (matrix.row[order], matrix.col[order]))
        self._take(sp.coo_matrix(parts, shape=matrix.shape))


class dia_matrix(spmatrix):
    """Matrix in diagonal format: ``data`` and ``offsets``."""

    format = "dia"


_CLASSES = {one.format: one for one in (csr_matrix, csc_matrix, coo_matrix, dia_matrix)}


def isspmatrix(x) -> bool:
    """Return True if ``x`` is one of this module's matrices."""
    return isinstance(x, spmatrix)


def to_host(value: Any) -> Any:
    """Return a SciPy matrix or a host view, also inside lists and tuples."""
    if isinstance(value, spmatrix):
        return value._host
    array = as_array(value)
    if array is not None:
        return array._host
    if type(value) in (list, tuple):
        return type(value)(map(to_host, value))
    return value


def to_device(result: Any) -> Any:
    """Convert a SciPy result to this module's matrices, or to device arrays."""
    if sp.issparse(result):
        made = object.__new__(_CLASSES.get(result.format, csr_matrix))
        made._take(result if result.format in _CLASSES else result.tocsr())
        return made
    if isinstance(result, np.ndarray):
        return from_host(np.array(result))
    if isinstance(result, tuple):
        return tuple(map(to_device, result))
    return wrap(result, [])


def functions(names: str, module: Any, where: str) -> dict[str, Callable]:
    """Return SciPy's functions ``names`` for device matrices and arrays, by name."""

    def made(name: str) -> Callable:
        theirs = getattr(module, name)

        def function(*args, **kwargs):
            return to_device(
                theirs(*map(to_host, args), **{key: to_host(one) for key, one in kwargs.items()})
            )

        function.__name__ = function.__qualname__ = name
        function.__module__ = where
        function.__doc__ = f"Call ``{module.__name__}.{name}`` on device arrays."
        return function

    return {name: made(name) for name in names.split() if hasattr(module, name)}
