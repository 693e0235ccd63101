"""Functions that the device provides, called from native code: the interpreter's own.

Native code leaves the arguments of a warp's lanes in its context, and calls back
(:meth:`.core.Core`). So lines have the order of lanes, warps and blocks, and none is lost that the
interpreter would print.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import numpy as np

from virtualgpu.lanes.group import Group
from virtualgpu.lanes.intrinsics import INTRINSICS
from virtualgpu.lanes.special import SPECIAL
from virtualgpu.native.context import LANES, VALUES

# And registers that tell the time of day.
NAMES = ("vprintf", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")

FUNCTIONS: dict[str, Any] = {name: (INTRINSICS | SPECIAL)[name] for name in NAMES}


@cache
def takes(name: str) -> int:
    """Return the number of arguments."""
    return len(inspect.signature(FUNCTIONS[name]).parameters) - 1  # the group comes first


def serve(number: int, group: Group, context: np.ndarray) -> None:
    """Call a function of the device for the lanes of a group; ``context`` has their arguments."""
    name = NAMES[number]
    lanes = group.lanes % LANES
    values = context[VALUES:].view(np.uint64)[: LANES * max(takes(name), 1)]
    values = values.reshape(-1, LANES)
    result = FUNCTIONS[name](group, *(row[lanes] for row in values[: takes(name)]))
    if result is not None:
        values[0, lanes] = result
