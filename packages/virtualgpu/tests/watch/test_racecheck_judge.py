"""The race check against a judge that keeps every access (``race_reference.py``).

Random programs of loads, stores, atomics, barriers and fences: both must name the same bytes.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import virtualgpu
from ptx_lab import entry, launch
from race_programs import ORDER, PLAIN, WHERE, WHO, access
from race_reference import Reference
from virtualgpu.findings import Report
from virtualgpu.watch.instruments import watch
from virtualgpu.watch.racecheck import Racecheck


class Places(Racecheck):
    """A race check that keeps where it found races: (space, block or None, byte)."""

    def __init__(self):
        super().__init__(Report())
        self.racy: set = set()

    def _report(self, state, access, area, addresses, lanes, chosen) -> None:
        for one in chosen:
            granule = int(self.found[1][one])
            low, block = area.start + (granule << area.shift), None
            if access.space == "shared":
                block, low = divmod(low, state.wave.shared_stride)
                block += state.wave.first
            self.racy |= {
                (access.space, block, byte) for byte in range(low, low + (1 << area.shift))
            }
        super()._report(state, access, area, addresses, lanes, chosen)


# -- random programs ----------------------------------------------------------------------------


def program(steps: list[str]) -> str:
    body = "  mov.u64 %rd8, table;\n"
    for number, step in enumerate(steps):
        body += step.replace("#", str(number)) + "\n"
    return entry(body, 1, variables="  .shared .align 4 .b8 table[512];\n")


def steps(what, order):
    accesses = st.builds(
        access,
        st.sampled_from(list(WHO)),
        st.sampled_from(list(WHERE)),
        st.sampled_from(what),
        st.sampled_from(["global", "shared"]),
    )
    orders = st.sampled_from([ORDER[name] for name in order])
    return st.lists(accesses | orders, min_size=3, max_size=14)


def compare(lines: list[str], seed: int | None = None) -> set:
    checked, judge = Places(), Reference()
    array = np.zeros(128, np.uint32)
    with watch(checked, judge):
        if seed is None:
            launch(program(lines), 2, 64, [array])
        else:
            with virtualgpu.schedule(seed):
                launch(program(lines), 2, 64, [array])
    assert checked.racy <= judge.racy, "false alarm"
    # A granule may be as wide as a word: each racy byte's word must be found.
    missed = {(space, block, byte & ~3) for space, block, byte in judge.racy} - {
        (space, block, byte & ~3) for space, block, byte in checked.racy
    }
    assert not missed, f"missed {sorted(missed, key=str)[:5]}"
    return judge.racy


@settings(max_examples=30)
@given(steps(PLAIN, ["barrier", "syncwarp", "shuffle"]), st.sampled_from([None, 1, 2]))
def test_barriers_agree_with_the_judge(lines, seed):
    compare(lines, seed)


@settings(max_examples=30)
@given(
    steps((*PLAIN, "atomic", "volatile load", "volatile store"), ["barrier", "syncwarp"]),
    st.sampled_from([None, 3, 4]),
)
def test_strong_accesses_agree_with_the_judge(lines, seed):
    compare(lines, seed)


@settings(max_examples=30)
@given(
    steps(PLAIN, ["barrier", "syncwarp", "half warps", "warp barrier"]),
    st.sampled_from([None, 5, 6]),
)
def test_partial_barriers_agree_with_the_judge(lines, seed):
    compare(lines, seed)


@settings(max_examples=40)
@given(
    steps(
        ("load", "store", "atomic", "volatile load", "volatile store", "acquire", "release"),
        ["barrier", "syncwarp", "fence", "fence of the block"],
    ),
    st.sampled_from([None, 7, 8]),
)
def test_fences_agree_with_the_judge(lines, seed):
    compare(lines, seed)


@st.composite
def messages(draw) -> list[str]:
    """Data written by one thread, handed on through flags, and read by another."""
    few = st.sampled_from(["one", "other", "one", "first block", "even", "all"])
    fences = ["fence", "fence of the block", "barrier", "syncwarp"]
    between = st.lists(st.sampled_from([*fences, "fence", "fence"]), max_size=2)
    chain = draw(st.lists(few, min_size=2, max_size=4))
    data_space, flag_space = (
        draw(st.sampled_from(["global", "shared"])),
        draw(st.sampled_from(["global", "global", "shared"])),
    )
    data = draw(st.sampled_from(["same", "own"]))
    lines = [access(chain[0], data, "store", data_space)]
    for giver, taker in itertools.pairwise(chain):
        flag = draw(st.sampled_from(["same", "pair"]))
        lines += [ORDER[name] for name in draw(between)]
        gives = draw(st.sampled_from(["atomic", "volatile store", "release"]))
        takes = draw(st.sampled_from(["atomic", "volatile load", "acquire"]))
        lines += [access(giver, flag, gives, flag_space), access(taker, flag, takes, flag_space)]
        lines += [ORDER[name] for name in draw(between)]
    return [*lines, access(chain[-1], data, draw(st.sampled_from(["store", "load"])), data_space)]


@settings(max_examples=40)
@given(messages(), st.sampled_from([None, 9, 10]))
def test_messages_agree_with_the_judge(lines, seed):
    compare(lines, seed)


@pytest.mark.parametrize("order", ["none", *ORDER])
def test_each_order_between_each_pair_of_elements(order):
    between = [] if order == "none" else [ORDER[order]]
    outcomes = set()
    for where in WHERE:
        for space in ("shared", "global"):
            first = access("all", "own" if space == "shared" else "of the grid", "store", space)
            outcomes.add(bool(compare([first, *between, access("all", where, "load", space)])))
    assert outcomes == {False, True}  # one's own element never races, that of all does or did


FENCE, NEAR_FENCE = ORDER["fence"], ORDER["fence of the block"]
ONCE_WRONG = {
    "what a releaser knew by older values of the same flag": (
        None,
        [
            access("other", "same", "store", "shared"),
            FENCE,
            access("other", "same", "atomic", "global"),
            access("other", "same", "atomic", "global"),
            FENCE,
            access("other", "same", "volatile store", "global"),
            access("first block", "same", "acquire", "global"),
            NEAR_FENCE,
            access("first block", "same", "load", "shared"),
        ],
    ),
    "threads that ended are not those a counted barrier waits for": (
        2,
        [
            access("low half", "across", "store", "shared"),
            ORDER["barrier"],
            access("even", "same", "release", "shared"),
            access("second warp", "same", "acquire", "shared"),
            ORDER["warp barrier"],
            NEAR_FENCE,
            access("all", "across", "load", "shared"),
        ],
    ),
}


@pytest.mark.parametrize("name", ONCE_WRONG)
def test_programs_that_were_judged_wrongly_once(name):
    seed, lines = ONCE_WRONG[name]
    compare(lines, seed)


def test_the_judge_meets_both_outcomes():
    racy = [access("all", "own", "store", "shared"), access("all", "across", "load", "shared")]
    assert compare(racy)
    assert not compare([racy[0], ORDER["barrier"], racy[1]])
    assert compare([racy[0], ORDER["warp barrier"], racy[1]])
    hand_over = [
        access("one", "same", "store", "global"),
        ORDER["fence"],
        access("one", "pair", "atomic", "global"),
        access("other", "same", "load", "shared"),
    ]
    assert compare([*hand_over, access("one", "same", "load", "global")])


def test_arrays_behind_one_instruction():
    # Lanes of one store that go to two allocations by turns.
    text = entry(
        """
      and.b32 %r1, %tid, 1;
      setp.eq.u32 %p1, %r1, 0;
      selp.b64 %rd3, %rd1, %rd2, %p1;
      shr.u32 %r2, %tid, 2;
      mul.wide.u32 %rd4, %r2, 4;
      add.u64 %rd3, %rd3, %rd4;
      st.global.u32 [%rd3], %tid;
    """,
        2,
    )
    checked, judge = Places(), Reference()
    with watch(checked, judge):
        launch(text, 1, 64, [np.zeros(16, np.uint32), np.zeros(16, np.uint32)])
    assert checked.racy == judge.racy
    assert len(judge.racy) == 2 * 16 * 4
