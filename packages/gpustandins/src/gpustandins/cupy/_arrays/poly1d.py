"""``cupy.poly1d``: a polynomial with coefficients on the device."""

from __future__ import annotations

import numpy as np

from .. import _launches
from .creation import asarray, asnumpy
from .operands import on_host, wrap


class poly1d:
    """Polynomial of one variable; the coefficient of the highest degree comes first.

    Parameters
    ----------
    c_or_r : array
        Coefficients, or roots if ``r`` is true.
    variable : str, optional
    """

    def __init__(self, c_or_r, r=False, variable=None):
        given = c_or_r._host if isinstance(c_or_r, poly1d) else c_or_r
        self._host = np.poly1d(
            given if isinstance(given, np.poly1d) else asnumpy(given), r, variable
        )

    coeffs = c = coef = coefficients = property(lambda self: asarray(self._host.coeffs))
    order = o = property(lambda self: self._host.order)
    variable = property(lambda self: self._host.variable)
    roots = r = property(lambda self: asarray(self._host.roots))

    def __call__(self, x):
        return _on_device(self._host(_on_host(x)))

    def __cupy_get_ndarray__(self):
        return self.coeffs

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` "
            "to construct a NumPy array explicitly."
        )

    def __repr__(self) -> str:
        return repr(self._host)

    def __str__(self) -> str:
        return str(self._host)

    def __len__(self) -> int:
        return len(self._host)

    def __getitem__(self, power: int):
        return wrap(np.asarray(self._host[power]), [])

    def __setitem__(self, power: int, value) -> None:
        self._host[power] = _on_host(value)

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

    def deriv(self, m=1, k=0):
        """Raise NotImplementedError, because CuPy has no derivatives or integrals."""
        raise NotImplementedError(
            "cupy.poly1d has neither deriv nor integ; use those of polynomial.get()"
        )

    integ = deriv

    def set(self, polyin: np.poly1d) -> None:
        """Copy the coefficients and the variable of a NumPy polynomial."""
        if not isinstance(polyin, np.poly1d):
            raise TypeError("Only numpy.poly1d can be set to cupy.poly1d")
        self._host = np.poly1d(polyin)

    def get(self) -> np.poly1d:
        """Return a NumPy polynomial with the same coefficients."""
        return np.poly1d(self._host)


def _on_host(other):
    return other._host if isinstance(other, poly1d) else on_host(other)


def _on_device(made):
    return poly1d(made) if isinstance(made, np.poly1d) else wrap(made, [])


def _routine(name: str):
    """Return ``cupy.NAME``, whose result is a polynomial if an argument is one."""

    def function(a1, a2):
        result = getattr(np, name)(_on_host(a1), _on_host(a2))
        _launches.record(f"cupy.{name}", "routine", size=np.size(result), exact=False)
        return _on_device(result)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Do the same as ``numpy.{name}``; a polynomial gives a polynomial."
    return function


FUNCTIONS = {name: _routine(name) for name in ("polyadd", "polysub", "polymul", "polyval")}
