"""Calls from native code to functions that the device provides, such as ``vprintf``.

Native code stores the arguments of a warp's lanes in its context and calls back
(:meth:`.core.Core`). The interpreter's own function then runs. So the lines that a kernel prints
have the order of lanes, warps and blocks, and none is lost that the interpreter would print.
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

# %globaltimer is a register, but it is read by a call too.
NAMES = ("vprintf", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")

FUNCTIONS: dict[str, Any] = {name: (INTRINSICS | SPECIAL)[name] for name in NAMES}


@cache
def takes(name: str) -> int:
    """Return the number of arguments."""
    return len(inspect.signature(FUNCTIONS[name]).parameters) - 1  # the group comes first


def serve(number: int, group: Group, context: np.ndarray) -> None:
    """Call a device function for the lanes of a group; ``context`` holds their arguments."""
    name = NAMES[number]
    lanes = group.lanes % LANES
    values = context[VALUES:].view(np.uint64)[: LANES * max(takes(name), 1)]
    values = values.reshape(-1, LANES)
    result = FUNCTIONS[name](group, *(row[lanes] for row in values[: takes(name)]))
    if result is not None:
        values[0, lanes] = result
