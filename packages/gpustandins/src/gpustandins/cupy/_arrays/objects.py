"""Small objects of NumPy's namespace: grids, concatenators, flat iterators, ``vectorize``."""

from __future__ import annotations

import numpy as np

from .. import _launches
from .core import from_host, ndarray, view_of, wrote
from .creation import asnumpy
from .operands import on_host, operand, wrap


class vectorize:
    """Vectorised Python function of single elements.

    Real CuPy translates the function to CUDA and supports only a part of Python. Here Python
    itself calls it for each element. The result is right, but slow, and it does not prove that
    CuPy can translate the function. The dtype of the result is the common type of all computed
    elements; a branch that no element takes does not affect it.
    """

    def __init__(self, pyfunc, otypes=None, doc=None, excluded=None, cache=False, signature=None):
        if doc is not None or excluded is not None or cache or signature is not None:
            raise NotImplementedError("cupy.vectorize accepts only pyfunc and otypes")
        self.pyfunc, self.otypes = pyfunc, otypes
        self.__doc__ = pyfunc.__doc__

    def __call__(self, *args):
        given = np.broadcast_arrays(*map(operand, args))
        with np.errstate(all="ignore"):  # a device scalar may be divided by zero
            # NumPy scalars keep their type, as a kernel's scalars do.
            found = [
                asnumpy(self.pyfunc(*one))
                for one in zip(*(array.flat for array in given), strict=True)
            ]
            if not found:  # an empty array: call it with ones to find the type
                found = [asnumpy(self.pyfunc(*(array.dtype.type(1) for array in given)))]
        kind = self.otypes or np.result_type(*found)
        host = np.array(found[: given[0].size], kind).reshape(given[0].shape)
        made = from_host(host)
        _launches.record(f"vectorized_{self.pyfunc.__name__}", size=made.size)
        return made


class flatiter:
    """Iterator ``a.flat`` over the elements in C order, for reading and assignment."""

    def __init__(self, a: ndarray):
        self._array = a
        self._read = 0

    @property
    def base(self) -> ndarray:
        return self._array

    def __len__(self) -> int:
        return self._array.size

    def __iter__(self):
        return self

    def __next__(self):
        if self._read == len(self):
            raise StopIteration
        self._read += 1
        return self[self._read - 1]

    def __getitem__(self, index):
        return from_host(np.asarray(self._array._host.flat[_plain(index)]))

    def __setitem__(self, index, value) -> None:
        self._array._host.flat[_plain(index)] = operand(value)
        wrote(self._array)

    def copy(self) -> ndarray:
        return self._array.flatten()


class broadcast:
    """Arrays broadcast to one shape, with ``shape``, ``nd``, ``size`` and ``values``."""

    def __init__(self, *arrays):
        hosts = [operand(one) for one in arrays]
        self.shape = np.broadcast_shapes(*(np.shape(one) for one in hosts))
        self.nd = self.ndim = len(self.shape)
        self.size = int(np.prod(self.shape))
        self.values = [
            view_of(one, np.broadcast_to(one._host, self.shape))
            if isinstance(one, ndarray)
            else one
            for one in arrays
        ]


def _plain(index):
    """Return an integer, slice or ellipsis unchanged. Raises IndexError for anything else."""
    if isinstance(index, bool) or not (
        index is Ellipsis or isinstance(index, slice) or np.isscalar(index)
    ):
        raise IndexError("unsupported iterator index")
    return index


class _Grid:
    """Object behind ``mgrid`` and ``ogrid``."""

    def __init__(self, host):
        self._host_grid = host

    def __getitem__(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        hosts = tuple(
            slice(*(on_host(part) for part in (one.start, one.stop, one.step)))
            if isinstance(one, slice)
            else on_host(one)
            for one in keys
        )
        return wrap(self._host_grid[hosts if isinstance(key, tuple) else hosts[0]], [])


class _Concatenator:
    """Object behind ``r_`` and ``c_``."""

    def __init__(self, host):
        self._host_object = host

    def __getitem__(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        if any(isinstance(getattr(one, "step", one), str | complex) for one in keys):
            raise NotImplementedError("CuPy accepts neither strings nor complex steps in r_ and c_")
        return wrap(self._host_object[tuple(on_host(one) for one in keys)], [])


mgrid, ogrid = _Grid(np.mgrid), _Grid(np.ogrid)
r_, c_ = _Concatenator(np.r_), _Concatenator(np.c_)

__all__ = ["broadcast", "c_", "flatiter", "mgrid", "ogrid", "r_", "vectorize"]
