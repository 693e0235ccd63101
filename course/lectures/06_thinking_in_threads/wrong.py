"""Wrong answers to the exercises of "Thinking in threads", with what the check must say of each.

Every one is an answer that people give. ``WRONG`` has them as parameters of a test: the exercise,
the answers as they are handed to ``check``, and a pattern for the message and its "where to look".
"""

from __future__ import annotations

import math

from wrong_answers import collection, swap

from numba import cuda, float64  # isort: skip  (after the virtual GPU is active)

THREADS = 128

WRONG, wrong = collection("06_thinking_in_threads")

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

wrong("bounds-guard", r"illegal address", "no guard")(swap("if i + 1 < values.size:\n        ", ""))
wrong("bounds-guard", r"illegal address.*(reads|writes)", "guard of the wrong element")(
    swap("i + 1 < values", "i < values"))
wrong("bounds-guard", "with 129 values, element 127 was never written.*last thread", "last gap forgotten")(
    swap(" + 1 < values", " + 2 < values"))
wrong("bounds-guard", "every gap has the wrong sign", "the other way round")(
    swap(" + 1] - values[i", "] - values[i + 1"))


@wrong("bounds-guard", "the work is not shared.*each thread makes one gap")
@cuda.jit
def one_thread_makes_all_gaps(values, out):
    if cuda.grid(1) == 0:
        for i in range(values.size - 1):
            out[i] = values[i + 1] - values[i]


# --- grid-stride --------------------------------------------------------------------------------

wrong("grid-stride", "lie above the cut; the threads counted.*how far does it step", "strides by a block")(
    swap("gridsize(1)", "blockDim.x"))
wrong("grid-stride", "lie above the cut; the threads counted", "everyone counts all")(
    swap("me = cuda.grid(1)", "pass"),
    swap("me, values.size, cuda.gridsize(1)", "values.size"),
    swap("counts[me] ", "counts[cuda.grid(1)] "))


@wrong("grid-stride", "lie above the cut; the threads counted")
@cuda.jit
def one_element_each(values, cut, counts):
    me = cuda.grid(1)
    counts[me] = 0
    if me < values.size and values[me] > cut:
        counts[me] = 1


wrong("grid-stride", r"counts\[\d+\] is -\d+.*do you add to it", "adds to what is there")(
    swap("mine = 0", "pass"),
    swap("mine += 1\n    counts[me] = mine", "counts[me] += 1"))
wrong("grid-stride", "values equal to the cut are counted too.*above is", "counts the cut too")(
    swap("i] > cut:", "i] >= cut:"))
wrong("grid-stride", "was never written.*also one that has no values", "idle threads leave")(
    swap("cuda.grid(1)", "cuda.grid(1)\n    if me >= values.size:\n        return"))
wrong("grid-stride", "race: ", "one place for all blocks")(
    swap("me = cuda.grid(1)", "pass"),
    swap("range(me, ", "range(cuda.grid(1), "),
    swap("counts[me] ", "counts[cuda.threadIdx.x] "))
wrong("grid-stride", "lie above the cut; the threads counted|counted too", "the cut of the example")(
    swap("> cut", "> 10.0"))


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
    wrong("lost-update", says, name)(*answers)


# --- check-then-act -----------------------------------------------------------------------------

wrong("check-then-act", "race: ", "looks then stores")(
    swap(":\n        cuda.atomic.max(best, 0, values[i])", " and values[i] > best[0]:\n        best[0] = values[i]"))
wrong("check-then-act", "race: ", "max is no atomic")(
    swap("cuda.atomic.max(best, 0", "best[0] = max(best[0]"))


@wrong("check-then-act", "illegal address")
@cuda.jit
def atomic_without_a_guard(values, best):
    cuda.atomic.max(best, 0, values[cuda.grid(1)])


wrong("check-then-act", r"with 1 values between 3 and 500, best\[0\] is -inf", "forgets the last")(
    swap("i < values", "i + 1 < values"))
wrong("check-then-act", r"between -90 and -10, best\[0\] is \d", "largest size")(
    swap("values[i]", "abs(values[i])"))


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

wrong("fold", "does `half` round up|one value has no partner|every one of the first", "half rounds down")(
    swap("(n + 1) // 2\n    if i + half < n", "n // 2\n    if i < half"))
wrong("fold", "a value from beyond the first n got in.*no partner", "middle one has a partner")(
    swap("+ half < n", "< half"))
wrong("fold", "a value from beyond the first n got in.*|race: ", "uses the whole array")(
    swap(" < n and abs", " < values.size and abs"))
wrong("fold", "should come from .*closer measured with abs", "without abs")(
    swap("abs(values[i + half] - target) < abs(values[i] - target)", "values[i + half] - target < values[i] - target"))
wrong("fold", "should come from", "keeps the farther")(swap("target) < abs(", "target) > abs("))


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
    wrong("block-max", says, name)(answer)


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
