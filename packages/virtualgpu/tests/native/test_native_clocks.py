"""Clocks in native code: the instructions that the block's warps have run, as the interpreting
machine counts those of a wave."""

from __future__ import annotations

import time

import numpy as np
import pytest

from native_lab import after, agree, counted
from ptx_lab import entry
from virtualgpu import native
from virtualgpu.native import run
from virtualgpu.native.compiled import NativeKernel

OUT = """ mul.wide.u32 %rd3, %gid, 4; add.u64 %rd3, %rd1, %rd3; mov.u32 %r30, %clock;
    mad.lo.u32 %r0, %r30, 4096, %r0; st.global.u32 [%rd3], %r0;"""
PARTED = """and.b32 %r1, %tid, 3; mov.u32 %r0, 0; setp.eq.u32 %p1, %r1, 0; @%p1 bra Even;
    setp.gt.u32 %p2, %r1, 1; @%p2 bra More; add.u32 %r0, %r0, 1; mov.u32 %r2, %clock; bra Join;
    More: add.u32 %r0, %r0, 2; add.u32 %r0, %r0, 2; mov.u32 %r2, %clock; bra Join;
    Even: mov.u32 %r2, %clock; Join: add.u32 %r0, %r0, %r2;"""
LEAVING = """setp.lt.u32 %p1, %tid, 5; @%p1 ret; setp.lt.u32 %p1, %tid, 9; @!%p1 bra On; ret;
    On: setp.eq.u32 %p1, %tid, 12; @%p1 bra Out; {more} mov.u32 %r0, %clock; bra Store;
    Out: ret; Store:"""
LOOP = """mov.u32 %r1, 0; mov.u32 %r0, 0; and.b32 %r2, %tid, 7; mov.u32 %r3, %clock;
    Next: add.u32 %r1, %r1, 1; @%p3 add.u32 %r0, %r0, 1; setp.le.u32 %p1, %r1, %r2;
    @%p1 bra Next; mov.u32 %r0, %clock; sub.u32 %r0, %r0, %r3;"""
WAIT = """mov.u64 %rd5, %clock64; Again: mov.u64 %rd6, %clock64; sub.u64 %rd7, %rd6, %rd5;
    setp.lt.u64 %p1, %rd7, 900; @%p1 bra Again; cvt.u32.u64 %r0, %rd7; mov.u32 %r5, %clock_hi;
    add.u32 %r0, %r0, %r5;"""


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(run, "STRICT", True)


def kernel(body: str, before: str = "") -> str:
    return entry(body + OUT, 1, before)


@pytest.mark.parametrize(
    "body",
    [
        "mov.u32 %r0, %clock;",
        "add.u32 %r0, %tid, 1; bar.sync 0; mov.u32 %r0, %clock;",
        PARTED,
        LEAVING.format(more=""),
        LEAVING.format(more="bar.sync 0;"),
        LEAVING.format(more="shfl.sync.idx.b32 %r1, %tid, 3, 31, -1;"),
        LOOP,
        WAIT,
        """{ .param .b32 n; .param .b32 s; st.param.b32 [n], %tid; call.uni (s), read, (n);
    ld.param.b32 %r0, [s]; }""",
    ],
    ids=[
        "once",
        "barrier",
        "parted",
        "leaving",
        "leaving at a barrier",
        "leaving at a shuffle",
        "loop",
        "waiting",
        "in a function",
    ],
)
@pytest.mark.parametrize(("grid", "block"), [(1, 32), (1, 19), (5, 32)])
def test_a_warp_s_clock(body, grid, block):
    before = """.func (.param .b32 s) read (.param .b32 n) { .reg .b32 %r<4>; .reg .pred %p<2>;
        ld.param.b32 %r1, [n]; setp.lt.u32 %p1, %r1, 4; @%p1 bra Few; mov.u32 %r2, %clock;
        Few: st.param.b32 [s], %r2; ret; }"""
    agree(kernel(body, before), np.zeros(160, np.uint32), grid=grid, block=block)


def test_of_several_warps_differences_are_the_same():
    """Each warp finds the clock where the one before it has left it."""
    text = entry(
        LOOP
        + """mul.wide.u32 %rd3, %gid, 4; add.u64 %rd3, %rd1, %rd3;
        st.global.u32 [%rd3], %r0; st.global.u32 [%rd3+4096], %r3;""",
        1,
    )
    arrays = [np.zeros(2048, np.uint32)]
    (there,), _, _ = after(text, None, arrays, grid=3, block=96)
    for cores in (1, 3):
        (here,), _, code = after(text, native.natively, arrays, grid=3, block=96, cores=cores)
        assert isinstance(code, NativeKernel), code
        assert (here[:4096] == there[:4096]).all()
        starts = here[4096:].view(np.uint32)[: 3 * 96].reshape(3, 3, 32)
        assert (starts == starts[0, :, :1]).all()  # of each block, of all lanes
        assert (np.diff(starts[0, :, 0].astype(np.int64)) > 0).all()


def test_clocks_of_a_kernel_that_parks_its_lanes_go_on():
    """Threads wait for one of the other warp, and see a later time."""
    text = entry(
        """mov.u32 %r1, %clock; setp.ne.u32 %p1, %tid, 63; @%p1 bra Wait;
        mov.u32 %r2, %clock; st.volatile.global.u32 [%rd1+4096], %r2; bra Done;
        Wait: ld.volatile.global.u32 %r2, [%rd1+4096]; setp.eq.u32 %p2, %r2, 0; @%p2 bra Wait;
        Done: mov.u32 %r3, %clock; setp.gt.u32 %p1, %r3, %r2; setp.gt.and.u32 %p1, %r3, %r1, %p1;
        selp.u32 %r0, 1, 0, %p1;
        mul.wide.u32 %rd3, %gid, 4; add.u64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], %r0;""",
        1,
    )
    (here,), error, code = after(text, native.natively, [np.zeros(2048, np.uint32)], grid=1)
    assert isinstance(code, NativeKernel), code
    assert error is None and code.layout is not None
    assert (here[:256].view(np.uint32) == 1).all()


def test_what_is_counted_is_the_same():
    arrays = [np.zeros(128, np.uint32)]
    text = kernel(LEAVING.format(more="bar.sync 0;"))
    there, _, _ = counted(text, None, arrays)
    here, error, code = counted(text, native.natively, arrays)
    assert isinstance(code, NativeKernel), code
    assert error is None and here == there


def test_the_time_of_day():
    """It goes on from place to place."""
    text = entry(
        """mov.u64 %rd4, %globaltimer; mov.u32 %r1, %globaltimer_lo;
        mov.u32 %r2, %globaltimer_hi; mov.b64 %rd5, {%r1, %r2};
        Again: mov.u64 %rd6, %globaltimer; sub.u64 %rd7, %rd6, %rd4; setp.lt.u64 %p1, %rd7, 1000000;
        @%p1 bra Again; mul.wide.u32 %rd3, %gid, 24; add.u64 %rd3, %rd1, %rd3;
        st.global.u64 [%rd3], %rd4; st.global.u64 [%rd3+8], %rd5; st.global.u64 [%rd3+16], %rd6;""",
        1,
    )
    before = time.time_ns()
    (raw,), error, code = after(text, native.natively, [np.zeros((128, 3), np.uint64)])
    assert isinstance(code, NativeKernel), code
    assert error is None
    first, halves, last = raw.view(np.uint64).reshape(128, 3).T
    assert (before < first).all() and (last < time.time_ns()).all()
    assert (first <= halves).all() and (halves - first < 1 << 32).all()
    assert (last - first >= 1_000_000).all()
