"""Old interface of ``cupy.random``: ``RandomState`` and functions that share one."""

from __future__ import annotations

import hashlib

import numpy as np

from .._arrays.core import ndarray, wrote
from .._arrays.operands import on_host
from ._shared import floating, method, on_device

_METHODS = {
    "beta": "a, b, size=None, dtype=float",
    "binomial": "n, p, size=None, dtype=int",
    "chisquare": "df, size=None, dtype=float",
    "dirichlet": "alpha, size=None, dtype=float",
    "exponential": "scale=1.0, size=None, dtype=float",
    "f": "dfnum, dfden, size=None, dtype=float",
    "gamma": "shape, scale=1.0, size=None, dtype=float",
    "geometric": "p, size=None, dtype='l'",
    "gumbel": "loc=0.0, scale=1.0, size=None, dtype=float",
    "hypergeometric": "ngood, nbad, nsample, size=None, dtype='l'",
    "laplace": "loc=0.0, scale=1.0, size=None, dtype=float",
    "logistic": "loc=0.0, scale=1.0, size=None, dtype=float",
    "lognormal": "mean=0.0, sigma=1.0, size=None, dtype=float",
    "logseries": "p, size=None, dtype='l'",
    "negative_binomial": "n, p, size=None, dtype=int",
    "noncentral_chisquare": "df, nonc, size=None, dtype=float",
    "noncentral_f": "dfnum, dfden, nonc, size=None, dtype=float",
    "normal": "loc=0.0, scale=1.0, size=None, dtype=float",
    "pareto": "a, size=None, dtype=float",
    "poisson": "lam=1.0, size=None, dtype='l'",
    "power": "a, size=None, dtype=float",
    "random_sample": "size=None, dtype=float",
    "rayleigh": "scale=1.0, size=None, dtype=float",
    "standard_cauchy": "size=None, dtype=float",
    "standard_exponential": "size=None, dtype=float",
    "standard_gamma": "shape, size=None, dtype=float",
    "standard_normal": "size=None, dtype=float",
    "standard_t": "df, size=None, dtype=float",
    "triangular": "left, mode, right, size=None, dtype=float",
    "uniform": "low=0.0, high=1.0, size=None, dtype=float",
    "vonmises": "mu, kappa, size=None, dtype=float",
    "wald": "mean, scale, size=None, dtype=float",
    "weibull": "a, size=None, dtype=float",
    "zipf": "a, size=None, dtype=int",
}


