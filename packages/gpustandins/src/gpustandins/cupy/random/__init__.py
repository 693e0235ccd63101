"""``cupy.random``: NumPy's generators instead of cuRAND's.

The distributions and their parameters are the same, but the numbers are not. A seed always gives
the same numbers here, but other numbers than on a GPU. Code that needs particular numbers must
store them.
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
