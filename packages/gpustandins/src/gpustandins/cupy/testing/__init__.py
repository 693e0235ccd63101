"""``cupy.testing``: comparisons of device and host arrays.

They are in ``_assertions``. The decorators that compare a function's results in NumPy and CuPy are
in ``_against_numpy``.
"""

from __future__ import annotations

from . import _against_numpy, _assertions
from ._against_numpy import *  # noqa: F403
from ._assertions import *  # noqa: F403

__all__ = [*_assertions.__all__, *_against_numpy.__all__]


def __getattr__(name: str):
    from .._missing import missing

    raise missing(__name__, name, "pytest and cupy.testing.assert_allclose")
