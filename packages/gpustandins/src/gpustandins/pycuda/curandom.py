"""Random numbers from NumPy's generator instead of cuRAND's.

The distributions are the same, but a seed gives other numbers than on a GPU.
"""

from __future__ import annotations

import numpy as np

from ._missing import lookup
from .gpuarray import GPUArray, to_gpu

__all__ = [
    "MRG32k3aRandomNumberGenerator",
    "XORWOWRandomNumberGenerator",
    "rand",
    "seed_getter_uniform",
    "seed_getter_unique",
]

_default = np.random.default_rng()


def rand(shape, dtype=np.float32, stream=None) -> GPUArray:
    """Return uniform random numbers: floats in [0, 1), integers from all values of the type."""
    result = GPUArray(shape, dtype)
    return result._write(_uniform(_default, result.shape, result.dtype))


def seed_getter_uniform(count: int) -> GPUArray:
    """Return an array that contains the same random seed ``count`` times."""
    return to_gpu(np.full(count, _default.integers(0, 2**31 - 1), np.int32))


def seed_getter_unique(count: int) -> GPUArray:
    """Return ``count`` random seeds."""
    return to_gpu(_default.integers(0, 2**31 - 1, count, np.int32))


class _Generator:
    """Random number generator.

    ``seed_getter`` takes a count and returns that many seeds on the device; ``offset`` is the
    start of the sequence.
    """

    def __init__(self, seed_getter=None, offset: int = 0):
        seeds = (seed_getter or seed_getter_uniform)(256)
        self._numbers = np.random.default_rng([*np.abs(seeds.get()).tolist(), offset])

    def fill_uniform(self, data: GPUArray, stream=None) -> GPUArray:
        """Fill with uniform numbers: floats in (0, 1], integers from all values of the type."""
        return data._write(_uniform(self._numbers, data.shape, data.dtype, from_zero=False))

    def gen_uniform(self, shape, dtype, stream=None) -> GPUArray:
        """Return a new array of uniform numbers."""
        return self.fill_uniform(GPUArray(shape, dtype))

    def fill_normal(self, data: GPUArray, stream=None) -> GPUArray:
        """Fill an array with normal numbers of mean 0 and standard deviation 1.

        Raises NotImplementedError for integers.
        """
        if data.dtype.kind != "f":
            raise NotImplementedError(f"normal numbers of type {data.dtype} are not supported")
        return data._write(self._numbers.standard_normal(data.shape))

    def gen_normal(self, shape, dtype, stream=None) -> GPUArray:
        """Return a new array of normal numbers."""
        return self.fill_normal(GPUArray(shape, dtype))

    def gen_log_normal(self, shape, dtype, log_mean, log_stddev, stream=None) -> GPUArray:
        """Return a new array of log-normal numbers."""
        return GPUArray(shape, dtype)._write(self._numbers.lognormal(log_mean, log_stddev, shape))

    def gen_poisson(self, shape, dtype, lambda_value, stream=None) -> GPUArray:
        """Return a new array of Poisson-distributed counts."""
        return GPUArray(shape, dtype)._write(self._numbers.poisson(lambda_value, shape))


class XORWOWRandomNumberGenerator(_Generator):
    """NumPy's generator under the name of cuRAND's XORWOW."""


class MRG32k3aRandomNumberGenerator(_Generator):
    """NumPy's generator under the name of cuRAND's MRG32k3a."""


#: Names that the stand-in lacks, with alternatives.
MISSING = {"get_curand_version": "pycuda.VERSION, as NumPy draws the numbers"} | dict.fromkeys(
    (
        "ScrambledSobol32RandomNumberGenerator",
        "ScrambledSobol64RandomNumberGenerator",
        "Sobol32RandomNumberGenerator",
        "Sobol64RandomNumberGenerator",
    ),
    "quasi-random numbers of scipy.stats.qmc, and pycuda.gpuarray.to_gpu",
)
__getattr__ = lookup("pycuda.curandom", MISSING)


def _uniform(numbers: np.random.Generator, shape, dtype, from_zero: bool = True) -> np.ndarray:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return numbers.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return numbers.random(shape, part) + 1j * numbers.random(shape, part)
    drawn = numbers.random(shape, dtype)
    return drawn if from_zero else dtype.type(1) - drawn
