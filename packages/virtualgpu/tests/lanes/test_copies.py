"""cp.async against a second machine that keeps each thread's copies in a list."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ptx_lab import entry, launch, per_thread
from virtualgpu.errors import (
    BarrierError,
    MemoryAccessError,
    MisalignedAddressError,
    PTXSyntaxError,
    UnsupportedInstruction,
)

THREADS, SLOTS = 48, 4
TILE = f".shared .align 16 .b8 tile[{THREADS * SLOTS * 16}]; .shared .align 8 .b64 object;"
# Each thread's slots from %rd8 on, its part of the input (SLOTS * 16 bytes) from %rd9 on.
PLACES = f"""mov.u64 %rd8, tile; mad.wide.u32 %rd8, %tid, {SLOTS * 16}, %rd8;
    mad.wide.u32 %rd9, %gid, {SLOTS * 16}, %rd2; and.b32 %r2, %tid, 1; setp.eq.u32 %p1, %r2, 1;
    setp.lt.u32 %p2, %tid, 20;"""
GUARDS = {
    "": lambda t: True,
    "@%p1 ": lambda t: t % 2 == 1,
    "@!%p1 ": lambda t: t % 2 == 0,
    "@%p2 ": lambda t: t < 20,
}


class Thread:
    """Shared memory of one thread, and its copies under way: (group, slot, data)."""

    def __init__(self, number: int, given: np.ndarray):
        self.number, self.given = number, given
        self.memory = np.zeros(SLOTS * 16, np.uint8)
        self.copies: list[tuple[int, int, bytes]] = []
        self.group = self.sum = 0

    def copy(self, slot: int, size: int, read: int) -> None:
        data = self.given[slot : slot + read].tobytes() + bytes(size - read)
        self.copies.append((self.group, slot, data))

    def wait(self, most: int | None) -> None:
        for one in list(self.copies):
            if most is None or one[0] < self.group - most:
                self.memory[one[1] : one[1] + len(one[2])] = np.frombuffer(one[2], np.uint8)
                self.copies.remove(one)


def program(chance: random.Random, threads: list[Thread]) -> tuple[str, int]:
    """Random copies, groups, waits and looks; the models run along. And how many looks."""
    body, looks = [], 0
    for _ in range(40):
        guard = chance.choice(list(GUARDS))
        those = [t for t in threads if GUARDS[guard](t.number)]
        kind = chance.choice(("copy", "copy", "copy", "commit", "wait", "all", "look"))
        if kind == "copy":
            size = chance.choice((4, 8, 16))
            slot = chance.randrange(SLOTS * 16 // size) * size
            cache = "cg" if size == 16 and chance.random() < 0.5 else "ca"
            read, more = size, ""
            way = chance.randrange(4)
            if way == 1:
                read = chance.randrange(size + 1)
                more = f", {read}"
            elif way == 2:
                more = ", %p2"
            space = chance.choice(("shared", "shared::cta"))
            body.append(
                f"{guard}cp.async.{cache}.{space}.global [%rd8+{slot}], [%rd9+{slot}], "
                f"{size}{more};"
            )
            for t in those:
                t.copy(slot, size, 0 if way == 2 and t.number < 20 else read)
        elif kind == "commit":
            body.append(f"{guard}cp.async.commit_group;")
            for t in those:
                t.group += 1
        elif kind == "wait":
            most = chance.randrange(3)
            body.append(f"{guard}cp.async.wait_group {most};")
            for t in those:
                t.wait(most)
        elif kind == "all":
            body.append(f"{guard}cp.async.wait_all;")
            for t in those:
                t.wait(None)
        else:
            slot = chance.randrange(SLOTS * 4) * 4
            body.append(f"ld.shared.u32 %r3, [%rd8+{slot}]; mad.lo.u32 %r0, %r0, 31, %r3;")
            looks += 1
            for t in threads:
                seen = int(t.memory[slot : slot + 4].view(np.uint32)[0])
                t.sum = (t.sum * 31 + seen) % (1 << 32)
    return "\n".join(body), looks


@pytest.mark.parametrize("seed", range(10))
def test_data_arrive_at_the_wait_and_not_before(seed):
    chance = random.Random(seed)
    given = np.frombuffer(chance.randbytes(2 * THREADS * SLOTS * 16), np.uint8).copy()
    parts = given.reshape(2 * THREADS, -1)
    threads = [Thread(n % THREADS, part) for n, part in enumerate(parts)]
    body, looks = program(chance, threads)
    clear = "".join(f"st.shared.u32 [%rd8+{at}], 0;" for at in range(0, SLOTS * 16, 4))
    out = per_thread(
        f"{PLACES}{clear} mov.u32 %r0, 0;\n{body}", given, grid=2, block=THREADS, variables=TILE
    )
    assert looks and out.tolist() == [t.sum for t in threads]


@pytest.mark.parametrize("noinc", [False, True])
def test_copies_arrive_at_a_barrier(noinc):
    """With .noinc the phase has counted the copies' arrivals, without it it has not."""
    count = THREADS * (2 if noinc else 1)
    suffix = ".noinc" if noinc else ""
    body = (
        PLACES
        + f"""
        setp.eq.u32 %p3, %tid, 0; @%p3 mbarrier.init.shared.b64 [object], {count}; bar.sync 0;
        st.shared.u32 [%rd8], 7;
        cp.async.ca.shared.global [%rd8], [%rd9], 4;
        cp.async.mbarrier.arrive{suffix}.shared.b64 [object];
        ld.shared.u32 %r4, [%rd8];
        mbarrier.arrive.shared.b64 %rd11, [object];
        Wait: mbarrier.test_wait.shared.b64 %p4, [object], %rd11; @!%p4 bra Wait;
        xor.b32 %r5, %tid, 1; mov.u64 %rd12, tile; mad.wide.u32 %rd12, %r5, {SLOTS * 16}, %rd12;
        ld.shared.u32 %r0, [%rd12]; mad.lo.u32 %r0, %r4, 1000, %r0;"""
    )
    given = np.arange(2 * THREADS * SLOTS * 4, dtype=np.uint32)
    out = per_thread(body, given, grid=2, block=THREADS, variables=TILE)
    other = np.arange(2 * THREADS) // THREADS * THREADS + (np.arange(2 * THREADS) % THREADS ^ 1)
    np.testing.assert_array_equal(out, 7000 + other * SLOTS * 4)


