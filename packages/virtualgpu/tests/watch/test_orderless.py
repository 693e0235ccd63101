"""Which kernels no order of threads can change, if they do not race; and that none can."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import virtualgpu

virtualgpu.activate(force=True)

from numba import cuda, int32  # noqa: E402

import ptx_lab  # noqa: E402
from race_programs import ORDER, WHAT, WHERE, WHO, access  # noqa: E402
from virtualgpu.watch import instruments, orderless  # noqa: E402
from virtualgpu.watch.orderless import Orderless, is_orderless  # noqa: E402

SHARED = ".shared .align 4 .u32 mine[128];"
BASE = "mov.u64 %rd8, mine;\n"


def form(body: str, before: str = "", variables: str = SHARED) -> bool:
    """What is said of a kernel's text; some of these would wait for ever."""
    module = virtualgpu.Module.from_ptx(ptx_lab.entry(BASE + body, 1, before, variables))
    return is_orderless(module.loaded.program("k"))


CLEAR = """mov.u32 %r3, 0; mov.u32 %r9, 0; mul.wide.u32 %rd9, %tid, 4; add.u64 %rd9, %rd9, %rd8;
st.shared.u32 [%rd9], 7; bar.sync 0;
"""
ADDS = "red.global.add.u32 [%rd1], 1;"
LABEL = "setp.eq.u32 %p1, %tid, 99;\n@%p1 bra done;\n{}\ndone:"


@pytest.mark.parametrize(
    "body",
    [
        ADDS,
        "atom.global.add.u32 %r1, [%rd1], 1;",
        "atom.relaxed.gpu.global.max.s32 %r1, [%rd1], 1;",
        f"{ADDS} bar.sync 0; {ADDS}",
        "membar.gl; barrier.sync 0;",
        "mov.u32 %r1, %laneid;",
        "st.shared.u32 [%rd8], 1; ld.shared.u32 %r2, [%rd8];",
        "ld.global.nc.u32 %r1, [%rd1];",
        "div.rn.f64 %fd1, %fd2, %fd3; sqrt.rn.f64 %fd1, %fd1;",
        LABEL.format(ADDS),
        "@%p1 st.global.u32 [%rd1], %r1;",
    ],
)
def test_what_tells_nobody_of_an_order(body):
    assert form(body)


@pytest.mark.parametrize(
    "body",
    [
        # An atomic tells who came first: by its result, wherever that is looked at.
        "atom.global.add.u32 %r1, [%rd1], 1; add.u32 %r2, %r1, 1;",
        "atom.global.add.u32 %r1, [%rd1], 1; st.global.u32 [%rd1+4], %r1;",
        "atom.global.add.u32 %r1, [%rd1], 1; setp.eq.u32 %p1, %r1, 0;",
        "atom.global.add.u64 %rd2, [%rd1], 1; @%p1 ld.global.u32 %r1, [%rd2];",
        # Or by what it leaves.
        "atom.global.exch.b32 %r1, [%rd1], %tid;",
        "atom.global.cas.b32 %r1, [%rd1], 0, %tid;",
        "atom.global.inc.u32 %r1, [%rd1], 7;",
        "red.global.add.f64 [%rd1], %fd1;",
        "red.global.add.f32 [%rd1], %f1;",
        "red.global.add.noftz.f16x2 [%rd1], %r1;",
        f"{ADDS} red.global.max.u32 [%rd1], 5;",
        f"{ADDS} red.global.add.u64 [%rd1], 1;",
        "red.global.min.u32 [%rd1], 1; red.shared.min.s32 [%rd8], 1;",
        "atom.cta.global.add.u32 %r1, [%rd1], 1;",
        "red.release.gpu.global.add.u32 [%rd1], 1;",
        # Accesses that may race and be no race.
        "ld.volatile.global.u32 %r1, [%rd1];",
        "st.volatile.shared.u32 [%rd8], %r1;",
        "ld.relaxed.gpu.global.u32 %r1, [%rd1];",
        "ld.acquire.gpu.global.u32 %r1, [%rd1];",
        "st.release.gpu.global.u32 [%rd1], %r1;",
        # Who is here.
        "activemask.b32 %r1;",
        "vote.sync.ballot.b32 %r1, %p1, -1;",
        "shfl.sync.bfly.b32 %r1, %tid, 1, 31, -1;",
        "match.any.sync.b32 %r1, %tid, -1;",
        "redux.sync.add.s32 %r1, %tid, -1;",
        "bar.warp.sync -1;",
        "barrier.sync 1;",
        "barrier.sync 0, 32;",
        "barrier.arrive 1, 64;",
        "barrier.red.popc.u32 %r1, 0, %p1;",
        # Clocks.
        "mov.u32 %r1, %clock;",
        "mov.u64 %rd2, %globaltimer;",
        "mov.u32 %r1, %gridid;",
    ],
)
def test_what_may_tell_somebody_of_an_order(body):
    assert not form(body)


