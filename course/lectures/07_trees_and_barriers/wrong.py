"""Wrong answers to the exercises of "Trees and barriers", with what the check must say of each.

Every one is an answer that people give. ``WRONG`` has them as parameters of a test: the exercise,
the answers as they are handed to ``check``, and a pattern for the message and its "where to look".
"""

from __future__ import annotations

import math

from wrong_answers import collection, swap

from numba import cuda, float64  # isort: skip  (after the virtual GPU is active)

THREADS = 128

WRONG, wrong = collection("07_trees_and_barriers")

# --- fold ---------------------------------------------------------------------------------------

wrong("fold", "round `half` up|one value has no partner|all of the first", "half rounds down")(
    swap("(n + 1) // 2\n    if i + half < n", "n // 2\n    if i < half"))
wrong("fold", "a value from beyond the first n got in.*no partner", "middle one has a partner")(
    swap("+ half < n", "< half"))
wrong("fold", "a value from beyond the first n got in.*|race: ", "uses the whole array")(
    swap(" < n and abs", " < values.size and abs"))
wrong("fold", "should be .*which you compute with abs", "without abs")(
    swap("abs(values[i + half] - target) < abs(values[i] - target)", "values[i + half] - target < values[i] - target"))
wrong("fold", "should be .*, but is", "keeps the farther")(swap("target) < abs(", "target) > abs("))


@wrong("fold", "race: ")
@cuda.jit
def all_levels_at_once(values, n, target):
    i = cuda.grid(1)
    while n > 1:
        half = (n + 1) // 2
        if i + half < n and abs(values[i + half] - target) < abs(values[i] - target):
            values[i] = values[i + half]
        n = half


@wrong("fold", "the work is not shared.*let each thread compare one pair")
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
    ("no fold", one_thread_looks_at_all, "one thread reads all the elements"),
    ("threads without a value bring 0", block_maxima(loose=0.0), "is 0, which is none of.*thread without a value"),
    ("no barrier after filling", block_maxima(fill_barrier=False), "race: .*shared memory"),
    ("no barrier between levels", block_maxima(level_barrier=False), "race: .*shared memory"),
    ("powers of two only", block_maxima(down=True), r"in blocks of (96|33), element \d+ is"),
    ("nothing written", never_written, r"maxima\[0\] was never written"),
    ("race in global memory", global_race, "race: .*global memory"),
    ("threads without a value leave", block_maxima(leave=True), "barrier: .*do not return before it"),
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


# Built for the example: its target, values that are all positive or all negative, one block.
wrong("fold", "should be .*, but is", "the target of the example")(
    swap("abs(values[i + half] - target) < abs(values[i] - target)",
         "abs(values[i + half] - 91.1876) < abs(values[i] - 91.1876)"))
wrong("fold", "should be .*, but is", "of values that are positive")(
    swap("abs(values[i + half] - target) < abs(values[i] - target)",
         "abs(abs(values[i + half]) - target) < abs(abs(values[i]) - target)"))
wrong("fold", "should be .*, but is", "the larger one")(
    swap("abs(values[i + half] - target) < abs(values[i] - target)", "values[i + half] > values[i]"))


@wrong("fold", "the work is not shared.*let each thread compare one pair")
@cuda.jit
def one_block_compares_all_pairs(values, n, target):
    half = (n + 1) // 2
    if cuda.blockIdx.x == 0:
        for i in range(cuda.threadIdx.x, n - half, cuda.blockDim.x):
            if abs(values[i + half] - target) < abs(values[i] - target):
                values[i] = values[i + half]


wrong("block-max", "of both signs, in blocks of 64, element 0 is", "of values that are negative")(
    swap("= place[0]", "= -abs(place[0])"))


@wrong("block-max", "there is no fold: all threads of a block queue at one element")
@cuda.jit
def all_queue_at_one_place(values, maxima):
    largest = cuda.shared.array(1, float64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    if t == 0:
        largest[0] = -math.inf
    cuda.syncthreads()
    if i < values.size:
        cuda.atomic.max(largest, 0, values[i])
    cuda.syncthreads()
    if t == 0:
        maxima[cuda.blockIdx.x] = largest[0]
