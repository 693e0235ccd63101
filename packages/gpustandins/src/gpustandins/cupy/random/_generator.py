"""New interface of ``cupy.random``: ``default_rng`` and ``Generator``."""

from __future__ import annotations

import numpy as np

from .._arrays.creation import asnumpy
from .._arrays.operands import on_host
from ._shared import method, on_device


class BitGenerator:
    """Seeded source of random bits: NumPy's PCG64 under the names of cuRAND's generators."""

    def __init__(self, seed=None, *, size=-1):
        entropy = None if seed is None else np.asarray(asnumpy(seed)).astype(np.uint64)
        self._bits = np.random.PCG64(None if entropy is None else entropy.reshape(-1))

    def random_raw(self, size=None, output=True):
        """Draw random 64-bit integers."""
        raw = self._bits.random_raw(size, output)
        return on_device(raw, None, "random_raw") if output else None


class XORWOW(BitGenerator):
    """PCG64 under the name of cuRAND's default generator."""


class MRG32k3a(BitGenerator):
    """PCG64 under the name of a cuRAND generator."""


class Philox4x3210(BitGenerator):
    """PCG64 under the name of a cuRAND generator."""


class Generator:
    """Random numbers from a bit generator.

    Parameters
    ----------
    bit_generator : BitGenerator
    """

    def __init__(self, bit_generator: BitGenerator):
        self.bit_generator = bit_generator
        self._numpy = np.random.Generator(bit_generator._bits)

    def integers(self, low, high=None, size=None, dtype=np.int64, endpoint=False):
        """Draw integers from ``low`` to ``high``, which is excluded unless ``endpoint`` is True."""
        host = self._numpy.integers(on_host(low), on_host(high), size, dtype, endpoint)
        return on_device(host, dtype, "integers")


_METHODS = {
    "random": "size=None, dtype=float, out=None",
    "uniform": "low=0.0, high=1.0, size=None, dtype=float",
    "standard_normal": "size=None, dtype=float, out=None",
    "standard_exponential": "size=None, dtype=float, method='inv', out=None",
    "standard_gamma": "shape, size=None, dtype=float, out=None",
    "beta": "a, b, size=None, dtype=float",
    "binomial": "n, p, size=None",
    "chisquare": "df, size=None",
    "dirichlet": "alpha, size=None",
    "exponential": "scale=1.0, size=None",
    "f": "dfnum, dfden, size=None",
    "gamma": "shape, scale=1.0, size=None",
    "geometric": "p, size=None",
    "hypergeometric": "ngood, nbad, nsample, size=None",
    "logseries": "p, size=None",
    "poisson": "lam=1.0, size=None",
    "power": "a, size=None",
}
for _name, _parameters in _METHODS.items():
    setattr(Generator, _name, method(_name, _parameters, "_numpy"))


def default_rng(seed=None) -> Generator:
    """Return a :class:`Generator`.

    ``seed`` is an integer, a :class:`BitGenerator` or a Generator.
    """
    if isinstance(seed, Generator):
        return seed
    return Generator(seed if isinstance(seed, BitGenerator) else XORWOW(seed))
