"""Wrong answers to the exercises of "Scan", with what the check must say of each."""

from __future__ import annotations

import numpy as np

from wrong_answers import collection, swap

WRONG, wrong = collection("13_scan")

from numba import cuda, int32, int64

THREADS = 128

# --- offsets ------------------------------------------------------------------------------------

wrong("offsets", r"there are 4 offsets; 4 lists need 5", "ends only")(np.cumsum)


@wrong("offsets", "include the list's own count")
def shifted_wrongly(counts):
    return np.append(np.cumsum(counts), sum(counts)).astype(np.int64)


@wrong("offsets", "the offsets are float64, not int64")
def floats(counts):
    return np.concatenate([[0.0], np.cumsum(counts)])


# --- scan-blocks --------------------------------------------------------------------------------


def scanning_blocks(aside=True, inside=False, fill=True, last=THREADS - 1):
    """A kernel that scans blocks; right, unless something is asked for that is not."""

    @cuda.jit
    def kernel(values, sums, totals):
        tile = cuda.shared.array(THREADS, int64)
        t = cuda.threadIdx.x
        i = cuda.grid(1)
        if fill or i < values.size:
            tile[t] = values[i] if i < values.size else 0
        cuda.syncthreads()
        distance = 1
        while distance < THREADS:
            if not aside:
                if t >= distance:
                    tile[t] += tile[t - distance]
            elif inside:
                if t >= distance:
                    left = tile[t - distance]
                    cuda.syncthreads()
                    tile[t] += left
                    cuda.syncthreads()
            else:
                left = tile[t - distance] if t >= distance else 0
                cuda.syncthreads()
                tile[t] += left
            if not inside:
                cuda.syncthreads()
            distance *= 2
        if i < values.size:
            sums[i] = tile[t]
        if t == last:
            totals[cuda.blockIdx.x] = tile[t]

    return kernel


wrong("scan-blocks", "race.*into a local variable", "one_barrier")(
    scanning_blocks(aside=False))
wrong("scan-blocks", "barrier|race", "barriers_in_the_branch")(scanning_blocks(inside=True))
wrong("scan-blocks", "uninitialised", "loose_threads_write_nothing")(scanning_blocks(fill=False))
wrong("scan-blocks", "totals.*which thread holds the sum", "totals_of_the_first")(
    scanning_blocks(last=0))


@wrong("scan-blocks", "the work is not shared|numbers are loaded from global memory")
@cuda.jit
def each_adds_up_for_itself(values, sums, totals):
    i = cuda.grid(1)
    first = cuda.blockIdx.x * THREADS
    mine = 0
    for k in range(first, min(first + THREADS, values.size)):
        if k <= i:
            mine += values[k]
    if i < values.size:
        sums[i] = mine
    if cuda.threadIdx.x == THREADS - 1:
        totals[cuda.blockIdx.x] = mine


@wrong("scan-blocks", "the work is not shared")
@cuda.jit
def one_thread_loops(values, sums, totals):
    if cuda.threadIdx.x == 0:
        mine = 0
        first = cuda.blockIdx.x * THREADS
        for k in range(first, min(first + THREADS, values.size)):
            mine += values[k]
            sums[k] = mine
        totals[cuda.blockIdx.x] = mine


# --- scan ---------------------------------------------------------------------------------------

scan_blocks = scanning_blocks()


@cuda.jit
def add_before(sums, totals):
    i = cuda.grid(1)
    if cuda.blockIdx.x > 0 and i < sums.size:
        sums[i] += totals[cuda.blockIdx.x - 1]


@cuda.jit
def add_own_too(sums, totals):
    i = cuda.grid(1)
    if i < sums.size:
        sums[i] += totals[cuda.blockIdx.x]


@cuda.jit
def each_block_adds_up(sums, totals):
    i = cuda.grid(1)
    if i < sums.size:
        for k in range(cuda.blockIdx.x):
            sums[i] += totals[k]


