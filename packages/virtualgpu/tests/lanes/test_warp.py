"""Instructions by which the lanes of a warp speak, against the ISA's definitions lane by lane.

The references below loop over the lanes of one warp and follow the text of the PTX ISA; they
share nothing with the machine.
"""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import virtualgpu
from ptx_lab import per_thread
from virtualgpu.cuda.module import Module
from virtualgpu.errors import DeadlockError, UnsupportedInstruction

RANDOM = np.random.default_rng(8)
FULL = 0xFFFF_FFFF
POISON = 0xFEFEFEFE


def shuffled(mode: str, values, b, c, mask=FULL, size=32):
    """PTX ISA, "shfl.sync": its pseudocode."""
    results, inside = [], []
    for lane in range(size):
        bval, cval, segmask = int(b[lane]) & 31, int(c[lane]) & 31, int(c[lane]) >> 8 & 31
        max_lane = (lane & segmask) | (cval & ~segmask)
        min_lane = lane & segmask
        j, p = {
            "up": (lane - bval, lane - bval >= max_lane),
            "down": (lane + bval, lane + bval <= max_lane),
            "bfly": (lane ^ bval, (lane ^ bval) <= max_lane),
            "idx": (min_lane | (bval & ~segmask), (min_lane | (bval & ~segmask)) <= max_lane),
        }[mode]
        if not p:
            j = lane
        results.append(int(values[j]) if j < size and mask >> j & 1 else POISON)
        inside.append(p)
    return results, inside


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("source", ["immediate", "register"])
def test_shuffles(mode, source):
    for trial in range(6):
        values = RANDOM.integers(0, 2**32, 32, np.uint32)
        if source == "immediate":
            width = 1 << trial
            b = np.full(32, RANDOM.integers(0, 32), np.uint32)
            c = np.full(32, (32 - width) << 8 | (0 if mode == "up" else 31), np.uint32)
            operands = f"{b[0]}, {c[0]}"
        else:
            b, c = RANDOM.integers(0, 64, 32, np.uint32), RANDOM.integers(0, 2**13, 32, np.uint32)
            operands = "%r2, %r3"
        out = per_thread(
            f"""
            mul.wide.u32 %rd5, %tid, 4; add.u64 %rd6, %rd2, %rd5; ld.global.u32 %r1, [%rd6];
            add.u64 %rd6, %rd3, %rd5; ld.global.u32 %r2, [%rd6];
            add.u64 %rd6, %rd4, %rd5; ld.global.u32 %r3, [%rd6];
            shfl.sync.{mode}.b32 %r4|%p1, %r1, {operands}, -1;
            cvt.u64.u32 %rd7, %r4; selp.b64 %rd8, 0x100000000, 0, %p1; or.b64 %rd7, %rd7, %rd8;
            """,
            values,
            b,
            c,
            dtype=np.uint64,
            result="%rd7",
        )
        results, inside = shuffled(mode, values, b, c)
        assert (out & FULL).tolist() == results
        assert (out >> np.uint64(32)).astype(bool).tolist() == inside


def test_a_lane_that_is_not_there_has_nothing_to_give():
    """The ISA leaves the value undefined; here it is poison, in a partial warp and in a branch."""
    out = per_thread("shfl.sync.down.b32 %r0, %tid, 4, 31, -1;", block=40)
    assert out[32:].tolist() == [36, 37, 38, 39, POISON, POISON, POISON, POISON]
    assert out[:32].tolist() == [*range(4, 32), 28, 29, 30, 31]
    out = per_thread("""
        mov.u32 %r0, 1; setp.lt.u32 %p1, %tid, 8; @!%p1 bra Out;
        shfl.sync.bfly.b32 %r0, %tid, 8, 31, 0xff; Out:""")
    assert out.tolist() == [POISON] * 8 + [1] * 24


def team_of(lane: int, masks) -> list[int]:
    """The lanes that take part with ``lane``: those that name the same mask."""
    return [j for j in range(32) if masks[j] == masks[lane] and masks[lane] >> j & 1]


TEAMS = {
    "whole warp": [FULL] * 32,
    "two halves": [0xFFFF] * 16 + [0xFFFF0000] * 16,
    "odd and even": [0x55555555, 0xAAAAAAAA] * 16,
    "tiles of four": [0xF << (lane & ~3) for lane in range(32)],
    "each alone": [1 << lane for lane in range(32)],
}


