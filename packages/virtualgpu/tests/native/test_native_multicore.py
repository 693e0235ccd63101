"""Blocks on several cores: equal results and messages, and one core where the order matters."""

from __future__ import annotations

import re
import signal
import threading
import time

import numpy as np
import pytest

from native_lab import after, interrupt_when
from ptx_lab import entry
from virtualgpu import native
from virtualgpu.devices import VirtualDevice
from virtualgpu.errors import MemoryAccessError
from virtualgpu.native.blocks import multicore
from virtualgpu.native.blocks.core import Core
from virtualgpu.native.compiled import NativeKernel
from virtualgpu.native.memory import access_helpers
from virtualgpu.watch.profiling import Profile, Profiler

CORES = 4
# Each thread's own element of 4 bytes, %rd3, of the first array.
OWN = "mul.wide.u32 %rd3, %gid, 4; add.u64 %rd3, %rd1, %rd3;"


@pytest.fixture
def runners(monkeypatch) -> set[int]:
    """The threads that ran blocks, of launches that share their blocks however few they are.

    Where there are others, the first one waits for one of them: on a busy machine it might be done
    before they begin.
    """
    seen: set[int] = set()
    another = threading.Event()
    run = Core.run

    def spy(core, first, count):
        seen.add(threading.get_ident())
        if threading.current_thread() is not threading.main_thread():
            another.set()
        elif any(thread.name == "virtualgpu" for thread in threading.enumerate()):
            assert another.wait(30)
        return run(core, first, count)

    monkeypatch.setattr(Core, "run", spy)
    monkeypatch.setattr(multicore, "WORTH_SHARING", 0.0)
    return seen


@pytest.mark.parametrize(
    ("operation", "kind", "grid"),
    [
        ("add", "u32", 50_000),
        ("add", "u64", 500),
        ("min", "s32", 500),
        ("max", "u32", 500),
        ("max", "s64", 500),
        ("min", "u64", 500),
        ("and", "b32", 500),
        ("or", "b64", 500),
        ("xor", "b32", 500),
    ],
)
def test_atomics_of_all_cores_arrive(runners, operation, kind, grid):
    """All threads update one element."""
    wide = kind[1:] == "64"
    value = "%r1" if not wide else "%rd5"
    widen = "cvt.s64.s32 %rd5, %r1;" if wide else ""
    text = entry(
        f"mul.lo.u32 %r1, %gid, 2654435761; {widen}red.global.{operation}.{kind} [%rd1], {value};",
        1,
    )
    array = np.full(1, 0x5A5A5A5A, np.int64)
    one, _, _ = after(text, native.natively, [array], grid=grid)
    assert len(runners) == 1
    many, _, code = after(text, native.natively, [array], grid=grid, cores=CORES)
    assert not code.record.ordered and len(runners) > 1
    assert (one[0] == many[0]).all()


def test_across_cores_the_processor_s_own_atomics_are_used(monkeypatch):
    """Whether a sum is lost without them, on a machine whose cores are busy, is luck."""
    texts: list[str] = []
    monkeypatch.setattr(access_helpers, "linkable", lambda text, *_: texts.append(text))
    for operation, dtype, space in (
        ("add", "u4", "global"),
        ("max", "i8", "generic"),
        ("min", "u4", "global"),
        ("add", "u4", "shared"),
        ("add", "f4", "global"),
        ("exch", "u4", "global"),
    ):
        access_helpers.atomic.__wrapped__(operation, np.dtype(dtype), 1, space, kept=False)
    found = [re.findall(r"atomicrmw (\w+) ptr", text) for text in texts]
    assert found == [["add"], ["max"], ["umin"], [], [], []]


def test_what_blocks_write_is_the_same_on_any_number_of_cores(runners):
    """Shared memory, a barrier, a thread's own memory: each core has its own."""
    text = entry(
        """
      mul.lo.u32 %r1, %tid, 4;  mov.u32 %r2, box;  add.u32 %r3, %r2, %r1;
      st.shared.u32 [%r3], %gid;
      mov.u32 %r4, own;  and.b32 %r5, %gid, 12;  add.u32 %r6, %r4, %r5;
      st.local.u32 [own], 0; st.local.u32 [own+4], 0;
      st.local.u32 [own+8], 0; st.local.u32 [own+12], 0;
      st.local.u32 [%r6], %block;
      bar.sync 0;
      sub.u32 %r7, 252, %r1;  add.u32 %r7, %r2, %r7;  ld.shared.u32 %r8, [%r7];
      ld.local.u32 %r9, [own+8];  mad.lo.u32 %r8, %r8, 7, %r9;
    """
        + OWN
        + "st.global.u32 [%rd3], %r8;",
        1,
        variables=".shared .align 4 .b8 box[256]; .local .align 4 .b8 own[16];",
    )
    array = np.zeros(64 * 3000, np.uint32)
    found = [
        after(text, native.natively, [array], grid=3000, cores=cores)[0][0].tobytes()
        for cores in (1, 2, CORES)
    ]
    assert len(runners) > 1
    assert found[0] == found[1] == found[2]
    gid, tid = np.arange(array.size), np.arange(array.size) % 64
    other, block = gid - tid + 63 - tid, gid // 64
    assert (np.frombuffer(found[0], np.uint32) == 7 * other + block * (gid & 12 == 8)).all()