def test_a_bulk_copy_completes_the_bytes_that_a_barrier_expects():
    nbytes = THREADS * 16
    body = f"""
        setp.eq.u32 %p3, %tid, 0; @%p3 mbarrier.init.shared.b64 [object], 1;
        @%p3 fence.proxy.async.shared::cta; bar.sync 0;
        mov.u64 %rd8, tile; mad.wide.u32 %rd9, %block, {nbytes}, %rd2;
        @!%p3 bra Wait;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%rd8], [%rd9],
            {nbytes}, [object];
        mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [object], {nbytes};
        Wait: mbarrier.try_wait.parity.shared::cta.b64 %p4, [object], 0, 100; @!%p4 bra Wait;
        sub.u32 %r5, {THREADS - 1}, %tid; mad.wide.u32 %rd8, %r5, 16, %rd8;
        ld.shared.u32 %r0, [%rd8+4];"""
    given = np.arange(2 * THREADS * 4, dtype=np.uint32)
    out = per_thread(body, given, grid=2, block=THREADS, variables=TILE)
    np.testing.assert_array_equal(out, given.reshape(2, THREADS, 4)[:, ::-1, 1].ravel())


def test_what_was_in_the_source_at_the_wait_counts():
    """Nothing orders the copy with a store to its source: the latest moment shows it."""
    out = per_thread(
        PLACES
        + """
        cp.async.ca.shared.global [%rd8], [%rd9], 4; st.global.u32 [%rd9], 9;
        cp.async.wait_all; ld.shared.u32 %r0, [%rd8];""",
        np.ones(THREADS * SLOTS * 4, np.uint32),
        block=THREADS,
        variables=TILE,
    )
    assert (out == 9).all()


