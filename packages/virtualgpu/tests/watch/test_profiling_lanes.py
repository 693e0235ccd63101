"""A lane without others counts as the loops over warps count it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from virtualgpu.compilers.llvm import pointer
from virtualgpu.lanes.events import Access
from virtualgpu.watch import memory_traffic
from virtualgpu.watch.profiling import Profile, Profiler


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize(
    ("space", "kind"),
    [("global", "load"), ("global", "atomic"), ("shared", "store"), ("shared", "atomic")],
)
def test_a_lane_alone(space, kind, size):
    wave = SimpleNamespace(warp_of=np.zeros(32, np.int64), thread_of=np.arange(32))
    lanes, addresses = np.array([5]), np.array([7 * size], np.uint64)
    access = Access(kind, space, SimpleNamespace(wave=wave), None, lanes, addresses, size)
    start = (*map(pointer, (addresses, lanes, wave.warp_of)),)
    result, room = np.zeros(4, np.int64), np.zeros((2, 64), np.uint64)
    seen, more = map(pointer, room)
    if kind == "atomic":
        memory_traffic.contention(*start, 1, seen, more, pointer(result))
    elif space == "global":
        memory_traffic.sectors(*start, 1, size, seen, more, pointer(result))
    else:
        share = 32 if size <= 4 else 128 // size
        memory_traffic.banks(
            *start, pointer(wave.thread_of), 1, size, share, seen, more, pointer(result)
        )
    assert Profiler(Profile())._turns(access, addresses, lanes, None) == tuple(result[:3])
