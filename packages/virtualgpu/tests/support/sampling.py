"""The part of a sweep that ``make test`` runs; ``make rehearse`` runs the rest."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping

import pytest


def each(step: int, *axes: Collection) -> list:
    """Return all combinations of the axes' values; `make test` runs each ``step``-th of them.

    The step has no divisor in common with an axis' length, so each value of each axis is tried. Of
    a mapping the values are taken, and the keys are part of the test's name.
    """
    assert all(math.gcd(step, len(axis)) == 1 for axis in axes if len(axes) > 1), (step, axes)
    named = (
        axis.items() if isinstance(axis, Mapping) else [(str(value), value) for value in axis]
        for axis in axes
    )
    return [
        pytest.param(
            *(value for _, value in chosen),
            id="-".join(name for name, _ in chosen),
            marks=[pytest.mark.rehearsal] * (number % step != 0),
        )
        for number, chosen in enumerate(itertools.product(*named))
    ]
