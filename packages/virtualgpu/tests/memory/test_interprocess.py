"""Memory of one process that another opens: CUDA IPC, for two interpreters."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

from fresh_python import in_fresh_python
from virtualgpu.errors import VirtualGPUError
from virtualgpu.memory import interprocess
from virtualgpu.memory.global_memory import GlobalMemory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has files in memory")

OPEN = """
import numpy as np
from virtualgpu.errors import VirtualGPUError
from virtualgpu.memory import interprocess
from virtualgpu.memory.global_memory import GlobalMemory

memory = GlobalMemory(1 << 26)
[memory.allocate(n) for n in (100, 5000, 70)]
handle = bytes.fromhex({handle!r})
"""


@pytest.fixture
def memory() -> GlobalMemory:
    return GlobalMemory(1 << 26)


@pytest.mark.parametrize("nbytes", [4, 4096, 10_000])
def test_two_processes_share_an_array(memory, nbytes):
    """A view made before stays valid; the guards on either side are nobody's in the other too."""
    memory.allocate(700)
    address = memory.allocate(nbytes)
    view = memory.host_view(address, nbytes)
    view[:] = np.arange(nbytes) % 251
    handle = interprocess.handle(memory, address)
    assert len(handle) == 64 and handle == interprocess.handle(memory, address)
    seen, first, last, outside, left = in_fresh_python(
        OPEN.format(handle=handle.hex())
        + """
address = interprocess.open_handle(memory, handle)
assert interprocess.open_handle(memory, handle) == address
start, end = memory.extent(address)
seen = memory.read(address, end - start).tolist()
memory.fill(address, 255, 1)
memory.fill(end - 1, 254, 1)
outside = memory.bad_lanes(np.array([start - 1, end], np.uint64), 1).tolist()
for _ in range(2):
    interprocess.close_handle(memory, address)
result = [seen, start, end, outside, memory.allocated]
"""
    )
    assert seen == (np.arange(nbytes) % 251).tolist()
    assert last - first == nbytes and outside == [True, True] and left == 5170
    assert view[0] == 255 and view[-1] == 254
    memory.fill(address, 1, nbytes)
    assert view[0] == 1


def test_what_is_freed_is_no_longer_shared(memory):
    address = memory.allocate(64)
    memory.fill(address, 7, 64)
    handle = interprocess.handle(memory, address)
    files = len(os.listdir("/proc/self/fd"))
    memory.free(address)
    assert len(os.listdir("/proc/self/fd")) == files - 1
    assert (
        in_fresh_python(
            OPEN.format(handle=handle.hex())
            + """
try:
    interprocess.open_handle(memory, handle)
except VirtualGPUError as error:
    result = str(error)
"""
        )
        == f"process {os.getpid()} has ended, or has freed the array of 64 bytes that it shared"
    )


def test_handles_that_cannot_be(memory):
    address = memory.allocate(64)
    with pytest.raises(VirtualGPUError, match="no live allocation starts there"):
        interprocess.handle(memory, address + 4)
    with pytest.raises(VirtualGPUError, match="the handle is from this process"):
        interprocess.open_handle(memory, interprocess.handle(memory, address))
    with pytest.raises(VirtualGPUError, match="not a handle from cuIpcGetMemHandle"):
        interprocess.open_handle(memory, bytes(64))
    with pytest.raises(VirtualGPUError, match="no handle of another process's memory was opened"):
        interprocess.close_handle(memory, address)
