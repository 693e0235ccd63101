# %% [markdown] id="what-this-is"
# Every picture of the course in one place, each on a kernel that does well and on one that does not.
# Change the kernels and run the cells again: the pictures are of *your* kernel, each time.
#
# All of them launch on **copies** of what you give them. Counts and orders come from the virtual GPU,
# also where there is a GPU; times come from the GPU, where there is one, and the picture says so.

# %% id="load"
# %load_ext gpucourse
import numpy as np
from numba import cuda, float32, int32

from gpucourse import beside, compare, memory, race, report, timeline, tree

rng = np.random.default_rng(5)
masses = rng.normal(91, 12, 100_000).astype(np.float32)  # GeV, around the Z

# %% [markdown] id="card-intro"
# ## The card of a launch
#
# `%%gpu_report` at the top of a cell gives a card for every launch in it. Read it from the top: what is
# *wrong* first, then what it *cost* in plain words, then the lines that cost it.

# %% id="card-kernels"
@cuda.jit
def scale(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = 2 * x[i]


@cuda.jit
def scale_in_columns(x, out):
    i = cuda.grid(1)
    rows = x.size // 32
    if i < x.size:
        k = i % rows * 32 + i // rows  # thread 1 is 32 elements from thread 0
        out[k] = 2 * x[k]


x = cuda.to_device(masses)
out = cuda.device_array_like(x)

# %% id="card-good"
# %%gpu_report
scale[391, 256](x, out)

# %% id="card-strided"
# %%gpu_report
scale_in_columns[391, 256](x, out)

# %% [markdown] id="card-wrong-intro"
# A kernel that goes wrong gives a card as well, in place of a traceback: a barrier is missing in the
# first of these, the guard in the second.

# %% id="card-race"
@cuda.jit
def smooth(x, out):
    s = cuda.shared.array(128, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i]
    if 0 < t < 127:
        out[i] = (s[t - 1] + s[t] + s[t + 1]) / 3


report(smooth, 10, 128, masses[:1280], np.zeros(1280, np.float32))

# %% id="card-out-of-bounds"
@cuda.jit
def double(x):
    i = cuda.grid(1)
    x[i] *= 2


report(double, 40, 32, masses[:1200])

# %% [markdown] id="timeline-intro"
# ## Warps, step by step
#
# A band is a warp, 32 lanes high; from left to right is the order in which instructions ran. Pale lanes
# are masked off: their warp is busy with others. Put the pointer on a step to see its line.

# %% id="timeline-tree"
@cuda.jit
def block_sum(x, total):
    s = cuda.shared.array(64, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    step = 32
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(total, 0, s[0])


timeline(block_sum, 2, 64, masses, np.zeros(1, np.float32))

# %% id="timeline-diverge"
@cuda.jit
def collatz(start, steps):
    i = cuda.grid(1)
    if i < start.size:
        n = start[i]
        while n != 1:
            if n % 2:
                n = 3 * n + 1
            else:
                n //= 2
            steps[i] += 1


start = np.arange(1, 65)
timeline(collatz, 1, 64, start, np.zeros_like(start), warps=2, steps=120)

# %% [markdown] id="memory-intro"
# ## Who touches which element
#
# Global memory moves in sectors of 32 bytes. The same work, twice: neighbours beside neighbours, and
# neighbours 32 elements apart. The scale above each picture goes from request to request.

# %% id="memory-pair"
beside(
    memory(scale, 391, 256, masses, np.zeros_like(masses), array="x", title="coalesced"),
    memory(scale_in_columns, 391, 256, masses, np.zeros_like(masses), array="x", title="strided"),
)

# %% [markdown] id="banks-intro"
# Shared memory has 32 banks, and a bank gives one word a turn: each row below is a turn. A square tile
# that is read by rows and written by columns pays for it. One more column than needed spreads the
# words over the banks.

# %% id="banks"
@cuda.jit
def turn_tile(x, out):
    tile = cuda.shared.array((32, 32), float32)
    row, column = cuda.threadIdx.y, cuda.threadIdx.x
    tile[column, row] = x[row, column]
    cuda.syncthreads()
    out[row, column] = tile[row, column]


@cuda.jit
def turn_padded_tile(x, out):
    tile = cuda.shared.array((32, 33), float32)
    row, column = cuda.threadIdx.y, cuda.threadIdx.x
    tile[column, row] = x[row, column]
    cuda.syncthreads()
    out[row, column] = tile[row, column]


square = masses[:1024].reshape(32, 32)
beside(
    memory(turn_tile, 1, (32, 32), square, square, array="shared", title="32 columns"),
    memory(turn_padded_tile, 1, (32, 32), square, square, array="shared", title="33 columns"),
)

# %% [markdown] id="tree-intro"
# ## The levels of a reduction
#
# Drawn from what the threads read and wrote. The second kernel halves its way down as well, and works
# for powers of two alone: with 11 values, two never arrive.

# %% id="tree-right"
@cuda.jit
def sum_16(x, total):
    s = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    s[t] = x[t] if t < x.size else 0
    cuda.syncthreads()
    step = 8
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        total[0] = s[0]


tree(sum_16, 1, 16, np.arange(1, 12, dtype=np.int32), np.zeros(1, np.int32))

# %% id="tree-wrong"
@cuda.jit
def sum_of_powers_of_two(x, total):
    s = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        total[0] = s[0]


tree(sum_of_powers_of_two, 1, 11, np.arange(1, 12, dtype=np.int32), np.zeros(1, np.int32))

# %% [markdown] id="race-intro"
# ## A race, replayed
#
# Two threads and the one place in memory that they share. Before you move to the last step: what will
# stand in `total[0]`?

# %% id="race-update"
@cuda.jit
def count_all(total):
    total[0] += 1


race(count_all, 1, 2, np.zeros(1, np.int32))

# %% [markdown] id="race-order-intro"
# Where no update is lost but a barrier is missing, two orders are shown: in one of them a thread reads
# what nobody has written yet.

# %% id="race-order"
@cuda.jit
def turn_round(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    out[t] = s[63 - t]


race(turn_round, 1, 64, masses[:64], np.zeros(64, np.float32))

# %% id="race-none"
@cuda.jit
def count_all_atomically(total):
    cuda.atomic.add(total, 0, 1)


race(count_all_atomically, 1, 2, np.zeros(1, np.int32))

# %% [markdown] id="compare-intro"
# ## One problem, several programs
#
# First whether they agree, then what each costs. What ran on the processor has a time; what ran on the
# virtual GPU has counts. The two are never put on one axis.

# %% id="compare-kernels"
@cuda.jit
def add_each(x, total):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(total, 0, x[i])


def on_gpu(kernel, threads):
    def run(x):
        total = cuda.to_device(np.zeros(1, np.float32))
        kernel[(x.size + threads - 1) // threads, threads](cuda.to_device(x), total)
        return total.copy_to_host()[0]

    return run


compare(
    {
        "NumPy": np.sum,
        "Python's sum": lambda x: sum(x.tolist()),
        "one atomic for each": on_gpu(add_each, 128),
        "tree in each block": on_gpu(block_sum, 64),
        "forgot half": lambda x: np.sum(x[::2]),
    },
    masses,
    rtol=1e-3,
)

# %% [markdown] id="gallery-end" tags=["keypoints"]
# - `%%gpu_report` and `gpucourse.report(kernel, grid, block, …)` say what is wrong, what it cost, and where.
# - `timeline` shows when lanes part and warps wait; `memory` shows who touches what; `tree` and `race`
#   show how values meet, and how they miss each other; `compare` puts programs side by side.
# - Each picture has its words: `print(report(…))` in a terminal, and for screen readers.