@pytest.mark.parametrize(
    ("copy", "error", "words"),
    [
        ("cp.async.ca.shared.global [%rd8+2], [%rd9], 4;", MisalignedAddressError, "multiple of 4"),
        (
            "cp.async.cg.shared.global [%rd8], [%rd9+4], 16;",
            MisalignedAddressError,
            "multiple of 16",
        ),
        ("cp.async.ca.shared.global [%rd8+1048576], [%rd9], 4;", MemoryAccessError, "shared array"),
        ("cp.async.ca.shared.global [%rd8], [%rd9+1048576], 4;", MemoryAccessError, "reads"),
        (
            "cvta.shared.u64 %rd8, %rd8; cp.async.ca.shared.global [%rd8], [%rd9], 4;",
            MemoryAccessError,
            "writes 4 bytes of shared",
        ),
        ("cp.async.ca.shared.global [%rd8], [%rd8], 4;", MemoryAccessError, "reads"),
        ("cp.async.ca.shared.global [%rd8], [%rd9], 4, 5;", BarrierError, "would read 5"),
        (
            (
                "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%rd8], [%rd9], "
                "8, [object];"
            ),
            BarrierError,
            "must be a multiple of 16",
        ),
    ],
)
def test_misuse_names_line_block_and_thread(copy, error, words):
    text = entry(f"{PLACES}\n.loc 1 7 0\n{copy} cp.async.wait_all;", 2, variables=TILE)
    with pytest.raises(error, match=words) as raised:
        launch(
            text + '\n.file 1 "kernel.cu"\n',
            1,
            THREADS,
            [np.zeros(4, np.uint32), np.zeros(THREADS * SLOTS * 4, np.uint32)],
        )
    at = raised.value.location
    assert (at.line, at.block, at.thread) == (7, (0, 0, 0), (0, 0, 0))


def test_bytes_that_are_not_read_need_no_memory():
    """src-size bytes are read and no more: the usual guard of a tile's edge."""
    out = per_thread(
        PLACES
        + """
        cp.async.ca.shared.global [%rd8], [%rd9+16777216], 4, 0; cp.async.wait_all;
        ld.shared.u32 %r0, [%rd8];""",
        np.ones(THREADS * SLOTS * 4, np.uint32),
        block=THREADS,
        variables=TILE,
    )
    assert (out == 0).all()


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ("cp.async.ca.shared.global [%rd8], [%rd9], 12;", PTXSyntaxError),
        ("cp.async.cg.shared.global [%rd8], [%rd9], 8;", PTXSyntaxError),
        ("cp.async.ca.global.shared [%rd9], [%rd8], 4;", UnsupportedInstruction),
        ("cp.async.wait_group %r0;", PTXSyntaxError),
        ("cp.async.wait_all 1;", PTXSyntaxError),
        ("cp.async.bulk.wait_group 0;", UnsupportedInstruction),
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
            "[%rd8], [%rd9, {%r0, %r1}], [object];",
            UnsupportedInstruction,
        ),
    ],
)
def test_other_forms_are_refused(form, error):
    text = entry(f"{PLACES}\n.loc 1 7 0\n{form}", 2, variables=TILE) + '\n.file 1 "kernel.cu"\n'
    with pytest.raises(error, match=r"cp\.async") as raised:
        launch(text, 1, THREADS, [np.zeros(4096, np.uint32)] * 2)
    assert raised.value.location.line == 7


@pytest.mark.parametrize(
    "form",
    [
        "griddepcontrol.wait;",
        "griddepcontrol.launch_dependents;",
        "setmaxnreg.dec.sync.aligned.u32 24;",
        "setmaxnreg.inc.sync.aligned.u32 256;",
    ],
)
def test_what_changes_nothing_here(form):
    assert (per_thread(f"mov.u32 %r0, 5; {form}") == 5).all()


@pytest.mark.parametrize(
    "form",
    [
        "griddepcontrol;",
        "setmaxnreg.inc.sync.aligned.u32 264;",
        "setmaxnreg.inc.sync.aligned.u32 20;",
        "setmaxnreg.inc.sync.aligned.u32 25;",
        "setmaxnreg.inc.sync.aligned.u32 %r1;",
    ],
)
def test_its_misuse_is_refused(form):
    with pytest.raises((PTXSyntaxError, UnsupportedInstruction), match=r"setmaxnreg|griddep"):
        per_thread(form)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("wgmma.fence.sync.aligned;", "Compile for compute_90"),
        ("tcgen05.fence::before_thread_sync;", "Compile for compute_90"),
        ("cp.async.bulk.commit_group;", "Compile for compute_80"),
        (
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%rd1], 16;",
            "Compile for compute_80",
        ),
    ],
)
def test_what_the_machine_lacks_says_what_to_do(form, words):
    with pytest.raises(UnsupportedInstruction, match=words):
        per_thread(form)