@pytest.mark.parametrize(
    "text",
    [
        "red.global.add.f32 [%rd1], 0f3DCCCCCD;",
        "atom.global.add.u32 %r1, [%rd1], 1; st.global.u32 [%rd3], %r1;",
        "atom.global.exch.b32 %r1, [%rd1], %gid;",
        "ld.volatile.global.u32 %r1, [%rd1]; st.global.u32 [%rd3], %r1;",
    ],
    ids=["a sum of floats", "a ticket", "an exchange", "a volatile load"],
)
def test_where_the_order_of_blocks_tells_they_run_on_one_core(runners, text):
    array = np.zeros(64 * 500, np.uint32)
    one, _, _ = after(entry(OWN + text, 1), native.natively, [array], grid=500)
    many, _, code = after(entry(OWN + text, 1), native.natively, [array], grid=500, cores=CORES)
    assert code.record.ordered and len(runners) == 1
    assert (one[0] == many[0]).all()


@pytest.mark.parametrize(
    ("text", "observers"),
    [
        ("bar.sync 1;" + OWN + "st.global.u32 [%rd3], %gid;", 0),
        (
            """setp.ne.u32 %p1, %tid, 0; @%p1 bra On;
        Wait: ld.volatile.global.u32 %r4, [%rd2]; setp.ne.u32 %p2, %r4, %block; @%p2 bra Wait;
        add.u32 %r4, %r4, 1; st.volatile.global.u32 [%rd2], %r4;
        On: bar.sync 0; st.global.u32 [%rd3], %gid;""",
            0,
        ),
        ("st.global.u32 [%rd3], %gid;", 1),
    ],
    ids=["a barrier with a number", "blocks that wait", "profile()"],
)
def test_where_lanes_are_parked_or_counted_one_core_does_it_all(runners, text, observers):
    array, turn = np.zeros(64 * 500, np.uint32), np.zeros(1, np.uint32)
    found = []
    for cores in (1, CORES):
        profile = Profile()
        values, wrong, code = after(
            entry(OWN + text, 2),
            native.natively,
            [array, turn],
            grid=500,
            cores=cores,
            observers=[Profiler(profile)] * observers,
        )
        assert wrong is None and isinstance(code, NativeKernel)
        found.append((values[0].tobytes(), [launch.counters for launch in profile.launches]))
    assert found[0] == found[1] and len(runners) == 1
    assert (np.frombuffer(found[0][0], np.uint32) == np.arange(64 * 500)).all()


def test_a_short_launch_stays_on_one_core(runners, monkeypatch):
    monkeypatch.setattr(multicore, "WORTH_SHARING", 10.0)
    after(
        entry(OWN + "st.global.u32 [%rd3], 1;", 1),
        native.natively,
        [np.zeros(64 * 500, np.uint32)],
        grid=500,
        cores=CORES,
    )
    assert len(runners) == 1


@pytest.mark.parametrize(
    ("operation", "leaves"),
    [("red.global.add.u32 [%rd1], 1;", True), ("st.global.u32 [%rd3], 1;", False)],
)
def test_cores_that_are_in_each_other_s_way_leave(runners, monkeypatch, operation, leaves):
    """As if each block took long here, and no time on one core alone."""
    share = multicore.Run._share

    monkeypatch.setattr(multicore, "TELLING", 0.0)
    monkeypatch.setattr(multicore.Run, "_share", lambda run, seconds: share(run, 0.0))
    values, error, code = after(
        entry(OWN + operation, 1),
        native.natively,
        [np.zeros(64 * 5000, np.uint32)],
        grid=5000,
        cores=CORES,
    )
    assert error is None and values[0].view(np.uint32).sum() == 64 * 5000
    assert code.crowded == leaves and len(runners) > 1


FROM_2000 = "setp.ge.u32 %p1, %block, 2000;"
FAILING = {
    "past the end": FROM_2000
    + "@%p1 mul.lo.u32 %gid, %gid, 1000;"
    + OWN
    + "st.global.u32 [%rd3], %gid;",
    "a trap": FROM_2000 + "@%p1 trap;" + OWN + "st.global.u32 [%rd3], %gid;",
    "a trap, and above it no end": (
        "setp.eq.u32 %p1, %block, 2000; @%p1 trap; setp.gt.u32 %p2, %block, 2000;"
        "Again: @%p2 bra Again;"
    ),
}


