"""Barriers in shared memory, against a second one that is told in twenty lines of Python."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ptx_lab import entry, launch, per_thread
from virtualgpu.errors import BarrierError, EndlessError, MemoryAccessError, PTXSyntaxError

OBJECT = ".shared .align 8 .b64 object; .shared .align 8 .b64 other;"
INIT = """setp.eq.u32 %p1, %tid, 0; @%p1 mbarrier.init.shared.b64 [object], {count};
    bar.sync 0;"""
WAIT = """Wait{n}: mbarrier.{wait} %p2, [object], {state}; @!%p2 bra Wait{n};"""


class Reference:
    """One object, as the ISA tells of it: operations one after the other."""

    def __init__(self, count: int):
        self.pending = self.expected = count
        self.bytes = self.phase = self.last = 0

    def arrive(self, count: int = 1, nbytes: int = 0, drop: bool = False) -> tuple[int, int]:
        self.bytes += nbytes
        state = self.phase, self.pending
        self.pending -= count
        self.expected -= count * drop
        self.end()
        return state

    def complete(self, nbytes: int) -> None:
        self.bytes -= nbytes
        self.end()

    def end(self) -> None:
        if self.pending == self.bytes == 0:
            self.phase, self.pending = self.phase + 1, self.expected


def program(chance: random.Random) -> tuple[str, list[int]]:
    """Random operations of one thread, and what each answers."""
    count = chance.randrange(1, 9)
    model, body, answers, states = Reference(count), [], [], []
    body.append(f"mbarrier.init.shared.b64 [object], {count};")

    def answer(code: str, value: int) -> None:
        body.append(f"{code} st.global.u32 [%rd2+{4 * len(answers)}], %r1;")
        answers.append(value)

    for _ in range(60):
        kind = chance.choice(
            ("arrive", "arrive", "tx", "drop", "expect", "complete", "test", "parity", "pending")
        )
        if kind == "test" and states:
            register, phase = states[-1]
            form = chance.choice(("test_wait.shared.b64", "try_wait.acquire.cta.shared::cta.b64"))
            answer(
                f"mbarrier.{form} %p3, [object], {register}; selp.u32 %r1, 1, 0, %p3;",
                int(model.phase != phase),
            )
        elif kind == "parity":
            parity = chance.randrange(2)
            form = chance.choice(("test_wait.parity.shared.b64", "try_wait.parity.b64"))
            place = "[object]" if "shared" in form else "[%rd9]"
            answer(
                f"mbarrier.{form} %p3, {place}, {parity}; selp.u32 %r1, 1, 0, %p3;",
                int(model.phase % 2 != parity),
            )
        elif kind == "pending" and states:
            answer(f"mbarrier.pending_count.b64 %r1, {states[-1][0]};", model.last)
        elif kind == "expect":
            nbytes = chance.randrange(1, 64)
            model.bytes += nbytes
            body.append(f"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [object], {nbytes};")
        elif kind == "complete" and model.bytes > 0:
            nbytes = chance.choice((model.bytes, chance.randrange(1, model.bytes + 1)))
            body.append(f"mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [object], {nbytes};")
            model.complete(nbytes)
        elif kind in ("arrive", "tx", "drop") and model.pending:
            most = 1 if kind == "tx" else model.pending
            if kind == "drop":
                most = min(most, model.expected - 1)
            if most < 1:
                continue
            some, nbytes = chance.randrange(1, most + 1), chance.randrange(1, 64)
            register = f"%rd{10 + len(states) % 40}"
            what = {
                "drop": "arrive_drop.release.cta.shared::cta",
                "tx": "arrive.expect_tx.shared::cta",
                "arrive": "arrive.noComplete.shared"
                if some < model.pending
                else "arrive.shared::cta",
            }[kind]
            given = nbytes if kind == "tx" else some
            body.append(f"mbarrier.{what}.b64 {register}, [object], {given};")
            phase, model.last = model.arrive(
                1 if kind == "tx" else some, nbytes * (kind == "tx"), kind == "drop"
            )
            states.append((register, phase))
    return "\n".join(body), answers


@pytest.mark.parametrize("seed", range(8))
def test_operations_answer_as_the_reference_does(seed):
    body, answers = program(random.Random(seed))
    out = np.zeros(64, np.uint32)
    guard = "setp.ne.u32 %p1, %tid, 0; @%p1 bra End; mov.u64 %rd9, object;"
    guard += " cvta.shared.u64 %rd9, %rd9; mov.u64 %rd2, %rd1;"
    launch(entry(f"{guard}\n{body}\nEnd:", 1, variables=OBJECT), 1, 32, [out])
    assert answers and out[: len(answers)].tolist() == answers


@pytest.mark.parametrize("wait", ["test_wait.shared.b64", "try_wait.shared::cta.b64"])
@pytest.mark.parametrize("threads", [32, 96, 100])
def test_nobody_passes_before_all_have_come(wait, threads):
    """Each thread writes, waits and reads another's; blocks have objects of their own."""
    body = (
        INIT.format(count="%size")
        + """
        mov.u64 %rd8, tile; mad.wide.u32 %rd9, %tid, 4, %rd8;
        sub.u32 %r2, %size, 1; sub.u32 %r2, %r2, %tid; mad.wide.u32 %rd10, %r2, 4, %rd8;
        mov.u32 %r5, 0; mov.u32 %r0, 0;
        Round:
        add.u32 %r6, %gid, %r5; st.shared.u32 [%rd9], %r6;
        mbarrier.arrive.shared.b64 %rd11, [object];
        """
        + WAIT.format(n=1, wait=wait, state="%rd11")
        + """
        ld.shared.u32 %r7, [%rd10]; add.u32 %r0, %r0, %r7;
        mbarrier.arrive.shared.b64 %rd11, [object];
        """
        + WAIT.format(n=2, wait=wait, state="%rd11")
        + """
        add.u32 %r5, %r5, 1; setp.lt.u32 %p4, %r5, 3; @%p4 bra Round;"""
    )
    out = per_thread(
        body, grid=3, block=threads, variables=OBJECT + ".shared .align 4 .b8 tile[512];"
    )
    g = np.arange(3 * threads)
    mirrored = g // threads * threads + threads - 1 - g % threads
    np.testing.assert_array_equal(out, 3 * mirrored + 3)