class RandomState:
    """Random number generator with a state: NumPy's Mersenne Twister.

    Parameters
    ----------
    seed : int or numpy.ndarray, optional
        A number from 0 to 2**64 − 1. As in CuPy, an array is hashed to one number.
    method : int, optional
        Ignored; in CuPy it selects cuRAND's generator.
    """

    def __init__(self, seed=None, method=None):
        self.seed(seed)

    def seed(self, seed=None) -> None:
        """Set the state from a new seed."""
        if isinstance(seed, np.ndarray):
            digest = hashlib.md5(np.ascontiguousarray(seed).tobytes(), usedforsecurity=False)
            seed = int(digest.hexdigest()[:16], 16)
        if seed is not None:
            given = np.asarray(seed)
            if given.dtype.kind not in "biu":
                raise TypeError("Seed must be an integer.")
            seed = int(given)
            if not 0 <= seed < 2**64:
                raise ValueError("Seed must be an integer between 0 and 2**64 - 1")
        self._numpy = np.random.RandomState(
            None if seed is None else np.random.MT19937(np.random.SeedSequence(seed))
        )

    def rand(self, *size, **kwarg):
        """Draw uniform numbers in [0, 1); the shape is the arguments, ``dtype`` a float type."""
        dtype = kwarg.pop("dtype", float)
        if kwarg:
            raise TypeError(f"rand() got unexpected keyword arguments {kwarg}")
        return self.random_sample(size=size, dtype=dtype)

    def randn(self, *size, **kwarg):
        """Draw standard normal numbers; the shape is the arguments.

        ``dtype`` is float32 or float64.
        """
        dtype = kwarg.pop("dtype", float)
        if kwarg:
            raise TypeError(f"randn() got unexpected keyword arguments {kwarg}")
        return self.normal(size=size, dtype=dtype)

    def randint(self, low, high=None, size=None, dtype=int):
        """Draw integers from ``low`` (or 0) to ``high`` (or ``low``), which is excluded."""
        host = self._numpy.randint(on_host(low), on_host(high), size, np.dtype(dtype))
        return on_device(host, dtype, "randint")

    def tomaxint(self, size=None):
        """Draw integers from 0 to ``sys.maxsize``."""
        return on_device(self._numpy.tomaxint(size), None, "tomaxint")

    def permutation(self, a):
        """Return a shuffled copy of an array, or of ``arange(a)``."""
        return on_device(self._numpy.permutation(on_host(a)), None, "permutation")

    def shuffle(self, a) -> None:
        """Shuffle an array along the first axis, in place."""
        if not isinstance(a, ndarray):
            raise TypeError("The array must be cupy.ndarray")
        a._host[...] = a._host[self._numpy.permutation(len(a._host))]
        wrote(a)

    def choice(self, a, size=None, replace=True, p=None):
        """Choose elements of ``a`` (or of ``arange(a)``), with probabilities ``p``."""
        host = self._numpy.choice(on_host(a), size, replace, on_host(p))
        return on_device(host, None, "choice")

    def multivariate_normal(
        self, mean, cov, size=None, check_valid="ignore", tol=1e-8, method="cholesky", dtype=float
    ):
        """Draw vectors from a multivariate normal distribution."""
        host = self._numpy.multivariate_normal(on_host(mean), on_host(cov), size, check_valid, tol)
        return on_device(host, floating(dtype), "multivariate_normal")


for _name, _parameters in _METHODS.items():
    setattr(RandomState, _name, method(_name, _parameters, "_numpy"))

_state: RandomState | None = None


def get_random_state() -> RandomState:
    """Return the state shared by the functions of this module."""
    global _state
    if _state is None:
        _state = RandomState()
    return _state


def set_random_state(rs: RandomState) -> None:
    """Make the functions of this module use ``rs``."""
    global _state
    if not isinstance(rs, RandomState):
        raise TypeError(f"Random state must be an instance of RandomState. Actual: {type(rs)}")
    _state = rs


def reset_states() -> None:
    """Discard the shared state; the next use creates one with a seed from the system."""
    global _state
    _state = None


def seed(seed=None) -> None:
    """Seed the shared state."""
    get_random_state().seed(seed)


def bytes(length: int):
    """Return random bytes on the host."""
    return np.random.default_rng().bytes(length)


def multinomial(n, pvals, size=None):
    """Draw the numbers of each outcome in ``n`` trials."""
    host = get_random_state()._numpy.multinomial(n, on_host(pvals), size)
    return on_device(host, None, "multinomial")


def random_integers(low, high=None, size=None):
    """Draw integers from ``low`` to ``high``, both included."""
    low, high = (1, low) if high is None else (low, high)
    return get_random_state().randint(low, high + 1, size)


def _shared(name: str):
    def function(*args, **kwargs):
        return getattr(get_random_state(), name)(*args, **kwargs)

    function.__name__ = name
    function.__doc__ = f"Call ``RandomState.{name}`` of the shared state."
    return function


FUNCTIONS = {
    name: _shared(name)
    for name in (
        *_METHODS,
        "rand",
        "randn",
        "randint",
        "permutation",
        "shuffle",
        "choice",
        "multivariate_normal",
    )
}
FUNCTIONS |= dict.fromkeys(("random", "ranf", "sample"), FUNCTIONS["random_sample"])
FUNCTIONS |= {"bytes": bytes, "multinomial": multinomial, "random_integers": random_integers}