@pytest.mark.parametrize("text", FAILING.values(), ids=FAILING)
def test_the_lowest_block_that_fails_is_told(runners, text, monkeypatch):
    """In native code's own words: the interpreter would find them again."""
    monkeypatch.setattr(multicore.Run, "_replay", lambda *_: None)
    array = np.zeros(64 * 4000, np.uint32)
    _, one, _ = after(entry(text, 1), native.natively, [array], grid=4000)
    for _ in range(5):
        _, many, _ = after(entry(text, 1), native.natively, [array], grid=4000, cores=CORES)
        assert many == one
    assert "block 2000" in one
    assert len(runners) > 1


# Its counter comes to 0 after 2**64 rounds.
ENDLESS = (
    entry(
        """.loc 1 77 1
    Again: add.u64 %rd9, %rd9, 1; setp.ne.u64 %p9, %rd9, 0; @%p9 bra Again;""",
        1,
    )
    + """
    .file 1 "k.py"
    """
)


def test_the_time_limit_is_for_all_cores_together(runners):
    began = time.process_time()
    _, wrong, _ = after(
        ENDLESS.replace("Again:", "setp.lt.u32 %p1, %block, 1; @%p1 ret;\nAgain:"),
        native.natively,
        [np.zeros(1)],
        grid=100,
        seconds=0.5,
        cores=CORES,
    )
    assert "for 0.5 s of processor time" in wrong and "line 77" in wrong
    assert len(runners) > 1
    assert time.process_time() - began < 1.5


@pytest.mark.parametrize(("endless", "grid"), [(1, 100), (2, 3)])
def test_control_c_stops_all_cores_and_says_where(runners, endless, grid, monkeypatch):
    """In the second case, mostly, the main thread has no block left and waits for the others."""
    made: list[Core] = []
    begin = Core.__init__
    monkeypatch.setattr(
        Core, "__init__", lambda core, *given: (made.append(core), begin(core, *given))[0]
    )

    def all_are_in_the_loop() -> bool:
        working = [core for core in made if not getattr(core, "done", True)]
        return (
            len(runners) > 1 and bool(working) and all(core._stood is not None for core in working)
        )

    text = ENDLESS.replace("Again:", f"setp.lt.u32 %p1, %block, {endless}; @%p1 ret;\nAgain:")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    began, others = time.process_time(), threading.active_count()  # of tests before this one
    timer = interrupt_when(all_are_in_the_loop)
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            after(text, native.natively, [np.zeros(1)], grid=grid, cores=CORES)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert len(runners) > 1
    assert threading.active_count() == others
    assert time.process_time() - began < 5  # of the 10 s that the launch may have
    (note,) = caught.value.__notes__
    assert note.startswith("stopped in kernel k, k.py line 77, thread 0 of block ")


def test_a_context_serves_the_next_launch_and_knows_what_was_freed(monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", "always")
    made: list[Core] = []
    begin = Core.__init__
    monkeypatch.setattr(
        Core, "__init__", lambda core, *given: (made.append(core), begin(core, *given))[0]
    )
    device = VirtualDevice(1 << 20)
    module = device.load(
        entry(
            OWN + "ld.global.u32 %r1, [%rd3]; add.u32 %r1, %r1, %ntid.x;st.global.u32 [%rd3], %r1;",
            1,
        )
    )
    one, other = device.allocate(256), device.allocate(256)
    for place in (one, other):
        device.fill(place, 0, 256)

    def launch(place: int, threads: int = 64) -> list[int]:
        device.launch(module, "k", (1, 1, 1), (threads, 1, 1), [place.to_bytes(8, "little")])
        return device.read(place, 256).view(np.uint32).tolist()

    assert launch(one) == [64] * 64
    assert launch(other) == [64] * 64
    assert launch(one) == [128] * 64
    assert len(made) == 1
    assert launch(one, 32) == [160] * 32 + [128] * 32
    assert len(made) == 2
    launch(other)
    device.free(other)
    with pytest.raises(MemoryAccessError, match="use after free"):
        launch(other)
    third = device.allocate(256)
    device.fill(third, 0, 256)
    assert launch(third) == [64] * 64


def test_where_no_thread_can_be_started_one_core_does_it_all(runners, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    array = np.zeros(64 * 500, np.uint32)
    (found,), wrong, _ = after(
        entry(OWN + "st.global.u32 [%rd3], %gid;", 1),
        native.natively,
        [array],
        grid=500,
        cores=CORES,
    )
    assert wrong is None and len(runners) == 1
    assert (found.view(np.uint32) == np.arange(64 * 500)).all()