def scanning(add, totals=None):
    """A scan with this kernel that adds, and this function of the totals (by default itself)."""

    def scan(d_values):
        blocks = -(-d_values.size // THREADS)
        d_sums = cuda.device_array(d_values.size, np.int64)
        d_totals = cuda.device_array(blocks, np.int64)
        scan_blocks[blocks, THREADS](d_values, d_sums, d_totals)
        if blocks > 1 and add is not None:
            add[blocks, THREADS](d_sums, (totals or scan)(d_totals))
        return d_sums

    return scan


def one_block(d_totals):
    d_sums, d_one = cuda.device_array(d_totals.size, np.int64), cuda.device_array(1, np.int64)
    scan_blocks[1, THREADS](d_totals[:THREADS], d_sums[:THREADS], d_one)
    return d_sums


@cuda.jit
def adds_up_alone(totals):
    for k in range(1, totals.size):
        totals[k] += totals[k - 1]


def one_thread(d_totals):
    adds_up_alone[1, 1](d_totals)
    return d_totals


def without_end(d_values):
    blocks = -(-d_values.size // THREADS)
    d_sums, d_totals = cuda.device_array_like(d_values), cuda.device_array(blocks, np.int64)
    scan_blocks[blocks, THREADS](d_values, d_sums, d_totals)
    add_before[blocks, THREADS](d_sums, without_end(d_totals))
    return d_sums


wrong("scan", "element 128 is .*which blocks' totals should be added", "blocks alone")(scanning(None))
wrong("scan", "element 0 is .*which have been added", "adds its own total")(scanning(add_own_too))
wrong("scan", "totals are missing|uninitialised|never written", "one level")(
    scanning(add_before, one_block))
wrong("scan", "let each thread add one number", "every block adds up")(
    scanning(each_block_adds_up, lambda d_totals: d_totals))
wrong("scan", "the totals should stay on the device", "the host scans the totals")(
    scanning(add_before, lambda d_totals: cuda.to_device(d_totals.copy_to_host().cumsum())))
wrong("scan", "accesses by one thread", "one thread adds up the totals")(
    scanning(add_before, one_thread))
wrong("scan", "calls itself without end.*if blocks > 1", "no end")(without_end)
wrong("scan", "not an array on the device", "NumPy")(
    lambda d_values: d_values.copy_to_host().cumsum())

# --- compact ------------------------------------------------------------------------------------

wrong("compact", "which thread writes to which element|illegal address|which threads should write nothing", "from one")(
    swap("i] - 1] =", "i]] ="))
wrong("compact", "race|which thread writes to which element|which threads should write nothing|order", "everybody writes")(
    swap(" and flags[i]", ""))
wrong("compact", "illegal address", "no guard")(swap("i < values.size and ", ""))


@wrong("compact", "the work is not shared")
@cuda.jit
def thread_zero_writes(values, flags, ends, kept):
    if cuda.grid(1) == 0:
        place = 0
        for i in range(values.size):
            if flags[i]:
                kept[place] = values[i]
                place += 1


wrong("scan", "takes data from the device.*|the totals should stay on the device", "NumPy beside launches for show")(
    lambda d_values: _shown(np.cumsum(d_values.copy_to_host())))


def _shown(sums):
    few, one = cuda.to_device(np.ones(8, np.int64)), cuda.device_array(1, np.int64)
    for _ in range(3):
        scan_blocks[1, THREADS](few, cuda.device_array(8, np.int64), one)
    return cuda.to_device(sums)


@wrong("offsets", "with the counts .*70000")
def in_one_byte(counts):
    return np.append(0, np.cumsum(counts.astype(np.int8), dtype=np.int8)).astype(np.int64)


@wrong("scan-blocks", "of the sums, element")
@cuda.jit
def in_32_bits(values, sums, totals):
    tile = cuda.shared.array(THREADS, int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    tile[t] = values[i] if i < values.size else 0
    cuda.syncthreads()
    distance = 1
    while distance < THREADS:
        left = tile[t - distance] if t >= distance else 0
        cuda.syncthreads()
        tile[t] += left
        cuda.syncthreads()
        distance *= 2
    if i < values.size:
        sums[i] = tile[t]
    if t == THREADS - 1:
        totals[cuda.blockIdx.x] = tile[t]


def host_beyond_two_levels(d_values, level=1):
    d_sums, d_totals, blocks = _level(d_values)
    if blocks > 1:
        more = host_beyond_two_levels(d_totals, 2) if level == 1 else _cumsum_on_the_host(d_totals)
        add_before[blocks, THREADS](d_sums, more)
    return d_sums


def _level(d_values):
    blocks = -(-d_values.size // THREADS)
    d_sums, d_totals = cuda.device_array_like(d_values), cuda.device_array(blocks, np.int64)
    scan_blocks[blocks, THREADS](d_values, d_sums, d_totals)
    return d_sums, d_totals, blocks


def _cumsum_on_the_host(d_values):
    return cuda.to_device(d_values.copy_to_host().cumsum())


def over_its_own_values(d_values):
    blocks = -(-d_values.size // THREADS)
    d_totals = cuda.device_array(blocks, np.int64)
    scan_blocks[blocks, THREADS](d_values, d_values, d_totals)
    if blocks > 1:
        add_before[blocks, THREADS](d_values, over_its_own_values(d_totals))
    return d_values


def by_cupy(d_values):
    import cupy

    _level(d_values), _level(d_values), _level(d_values)
    return cuda.as_cuda_array(cupy.cumsum(cupy.asarray(d_values)))


wrong("scan", "takes data from the device", "the host beyond two levels")(host_beyond_two_levels)
wrong("scan", "d_values has changed.*a new array", "over its own values")(over_its_own_values)
wrong("scan", "a library's scan computes them", "CuPy beside launches for show")(by_cupy)

wrong("compact", "which thread writes to which element", "of values that are positive")(
    swap("kept[ends[i] - 1] = values[i]", "kept[ends[i] - 1] = abs(values[i])"))


@wrong("compact", "the kernel changes flags, which is an input")
@cuda.jit
def crosses_out(values, flags, ends, kept):
    i = cuda.grid(1)
    if i < values.size:
        if flags[i]:
            kept[ends[i] - 1] = values[i]
        flags[i] = 0