def test_local_memory_and_other_functions():
    printing = ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);"
    helper = (
        ".func (.param .b32 r) twice (.param .b32 a) {{ .reg .b32 %x; ld.param.u32 %x, [a]; "
        "{} add.u32 %x, %x, %x; st.param.b32 [r], %x; ret; }}"
    )
    call = (
        "{ .param .b32 a; st.param.b32 [a], %tid; .param .b32 r; call.uni (r), twice, (a); "
        "ld.param.u32 %r1, [r]; }"
    )
    assert form(call, before=helper.format(""))
    assert not form(call, before=helper.format("activemask.b32 %x;"))
    assert not form("", variables=SHARED + ".local .b32 here[4];")
    text = (
        "{ .param .b64 f; st.param.b64 [f], %rd1; .param .b64 a; st.param.b64 [a], %rd1; "
        ".param .b32 r; call.uni (r), vprintf, (f, a); }"
    )
    assert not form(LABEL.format("@!%p1 bra done;\n" + text), before=printing)


@cuda.jit
def histogram(values, counts):
    mine = cuda.shared.array(16, int32)
    if cuda.threadIdx.x < 16:
        mine[cuda.threadIdx.x] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(mine, values[i] % 16, 1)
    cuda.syncthreads()
    if cuda.threadIdx.x < 16:
        cuda.atomic.add(counts, cuda.threadIdx.x, mine[cuda.threadIdx.x])


@cuda.jit
def queue(values, out):
    """Without a race, and in another order each time: ``out[0]`` is the next free place."""
    i = cuda.grid(1)
    if i < values.size:
        out[1 + cuda.atomic.add(out, 0, 1)] = values[i]


@cuda.jit
def count(total):
    cuda.atomic.add(total, 0, 1)


def test_a_kernel_is_looked_at_once(monkeypatch):
    """However often it is launched: a grader launches one twenty times."""
    looked = []
    monkeypatch.setattr(orderless, "is_orderless", lambda program: not looked.append(program))
    for _ in range(3):
        orders = Orderless()
        with instruments.watch(orders):
            count[1, 32](cuda.to_device(np.zeros(1, np.int32)))
        assert orders.holds
    assert len(looked) == 1


@pytest.mark.parametrize(("kernel", "holds"), [(histogram, True), (queue, False)])
def test_kernels_of_numba(kernel, holds):
    orders, results = Orderless(), set()
    for seed in (None, 1, 2, 3):
        out = np.zeros(65, np.int32)
        with instruments.watch(orders), virtualgpu.schedule(seed) if seed else virtualgpu.check():
            kernel[2, 32](cuda.to_device(np.arange(64)), out)
        results.add(out.tobytes())
    assert orders.holds == holds
    assert (len(results) == 1) == holds


steps = st.lists(
    st.one_of(
        st.builds(
            access,
            st.sampled_from([*WHO]),
            st.sampled_from([*WHERE]),
            st.sampled_from([*WHAT]),
            st.sampled_from(["global", "shared"]),
        ),
        st.sampled_from([*ORDER.values()]),
        st.just(ORDER["barrier"]),
        # What was loaded is kept where it can be seen.
        st.just("add.u32 %r9, %r9, %r3;"),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.filter_too_much])
@given(steps, st.integers(1, 1 << 30))
def test_no_order_changes_an_orderless_program_without_findings(program, seed):
    """Programs of random accesses and barriers; a thread's loads add up to what it leaves."""
    body = (
        BASE + CLEAR + "".join(step.replace("#", str(n)) + "\n" for n, step in enumerate(program))
    )
    body += "bar.sync 0;\nmad.wide.u32 %at, %gid, 4, %rd2; st.global.u32 [%at], %r9;"
    text = ptx_lab.entry(body, 2, "", SHARED)
    orders = Orderless()

    def run() -> bytes:
        values, left = np.arange(128, dtype=np.uint32), np.zeros(128, np.uint32)
        ptx_lab.launch(text, 2, 64, [values, left])
        return values.tobytes() + left.tobytes()

    with virtualgpu.check() as report, instruments.watch(orders):
        first = run()
    assume(orders.holds and report.ok)
    for n in range(3):
        with virtualgpu.schedule(seed + n):
            assert run() == first
