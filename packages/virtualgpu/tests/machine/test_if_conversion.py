"""A short branch that all lanes compute gives every lane what parting would have given it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptx_lab import entry, launch, per_thread
from virtualgpu.machine import if_conversion
from virtualgpu.machine.events import Observer
from virtualgpu.observers.instruments import profile, watch


@pytest.fixture(autouse=True)
def interpreting(monkeypatch):
    """What these tests look at is what native code does not have."""
    monkeypatch.setenv("VIRTUALGPU_NATIVE", "0")


@pytest.fixture
def converted(monkeypatch) -> list[int]:
    """How many lanes took each branch that was converted."""
    seen = []
    original = if_conversion.run_for_all

    def spy(group, skipped, jumps):
        seen.append(int(np.count_nonzero(jumps)))
        original(group, skipped, jumps)

    monkeypatch.setattr(if_conversion, "run_for_all", spy)
    return seen


ODD = "and.b32 %r1, %tid, 1; setp.eq.u32 %p1, %r1, 1;"
BODIES = {
    "a register of each width": """
        mov.b32 %r2, %tid; mov.b64 %rd9, 5; mov.b16 %h1, 3; setp.lt.u32 %p2, %tid, 7;
        @%p1 bra Skip;
        add.u32 %r2, %r2, 100; add.u64 %rd9, %rd9, 1; add.u16 %h1, %h1, 1; not.pred %p2, %p2;
        Skip: cvt.u32.u64 %r3, %rd9; cvt.u32.u16 %r4, %h1; selp.u32 %r5, 1, 0, %p2;
        mad.lo.u32 %r0, %r3, 1000, %r2; mad.lo.u32 %r0, %r4, 77, %r0;
        mad.lo.u32 %r0, %r5, 9999, %r0;""",
    "the other way round": """
        mov.b32 %r2, 1; @!%p1 bra Skip; mov.b32 %r2, %tid; Skip: mov.b32 %r0, %r2;""",
    "one value in all lanes, changed in some": """
        mov.b32 %r2, 6; @%p1 bra Skip; mov.b32 %r2, 7; Skip: mov.b32 %r0, %r2;""",
    "inside a loop": """
        mov.b32 %r2, 0; mov.b32 %r3, 0;
        Next: shr.u32 %r4, %tid, %r3; and.b32 %r4, %r4, 1; setp.eq.u32 %p2, %r4, 0;
        @%p2 bra Skip; add.u32 %r2, %r2, 1; Skip:
        add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 8; @%p3 bra Next;
        mov.b32 %r0, %r2;""",
    "under a branch that parts the lanes": """
        mov.b32 %r2, 0; setp.gt.u32 %p2, %tid, 40; @%p2 bra Over;
        st.global.u32 [%rd2], %r2;
        @%p1 bra Skip; add.u32 %r2, %tid, 3; Skip: add.u32 %r2, %r2, 1;
        Over: mov.b32 %r0, %r2;""",
    "a division by what is zero where nobody divides": """
        mov.b32 %r2, 9; @!%p1 bra Skip; div.u32 %r2, 50, %r1; Skip: mov.b32 %r0, %r2;""",
}


@pytest.mark.parametrize("name", BODIES)
def test_same_as_parting(name, converted):
    body, place = ODD + BODIES[name], np.zeros(1, np.uint32)
    got = per_thread(body, place, block=96)
    assert converted and all(0 < jumped < 96 for jumped in converted)
    count = len(converted)
    with watch(Observer()):
        parted = per_thread(body, place, block=96)
    assert len(converted) == count, "an observer must see the branch itself"
    assert got.tolist() == parted.tolist()


@pytest.mark.parametrize(("what", "skipped"), [
    ("memory", "st.global.u32 [%rd2], %r2;"),
    ("a load", "ld.global.u32 %r2, [%rd2];"),
    ("a barrier of a warp", "bar.warp.sync -1;"),
    ("who is active", "activemask.b32 %r2;"),
    ("a special register", "mov.u32 %r2, %clock;"),
    ("a carry", "add.cc.u32 %r2, %r2, -1; addc.u32 %r2, %r2, 0;"),
    ("a guard", "@%p2 add.u32 %r2, %r2, 1;"),
    ("too much", "add.u32 %r2, %r2, 1;" * 17),
])
def test_what_is_left_alone(what, skipped, converted):
    body = f"{ODD} mov.b32 %r2, 4; setp.lt.u32 %p2, %tid, 9; @%p1 bra Skip; {skipped} Skip: "
    per_thread(body + "mov.b32 %r0, %r2;", np.zeros(1, np.uint32))
    assert not converted


def test_a_long_block_that_few_lanes_need_is_not_computed_for_all(converted):
    def run(few: int) -> None:
        body = (f"mov.b32 %r2, 0; setp.ge.u32 %p1, %tid, {few}; @%p1 bra Skip;"
                f"{'add.u32 %r2, %r2, %tid;' * 10} Skip: mov.b32 %r0, %r2;")
        assert per_thread(body, block=96).tolist() == [10 * t if t < few else 0 for t in range(96)]

    run(23)
    assert not converted
    run(24)
    assert converted == [72]


def test_counters_and_budget_are_as_without():
    """Lanes that jumped are not charged for what they did not need."""
    text = entry(ODD + "mov.b32 %r2, 0; @%p1 bra Skip; add.u32 %r2, %r2, 1; Skip:"
                 "mad.wide.u32 %rd1, %tid, 4, %rd1; st.global.u32 [%rd1], %r2;", 1)
    with profile() as seen:
        launch(text, 1, 64, [np.zeros(64, np.uint32)])
    (counters,) = (one.counters for one in seen.launches)
    assert counters.divergent_branches == 2


OPERATIONS = ("add.u32", "sub.u32", "xor.b32", "min.u32", "mul.lo.u32", "shl.b32")


@given(st.lists(st.tuples(st.sampled_from(OPERATIONS), *[st.integers(2, 9)] * 3, st.booleans(),
                          st.integers(0, 63)), min_size=1, max_size=12))
def test_random_chains_of_branches(steps):
    """Each step computes one register from two others, in the lanes of one side of a bit."""
    lines = [f"mul.lo.u32 %r{r}, %tid, {r * 7 + 1};" for r in range(2, 10)]
    for number, (name, target, a, b, negated, bit) in enumerate(steps):
        lines.append(f"xor.b32 %r1, %tid, {bit}; and.b32 %r1, %r1, {1 << number % 6};"
                     f"setp.eq.u32 %p1, %r1, 0; @{'!' * negated}%p1 bra Skip{number};"
                     f"{name} %r{target}, %r{a}, %r{b}; Skip{number}:")
    lines.append("mov.b32 %r0, 0;")
    lines += [f"mad.lo.u32 %r0, %r0, 31, %r{r};" for r in range(2, 10)]
    with watch(Observer()):
        parted = per_thread("\n".join(lines), block=64)
    assert per_thread("\n".join(lines), block=64).tolist() == parted.tolist()
