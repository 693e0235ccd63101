"""Loads that NVVM moves before the condition of their use: counted, and nobody's fault."""

from __future__ import annotations

import contextlib

import pytest

import virtualgpu

virtualgpu.activate(force=True)

from numba import cuda, float64  # noqa: E402

from virtualgpu.program import speculation  # noqa: E402
from virtualgpu.ptx import parse  # noqa: E402
from virtualgpu.watch.instruments import schedule  # noqa: E402

THREADS = 128


@cuda.jit
def selected(there, out):
    tile = cuda.shared.array(THREADS, float64)
    if cuda.threadIdx.x < there:
        tile[cuda.threadIdx.x] = 1.0
    cuda.syncthreads()
    out[cuda.grid(1)] = tile[0] if there else 0.0


@cuda.jit
def both(there, out):
    """Through ``and.pred``; and a condition that is computed after the load."""
    tile = cuda.shared.array(THREADS, float64)
    if cuda.threadIdx.x < there:
        tile[cuda.threadIdx.x] = 1.0
    cuda.syncthreads()
    x = 0.0
    if there > 0 and tile[0] > 0.5:
        x = 3.0
    if there > 1:
        x = tile[1] * 3 + tile[0]
    out[cuda.grid(1)] = x


@cuda.jit
def wrong(there, out):
    """The second condition lets the value through where nobody has written it."""
    tile = cuda.shared.array(THREADS, float64)
    if cuda.threadIdx.x < there:
        tile[cuda.threadIdx.x] = 1.0
    cuda.syncthreads()
    out[cuda.grid(1)] = tile[1] if there else 0.0


@cuda.jit
def unguarded(there, out):
    tile = cuda.shared.array(THREADS, float64)
    if cuda.threadIdx.x < there:
        tile[cuda.threadIdx.x] = 1.0
    cuda.syncthreads()
    x = tile[0] + 1
    out[cuda.grid(1)] = x if there else x * 2


ORDERS = [contextlib.nullcontext, lambda: schedule(seed=3)]


def found(kernel, there: int, order) -> list[str]:
    out = cuda.device_array(2 * THREADS)
    with order(), virtualgpu.check() as report:
        kernel[2, THREADS](there, out)
    return [finding.kind for finding in report.findings]


@pytest.mark.parametrize("order", ORDERS, ids=["lockstep", "shuffled"])
@pytest.mark.parametrize("kernel", [selected, both], ids=["selp", "and.pred"])
@pytest.mark.filterwarnings("ignore:Grid size")
def test_a_value_that_is_thrown_away_is_no_read(kernel, order):
    assert [found(kernel, there, order) for there in (0, 1, 2, THREADS)] == [[]] * 4
    text = next(iter(kernel.inspect_asm().values()))
    body = next(iter(parse(text).functions.values())).body
    assert any(one.opcode == "ld" and "shared" in one.modifiers for one in body[-25:]), (
        "the compiler no longer moves it: the test shows nothing"
    )


@pytest.mark.parametrize("order", ORDERS, ids=["lockstep", "shuffled"])
@pytest.mark.parametrize(
    ("kernel", "there"), [(wrong, 1), (unguarded, 0)], ids=["lets-through", "either-way"]
)
@pytest.mark.filterwarnings("ignore:Grid size")
def test_a_value_that_is_used_is_read(kernel, there, order):
    assert found(kernel, there, order) == ["uninitialised"]


@pytest.mark.filterwarnings("ignore:Grid size")
def test_it_is_counted_all_the_same():
    """A GPU does read it."""
    counts = []
    for there in (0, 1):
        with virtualgpu.profile() as profile:
            selected[1, 32](there, cuda.device_array(32))
        counts.append(profile.counters.shared_load_requests)
    assert counts == [1, 1]


def arranged(between: str) -> tuple[list[str], dict]:
    """The opcodes of a stretch whose load comes before its condition, and what was found."""
    body = (
        parse(f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry choose(.param .u64 p)
{{
    .reg .b64 %rd<3>;
    .reg .b32 %r<9>;
    .reg .pred %q<4>;
    .shared .b32 word[32];
    ld.shared.u32 %r3, [word];
    {between}
    selp.u32 %r5, %r3, 7, %q1;
    st.global.u32 [%rd2], %r5;
    ret;
}}
""")
        .functions["choose"]
        .body
    )
    made, wanted = speculation.arrange(body, [0])
    return [one.opcode for one in made], wanted


def test_what_the_condition_needs_comes_first():
    opcodes, wanted = arranged(
        "add.u32 %r4, %r1, 1; sub.u32 %r6, %r3, 1; setp.gt.u32 %q1, %r4, %r2;"
    )
    assert opcodes == ["add", "setp", "ld", "sub", "selp", "st", "ret"]
    assert list(wanted.values()) == ["%q1"]


@pytest.mark.parametrize(
    "between",
    [
        "setp.gt.u32 %q1, %r3, %r2;",  # decided by the value itself
        (  # by another that may be unwritten
            "ld.shared.u32 %r4, [word+4]; setp.gt.u32 %q1, %r4, %r2;"
        ),
        "setp.gt.u32 %q1, %r1, %r2; st.global.u32 [%rd1], %r3;",  # used besides
        "setp.gt.u32 %q1, %r1, %r2; setp.gt.u32 %q1, %r2, %r1;",  # decided twice
        "add.u32 %r2, %r7, 1; add.u32 %r2, %r2, 1; setp.gt.u32 %q1, %r1, %r2;",
        "ld.volatile.shared.u32 %r3, [word]; setp.gt.u32 %q1, %r1, %r2;",
    ],
)
def test_otherwise_the_order_is_the_compilers(between):
    opcodes, wanted = arranged(between)
    assert (opcodes[0], wanted) == ("ld", {})
