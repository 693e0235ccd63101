"""``cupy.random``: NumPy's generators in place of cuRAND's.

The distributions and their parameters are the same; the streams of numbers are not. The same
seed gives the same numbers here every time, and other numbers than on a GPU. Code that needs
certain numbers must bring them along.
"""

from __future__ import annotations

from ._generator import XORWOW, BitGenerator, Generator, MRG32k3a, Philox4x3210, default_rng
from ._legacy import FUNCTIONS, RandomState, get_random_state, reset_states, seed, set_random_state

globals().update(FUNCTIONS)
__all__ = [
    "BitGenerator",
    "Generator",
    "MRG32k3a",
    "Philox4x3210",
    "RandomState",
    "XORWOW",
    "default_rng",
    "get_random_state",
    "reset_states",
    "seed",
    "set_random_state",
    *FUNCTIONS,
]


def __getattr__(name: str):
    from .._missing import missing

    raise missing(__name__, name, f"cupy.array(numpy.random.{name}(...))")
