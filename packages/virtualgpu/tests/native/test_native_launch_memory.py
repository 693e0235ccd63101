"""Memory that a launch allocates for its kernel: the counter of ``grid.sync()``, the parameters."""

from __future__ import annotations

import numpy as np
import pytest

from native_lab import after, agree, checked, counted
from ptx_lab import entry
from virtualgpu import native
from virtualgpu.compilers.nvrtc import compile_to_ptx
from virtualgpu.devices import VirtualDevice
from virtualgpu.launch.limits import Budget
from virtualgpu.native import run
from virtualgpu.native.compiled import NativeKernel

ROTATE = r"""
    #include <cooperative_groups.h>
    extern "C" __global__ void k(int *data)
    {
        auto grid = cooperative_groups::this_grid();
        int i = grid.thread_rank(), n = grid.size();
        for (int r = 0; r < 3; r++) {
            int next = data[(i + 1) % n];
            grid.sync();
            data[i] = next + grid.num_blocks();
            grid.sync();
        }
    }"""
# By name, by a generic address, at an index that lanes have for themselves.
PARAMETERS = """
    mov.u64 %rd4, p1; cvta.param.u64 %rd4, %rd4; ld.u64 %rd5, [%rd4+8];
    mov.u64 %rd6, p2; ld.param.u64 %rd7, [%rd6]; and.b32 %r1, %tid, 3; shl.b32 %r1, %r1, 2;
    cvt.u64.u32 %rd8, %r1; mov.u64 %rd9, p1; add.u64 %rd9, %rd9, %rd8; ld.param.u32 %r2, [%rd9];
    sub.u64 %rd5, %rd5, %rd7; cvt.u32.u64 %r3, %rd5; add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %tid;
    mul.wide.u32 %rd3, %gid, 4; add.u64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], %r2;"""


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(run, "STRICT", True)


@pytest.fixture(scope="module")
def rotate() -> str:
    return compile_to_ptx(ROTATE)[0]


@pytest.mark.parametrize(("grid", "block"), [(6, 40), (1, 70), (9, 64)])
def test_grid_sync_of_cooperative_groups(rotate, grid, block):
    count = grid * block
    data = np.arange(count, dtype=np.uint32)
    (raw,), error, code = after(
        rotate, native.natively, [data], grid=grid, block=block, cooperative=True
    )
    assert isinstance(code, NativeKernel), code
    assert error is None
    assert (raw.view(np.uint32) == (np.arange(count) + 3) % count + 3 * grid).all()
    agree(rotate, data, grid=grid, block=block, cooperative=True)


def test_grid_sync_needs_a_cooperative_launch(rotate):
    agree(rotate, np.arange(128, dtype=np.uint32))


def test_the_next_launch_has_a_counter_of_its_own(rotate, monkeypatch):
    """The first has freed what it was given."""
    monkeypatch.setenv("VIRTUALGPU_NATIVE", "always")
    device = VirtualDevice(1 << 26, Budget(seconds=20.0))
    module, place = device.load(rotate), device.allocate(4 * 240)
    device.write(place, np.arange(240, dtype=np.uint32))
    live = len(device.memory.starts)
    for launched in range(1, 4):
        device.launch(
            module, "k", (6, 1, 1), (40, 1, 1), [place.to_bytes(8, "little")], cooperative=True
        )
        data = device.read(place, 4 * 240).view(np.uint32)
        assert (data == (np.arange(240) + 3 * launched) % 240 + 18 * launched).all()
        assert len(device.memory.starts) == live
    assert isinstance(module.program("k", False).native, NativeKernel)


def test_parameters_by_their_address():
    text = entry(PARAMETERS, 2)
    agree(text, np.zeros(128, np.uint32), np.zeros(4, np.uint32), grid=2)


@pytest.mark.parametrize("offset", [12, 16, -4])
def test_beyond_the_parameters(offset):
    """In the same words."""
    text = entry(
        f"mov.u64 %rd4, p1; ld.param.u32 %r2, [%rd4+{offset}]; st.global.u32 [%rd1], %r2;", 2
    )
    there = after(text, None, [np.zeros(4, np.uint32)] * 2)
    here = after(text, native.natively, [np.zeros(4, np.uint32)] * 2)
    assert isinstance(here[2], NativeKernel), here[2]
    assert here[1] == there[1]
    assert (here[1] is None) == (offset == 12)


def test_parameters_in_memory_are_watched():
    text = entry(
        PARAMETERS.replace("ld.param.u64 %rd7, [%rd6]", "ld.u64 %rd7, [%rd6]").replace(
            "ld.param.u32 %r2, [%rd9]", "ld.u32 %r2, [%rd9]"
        ),
        2,
    )
    arrays = [np.zeros(128, np.uint32), np.zeros(4, np.uint32)]
    there, _ = checked(text, None, arrays, launches=2)
    here, code = checked(text, native.natively, arrays, launches=2)
    assert isinstance(code, NativeKernel), code
    assert here == there
    first, _, _ = counted(text, None, arrays)
    second, error, code = counted(text, native.natively, arrays)
    assert isinstance(code, NativeKernel), code
    assert error is None and second == first
