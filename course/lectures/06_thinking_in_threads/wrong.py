"""Wrong answers to the exercises of "Thinking in threads", with what the check must say of each.

Every one is an answer that people give. ``WRONG`` has them as parameters of a test: the exercise,
the answers as they are handed to ``check``, and a pattern for the message and its "where to look".
"""

from __future__ import annotations

import math

import pytest

import virtualgpu

virtualgpu.activate(force=True)

from numba import cuda, float64

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