def collective(instruction: str, masks, *inputs, result="%r0", dtype=np.uint32):
    """Run ``instruction`` in one warp: %r1 (or %rd7) the lane's value, %p1 its predicate, %r5
    its mask."""
    values = np.asarray(inputs[0])
    size = values.dtype.itemsize
    bank = "%r1" if size == 4 else "%rd7"
    return per_thread(
        f"""
        mul.wide.u32 %rd5, %tid, {size}; add.u64 %rd6, %rd2, %rd5;
        ld.global.b{8 * size} {bank}, [%rd6];
        mul.wide.u32 %rd5, %tid, 4; add.u64 %rd6, %rd3, %rd5; ld.global.u32 %r5, [%rd6];
        and.b32 %r6, %r1, 1; setp.eq.u32 %p1, %r6, 1;
        {instruction}""",
        values,
        np.uint32(masks),
        dtype=dtype,
        result=result,
    )


@pytest.mark.parametrize("masks", TEAMS.values(), ids=TEAMS)
@pytest.mark.parametrize("seen", ["mixed", "all", "none"])
def test_votes(masks, seen):
    """Each vote speaks of the lanes of its own mask, whatever lanes run beside them."""
    bits = {"mixed": RANDOM.integers(0, 2, 32), "all": np.ones(32), "none": np.zeros(32)}[seen]
    values = bits.astype(np.uint32)
    out = collective(
        """
        vote.sync.all.pred %p2, %p1, %r5; vote.sync.any.pred %p3, %p1, %r5;
        vote.sync.uni.pred %p4, %p1, %r5; vote.sync.ballot.b32 %r7, %p1, %r5;
        vote.sync.all.pred %p5, !%p1, %r5;
        cvt.u64.u32 %rd8, %r7;
        @%p2 or.b64 %rd8, %rd8, 0x100000000; @%p3 or.b64 %rd8, %rd8, 0x200000000;
        @%p4 or.b64 %rd8, %rd8, 0x400000000; @%p5 or.b64 %rd8, %rd8, 0x800000000;""",
        masks,
        values,
        result="%rd8",
        dtype=np.uint64,
    )
    for lane in range(32):
        team = [bool(values[j]) for j in team_of(lane, masks)]
        ballot = sum(1 << j for j in team_of(lane, masks) if values[j])
        wanted = ballot | (all(team) << 32) | (any(team) << 33) | ((len(set(team)) == 1) << 34)
        assert int(out[lane]) == wanted | ((not any(team)) << 35)


@pytest.mark.parametrize("masks", TEAMS.values(), ids=TEAMS)
@pytest.mark.parametrize("width", [32, 64])
def test_matches(masks, width):
    values = RANDOM.integers(0, 4, 32).astype(f"u{width // 8}") << np.uint32(width - 4)
    bank = {32: "%r1", 64: "%rd7"}[width]
    for these in (values, np.full_like(values, values[0])):
        any_ = collective(f"match.any.sync.b{width} %r0, {bank}, %r5;", masks, these)
        all_ = collective(
            f"match.all.sync.b{width} %r0|%p2, {bank}, %r5;@!%p2 xor.b32 %r0, %r0, 1;", masks, these
        )
        for lane in range(32):
            team = team_of(lane, masks)
            same = sum(1 << j for j in team if these[j] == these[lane])
            assert any_[lane] == same
            together = sum(1 << j for j in team)
            assert all_[lane] == (together if same == together else 1)