def test_lanes_arrive_in_order_and_their_states_count_down():
    out = per_thread(
        INIT.format(count=40)
        + """
        mbarrier.arrive.shared.b64 %rd11, [object]; mbarrier.pending_count.b64 %r0, %rd11;""",
        variables=OBJECT,
    )
    np.testing.assert_array_equal(out, 40 - np.arange(32))


def test_a_phase_may_end_amid_a_warp():
    out = per_thread(
        INIT.format(count=16)
        + """
        mbarrier.arrive.shared.b64 %rd11, [object]; mbarrier.pending_count.b64 %r0, %rd11;
        mbarrier.test_wait.parity.shared.b64 %p2, [object], 1; @%p2 add.u32 %r0, %r0, 100;""",
        variables=OBJECT,
    )
    np.testing.assert_array_equal(out, 116 - np.arange(32) % 16)


def test_those_who_drop_out_are_not_waited_for_again():
    out = per_thread(
        INIT.format(count=32)
        + """
        setp.lt.u32 %p3, %tid, 8;
        @%p3 mbarrier.arrive_drop.shared.b64 _, [object];
        @!%p3 mbarrier.arrive.shared.b64 %rd11, [object];
        mov.u32 %r0, 7;
        @%p3 bra End;
        """
        + WAIT.format(n=1, wait="test_wait.shared.b64", state="%rd11")
        + """
        mbarrier.arrive.shared.b64 %rd12, [object];
        """
        + WAIT.format(n=2, wait="test_wait.shared.b64", state="%rd12")
        + """
        mbarrier.pending_count.b64 %r0, %rd12;
        End:""",
        variables=OBJECT,
    )
    assert out.tolist() == [7] * 8 + list(range(24, 0, -1))


WRONG = {
    "before init": ("mbarrier.arrive.shared.b64 %rd9, [object];", "no thread has initialised"),
    "after inval": (
        "@%p1 mbarrier.init.shared.b64 [object], 1; @%p1 mbarrier.inval.shared.b64 "
        "[object]; @%p1 mbarrier.test_wait.parity.shared.b64 %p2, [object], 0;",
        "no thread has initialised",
    ),
    "twice": (
        "@%p1 mbarrier.init.shared.b64 [object], 1; @%p1 mbarrier.init.shared.b64 [object], 1;",
        "while it is in use",
    ),
    "by all": ("mbarrier.init.shared.b64 [object], 32;", "while it is in use"),
    "count 0": ("@%p1 mbarrier.init.shared.b64 [object], 0;", "initialised for 0 arrivals"),
    "count 2^20": ("@%p1 mbarrier.init.shared.b64 [object], 1048576;", "1 to 1,048,575"),
    "too many": (
        "@%p1 mbarrier.init.shared.b64 [object], 3; "
        "@%p1 mbarrier.arrive.shared::cta.b64 %rd9, [object], 4;",
        "counts 4, but its phase waits for 3",
    ),
    "noComplete": (
        "@%p1 mbarrier.init.shared.b64 [object], 3; "
        "@%p1 mbarrier.arrive.noComplete.shared.b64 %rd9, [object], 3;",
        "must not complete",
    ),
    "global": ("@%p1 mbarrier.init.b64 [%rd1], 3;", "must be in shared memory"),
    "bytes": (
        "@%p1 mbarrier.init.shared.b64 [object], 3; "
        "@%p1 mbarrier.expect_tx.shared::cta.b64 [object], 1048576;",
        "1,048,575 bytes",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_misuse_names_line_block_and_thread(name):
    body, words = WRONG[name]
    text = entry(f".loc 1 7 0\n setp.eq.u32 %p1, %tid, 0; {body}", 1, variables=OBJECT)
    with pytest.raises(BarrierError, match=words) as error:
        launch(text + '\n.file 1 "kernel.cu"\n', 1, 32, [np.zeros(8, np.uint32)])
    at = error.value.location
    assert at.line == 7 and at.block == (0, 0, 0)
    assert at.thread == ((1, 0, 0) if name == "by all" else (0, 0, 0))


@pytest.mark.parametrize(
    ("address", "words"), [("[object+4]", "misaligned"), ("[object+4096]", "illegal address")]
)
def test_an_object_lies_where_shared_memory_is(address, words):
    with pytest.raises(MemoryAccessError, match=words):
        per_thread(f"mbarrier.init.shared.b64 {address}, 1;", variables=OBJECT)


@pytest.mark.parametrize(
    "form",
    [
        "mbarrier.arrive.shared::cluster.b64 %rd9, [object];",
        "mbarrier.init.shared.b64 [object];",
        "mbarrier.arrive.noComplete.shared.b64 %rd9, [object];",
    ],
)
def test_what_is_not_ptx(form):
    with pytest.raises(PTXSyntaxError):
        per_thread(form, variables=OBJECT)


def test_a_phase_that_never_ends_is_named():
    with pytest.raises(EndlessError, match="no thread can go on"):
        per_thread(
            INIT.format(count=33)
            + "mbarrier.arrive.shared.b64 %rd11, [object];"
            + WAIT.format(n=1, wait="try_wait.shared.b64", state="%rd11")
            + "mov.u32 %r0, 1;",
            variables=OBJECT,
        )
