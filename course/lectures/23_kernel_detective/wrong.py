"""Wrong answers to the exercises of "Kernel detective", with what the check must say of each."""

from __future__ import annotations

import math

import numpy as np

from wrong_answers import collection, swap

WRONG, wrong = collection("23_kernel_detective")

from numba import cuda, float64

THREADS = 128

# --- wrong-sum ----------------------------------------------------------------------------------


def adding(filler=None, leave=False):
    """A kernel that adds up blocks: with this where there is no value, or left by its threads."""
    number = 0.0 if filler is None else filler

    @cuda.jit
    def kernel(values, sums):
        tile = cuda.shared.array(THREADS, float64)
        t = cuda.threadIdx.x
        i = cuda.grid(1)
        if leave and i >= values.size:
            return
        if i < values.size:
            tile[t] = values[i]
        elif filler is not None:
            tile[t] = number
        cuda.syncthreads()
        n = THREADS
        while n > 1:
            half = (n + 1) // 2
            if t + half < n:
                tile[t] += tile[t + half]
            cuda.syncthreads()
            n = half
        if t == 0:
            sums[cuda.blockIdx.x] = tile[0]

    return kernel


wrong("wrong-sum", "it should be .*whose index is past the end write", "fills_with_ones")(
    adding(filler=1.0))
wrong("wrong-sum", "uninitialised", "as_reported")(adding())
wrong("wrong-sum", "barrier|uninitialised", "loose_threads_leave")(adding(leave=True))


@wrong("wrong-sum", "the work is not shared")
@cuda.jit
def one_thread_adds(values, sums):
    if cuda.threadIdx.x == 0:
        total = 0.0
        first = cuda.blockIdx.x * THREADS
        for i in range(first, min(first + THREADS, values.size)):
            total += values[i]
        sums[cuda.blockIdx.x] = total


@wrong("wrong-sum", "the tree is gone: 500 atomics")
@cuda.jit
def an_atomic_for_each_value(values, sums):
    i = cuda.grid(1)
    if cuda.threadIdx.x == 0:
        sums[cuda.blockIdx.x] = 0.0
    cuda.syncthreads()
    if i < values.size:
        cuda.atomic.add(sums, cuda.blockIdx.x, values[i])


@wrong("wrong-sum", "the work is not shared")
@cuda.jit
def thread_0_adds_the_tile(values, sums):
    tile = cuda.shared.array(THREADS, float64)
    i = cuda.grid(1)
    tile[cuda.threadIdx.x] = values[i] if i < values.size else 0.0
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        total = 0.0
        for k in range(THREADS):
            total += tile[k]
        sums[cuda.blockIdx.x] = total


# --- crash --------------------------------------------------------------------------------------


@cuda.jit
def keep_maxima(values, maxima):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.max(maxima, cuda.blockIdx.x, values[i])


def maxima(places, blocks, start=-math.inf):
    """``run_maxima`` with so many places, so many blocks, and this to begin with."""

    def run_maxima(values):
        d_maxima = cuda.to_device(np.full(places(values.size), start))
        keep_maxima[blocks(values.size), THREADS](cuda.to_device(values), d_maxima)
        return d_maxima.copy_to_host()

    return run_maxima


