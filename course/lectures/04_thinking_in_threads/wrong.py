"""Wrong answers to the exercises of "Thinking in threads", with what the check must say of each.

Every one is an answer that people give. ``WRONG`` has them as parameters of a test: the exercise,
the answers as they are handed to ``check``, and a pattern for the message and its "where to look".
"""

from __future__ import annotations


from wrong_answers import collection, swap

from numba import cuda  # isort: skip  (after the virtual GPU is active)

WRONG, wrong = collection("04_thinking_in_threads")

# --- launch-shape -------------------------------------------------------------------------------


@wrong("launch-shape", "elements? without a thread.*round up or down")
def rounds_down(n, threads):
    return n // threads, n % threads


@wrong("launch-shape", "1 block will do; you have 2.*exact multiple")
def one_block_more(n, threads):
    blocks = n // threads + 1
    return blocks, blocks * threads - n


@wrong("launch-shape", "127 loose ones; you have 1")
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

wrong("grid-stride", "above the cut: .*; the threads counted.*how far does it step", "strides by a block")(
    swap("gridsize(1)", "blockDim.x"))
wrong("grid-stride", "above the cut: .*; the threads counted", "everyone counts all")(
    swap("me = cuda.grid(1)", "pass"),
    swap("me, values.size, cuda.gridsize(1)", "values.size"),
    swap("counts[me] ", "counts[cuda.grid(1)] "))


@wrong("grid-stride", "above the cut: .*; the threads counted")
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
wrong("grid-stride", "above the cut: .*; the threads counted|counted too", "the cut of the example")(
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


wrong("check-then-act", r"with 1 value between 3 and 500, best\[0\] is -inf", "forgets the last")(
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


@wrong("grid-stride", "above the cut: .* the threads counted")
@cuda.jit
def compares_whole_numbers(values, cut, counts):
    me = cuda.grid(1)
    mine = 0
    for i in range(me, values.size, cuda.gridsize(1)):
        if int(values[i]) > int(cut):
            mine += 1
    counts[me] = mine


@wrong("grid-stride", "the kernel changes values, which is there to be read")
@cuda.jit
def crosses_out_what_it_has_counted(values, cut, counts):
    me = cuda.grid(1)
    mine = 0
    for i in range(me, values.size, cuda.gridsize(1)):
        mine += values[i] > cut
        values[i] = 0
    counts[me] = mine
