"""Parallel work is graded: serial kernels are told, and no honest style is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numba import cuda, int32, int64

import virtualgpu
from gpucourse import expect_parallel, launch
from gpucourse.grading.contract import Launched, PropertyFailed
from gpucourse.judging import parallel
from virtualgpu.watch.counters import Counters

SIZE = 4000


pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("active")]


# -- honest ways to add up an array ---------------------------------------------------------------


@cuda.jit
def an_atomic_for_each(values, total):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(total, 0, values[i])


@cuda.jit
def strides(values, total):
    own = 0
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        own += values[i]
    cuda.atomic.add(total, 0, own)


@cuda.jit
def chunks(values, total):
    """Several neighbours for each thread."""
    own = 0
    for first in range(8 * cuda.grid(1), values.size, 8 * cuda.gridsize(1)):
        for i in range(first, min(first + 8, values.size)):
            own += values[i]
    cuda.atomic.add(total, 0, own)


@cuda.jit
def tree(values, total):
    place = cuda.shared.array(1024, int64)
    t = cuda.threadIdx.x
    place[t] = 0
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        place[t] += values[i]
    active = cuda.blockDim.x
    while active > 1:
        cuda.syncthreads()
        half = (active + 1) // 2
        if t + half < active:
            place[t] += place[t + half]
        active = half
    if t == 0:
        cuda.atomic.add(total, 0, place[0])


@cuda.jit
def shuffles(values, total):
    """A tree in each warp, without memory; then thread 0 adds the warps' sums."""
    place = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    own = int32(0)
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        own += int32(values[i])
    for distance in (16, 8, 4, 2, 1):
        own += cuda.shfl_down_sync(0xFFFFFFFF, own, distance)
    if t % 32 == 0:
        place[t // 32] = own
    cuda.syncthreads()
    if t == 0:
        for warp in range(1, cuda.blockDim.x // 32):
            own += place[warp]
        cuda.atomic.add(total, 0, int64(own))


@cuda.jit
def aggregated(values, total):
    """One atomic for each warp, with the sum of its lanes."""
    own = int32(0)
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        own += int32(values[i])
    for distance in (16, 8, 4, 2, 1):
        own += cuda.shfl_xor_sync(0xFFFFFFFF, own, distance)
    if cuda.laneid == 0:
        cuda.atomic.add(total, 0, int64(own))


@cuda.jit
def tiles(values, total):
    """Through shared memory, tile by tile, with two barriers for each."""
    tile = cuda.shared.array(1024, int64)
    t = cuda.threadIdx.x
    own = 0
    for first in range(cuda.blockIdx.x * cuda.blockDim.x, values.size, cuda.gridsize(1)):
        tile[t] = values[first + t] if first + t < values.size else 0
        cuda.syncthreads()
        own += tile[cuda.blockDim.x - 1 - t]
        cuda.syncthreads()
    cuda.atomic.add(total, 0, own)


@cuda.jit
def shuffles_of_64_bits(values, total):
    """Two trees of shuffles, and every warp makes the second one."""
    place = cuda.shared.array(32, int64)
    own = int64(0)
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        own += values[i]
    for distance in (16, 8, 4, 2, 1):
        own += cuda.shfl_xor_sync(0xFFFFFFFF, own, distance)
    if cuda.laneid == 0:
        place[cuda.threadIdx.x // 32] = own
    cuda.syncthreads()
    own = place[cuda.laneid] if cuda.laneid < cuda.blockDim.x // 32 else int64(0)
    for distance in (16, 8, 4, 2, 1):
        own += cuda.shfl_xor_sync(0xFFFFFFFF, own, distance)
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(total, 0, own)


@cuda.jit
def a_tree_for_each_tile(values, total):
    """Each warp adds up 32 neighbours at a time."""
    added = 0
    for first in range(cuda.grid(1) // 32 * 32, values.size, cuda.gridsize(1)):
        i = first + cuda.laneid
        own = values[i] if i < values.size else 0
        for distance in (16, 8, 4, 2, 1):
            own += cuda.shfl_down_sync(0xFFFFFFFF, own, distance)
        added += own
    if cuda.laneid == 0:
        cuda.atomic.add(total, 0, added)


HONEST = {
    kernel.__name__: kernel
    for kernel in (
        an_atomic_for_each,
        strides,
        chunks,
        tree,
        shuffles,
        aggregated,
        tiles,
        shuffles_of_64_bits,
        a_tree_for_each_tile,
    )
}
UNOPTIMISED = ("chunks", "tree")
SHAPES = [(4, 64), (32, 128), (2, 512), (8, 512), (1, 32)]


def judged(kernel, grid: int, block: int, **asked) -> None:
    """Launch on fresh values, see that the sum is right, and ask whether the work is shared."""
    values = np.random.default_rng(grid).integers(0, 100, SIZE)
    total = np.zeros(1, np.int64)
    globals()["adds"] = kernel
    launched = launch("adds", grid, block, values, total, schedules=0)
    assert total[0] == values.sum()
    expect_parallel(launched, values.size, **asked)


@pytest.mark.parametrize("name", HONEST)
def test_every_honest_style_passes(name):
    for grid, block in SHAPES:
        if name != "an_atomic_for_each" or grid * block >= SIZE:
            judged(HONEST[name], grid, block)


@pytest.mark.parametrize("name", UNOPTIMISED)
def test_unoptimised_code_passes(name):
    kernel = cuda.jit(HONEST[name].py_func, debug=True, opt=False)
    values, total = cuda.to_device(np.ones(SIZE, np.int64)), cuda.to_device(np.zeros(1, np.int64))
    with virtualgpu.profile() as profile:
        kernel[4, 64](values, total)
    assert total.copy_to_host()[0] == SIZE
    assert parallel.uneven(profile.launches[0].counters, (4, 1, 1), (64, 1, 1), SIZE) is None


@pytest.mark.parametrize("name", ["tree", "shuffles", "shuffles_of_64_bits"])
def test_a_tree_does_not_queue(name):
    for grid, block in SHAPES:
        judged(HONEST[name], grid, block, tree=True)


@cuda.jit
def aggregated_by_slot(values, counts):
    """One atomic for all lanes of a warp that have the same slot."""
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        slot = int32(values[i])
        same = cuda.match_any_sync(cuda.activemask(), slot)
        if cuda.ffs(same) - 1 == cuda.laneid:
            cuda.atomic.add(counts, slot, cuda.popc(same))


@cuda.jit
def slots_by_thread_0(values, counts):
    """All threads count; thread 0 zeroes and merges the few slots."""
    mine = cuda.shared.array(64, int32)
    if cuda.threadIdx.x == 0:
        for slot in range(counts.size):
            mine[slot] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(mine, values[i], 1)
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        for slot in range(counts.size):
            cuda.atomic.add(counts, slot, mine[slot])


@pytest.mark.parametrize("name", ["aggregated_by_slot", "slots_by_thread_0"])
@pytest.mark.parametrize("shape", [(8, 128), (4, 64)])
def test_honest_histograms_pass(name, shape):
    values, counts = np.random.default_rng(3).integers(0, 42, 1000), np.zeros(42, np.int32)
    launched = launch(name, *shape, values, counts, schedules=1)
    assert (counts == np.bincount(values, minlength=42)).all()
    expect_parallel(launched, values.size, slots=counts.size)


# -- serial ones ----------------------------------------------------------------------------------


@cuda.jit
def one_thread(values, total):
    if cuda.grid(1) == 0:
        for i in range(values.size):
            total[0] += values[i]


@cuda.jit
def one_of_each_block(values, total):
    if cuda.threadIdx.x == 0:
        own = 0
        for i in range(cuda.blockIdx.x, values.size, cuda.gridDim.x):
            own += values[i]
        cuda.atomic.add(total, 0, own)


@cuda.jit
def one_of_each_warp(values, total):
    if cuda.laneid == 0:
        own = 0
        for i in range(cuda.grid(1) // 32, values.size, cuda.gridsize(1) // 32):
            own += values[i]
        cuda.atomic.add(total, 0, own)


@cuda.jit
def one_adds_what_others_read(values, total):
    place = cuda.shared.array(1024, int64)
    t = cuda.threadIdx.x
    own = 0
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        own += values[i]
    place[t] = own
    cuda.syncthreads()
    if t == 0:
        for k in range(1, cuda.blockDim.x):
            own += place[k]
        cuda.atomic.add(total, 0, own)


@cuda.jit
def in_turns(values, total):
    place = cuda.shared.array(1, int64)
    t = cuda.threadIdx.x
    if t == 0:
        place[0] = 0
    for turn in range(cuda.blockDim.x):
        cuda.syncthreads()
        if turn == t:
            for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
                place[0] += values[i]
    cuda.syncthreads()
    if t == 0:
        cuda.atomic.add(total, 0, place[0])


@cuda.jit
def behind_a_lock(values, total):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        while cuda.atomic.cas(total, 1, 0, 1) != 0:
            pass
        cuda.threadfence()
        total[0] += values[i]
        cuda.threadfence()
        cuda.atomic.exch(total, 1, 0)


def some(k):
    """The first thread of each k, with the work of all k."""

    @cuda.jit
    def one_in_k(values, total):
        if cuda.threadIdx.x % k == 0:
            own = 0
            for i in range(cuda.grid(1) // k, values.size, cuda.gridsize(1) // k):
                own += values[i]
            cuda.atomic.add(total, 0, own)

    return one_in_k


@cuda.jit
def the_first_warp_of_each_block(values, total):
    if cuda.threadIdx.x < 32:
        own = 0
        for i in range(cuda.blockIdx.x * 32 + cuda.threadIdx.x, values.size, 32 * cuda.gridDim.x):
            own += values[i]
        cuda.atomic.add(total, 0, own)


@cuda.jit
def lanes_in_turns(values, total):
    """Each lane has its even share, and the other 31 wait until it is done."""
    own = 0
    for lane in range(32):
        if lane == cuda.laneid:
            for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
                own += values[i]
        cuda.syncwarp()
    cuda.atomic.add(total, 0, own)


@cuda.jit
def groups_in_turns(values, total):
    """A sixteenth of each block at a time."""
    own = 0
    for turn in range(16):
        if cuda.threadIdx.x % 16 == turn:
            for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
                own += values[i]
        cuda.syncthreads()
    cuda.atomic.add(total, 0, own)


ALONE = "one thread does the work of many"
TURNS = "one after the other"
SERIAL = [
    (one_thread, 4, 64, ALONE),
    (one_thread, 1, 512, ALONE),
    (one_of_each_block, 4, 64, ALONE),
    (one_of_each_block, 16, 128, ALONE),
    (one_of_each_warp, 4, 64, ALONE),
    (one_adds_what_others_read, 2, 512, ALONE),
    (in_turns, 2, 512, TURNS),
    (some(8), 1, 64, ALONE),
    (some(4), 1, 64, ALONE),
    (some(2), 1, 32, ALONE),
    (the_first_warp_of_each_block, 1, 128, ALONE),
    (lanes_in_turns, 1, 64, TURNS),
    (groups_in_turns, 1, 64, TURNS),
]


@pytest.mark.parametrize(("kernel", "grid", "block", "told"), SERIAL)
def test_serial_kernels_are_told(kernel, grid, block, told):
    with pytest.raises(PropertyFailed, match=told) as failed:
        judged(kernel, grid, block)
    assert "threads touch memory at all" in failed.value.detail
    # And what to do next.
    assert re.search(r"\. (Give every thread|Let all threads) ", failed.value.reason)
    # What may be told holds no count: a kernel could spell an input with one.
    assert set(re.findall(r"[\d.]*\d", failed.value.reason)) <= {"4", "8", "1.5"}


def test_a_queue_at_one_address_is_told_where_it_is_asked():
    judged(strides, 2, 512)
    with pytest.raises(PropertyFailed, match=r"threads queue at one address.* in a tree, and make"):
        judged(strides, 2, 512, tree=True)


@cuda.jit
def lanes_hand_on(values, total):
    """The first lane of each warp is told the others' numbers, one by one."""
    own = int32(0)
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        own += int32(values[i])
    added = own
    for lane in range(1, 32):
        added += cuda.shfl_sync(0xFFFFFFFF, own, lane)
    place = cuda.shared.array(32, int32)
    if cuda.laneid == 0:
        place[cuda.threadIdx.x // 32] = added
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        for warp in range(1, cuda.blockDim.x // 32):
            added += place[warp]
        cuda.atomic.add(total, 0, int64(added))


@pytest.mark.parametrize("items", [0, 1, 33])
def test_two_trees_of_shuffles_pass_however_few_the_elements(items):
    values, total = np.ones(items, np.int64), np.zeros(1, np.int64)
    launched = launch("shuffles_of_64_bits", 1, 32, values, total, schedules=0)
    assert total[0] == items
    expect_parallel(launched, items, tree=True)


def test_lanes_that_hand_on_their_numbers_are_told_where_a_tree_is_asked():
    judged(lanes_hand_on, 8, 512)
    judged(a_tree_for_each_tile, 4, 64, tree=True)
    with pytest.raises(PropertyFailed, match="the lanes of a warp pass on their numbers") as failed:
        judged(lanes_hand_on, 8, 512, tree=True)
    assert failed.value.detail.startswith("62 where 28 are allowed")


def test_a_lock_is_a_queue():
    values, total = np.ones(600, np.int64), np.zeros(2, np.int64)
    launched = launch("behind_a_lock", 4, 64, values, total, schedules=0)
    assert list(total) == [600, 0]
    with pytest.raises(PropertyFailed, match=ALONE):
        expect_parallel(launched, values.size)


# -- the rule itself ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "threads", "rounds", "fair"),
    [
        (1000, 256, 6, 4 + 6),
        (1024, 1024, 9, 1 + 9),
        (0, 64, 6, 6),
        (7, 1, 0, 7),
    ],
)
def test_a_share(items, threads, rounds, fair):
    assert parallel.share(items, threads, rounds) == fair


@pytest.mark.parametrize(
    ("counts", "asked"),
    [
        ({"busiest_accesses": 56, "global_loads": 10**6}, {}),
        ({"busiest_accesses": 76, "shared_atomics": 10**6}, {"slots": 5}),
        ({"busiest_accesses": 84, "shared_loads": 10**6}, {"accesses": 6}),
        ({"span_accesses": 112}, {}),
        ({"span_accesses": 32}, {"rounds": 0}),
        # 1.5 times the mean, and 4 for each of 6 rounds and 4 more.
        ({"busiest_accesses": 46, "global_loads": 3 * 256, "shared_stores": 256}, {}),
        ({"busiest_accesses": 48, "global_stores": 3 * 256, "global_atomics": 256}, {"even": 2}),
        (
            {"busiest_accesses": 44, "global_loads": 3 * 64, "global_stores": 64},
            {"threads": 64, "even": 1},
        ),
        ({"busiest_instructions": 700, "thread_instructions": 10**6}, {"instructions": 50}),
        ({"busiest_instructions": 650, "thread_instructions": 256 * 100}, {"instructions": 10**6}),
        ({"span_instructions": 1400}, {"instructions": 50}),
        ({"atomic_hottest": 56}, {"tree": True}),
        ({"warp_instructions_by_class": {"warp": 8 * 14 * (4 + 1)}}, {"tree": True}),
    ],
)
def test_bounds_are_where_they_are_said_to_be(counts, asked):
    """1,000 elements, 256 threads in blocks of 64: a share is 4 + 6 + 4."""
    shape = (4, 1, 1), (64, 1, 1), 1000
    assert parallel.uneven(Counters(**counts), *shape, **asked) is None
    # Counts at their bounds are near them.
    assert parallel.nearly(Counters(**counts), *shape, **asked) is not None
    name, count = next(iter(counts.items()))
    counts = counts | {name: count + 1 if isinstance(count, int) else {"warp": count["warp"] + 1}}
    assert parallel.uneven(Counters(**counts), *shape, **asked) is not None


def test_accesses_are_not_asked_of_work_in_registers():
    counters = Counters(busiest_accesses=10**6, span_accesses=10**6)
    assert parallel.uneven(counters, (4, 1, 1), (64, 1, 1), 1000, instructions=50) is None


def test_a_launch_too_small_to_tell_is_asked_nothing():
    for kernel in (one_thread, one_of_each_block):
        judged(kernel, 1, 1)


def test_a_real_gpu_counts_nothing():
    expect_parallel(Launched("k", (1, 1, 1), (64, 1, 1)), 10**9)


# -- beside a thread that is alone ----------------------------------------------------------------


@cuda.jit
def others_look_busy(values, total):
    """One thread in four has the work of four; the others load as much, for nothing."""
    own = 0
    for i in range(cuda.grid(1) // 4, values.size, cuda.gridsize(1) // 4 + (cuda.gridsize(1) < 4)):
        own += values[i]
    if cuda.grid(1) % 4 == 0 or own < 0:
        cuda.atomic.add(total, 0, own)


def beside_one_alone(kernel: str) -> None:
    """`kernel` on 64 threads shares the work as a thread that is alone lets expect."""
    values, total = np.ones(16_000, np.int64), np.zeros(1, np.int64)
    alone = launch(kernel, 1, 1, values[:1000], total, schedules=0)
    launched = launch(kernel, 1, 64, values, total, schedules=0)
    assert total[0] == 17_000
    expect_parallel(launched, values.size)
    expect_parallel(launched, values.size, alone=(alone, 1000))


def test_idle_loads_do_not_hide_the_busy_thread():
    with pytest.raises(PropertyFailed, match=r"1\.5 times as many .* when a thread is alone"):
        beside_one_alone("others_look_busy")


@pytest.mark.parametrize("name", ["strides", "chunks", "tree", "tiles"])
def test_honest_styles_pass_beside_a_thread_that_is_alone(name):
    beside_one_alone(name)


def test_a_launch_that_counts_nothing_is_not_compared():
    """A real GPU's."""
    values, total = np.ones(64, np.int64), np.zeros(1, np.int64)
    launched = launch("strides", 1, 64, values, total, schedules=0)
    expect_parallel(launched, 64, alone=(Launched("strides", (1, 1, 1), (1, 1, 1), None), 64))


# -- lanes that hand their work to one ------------------------------------------------------------


@cuda.jit(device=True)
def mixed(value):
    """Some arithmetic for each element."""
    for _ in range(4):
        value = (value * 5 + 3) ^ (value >> 7)
    return value & 63


@cuda.jit
def mixes_alone(values, counts):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(counts, mixed(values[i]), 1)


@cuda.jit
def lane_0_mixes_for_its_warp(values, counts):
    """Each lane loads and counts its own values; lane 0 computes the slots of all 32."""
    lane, live = cuda.threadIdx.x % 32, min(32, cuda.blockDim.x)
    for k in range((values.size + cuda.gridsize(1) - 1) // cuda.gridsize(1)):
        i = cuda.grid(1) + k * cuda.gridsize(1)
        own = int32(values[i]) if i < values.size else int32(0)
        slot = int32(0)
        for turn in range(live):
            other = cuda.shfl_sync((1 << live) - 1, own, turn)
            theirs = int32(mixed(other)) if lane == 0 else int32(0)
            theirs = cuda.shfl_sync((1 << live) - 1, theirs, 0)
            if lane == turn:
                slot = theirs
        if i < values.size:
            cuda.atomic.add(counts, slot, 1)


@cuda.jit
def all_lanes_mix_what_lane_0_has(values, counts):
    """The same, and the other lanes compute as much for nothing."""
    lane, live = cuda.threadIdx.x % 32, min(32, cuda.blockDim.x)
    for k in range((values.size + cuda.gridsize(1) - 1) // cuda.gridsize(1)):
        i = cuda.grid(1) + k * cuda.gridsize(1)
        own = int32(values[i]) if i < values.size else int32(0)
        slot = int32(0)
        for turn in range(live):
            other = cuda.shfl_sync((1 << live) - 1, own, turn)
            theirs = cuda.shfl_sync((1 << live) - 1, int32(mixed(other + lane)), 0)
            if lane == turn:
                slot = theirs
        if i < values.size:
            cuda.atomic.add(counts, slot, 1)


@cuda.jit
def a_leader_for_each_slot(values, counts):
    """One addition for each different slot of a warp, found by shuffles and votes."""
    mine = cuda.shared.array(64, int32)
    for slot in range(cuda.threadIdx.x, 64, cuda.blockDim.x):
        mine[slot] = 0
    cuda.syncthreads()
    live = min(32, cuda.blockDim.x)
    for k in range((values.size + cuda.gridsize(1) - 1) // cuda.gridsize(1)):
        i = cuda.grid(1) + k * cuda.gridsize(1)
        slot = int32(mixed(values[i])) if i < values.size else int32(-1)
        left = cuda.ballot_sync((1 << live) - 1, slot >= 0)
        while left:
            leader = cuda.ffs(left) - 1
            wanted = cuda.shfl_sync((1 << live) - 1, slot, leader)
            same = cuda.ballot_sync((1 << live) - 1, slot == wanted)
            if cuda.laneid == leader:
                cuda.atomic.add(mine, wanted, int32(cuda.popc(same)))
            left &= ~same
    cuda.syncthreads()
    for slot in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        cuda.atomic.add(counts, slot, mine[slot])


def counted_by(kernel: str) -> None:
    """Launch on 64 threads and on one, see that the counts are right, and ask for equal shares."""
    # Four values give the slots 3, 12, 35 and 44.
    values = np.random.default_rng(4).choice([0, 1, 2, 3], 6000)
    globals()["counts_them"] = globals()[kernel]
    found, wanted = (np.zeros(64, np.int32) for _ in range(2))
    launched = launch("counts_them", 1, 64, values, found, schedules=0)
    launch("mixes_alone", 1, 64, values, wanted, schedules=0)
    assert found.sum() == 6000 and (found == wanted).all()
    alone = launch("counts_them", 1, 1, values[:200], found, schedules=0)
    expect_parallel(launched, values.size, slots=64, alone=(alone, 200))


@pytest.mark.parametrize("name", ["lane_0_mixes_for_its_warp", "all_lanes_mix_what_lane_0_has"])
def test_a_lane_that_computes_for_its_warp_is_told(name):
    with pytest.raises(PropertyFailed, match=r"instructions for each|as an even share would be"):
        counted_by(name)


@pytest.mark.parametrize("name", ["mixes_alone", "a_leader_for_each_slot"])
def test_lanes_that_work_together_pass(name):
    counted_by(name)
