"""Wrong answers to the exercises of "Thinking in threads", with what the check must say of each.

Every one is an answer that people give. ``WRONG`` has them as parameters of a test: the exercise,
the answers as they are handed to ``check``, and a pattern for the message and its "where to look".
"""

from __future__ import annotations

import math

import pytest

import virtualgpu

virtualgpu.activate(force=True)

from numba import cuda, float32, float64  # noqa: E402

THREADS = 128

WRONG: list = []


def wrong(exercise: str, says: str):
    """A plausible answer to the exercise, and what the check must say of it."""

    def register(answer):
        function = getattr(answer, "py_func", answer)
        case = pytest.param(exercise, (answer,), says, id=f"{exercise}:{function.__name__}")
        WRONG.append(case)
        return answer

    return register


# --- launch-shape -------------------------------------------------------------------------------


@wrong("launch-shape", "elements get none.*round up or down")
def rounds_down(n, threads):
    return n // threads, n % threads


@wrong("launch-shape", "1 blocks are enough; yours are 2.*exact multiple")
def one_block_more(n, threads):
    blocks = n // threads + 1
    return blocks, blocks * threads - n


@wrong("launch-shape", "so 127 are loose; yours are 1")
def loose_is_the_remainder(n, threads):
    return -(-n // threads), n % threads


@wrong("launch-shape", "neither comes in parts")
def parts_of_blocks(n, threads):
    return n / threads, 0


@wrong("launch-shape", "not two numbers")
def blocks_alone(n, threads):
    return -(-n // threads)


# --- bounds-guard -------------------------------------------------------------------------------


@wrong("bounds-guard", r"illegal address")
@cuda.jit
def no_guard(values, out):
    i = cuda.grid(1)
    out[i] = values[i + 1] - values[i]


@wrong("bounds-guard", r"illegal address.*(reads|writes)")
@cuda.jit
def guard_of_the_wrong_element(values, out):
    i = cuda.grid(1)
    if i < values.size:
        out[i] = values[i + 1] - values[i]


@wrong("bounds-guard", "with 129 values, element 127 was never written.*last thread")
@cuda.jit
def last_gap_forgotten(values, out):
    i = cuda.grid(1)
    if i + 2 < values.size:
        out[i] = values[i + 1] - values[i]


@wrong("bounds-guard", "every gap has the wrong sign")
@cuda.jit
def the_other_way_round(values, out):
    i = cuda.grid(1)
    if i + 1 < values.size:
        out[i] = values[i] - values[i + 1]


@wrong("bounds-guard", "the work is not shared.*each thread makes one gap")
@cuda.jit
def one_thread_makes_all_gaps(values, out):
    if cuda.grid(1) == 0:
        for i in range(values.size - 1):
            out[i] = values[i + 1] - values[i]


# --- grid-stride --------------------------------------------------------------------------------


@wrong("grid-stride", "lie above the cut; the threads counted.*how far does it step")
@cuda.jit
def strides_by_a_block(values, cut, counts):
    me = cuda.grid(1)
    mine = 0
    for i in range(me, values.size, cuda.blockDim.x):
        if values[i] > cut:
            mine += 1
    counts[me] = mine


@wrong("grid-stride", "lie above the cut; the threads counted")
@cuda.jit
def everyone_counts_all(values, cut, counts):
    mine = 0
    for i in range(values.size):
        if values[i] > cut:
            mine += 1
    counts[cuda.grid(1)] = mine


@wrong("grid-stride", "lie above the cut; the threads counted")
@cuda.jit
def one_element_each(values, cut, counts):
    me = cuda.grid(1)
    counts[me] = 0
    if me < values.size and values[me] > cut:
        counts[me] = 1


@wrong("grid-stride", r"counts\[\d+\] is -\d+.*do you add to it")
@cuda.jit
def adds_to_what_is_there(values, cut, counts):
    me = cuda.grid(1)
    for i in range(me, values.size, cuda.gridsize(1)):
        if values[i] > cut:
            counts[me] += 1


@wrong("grid-stride", "values equal to the cut are counted too.*above is")
@cuda.jit
def counts_the_cut_too(values, cut, counts):
    me = cuda.grid(1)
    mine = 0
    for i in range(me, values.size, cuda.gridsize(1)):
        if values[i] >= cut:
            mine += 1
    counts[me] = mine


@wrong("grid-stride", "was never written.*also one that has no values")
@cuda.jit
def idle_threads_leave(values, cut, counts):
    me = cuda.grid(1)
    if me >= values.size:
        return
    mine = 0
    for i in range(me, values.size, cuda.gridsize(1)):
        if values[i] > cut:
            mine += 1
    counts[me] = mine


@wrong("grid-stride", "race: ")
@cuda.jit
def one_place_for_all_blocks(values, cut, counts):
    mine = 0
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        if values[i] > cut:
            mine += 1
    counts[cuda.threadIdx.x] = mine


@wrong("grid-stride", r"element \d+ is \d+, not \d+.*which elements are this thread's")
@cuda.jit
def a_run_of_neighbours_each(values, cut, counts):
    me = cuda.grid(1)
    share = (values.size + cuda.gridsize(1) - 1) // cuda.gridsize(1)
    mine = 0
    for i in range(me * share, min((me + 1) * share, values.size)):
        if values[i] > cut:
            mine += 1
    counts[me] = mine


@wrong("grid-stride", "the work is not shared.*writes its own count")
@cuda.jit
def one_thread_counts_for_all(values, cut, counts):
    if cuda.grid(1) == 0:
        for k in range(counts.size):
            counts[k] = 0
        for i in range(values.size):
            if values[i] > cut:
                counts[i % counts.size] += 1


# --- lost-update --------------------------------------------------------------------------------

ALL = {11, 12, 13}
for name, answers, says in (
    ("loses A's", ("ABAABB", ALL), "ends at 12, not at 11"),
    ("loses nothing", ("AAABBB", ALL), "ends at 13, not at 11"),
    ("too few steps", ("AABB", ALL), "A takes 2 steps.*load, add, store"),
    ("other letters", ("XYXYXY", ALL), "letters A and B"),
    ("10 as well", ("BAABBA", ALL | {10}), "no order ends at 10.*has loaded 10, or"),
    ("11 missing", ("BAABBA", {12, 13}), "1 of the possible totals is missing"),
    ("right only", ("BAABBA", {13}), "2 of the possible totals are missing"),
    ("not a set", ("BAABBA", 13), "possible is 13: write a set"),
):
    WRONG.append(pytest.param("lost-update", answers, says, id=f"lost-update:{name}"))


# --- check-then-act -----------------------------------------------------------------------------


@wrong("check-then-act", "race: ")
@cuda.jit
def looks_then_stores(values, best):
    i = cuda.grid(1)
    if i < values.size and values[i] > best[0]:
        best[0] = values[i]


@wrong("check-then-act", "race: ")
@cuda.jit
def max_is_no_atomic(values, best):
    i = cuda.grid(1)
    if i < values.size:
        best[0] = max(best[0], values[i])


@wrong("check-then-act", "illegal address")
@cuda.jit
def atomic_without_a_guard(values, best):
    cuda.atomic.max(best, 0, values[cuda.grid(1)])


@wrong("check-then-act", r"with 1 values between 3 and 500, best\[0\] is -inf")
@cuda.jit
def forgets_the_last(values, best):
    i = cuda.grid(1)
    if i + 1 < values.size:
        cuda.atomic.max(best, 0, values[i])


@wrong("check-then-act", r"between -90 and -10, best\[0\] is \d")
@cuda.jit
def largest_size(values, best):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.max(best, 0, abs(values[i]))


@wrong("check-then-act", r"best\[0\] is \d+\.\d; the largest is 4")
@cuda.jit
def sum_instead(values, best):
    i = cuda.grid(1)
    if i == 0 and values.size > 0:
        best[0] = 0.0
    if i == 0:
        for k in range(values.size):
            cuda.atomic.add(best, 0, values[k])


@wrong("check-then-act", "no atomic was used: one thread does")
@cuda.jit
def one_thread_for_all(values, best):
    if cuda.grid(1) == 0:
        for k in range(values.size):
            best[0] = max(best[0], values[k])


@wrong("check-then-act", "the work is not shared.*each thread brings its own value")
@cuda.jit
def one_thread_with_an_atomic(values, best):
    if cuda.grid(1) == 0:
        for k in range(values.size):
            cuda.atomic.max(best, 0, values[k])


# --- fold ---------------------------------------------------------------------------------------


@wrong("fold", "does `half` round up|one value has no partner|every one of the first")
@cuda.jit
def half_rounds_down(values, n, target):
    i = cuda.grid(1)
    half = n // 2
    if i < half and abs(values[i + half] - target) < abs(values[i] - target):
        values[i] = values[i + half]


@wrong("fold", "a value from beyond the first n got in.*no partner")
@cuda.jit
def middle_one_has_a_partner(values, n, target):
    i = cuda.grid(1)
    half = (n + 1) // 2
    if i < half and abs(values[i + half] - target) < abs(values[i] - target):
        values[i] = values[i + half]


@wrong("fold", "a value from beyond the first n got in.*|race: ")
@cuda.jit
def uses_the_whole_array(values, n, target):
    i = cuda.grid(1)
    half = (n + 1) // 2
    if i + half < values.size and abs(values[i + half] - target) < abs(values[i] - target):
        values[i] = values[i + half]


@wrong("fold", "should come from .*closer measured with abs")
@cuda.jit
def without_abs(values, n, target):
    i = cuda.grid(1)
    half = (n + 1) // 2
    if i + half < n and values[i + half] - target < values[i] - target:
        values[i] = values[i + half]


@wrong("fold", "should come from")
@cuda.jit
def keeps_the_farther(values, n, target):
    i = cuda.grid(1)
    half = (n + 1) // 2
    if i + half < n and abs(values[i + half] - target) > abs(values[i] - target):
        values[i] = values[i + half]


@wrong("fold", "race: ")
@cuda.jit
def all_levels_at_once(values, n, target):
    i = cuda.grid(1)
    while n > 1:
        half = (n + 1) // 2
        if i + half < n and abs(values[i + half] - target) < abs(values[i] - target):
            values[i] = values[i + half]
        n = half


@wrong("fold", "the work is not shared.*each thread compares one pair")
@cuda.jit
def one_thread_compares_all_pairs(values, n, target):
    half = (n + 1) // 2
    if cuda.grid(1) == 0:
        for i in range(n - half):
            if abs(values[i + half] - target) < abs(values[i] - target):
                values[i] = values[i + half]


# --- block-max ----------------------------------------------------------------------------------


def block_maxima(
    loose=-math.inf,
    fill_barrier=True,
    level_barrier=True,
    leave=False,
    down=False,
    full=False,
    inside=False,
):
    """A kernel for the maxima of blocks with one thing done wrongly."""

    @cuda.jit
    def kernel(values, maxima):
        place = cuda.shared.array(THREADS, float64)
        t = cuda.threadIdx.x
        i = cuda.grid(1)
        if leave and i >= values.size:
            return
        place[t] = values[i] if i < values.size else loose
        if fill_barrier:
            cuda.syncthreads()
        n = THREADS if full else cuda.blockDim.x
        while n > 1:
            half = n // 2 if down else (n + 1) // 2
            if t + half < n and t < half:
                place[t] = max(place[t], place[t + half])
                if inside:
                    cuda.syncthreads()
            if level_barrier and not inside:
                cuda.syncthreads()
            n = half
        if t == 0:
            maxima[cuda.blockIdx.x] = place[0]

    return kernel


@cuda.jit
def never_written(values, maxima):
    pass


@cuda.jit
def global_race(values, maxima):
    i = cuda.grid(1)
    b = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        maxima[b] = -math.inf
    cuda.syncthreads()
    if i < values.size and values[i] > maxima[b]:
        maxima[b] = values[i]


@cuda.jit
def one_thread_per_block(values, maxima):
    if cuda.threadIdx.x == 0:
        largest = -math.inf
        first = cuda.grid(1)
        for i in range(first, min(first + cuda.blockDim.x, values.size)):
            largest = max(largest, values[i])
        maxima[cuda.blockIdx.x] = largest


@cuda.jit
def one_thread_looks_at_all(values, maxima):
    place = cuda.shared.array(THREADS, float64)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    place[t] = values[i] if i < values.size else -math.inf
    cuda.syncthreads()
    if t == 0:
        largest = place[0]
        for k in range(1, cuda.blockDim.x):
            largest = max(largest, place[k])
        maxima[cuda.blockIdx.x] = largest


for name, answer, says in (
    ("no shared memory", one_thread_per_block, "shared memory was not used"),
    ("no fold", one_thread_looks_at_all, "one thread looks at all the places"),
    ("loose threads bring 0", block_maxima(loose=0.0), "is 0, which is not among.*loose threads"),
    ("no barrier after filling", block_maxima(fill_barrier=False), "race: .*shared memory"),
    ("no barrier between levels", block_maxima(level_barrier=False), "race: .*shared memory"),
    ("powers of two only", block_maxima(down=True), r"in blocks of (96|33), element \d+ is"),
    ("nothing written", never_written, r"maxima\[0\] was never written"),
    ("race in global memory", global_race, "race: .*global memory"),
    ("loose threads leave", block_maxima(leave=True), "barrier: .*do not return before it"),
    ("barrier in the if", block_maxima(inside=True), "barrier: .*guard the work and not the"),
    ("all places, few threads", block_maxima(full=True), "uninitialised: .*not start at zero"),
):
    WRONG.append(pytest.param("block-max", (answer,), says, id=f"block-max:{name}"))


@wrong("block-max", "the work is not shared.*all threads take part in each level")
@cuda.jit
def one_thread_with_barriers(values, maxima):
    place = cuda.shared.array(THREADS, float64)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    place[t] = values[i] if i < values.size else -math.inf
    cuda.syncthreads()
    if t == 0:
        for k in range(1, cuda.blockDim.x):
            place[0] = max(place[0], place[k])
    cuda.syncthreads()
    if t == 0:
        maxima[cuda.blockIdx.x] = place[0]


# --- lane-turns ---------------------------------------------------------------------------------


def warps_of(work):
    return [work[start : start + 32] for start in range(0, len(work), 32)]


@wrong("lane-turns", "last warp has .* threads, but pays for 32 lanes")
def short_warps_pay_less(work):
    return int(work.sum()), sum(len(warp) * int(warp.max()) for warp in warps_of(work))


@wrong("lane-turns", "turns are paid for; yours are.*how many lanes")
def turns_of_warps(work):
    return int(work.sum()), sum(int(warp.max()) for warp in warps_of(work))


@wrong("lane-turns", "turns are paid for; yours are")
def one_big_warp(work):
    return int(work.sum()), -(-len(work) // 32) * 32 * int(work.max(initial=0))


@wrong("lane-turns", "useful is .*in which a thread works")
def useful_is_threads(work):
    return int((work > 0).sum()), sum(32 * int(warp.max()) for warp in warps_of(work))


@wrong("lane-turns", "turns are paid for; yours are")
def only_what_is_useful(work):
    return int(work.sum()), int(work.sum())


# --- turn ---------------------------------------------------------------------------------------


def turned_by(columns=33, crosswise=True, barrier=True, same_guard=False):
    """A kernel that turns a table, with one thing done wrongly."""

    @cuda.jit
    def kernel(table, turned):
        tile = cuda.shared.array((32, columns), float32)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        first_i, first_j = 32 * cuda.blockIdx.y, 32 * cuda.blockIdx.x
        if first_i + y < table.shape[0] and first_j + x < table.shape[1]:
            tile[y, x] = table[first_i + y, first_j + x]
        if barrier:
            cuda.syncthreads()
        if same_guard:
            if first_i + y < table.shape[0] and first_j + x < table.shape[1]:
                if first_j + y < table.shape[1] and first_i + x < table.shape[0]:
                    turned[first_j + y, first_i + x] = tile[x, y]
        elif first_j + y < table.shape[1] and first_i + x < table.shape[0]:
            turned[first_j + y, first_i + x] = tile[x, y] if crosswise else tile[y, x]

    return kernel


@cuda.jit
def scattered_writes(table, turned):
    j, i = cuda.grid(2)
    if i < table.shape[0] and j < table.shape[1]:
        turned[j, i] = table[i, j]


@cuda.jit
def scattered_reads(table, turned):
    i = 32 * cuda.blockIdx.y + cuda.threadIdx.x
    j = 32 * cuda.blockIdx.x + cuda.threadIdx.y
    if i < table.shape[0] and j < table.shape[1]:
        turned[j, i] = table[i, j]


@cuda.jit
def tile_without_guards(table, turned):
    tile = cuda.shared.array((32, 33), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    first_i, first_j = 32 * cuda.blockIdx.y, 32 * cuda.blockIdx.x
    tile[y, x] = table[first_i + y, first_j + x]
    cuda.syncthreads()
    turned[first_j + y, first_i + x] = tile[x, y]


for name, answer, says in (
    ("the plain way", scattered_writes, "the writes move .* sectors.*changes with x"),
    ("the other plain way", scattered_reads, "the reads move .* sectors.*changes with x"),
    ("32 columns", turned_by(columns=32), "shared memory takes 3,968 turns more.*how far apart"),
    ("turned twice", turned_by(crosswise=False), r"uninitialised|turned\[0, 1\] is"),
    ("no barrier", turned_by(barrier=False), "race: .*shared memory"),
    ("one guard for both", turned_by(same_guard=True), "never written.*guarded by itself"),
    ("no guards", tile_without_guards, "illegal address|reads 4 bytes"),
):
    WRONG.append(pytest.param("turn", (answer,), says, id=f"turn:{name}"))


# --- warp-max -----------------------------------------------------------------------------------

ALL_LANES = 0xFFFFFFFF


@wrong("warp-max", r"was never written|is -5.*e\+303, which is not among them")
@cuda.jit
def all_of_it_in_the_guard(values, maxima):
    i = cuda.grid(1)
    if i < values.size:
        mine = values[i]
        for k in (16, 8, 4, 2, 1):
            mine = max(mine, cuda.shfl_down_sync(ALL_LANES, mine, k))
        if i % 32 == 0:
            maxima[i // 32] = mine


@wrong("warp-max", "was never written.*for minus infinity: guard the value only")
@cuda.jit
def warps_without_values_are_silent(values, maxima):
    i = cuda.grid(1)
    mine = values[i] if i < values.size else -math.inf
    for k in (16, 8, 4, 2, 1):
        mine = max(mine, cuda.shfl_down_sync(ALL_LANES, mine, k))
    if i % 32 == 0 and i < values.size:
        maxima[i // 32] = mine


@wrong("warp-max", r"is -5.*e\+303, which is not among them.*some lanes take no part")
@cuda.jit
def shuffle_in_the_guard(values, maxima):
    i = cuda.grid(1)
    mine = -math.inf
    if i < values.size:
        mine = values[i]
        for k in (16, 8, 4, 2, 1):
            mine = max(mine, cuda.shfl_down_sync(ALL_LANES, mine, k))
    if i % 32 == 0:
        maxima[i // 32] = mine


@wrong("warp-max", "is 0, which is not among them.*beyond the end bring")
@cuda.jit
def zeros_beyond_the_end(values, maxima):
    i = cuda.grid(1)
    mine = values[i] if i < values.size else 0.0
    for k in (16, 8, 4, 2, 1):
        mine = max(mine, cuda.shfl_down_sync(ALL_LANES, mine, k))
    if i % 32 == 0:
        maxima[i // 32] = mine


@wrong("warp-max", r"element \d+ is .*every value take part")
@cuda.jit
def one_level_short(values, maxima):
    i = cuda.grid(1)
    mine = values[i] if i < values.size else -math.inf
    for k in (16, 8, 4, 2):
        mine = max(mine, cuda.shfl_down_sync(ALL_LANES, mine, k))
    if i % 32 == 0:
        maxima[i // 32] = mine


@wrong("warp-max", "race: |never written.*numbered through the whole grid")
@cuda.jit
def warps_of_the_block(values, maxima):
    i = cuda.grid(1)
    mine = values[i] if i < values.size else -math.inf
    for k in (16, 8, 4, 2, 1):
        mine = max(mine, cuda.shfl_down_sync(ALL_LANES, mine, k))
    if i % 32 == 0:
        maxima[cuda.threadIdx.x // 32] = mine


@wrong("warp-max", "loaded .* times.*others' by shuffles")
@cuda.jit
def lane_0_reads_all(values, maxima):
    i = cuda.grid(1)
    if i % 32 == 0:
        mine = -math.inf
        for k in range(i, min(i + 32, values.size)):
            mine = max(mine, values[k])
        if i < values.size:
            mine = max(mine, values[i])
        maxima[i // 32] = mine


@wrong("warp-max", "not found by shuffles alone")
@cuda.jit
def by_shared_memory(values, maxima):
    place = cuda.shared.array(THREADS, float64)
    i, t = cuda.grid(1), cuda.threadIdx.x
    place[t] = values[i] if i < values.size else -math.inf
    cuda.syncthreads()
    if t % 32 == 0:
        mine = place[t]
        for k in range(1, 32):
            mine = max(mine, place[t + k])
        maxima[i // 32] = mine


# --- occupancy ----------------------------------------------------------------------------------


def warps_that_fit(threads, registers, shared, round_up=True, parts=4, reserved=1024, most=32):
    """The right answer, unless one of the limits is misunderstood."""
    warps = threads // 32
    of_a_warp = 32 * registers
    if round_up:
        of_a_warp = (of_a_warp + 255) // 256 * 256
    blocks = min(
        64 // warps,
        most,
        parts * (65_536 // parts // of_a_warp) // warps,
        233_472 // (shared + reserved) if shared + reserved else most,
    )
    return blocks * warps


@wrong("occupancy", "32 warps fit; yours are 64.*32 blocks at most")
def only_the_first_limit(threads, registers, shared):
    return 64 // (threads // 32) * (threads // 32)


@wrong("occupancy", "60 warps fit; yours are 64.*fits whole")
def parts_of_blocks_fit(threads, registers, shared):
    return min(64, threads * 32 // 32, 65_536 // (32 * registers))


@wrong("occupancy", "with 33 registers.*48 warps fit; yours are 60.*rounded up")
def not_rounded_up(threads, registers, shared):
    return warps_that_fit(threads, registers, shared, round_up=False)


@wrong("occupancy", "48 warps fit; yours are 50.*one of the four parts")
def one_big_register_file(threads, registers, shared):
    return warps_that_fit(threads, registers, shared, parts=1)


@wrong("occupancy", "1,024 bytes of shared memory more")
def nothing_reserved(threads, registers, shared):
    return warps_that_fit(threads, registers, shared, reserved=0)


@wrong("occupancy", "no parts of warps")
def fractions(threads, registers, shared):
    return 64 / 3


@wrong("occupancy", "a block that does not fit does not run at all|yours are")
def at_least_one_block(threads, registers, shared):
    return max(warps_that_fit(threads, registers, shared), threads // 32)