REDUCTIONS = {
    "add.u32": lambda team: sum(team) & FULL,
    "add.s32": lambda team: sum(team) & FULL,
    "min.u32": min,
    "max.u32": max,
    "min.s32": lambda team: min(team, key=lambda v: v - (v >> 31 << 32)),
    "max.s32": lambda team: max(team, key=lambda v: v - (v >> 31 << 32)),
    "and.b32": lambda team: int(np.bitwise_and.reduce(np.uint32(team))),
    "or.b32": lambda team: int(np.bitwise_or.reduce(np.uint32(team))),
    "xor.b32": lambda team: int(np.bitwise_xor.reduce(np.uint32(team))),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("masks", TEAMS.values(), ids=TEAMS)
def test_reductions(name, masks):
    values = RANDOM.integers(0, 2**32, 32, np.uint32)
    out = collective(f"redux.sync.{name} %r0, %r1, %r5;", masks, values)
    wanted = [
        REDUCTIONS[name]([int(values[j]) for j in team_of(lane, masks)]) for lane in range(32)
    ]
    assert out.tolist() == wanted


@pytest.mark.parametrize("masks", TEAMS.values(), ids=TEAMS)
def test_one_leader_is_elected(masks):
    out = collective(
        "elect.sync %r0|%p2, %r5; @%p2 add.u32 %r0, %r0, 100;", masks, np.zeros(32, np.uint32)
    )
    for lane in range(32):
        leader = min(team_of(lane, masks))
        assert out[lane] == leader + 100 * (lane == leader)


def test_shuffles_stay_inside_the_mask():
    out = collective(
        "shfl.sync.bfly.b32 %r0, %r1, 16, 31, %r5;",
        TEAMS["two halves"],
        np.arange(32, dtype=np.uint32),
    )
    assert (out == POISON).all()
    out = collective(
        "shfl.sync.bfly.b32 %r0, %r1, 15, 31, %r5;",
        TEAMS["two halves"],
        np.arange(32, dtype=np.uint32),
    )
    assert out.tolist() == [lane ^ 15 for lane in range(32)]


def test_activemask_in_branches():
    out = per_thread(
        """
        and.b32 %r1, %tid, 3; setp.eq.u32 %p1, %r1, 3; @%p1 bra Odd;
        activemask.b32 %r0; bra Out;
        Odd: activemask.b32 %r0;
        Out:""",
        block=40,
    )
    wanted = [
        sum(1 << j % 32 for j in range(40) if j // 32 == t // 32 and (j % 4 == 3) == (t % 4 == 3))
        for t in range(40)
    ]
    assert out.tolist() == wanted


def test_lane_registers():
    out = per_thread(
        """
        mov.u32 %r1, %laneid; mov.u32 %r2, %warpid; mov.u32 %r3, %nwarpid;
        mad.lo.u32 %r0, %r2, 100, %r1; mad.lo.u32 %r0, %r3, 10000, %r0;""",
        block=(10, 7),
    )
    t = np.arange(70)
    assert out.tolist() == (30000 + t // 32 * 100 + t % 32).tolist()
    for name, bits in {
        "eq": lambda i: 1 << i,
        "lt": lambda i: (1 << i) - 1,
        "le": lambda i: (2 << i) - 1,
        "gt": lambda i: FULL & ~((2 << i) - 1),
        "ge": lambda i: FULL & ~((1 << i) - 1),
    }.items():
        out = per_thread(f"mov.u32 %r0, %lanemask_{name};")
        assert out.tolist() == [bits(i) for i in range(32)]


# -- who is waited for ----------------------------------------------------------------------------


def test_lanes_that_come_late_are_waited_for():
    """Half of the warp takes a detour; the vote is of all lanes, not of those who came first."""
    out = per_thread("""
        and.b32 %r1, %tid, 1; setp.eq.u32 %p1, %r1, 1; @!%p1 bra Vote;
        mov.u32 %r2, 0;
        Detour: add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, %tid; @%p2 bra Detour;
        Vote: vote.sync.ballot.b32 %r0, %p1, -1;""")
    assert (out == 0xAAAAAAAA).all()


def test_lanes_that_have_ended_are_not_waited_for():
    out = per_thread(
        """
        setp.ge.u32 %p1, %tid, 20; @%p1 exit;
        vote.sync.ballot.b32 %r0, 1, -1;""",
        block=64,
    )
    assert out[:20].tolist() == [(1 << 20) - 1] * 20
    assert (out[20:] == 0xABABABAB).all()


def test_lanes_that_end_later_let_the_others_go():
    out = per_thread("""
        setp.lt.u32 %p1, %tid, 20; @%p1 bra Vote;
        mov.u32 %r2, 0;
        Detour: add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 100; @%p2 bra Detour;
        exit;
        Vote: vote.sync.ballot.b32 %r0, 1, -1;""")
    assert out[:20].tolist() == [(1 << 20) - 1] * 20


def test_a_guarded_instruction_is_for_the_lanes_it_holds():
    """Lanes whose predicate is false neither take part nor wait."""
    out = per_thread("""
        mov.u32 %r0, 0; setp.lt.u32 %p1, %tid, 8;
        @%p1 vote.sync.ballot.b32 %r0, 1, 0xff;
        @!%p1 redux.sync.add.u32 %r0, 1, 0xffffff00;""")
    assert out.tolist() == [0xFF] * 8 + [24] * 24


def test_a_mask_that_names_lanes_elsewhere_is_a_deadlock():
    with pytest.raises(DeadlockError, match=r"16 of its threads .*vote\.sync\.all"):
        per_thread("""
            setp.lt.u32 %p1, %tid, 16; @%p1 bra Here;
            bar.sync 0; bra Out;
            Here: vote.sync.all.pred %p2, %p1, -1; bar.sync 0;
            Out: mov.u32 %r0, 0;""")


COPIES = {
    "shfl": ("shfl.sync.bfly.b32 %r0, %tid, 16, 31, -1;", lambda t: t ^ 16),
    "vote": (
        "setp.eq.u32 %p2, %tid, 20; vote.sync.any.pred %p3, %p2, -1; selp.u32 %r0, 1, 2, %p3;",
        lambda t: 0 * t + 1,
    ),
    "ballot": (
        "and.b32 %r1, %tid, 1; setp.eq.u32 %p2, %r1, 0; vote.sync.ballot.b32 %r0, %p2, -1;",
        lambda t: 0 * t + 0x5555_5555,
    ),
    "match": (
        "and.b32 %r1, %tid, 7; match.any.sync.b32 %r0, %r1, -1;",
        lambda t: 0x01010101 << (t & 7),
    ),
    "redux": ("redux.sync.add.u32 %r0, %tid, -1;", lambda t: 0 * t + 496),
}


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
@pytest.mark.parametrize("name", COPIES)
def test_copies_of_an_exchange_meet(name, seed):
    """PTX ISA: lanes wait until all in the mask "have executed shfl.sync with the same qualifiers
    and same membermask value": which of the copies that a compiler made of it, it does not ask.
    What the copies give to and where they leave it are registers of their own."""
    exchange, wanted = COPIES[name]
    other = exchange.replace("%r0", "%r9").replace("%r1,", "%r8,")
    body = f"""
        mov.u32 %r2, 0;
        Next: rem.u32 %r3, %tid, 3; setp.eq.u32 %p1, %r3, 1; @%p1 bra Odd;
        {exchange} bra On;
        Odd: add.u32 %r4, %r2, 1; {other} mov.u32 %r0, %r9;
        On: add.u32 %r2, %r2, 1; setp.lt.u32 %p4, %r2, 2; @%p4 bra Next;"""
    with contextlib.nullcontext() if seed is None else virtualgpu.schedule(seed):
        out = per_thread(body, block=64 if name == "shfl" else 32)
    t = np.arange(64 if name == "shfl" else 32)
    np.testing.assert_array_equal(out, wanted(t))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("shfl.sync.bfly.b32 %r0, %tid, 16, 31, -1;", "shfl.sync.idx.b32 %r0, %tid, 16, 31, -1;"),
        (
            "shfl.sync.bfly.b32 %r0, %tid, 16, 31, -1;",
            "shfl.sync.bfly.b32 %r0, %tid, 16, 31, 0x7fffffff;",
        ),
        ("redux.sync.add.u32 %r0, %tid, -1;", "redux.sync.add.s32 %r0, %tid, -1;"),
        ("vote.sync.ballot.b32 %r0, %p1, -1;", "vote.sync.any.pred %p2, %p1, -1;"),
    ],
)
def test_exchanges_of_other_qualifiers_or_masks_do_not_meet(one, other):
    with pytest.raises(DeadlockError, match=r"16 of its threads .*; 16 of its threads"):
        per_thread(f"""mov.u32 %r0, 0; setp.lt.u32 %p1, %tid, 16; @%p1 bra Low;
            {one} bra Out; Low: {other} Out:""")


def test_half_a_warp_at_a_copy_and_half_elsewhere_is_a_deadlock():
    with pytest.raises(DeadlockError, match=r"shfl\.sync"):
        per_thread("""mov.u32 %r0, 0; setp.lt.u32 %p1, %tid, 8; @%p1 bra Low;
            setp.lt.u32 %p1, %tid, 16; @%p1 bra Gone;
            shfl.sync.bfly.b32 %r0, %tid, 16, 31, -1; bra Out;
            Low: shfl.sync.bfly.b32 %r0, %tid, 16, 31, -1; bra Out;
            Gone: bar.sync 0; Out:""")


def test_warp_barriers_meet_across_the_code():
    """``__syncwarp()`` in both halves of a branch is one barrier, by the mask alone."""
    out = per_thread(
        """
        mad.wide.u32 %rd5, %tid, 4, 0; mov.u64 %rd6, tile; add.u64 %rd5, %rd5, %rd6;
        add.u32 %r1, %tid, 10; st.shared.u32 [%rd5], %r1;
        xor.b32 %r2, %tid, 16; mad.wide.u32 %rd6, %r2, 4, %rd6;
        setp.lt.u32 %p1, %tid, 16; @%p1 bra Low;
        add.u32 %r1, %r1, 100; st.shared.u32 [%rd5], %r1;
        bar.warp.sync -1; ld.shared.u32 %r0, [%rd6]; bra Out;
        Low: add.u32 %r1, %r1, 200; st.shared.u32 [%rd5], %r1;
        bar.warp.sync -1; ld.shared.u32 %r0, [%rd6];
        Out:""",
        block=70,
        variables=".shared .align 4 .b8 tile[384];",
    )
    t = np.arange(70)
    wanted = (t ^ 16) + 10 + np.where((t ^ 16) < 16, 200, 100)
    np.testing.assert_array_equal(out[:64], wanted[:64])


def test_warp_barriers_of_different_masks_do_not_meet():
    with pytest.raises(DeadlockError, match=r"bar\.warp\.sync"):
        per_thread("""
            setp.lt.u32 %p1, %tid, 16; @%p1 bra Low;
            bar.warp.sync 0xffff0001; bra Out;
            Low: bar.warp.sync -1;
            Out: mov.u32 %r0, 0;""")
    out = per_thread("""
        setp.lt.u32 %p1, %tid, 16; selp.b32 %r1, 0xffff, 0xffff0000, %p1;
        bar.warp.sync %r1; mov.u32 %r0, %r1;""")
    assert out.tolist() == [0xFFFF] * 16 + [0xFFFF0000] * 16


@pytest.mark.parametrize(
    "text",
    [
        "vote.all.pred %p1, %p2;",
        "shfl.up.b32 %r0, %r1, 1, 0;",
        "redux.sync.min.f32 %f1, %f2, -1;",
    ],
)
def test_what_this_device_lacks_is_named(text):
    with pytest.raises(UnsupportedInstruction):
        per_thread(text)


def test_cooperative_groups_of_cuda():
    """Tiles and coalesced groups as NVRTC compiles them."""
    module = Module.from_cuda(r"""
        #include <cooperative_groups.h>
        namespace cg = cooperative_groups;
        extern "C" __global__ void tiles(int *sum, int *any)
        {
            auto tile = cg::tiled_partition<8>(cg::this_thread_block());
            int i = threadIdx.x, v = i;
            for (int d = tile.size() / 2; d; d /= 2) v += tile.shfl_down(v, d);
            sum[i] = tile.shfl(v, 0);
            any[i] = tile.any(i == 9) + 2 * tile.ballot(i % 3 == 0);
        }
        extern "C" __global__ void tickets(int *counter, int *ticket)
        {
            if (threadIdx.x % 3) return;
            auto group = cg::coalesced_threads();
            int first;
            if (group.thread_rank() == 0) first = atomicAdd(counter, group.size());
            ticket[threadIdx.x] = group.shfl(first, 0) + group.thread_rank();
        }""")
    total, some = np.zeros(64, np.int32), np.zeros(64, np.int32)
    module.launch("tiles", 1, 64, [total, some])
    i = np.arange(64).reshape(8, 8)
    assert total.tolist() == np.repeat(i.sum(1), 8).tolist()
    ballots = ((i % 3 == 0) << np.arange(8)).sum(1)
    assert some.tolist() == np.repeat((i == 9).any(1) + 2 * ballots, 8).tolist()
    counter, ticket = np.zeros(1, np.int32), np.full(64, -1, np.int32)
    module.launch("tickets", 1, 64, [counter, ticket])
    assert sorted(ticket[::3]) == list(range(22))
    assert (np.delete(ticket, np.s_[::3]) == -1).all()
