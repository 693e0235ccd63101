"""``cupy.poly1d``: a polynomial whose coefficients lie on the device."""

from __future__ import annotations

import numpy as np

from ._creation import asarray, asnumpy
from ._operands import as_array, wrap


class poly1d:
    """A polynomial of one variable, highest degree first.

    Parameters
    ----------
    c_or_r : array
        Coefficients, or roots where ``r`` is true.
    variable : str, optional
    """

    __array_priority__ = 101

    def __init__(self, c_or_r, r=False, variable=None):
        host = c_or_r._host if isinstance(c_or_r, poly1d) else np.poly1d(
            asnumpy(c_or_r), r, variable)
        self._host = host

    coeffs = c = coef = coefficients = property(lambda self: asarray(self._host.coeffs))
    order = o = property(lambda self: self._host.order)
    variable = property(lambda self: self._host.variable)
    roots = r = property(lambda self: asarray(self._host.roots))

    def __call__(self, x):
        array = as_array(x)
        if isinstance(x, poly1d):
            return poly1d(self._host(x._host))
        return wrap(self._host(x if array is None else array._host), [])

    def __cupy_get_ndarray__(self):
        return self.coeffs

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()` "
                        "to construct a NumPy array explicitly.")

    def __repr__(self) -> str:
        return repr(self._host)

    def __str__(self) -> str:
        return str(self._host)

    def __len__(self) -> int:
        return len(self._host)

    def __getitem__(self, power: int):
        return wrap(np.asarray(self._host[power]), [])

    def __neg__(self):
        return poly1d(-self._host)

    def __add__(self, other):
        return poly1d(self._host + _on_host(other))

    def __sub__(self, other):
        return poly1d(self._host - _on_host(other))

    def __rsub__(self, other):
        return poly1d(_on_host(other) - self._host)

    def __mul__(self, other):
        return poly1d(self._host * _on_host(other))

    __radd__, __rmul__ = __add__, __mul__

    def __pow__(self, power: int):
        return poly1d(self._host**power)

    def __eq__(self, other) -> bool:
        return isinstance(other, poly1d) and bool(self._host == other._host)

    __hash__ = None  # type: ignore[assignment]

    def deriv(self, m=1):
        """The derivative, ``m`` times."""
        return poly1d(self._host.deriv(m))

    def integ(self, m=1, k=0):
        """The integral, ``m`` times, with constants ``k``."""
        return poly1d(self._host.integ(m, asnumpy(k)))

    def get(self) -> np.poly1d:
        """NumPy's polynomial with the same coefficients."""
        return np.poly1d(self._host)


def _on_host(other):
    if isinstance(other, poly1d):
        return other._host
    array = as_array(other)
    return other if array is None else array._host