def up(n):
    return -(-n // THREADS)


wrong("crash", "illegal address", "as reported")(maxima(lambda n: n // THREADS, up))
wrong("crash", "which of the two divisions rounds down", "both round down")(
    maxima(lambda n: n // THREADS, lambda n: n // THREADS))
wrong("crash", "with 128 values, the answer has the length 2; .* is 1", "one place more")(
    maxima(lambda n: n // THREADS + 1, lambda n: n // THREADS + 1))
wrong("crash", "every dimension must be at least 1", "launches no block")(maxima(up, up))
wrong("crash", "all negative, maximum 0 is 0", "starts at zero")(maxima(up, up, 0.0))


@wrong("crash", "not an array with an element for each run")
def gives_nothing_back(values):
    maxima(up, up)(values)


@wrong("crash", "the host computes with the values: numpy.maximum")
def numpy_finds_them(values):
    return np.array([values[k:k + THREADS].max() for k in range(0, values.size, THREADS)])


@wrong("crash", "the host goes through the values")
def python_finds_them(values):
    return np.array([max(values[k:k + THREADS]) for k in range(0, values.size, THREADS)])


@wrong("crash", "computed on the host, not by a kernel")
def numpy_of_a_plain_array_and_a_kernel_for_show(values):
    plain = np.asarray(values).view(np.ndarray)
    if values.size:
        maxima(up, up, -math.inf)(values)
    return np.array([run.max() for run in np.split(plain, range(128, plain.size, 128)) if run.size])


# --- hang ---------------------------------------------------------------------------------------


def keeping(release=True, fences=(True, True), at_least=True):
    """A kernel that keeps the best one under a lock."""
    first, last = fences

    @cuda.jit
    def keep(values, cut, best, lock):
        i = cuda.grid(1)
        if i < values.size:
            while cuda.atomic.cas(lock, 0, 0, 1) != 0:
                pass
            if first:
                cuda.threadfence()
            enough = values[i] >= cut if at_least else values[i] <= cut
            if not enough and not release:
                return
            if enough and values[i] > best[0]:
                best[0] = values[i]
            if last:
                cuda.threadfence()
            cuda.atomic.exch(lock, 0, 0)

    return keep


wrong("hang", "no thread can go on", "as reported")(keeping(release=False))
wrong("hang", "one of its two fences is missing", "no fences")(keeping(fences=(False, False)))
wrong("hang", "one of its two fences is missing", "no last fence")(keeping(fences=(True, False)))
wrong("hang", "leave out the values below the cut", "keeps what is below")(keeping(at_least=False))


@wrong("hang", "race")
@cuda.jit
def no_lock(values, cut, best, lock):
    i = cuda.grid(1)
    if i < values.size and values[i] >= cut and values[i] > best[0]:
        best[0] = values[i]


@wrong("hang", "the lock is gone")
@cuda.jit
def an_atomic_maximum(values, cut, best, lock):
    i = cuda.grid(1)
    if i < values.size and values[i] >= cut:
        cuda.atomic.max(best, 0, values[i])


wrong("hang", "the lock guards nothing", "a lock for show")(
    swap("] >= cut:", "] >= cut:\n        cuda.atomic.max(best, 0, values[i])"),
    swap("if values[i] > best[0]:\n            best[0] = values[i]", "pass"))


# --- slow ---------------------------------------------------------------------------------------


@wrong("slow", r"sums\[1\] was never written|illegal address")
@cuda.jit
def a_thread_for_each_row(table, sums):
    row = cuda.grid(1)
    if row < table.shape[0] and cuda.threadIdx.x == 0:
        mine = 0.0
        for column in range(table.shape[1]):
            mine += table[row // 32, column]
        sums[row // 32] = mine


wrong("slow", "which columns do the 32 lanes", "a piece for each lane")(
    swap("threadIdx.x", "threadIdx.x\n    piece = (table.shape[1] + 31) // 32"),
    swap(", table.shape[1], 32", " * piece, min((lane + 1) * piece, table.shape[1])"))


@wrong("slow", "the work is not shared|but the kernel is still slow")
@cuda.jit
def lane_zero_reads_all(table, sums):
    row = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        mine = 0.0
        for column in range(table.shape[1]):
            mine += table[row, column]
        sums[row] = mine


@wrong("slow", "race|it should be")
@cuda.jit
def all_lanes_write(table, sums):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x
    mine = 0.0
    for column in range(lane, table.shape[1], 32):
        mine += table[row, column]
    sums[row] = mine


# --- most-days ----------------------------------------------------------------------------------


def launching(fenced):
    """One launch that adds up and divides; a fence does not wait for other blocks."""

    @cuda.jit
    def at_once(values, total):
        i = cuda.grid(1)
        if i < values.size:
            cuda.atomic.add(total, 0, values[i])
        if fenced:
            cuda.threadfence()
        cuda.syncthreads()
        if i < values.size:
            values[i] /= total[0]

    def shares(values):
        d_values, d_total = cuda.to_device(values), cuda.to_device(np.zeros(1))
        at_once[up(values.size), THREADS](d_values, d_total)
        return d_values.copy_to_host()

    return shares


wrong("most-days", "race.*in another launch", "as reported")(launching(fenced=False))
wrong("most-days", "race", "a fence")(launching(fenced=True))


@cuda.jit
def copy_over(values, other):
    i = cuda.grid(1)
    if i < values.size:
        other[i] = values[i]


@wrong("most-days", "the host computes with the values: numpy.add")
def numpy_and_a_kernel_for_show(values):
    d_values = cuda.to_device(values / values.sum())
    d_copy = cuda.device_array_like(d_values)
    copy_over[up(values.size), THREADS](d_values, d_copy)
    return d_copy.copy_to_host()


@cuda.jit
def divide(values, total):
    i = cuda.grid(1)
    if i < values.size:
        values[i] /= total[0]


@wrong("most-days", "the host computes with the values: numpy.add")
def numpy_adds(values):
    d_values, d_total = cuda.to_device(values), cuda.to_device(np.array([values.sum()]))
    divide[up(values.size), THREADS](d_values, d_total)
    return d_values.copy_to_host()


@wrong("most-days", "the host goes through the values")
def python_adds(values):
    total = sum(values)
    return np.array([value / total for value in values])


@cuda.jit
def alone(values):
    total = 0.0
    for i in range(values.size):
        total += values[i]
    for i in range(values.size):
        values[i] /= total


@wrong("most-days", "one thread makes [23],")
def one_thread(values):
    d_values = cuda.to_device(values)
    alone[1, 1](d_values)
    return d_values.copy_to_host()


@wrong("most-days", "1,?025")
def one_block_for_all(values):
    d_values, d_total = cuda.to_device(values), cuda.to_device(np.zeros(1))
    in_one_block[1, values.size](d_values, d_total)
    return d_values.copy_to_host()


@cuda.jit
def in_one_block(values, total):
    t = cuda.threadIdx.x
    cuda.atomic.add(total, 0, values[t])
    cuda.syncthreads()
    values[t] /= total[0]


@wrong("most-days", "share 0 is")
def equal_shares(values):
    return np.full_like(values, 1 / values.size)


@wrong("most-days", "computed on the host, not by a kernel")
def numpy_of_a_plain_array(values):
    plain = np.asarray(values).view(np.ndarray)
    d_values = cuda.to_device(plain / plain.sum())
    for _ in range(2):
        d_copy = cuda.device_array_like(d_values)
        copy_over[up(values.size), THREADS](d_values, d_copy)
    return d_copy.copy_to_host()


# --- two-streams --------------------------------------------------------------------------------


def add_half(values, totals, which):
    totals[which] = values.sum()


def divide_half(values, totals):
    values /= totals[0] + totals[1]


def program(waits=(), together=False, one_stream=False, early=False, divide=True):
    """A program in two streams, in which these streams wait for the other's total."""

    def run(gpu, halves, results):
        totals = gpu.buffer(2)
        streams = [gpu.stream(), gpu.stream()]
        if one_stream:
            streams[1] = streams[0]
        buffers = [gpu.buffer(half.size) for half in halves]
        added = [gpu.event(), gpu.event()]
        for k in (0, 1):
            streams[k].copy_in(halves[k], buffers[k])
            if early and k in waits:
                added[1 - k].wait(streams[k])
            streams[k].launch(add_half, buffers[k], totals, k)
            added[k].record(streams[k])
        if together:
            gpu.synchronize()
        for k in (0, 1):
            if k in waits and not early:
                added[1 - k].wait(streams[k])
            if divide:
                streams[k].launch(divide_half, buffers[k], totals)
            streams[k].copy_out(buffers[k], results[k])

    return run


wrong("two-streams", "which totals does this division need", "as reported")(program())
wrong("two-streams", "half 1 is garbage", "the first waits")(program(waits=(0,)))
wrong("two-streams", "half 0 is garbage", "the second waits")(program(waits=(1,)))
wrong("two-streams", "garbage", "waits before the event is recorded")(
    program(waits=(0, 1), early=True))
wrong("two-streams", "each half needs two", "no division")(program(waits=(0, 1), divide=False))
wrong("two-streams", "6 are enough", "one stream")(program(one_stream=True))


@wrong("two-streams", "0 halves are copied in")
def nothing_queued(gpu, halves, results):
    pass


@wrong("two-streams", "the old total.*the host added it up")
def host_adds(gpu, halves, results):
    total = sum(half.sum() for half in halves)

    def divide_all(values, totals, which):
        values /= total

    for k in (0, 1):
        stream, buffer = gpu.stream(), gpu.buffer(halves[k].size)
        stream.copy_in(halves[k], buffer)
        stream.launch(divide_all, buffer, None, k)
        stream.launch(lambda values: None, buffer)
        stream.copy_out(buffer, results[k])


@wrong("slow", "the kernel changes table, which is an input")
@cuda.jit
def folds_the_table_itself(table, sums):
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    columns = table.shape[1]
    for j in range(t + 32, columns, 32):
        table[row, t] += table[row, j]
    cuda.syncthreads()
    n = min(32, columns)
    while n > 1:
        half = (n + 1) // 2
        if t + half < n:
            table[row, t] += table[row, t + half]
        cuda.syncthreads()
        n = half
    if t == 0:
        sums[row] = table[row, 0] if columns > 0 else 0.0
