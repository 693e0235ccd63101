"""Functions that the device provides, called from native code: the interpreter's own.

Native code leaves the arguments of a warp's lanes in its context, and calls back
(:meth:`.core.Core`). So lines have the order of lanes, warps and blocks, and none is lost that the
interpreter would print.
"""

from __future__ import annotations

import ctypes
import inspect
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from virtualgpu.lanes.intrinsics import INTRINSICS
from virtualgpu.lanes.special import SPECIAL
from virtualgpu.lanes.wave import Wave
from virtualgpu.native.context import LANES, VALUES

Core: TypeAlias = Any  # native.core's, whose module is made of this one

# And registers that tell the time of day.
NAMES = ("vprintf", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")

FUNCTIONS: dict[str, Any] = {name: (INTRINSICS | SPECIAL)[name] for name in NAMES}


@cache
def takes(name: str) -> int:
    """Return the number of arguments."""
    return len(inspect.signature(FUNCTIONS[name]).parameters) - 1  # the group comes first


def serve(core: Core, number: int) -> None:
    """Perform the operations that the lanes at a call request."""
    name = NAMES[number]
    wave, group = core.stand()
    _lend_local(core, wave)
    lanes = group.lanes % LANES
    values = core.context[VALUES:].view(np.uint64)[: LANES * max(takes(name), 1)]
    values = values.reshape(-1, LANES)
    result = FUNCTIONS[name](group, *(row[lanes] for row in values[: takes(name)]))
    if result is not None:
        values[0, lanes] = result


def _lend_local(core: Core, wave: Wave) -> None:
    """Let the wave have the block's local memory, as it lies in native code."""
    stride = core.common.fields["local_stride"]
    if stride:
        nbytes = wave.lanes * stride
        memory = (ctypes.c_uint8 * nbytes).from_address(core.word("local"))
        wave.local, wave.local_stride = np.ctypeslib.as_array(memory), stride
        wave.frame_bytes = stride
