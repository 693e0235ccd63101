# %% [markdown] id="question"
# ## Where is the Z?
#
# In 50,000 simulated collisions, some events hold a pair of muons with opposite charges. Particles that decayed into such
# pairs show up as peaks in a histogram of the pairs' masses.
#
# On one core, each mass takes one line, `counts[slot] += 1`. But if thousands of threads run this line at once, counts
# are lost. You will write kernels that lose none. **Steps 1 to 5 are the project** (two hours, 20 points), and steps 6
# to 10 go further (16 points).
#
# | step | you write | idea |
# |---|---|---|
# | 1 | `bin_index` | the slot of a mass |
# | 2 | `fill_private` | a histogram for every thread |
# | 3 | `merge_rows` | the sum of these histograms, in a tree |
# | 4 | `fill_atomic` | one histogram, with atomic additions |
# | 5 | `fill_shared` | a histogram for every block |

# %% [markdown] id="how-it-works"
# ## How this works
#
# Replace `YOUR CODE HERE` and the `raise` below it, run the cell, then run the test cells that follow. A kernel earns its
# points only if no thread does more than 1.5 times its even share of the work. [How the projects work](../../docs/projects.md)
# has the details: hints, tests, and how to grade yourself.

# %% id="start" role="setup"
# %load_ext gpucourse
import math

import numpy as np
from numba import cuda, float64, int32

from gpucourse import (
    call, expect, expect_close, expect_equal, expect_parallel, launch, launches, secret_rng, unwritten,
)
from gpucourse.exercises.checks import project

hint = project("01_fill_a_histogram")

MAX_THREADS = 1024  # the largest block that any launch of this project has
MAX_SLOTS = 1024  # the largest histogram that has to fit into shared memory

# %% id="masses"
import awkward as ak
import matplotlib.pyplot as plt

from gpucourse.data import dimuons, pair_masses

masses = ak.to_numpy(ak.flatten(pair_masses(dimuons().muons)))  # GeV, float64
device_masses = cuda.to_device(masses)
print(f"{masses.size:,} pairs, masses from {masses.min():.2f} to {masses.max():.0f} GeV")

# %% [markdown] id="predict-hopeful" tags=["predict"]
# ### Predict: every thread adds one
#
# The kernel below starts one thread for each mass, and each adds one to the same counter. What will the counter say?

# %% id="hopeful-guess"
from gpucourse.exercises.predictions import predictions

predict = predictions("01_fill_a_histogram")
predict("hopeful",
        "29,448",
        "a few less",
        "less than a tenth of it",
        "always more than half, another number each time")

# %% id="hopeful"
@cuda.jit
def count_hopefully(values, total):
    i = cuda.grid(1)
    if i < values.size:
        total[0] += 1


total = cuda.to_device(np.zeros(1, np.int32))
count_hopefully[math.ceil(masses.size / 128), 128](device_masses, total)
print(f"{total.copy_to_host()[0]:,} of {masses.size:,}")

# %% [markdown] id="hopeful-why" tags=["why"]
# The counter shows less than a tenth of the masses. `total[0] += 1` takes three steps: load, add and store. The 32 threads
# of a warp load the same number and store the same sum, so a warp counts one event at best. Warps also overwrite each
# other's sums, and how many counts are lost depends on the device and on chance.

# %% [markdown] id="hopeful-then"
# ## The specification
#
# `counts` has `bins + 2` **slots**. The bins have the same width $w$ and cover the range from `low` to `high`:
#
# | slot | counts values with |
# |---|---|
# | 0, underflow | value < low |
# | k = 1 … bins | low + (k − 1) w ≤ value < low + k w |
# | bins + 1 | value ≥ high, and NaN |
#
# In NumPy, the specification reads:

# %% id="reference" role="setup"
def reference(values, low, high, bins):
    """Return the histogram of `values` as specified above: int32, shape (bins + 2,)."""
    edges = np.linspace(low, high, bins + 1)
    slots = np.searchsorted(edges, values, side="right")  # NaN sorts behind everything
    return np.bincount(slots, minlength=bins + 2).astype(np.int32)


def values_in(slots, low, high, bins, rng):
    """Return one value for each entry of `slots`, inside that slot and well away from its edges."""
    width = (high - low) / bins
    return low + (slots - 1 + rng.uniform(0.01, 0.99, np.shape(slots))) * width

# %% id="what-we-want"
from gpucourse.views.picture import show_figure


def draw(counts, low, high, label, color="#0072B2"):
    """Draw the bins of `counts`, without underflow and overflow."""
    edges = np.linspace(low, high, len(counts) - 1)
    plt.stairs(counts[1:-1], edges, label=label, color=color)
    plt.xlabel("mass of the muon pair [GeV]")
    plt.ylabel(f"pairs per {(high - low) / (len(counts) - 2):g} GeV")
    plt.legend()


plt.figure(figsize=(8, 3))
draw(reference(masses, 0.0, 120.0, 480), 0.0, 120.0, "NumPy")
plt.yscale("log")
plt.ylim(0.5, 5000)
for name, mass, height in (("J/ψ", 3.1, 1600), ("Υ", 9.5, 1200), ("Z", 91.2, 600)):
    plt.text(mass, height, name, ha="center")
show_figure("Histogram of the masses of muon pairs from 0 to 120 GeV, in bins of 0.25 GeV and with a "
            "logarithmic scale: peaks marked J/ψ at 3.1, Υ at 9.5 and Z at 91.2 GeV.")

# %% [markdown] id="below-predict" tags=["predict"]
# ### Predict: half a bin below
#
# The bins are 2 wide and begin at `low`. Which slot does `int((value - low) / 2) + 1` give for a value that lies 1
# below `low`?

# %% id="below-guess"
predict("below", "0, underflow", "1, the first bin", "-1, which is not a slot")

# %% id="below"
low = 60.0
for value in (low - 3, low - 1, low + 1):
    print(f"{value - low:+.0f} from low: slot {int((value - low) / 2) + 1}")

# %% [markdown] id="below-why" tags=["why"]
# It gives slot 1, because the position is −0.5 and `int` rounds towards zero. So the first bin is twice as wide as the
# others, and the sum of all slots does not reveal this mistake.

# %% [markdown] id="step-1"
# ## 1. Which slot?
#
# Write `bin_index`, a device function that returns the slot of one value. The kernels of all later steps call it.
#
# - Division and multiplication give you a position counted in bins. Convert it with `int()`, because in a kernel
#   `math.floor` returns a float.
# - Values may be infinite, or larger than any integer. Every comparison with NaN is false.
# - A value within a rounding error of an edge may land on either side. The tests expect the exact slot where edges are
#   exact in floating point, as with a width of 2 or 0.25.
#
# Leave `find_slots` as it is, because the tests use it. Hints: `hint("bin-index")`.

# %% id="bin-index" role="solution"
@cuda.jit(device=True)
def bin_index(value, low, high, bins):
    """Return the slot of `value`: 0 for underflow, 1 to bins, bins + 1 for overflow and NaN."""
    ### BEGIN SOLUTION
    if value < low:
        return 0
    if value < high:
        position = (value - low) / (high - low) * bins
        # Just below high, rounding may carry the position up to bins.
        return min(int(position) + 1, bins)
    # Not below high: above it, or NaN.
    return bins + 1
    ### END SOLUTION


@cuda.jit
def find_slots(values, low, high, bins, slots):
    """Set slots[i] to the slot of values[i]."""
    i = cuda.grid(1)
    if i < values.size:
        slots[i] = bin_index(values[i], low, high, bins)

# %% id="test-bin-inside" role="test" points=2 starter="PropertyFailed"
values = np.array([0.0, 1.9, 2.0, 3.5, 9.0, 14.0, 15.9])
slots = unwritten(values.size, np.int32)
launch("find_slots", 1, 32, values, 0.0, 16.0, 8, slots, schedules=0)  # eight bins, each 2 wide
expect_equal(slots, [1, 1, 2, 2, 5, 8, 8], "a value between low and high gets the wrong slot")
### BEGIN HIDDEN TESTS
for low, high, bins in ((0.0, 16.0, 8), (-8.0, 8.0, 64), (64.0, 128.0, 256), (-0.5, 0.5, 2)):
    edges = np.linspace(low, high, bins + 1)[:-1]
    slots = unwritten(bins, np.int32)
    launch("find_slots", 9, 32, edges, low, high, bins, slots, schedules=0)
    expect_equal(slots, np.arange(1, bins + 1),
                 "a value exactly on an edge does not go into the bin that begins there")
for low, high, bins in ((0.0, 1.0, 1), (-3.0, -1.0, 7), (60.0, 120.0, 101), (-1e6, 1e3, 3)):
    wanted = secret_rng(f"{bins} bins").integers(1, bins + 1, 257)
    values = values_in(wanted, low, high, bins, secret_rng("inside"))
    slots = unwritten(values.size, np.int32)
    launch("find_slots", 3, 100, values, low, high, bins, slots, schedules=0)
    expect_equal(slots, wanted,
                 "wrong when there is a single bin" if bins == 1 else
                 "wrong when low or high is negative" if low < 0 else
                 "wrong when low is not 0")
### END HIDDEN TESTS

# %% id="test-bin-outside" role="test" points=2 starter="PropertyFailed"
values = np.array([-5.0, 20.0, 16.0, math.nan])
slots = unwritten(values.size, np.int32)
launch("find_slots", 1, 32, values, 0.0, 16.0, 8, slots, schedules=0)
expect(slots[0] == 0, "a value below low does not go into slot 0, underflow")
expect(slots[1] == 9, "a value above high does not go into slot bins + 1, overflow")
expect(slots[2] == 9, "the value high itself does not count as overflow: bins are half-open")
expect(slots[3] == 9, "NaN does not go into slot bins + 1: no comparison with NaN is true")
### BEGIN HIDDEN TESTS
for low, high, bins in ((0.0, 16.0, 8), (-8.0, 8.0, 5), (60.0, 120.0, 1), (1e-3, 2e-3, 1000)):
    width = (high - low) / bins
    below = low - width * secret_rng("below").uniform(0.001, 1.0, 40)
    above = high + width * secret_rng("above").uniform(0.0, 1.0, 40)
    infinite = np.array([-math.inf, -1e300, -1e19, math.inf, 1e300, 1e19, high])
    values = np.concatenate([below, above, infinite, [math.nan, -math.nan]])
    slots = unwritten(values.size, np.int32)
    launch("find_slots", 2, 64, values, low, high, bins, slots, schedules=0)
    expect((slots[:40] == 0).all(), "a value less than one bin below low is not underflow: "
                                    "int() cuts towards zero")
    expect((slots[40:80] == bins + 1).all(), "a value less than one bin above high is not overflow")
    expect((slots[80:83] == 0).all(), "minus infinity, or a huge negative value, is not underflow")
    expect((slots[83:86] == bins + 1).all(), "infinity, or a huge value, is not overflow")
    expect(slots[86] == bins + 1, "the value high itself does not count as overflow")
    expect((slots[87:] == bins + 1).all(), "NaN does not go into slot bins + 1")
### END HIDDEN TESTS

# %% [markdown] id="step-2"
# These slots are those of ROOT and `hist`, and they add up to the number of events. `numpy.histogram` differs, because it
# drops the values outside the range, and counts `high` in the last bin.
#
# ## 2. A histogram for every thread
#
# Threads that write to different places never have to wait for each other. `rows` has R rows of `bins + 2` slots, and
# thread r, counted over the whole grid, owns row r:
#
# - It counts the values r, r + R, r + 2R, … and no others. Neighbouring threads then read neighbouring values, which
#   memory delivers together.
# - It first sets its row to zero, because `rows` arrives with whatever was left in memory.
# - The launch has at least R threads, and often more because blocks have a fixed size. Threads without a row must leave
#   everything alone.
#
# A kernel keeps the device functions that it was compiled with, so run this cell again whenever you change `bin_index`.
# The work of the busiest of the R threads is counted.
#
# Hints: `hint("fill-private")`.

# %% id="fill-private" role="solution"
@cuda.jit
def fill_private(values, low, high, rows):
    """Count values[r::R] in rows[r]; `rows` is int32, shape (R, bins + 2)."""
    ### BEGIN SOLUTION
    r = cuda.grid(1)
    # The guard is about rows, not values: a thread with a row and no value still has to zero it.
    if r < rows.shape[0]:
        bins = rows.shape[1] - 2
        for slot in range(bins + 2):
            rows[r, slot] = 0
        # A plain += is safe here: no other thread touches this row.
        for i in range(r, values.size, rows.shape[0]):
            rows[r, bin_index(values[i], low, high, bins)] += 1
    ### END SOLUTION

# %% id="test-fill-private" role="test" points=3 starter="PropertyFailed"
values = values_in(secret_rng().integers(0, 12, 1000), 0.0, 10.0, 10, secret_rng("inside"))
rows = unwritten((60, 12), np.int32)  # garbage: what the kernel does not write stands out
launched = launch("fill_private", 2, 32, values, 0.0, 10.0, rows, schedules=1)  # 64 threads, 60 rows
expect_equal(rows.sum(axis=0), reference(values, 0.0, 10.0, 10),
             "the rows together are not the histogram of the values")
expect_equal(rows[7], reference(values[7::60], 0.0, 10.0, 10),
             "row r does not hold the values r, r + R, r + 2R, … and no others")
expect_parallel(launched, values.size + rows.size, threads=60)
### BEGIN HIDDEN TESTS
cases = [(n, 1, 64, 37, 20) for n in (0, 1, 31, 32, 33, 127, 128, 129, 1009)]
cases += [(34, 1, 1, 1, 5), (300, 3, 50, 129, 1), (700, 5, 33, 165, 3), (2003, 2, 96, 101, 150)]
for n, grid, block, R, bins in cases:
    wanted = secret_rng(f"{n} values").integers(0, bins + 2, n)
    values = values_in(wanted, -2.0, 3.0, bins, secret_rng(f"inside {n}"))
    values.setflags(write=False)
    rows = unwritten((R, bins + 2), np.int32)
    launched = launch("fill_private", grid, block, values, -2.0, 3.0, rows, schedules=n == 129)
    expected = np.array([np.bincount(wanted[r::R], minlength=bins + 2) for r in range(R)])
    expect_equal(rows, expected,
                 "wrong for an empty input: the rows have to become zero" if n == 0 else
                 "wrong for another number of rows, threads or bins" if R != 37 else
                 "wrong when there are fewer values than rows" if n < R else
                 "wrong when the number of values is not a multiple of the number of rows")
    expect_parallel(launched, values.size + rows.size, threads=R)
# What threads that only look busy leave to others shows beside a thread that is alone, in a launch that no
# kernel can tell from the others by its size or its shape.
n, R, grid = secret_rng("long").integers((7000, 40, 3), (9000, 64, 6)).tolist()
values = values_in(secret_rng("long").integers(1, 11, n), 0.0, 10.0, 10, secret_rng("inside"))
few, one = values[:125], unwritten((1, 12), np.int32)
alone = launch("fill_private", 1, 1, few, 0.0, 10.0, one, schedules=0)
expect_equal(one[0], reference(few, 0.0, 10.0, 10), "wrong for a single row")
rows = unwritten((R, 12), np.int32)
launched = launch("fill_private", grid, math.ceil(R / grid), values, 0.0, 10.0, rows, schedules=0)
expect_equal(rows.sum(axis=0), reference(values, 0.0, 10.0, 10), "wrong when there are many values")
expect_parallel(launched, values.size + rows.size, threads=R, alone=(alone, few.size + one.size))
### END HIDDEN TESTS

# %% [markdown] id="step-3"
# ## 3. Add up the rows in a tree
#
# Now add the rows to get one histogram: `counts[slot]` is the sum of column `slot`. The launch has one block for each
# column, so `cuda.blockIdx.x` is the slot. Inside a block of T threads:
#
# 1. Thread t adds up rows t, t + T, t + 2T, … of its column, and stores the sum in element t of an array in shared memory.
# 2. The T sums are added in pairs, then the results in pairs, and so on, in the shape of a tree. The distance between
#    partners halves in each round, so 1,000 sums take 10 rounds instead of 999.
# 3. When one sum is left, one thread stores it.
#
# Most mistakes are made between the rounds. Every thread of the block must have finished writing before any thread
# reads, so each round needs a `cuda.syncthreads()` that *all* threads of the block reach, including those without a
# partner. T can be any number from 1 to `MAX_THREADS`. If the number of sums is odd, one of them has no partner, and
# there may be fewer rows than threads, or none. The size of shared memory must be known when the kernel is compiled:
# `cuda.shared.array(MAX_THREADS, int32)`.
#
# The work of the busiest thread is counted, and a queue at one address does not count as a tree.
#
# <details>
# <summary>How a queue is told from a tree</summary>
#
# The elements of a thread's share are entries of `rows`. One address may take 4 atomic additions for each element of a share.
# If you use shuffles, a warp may make 14 of them for each element of a thread, and 14 more. A tree takes 5 shuffles, or
# 10 with 64 bits. If 31 lanes hand their sums to one lane, that takes 31.
#
# </details>
#
# Hints: `hint("merge-rows")`.

# %% id="merge-rows" role="solution"
@cuda.jit
def merge_rows(rows, counts):
    """Set counts[slot] to the sum of rows[:, slot]; one block per slot."""
    ### BEGIN SOLUTION
    partial = cuda.shared.array(MAX_THREADS, int32)
    t = cuda.threadIdx.x
    slot = cuda.blockIdx.x

    # Any number of rows: each thread takes every T-th. Without a row its sum is 0, and it stores
    # that too, because shared memory starts with garbage.
    total = 0
    for r in range(t, rows.shape[0], cuda.blockDim.x):
        total += rows[r, slot]
    partial[t] = total

    # `active` sums are left. The upper half is added onto the lower; with an odd number the one in
    # the middle has no partner and stays where it is, so `half` is rounded up.
    active = cuda.blockDim.x
    while active > 1:
        cuda.syncthreads()  # outside the if: every thread arrives
        half = (active + 1) // 2
        if t + half < active:
            partial[t] += partial[t + half]
        active = half

    # Thread 0 wrote the last sum itself, so it need not wait for anybody.
    if t == 0:
        counts[slot] = partial[0]
    ### END SOLUTION

# %% id="test-merge-rows" role="test" points=4 starter="PropertyFailed"
rows = secret_rng().integers(0, 100, (50, 12)).astype(np.int32)
for threads in (64, 48, 7):
    counts = unwritten(12, np.int32)
    launched = launch("merge_rows", 12, threads, rows, counts, schedules=1)
    expect_equal(counts, rows.sum(axis=0, dtype=np.int32),
                 "wrong when the number of threads is a power of two" if threads == 64 else
                 "wrong when the number of threads is not a power of two" if threads == 48 else
                 "wrong when the number of threads is odd")
    expect_parallel(launched, rows.size, tree=True)
rows, counts = secret_rng("tall").integers(0, 100, (2000, 3)).astype(np.int32), unwritten(3, np.int32)
launched = launch("merge_rows", 3, 512, rows, counts, schedules=0)
expect_equal(counts, rows.sum(axis=0, dtype=np.int32), "wrong when there are many rows")
expect_parallel(launched, rows.size, tree=True)
### BEGIN HIDDEN TESTS
lengths = (0, 1, 2, 31, 32, 33, 127, 128, 129, 1009)
blocks = (32, 33, 1, 3, 96, 100, 128, 129, 127, 512)
for R, threads in zip(lengths, blocks, strict=True):
    rows = secret_rng(f"{R} rows").integers(0, 1000, (R, 5)).astype(np.int32)
    rows.setflags(write=False)
    counts = unwritten(5, np.int32)
    launched = launch("merge_rows", 5, threads, rows, counts, schedules=R == 33)
    expect_equal(counts, rows.sum(axis=0, dtype=np.int32),
                 "wrong when there are no rows" if R == 0 else
                 "wrong when there are fewer rows than threads" if R < threads else
                 "wrong when there are more rows than threads")
    expect_parallel(launched, rows.size, tree=True)
# With many rows for each thread a single idle one shows.
R, threads, slots = secret_rng("taller").integers((7000, 60, 3), (9000, 100, 6)).tolist()
rows, counts = secret_rng("rows").integers(0, 100, (R, slots)).astype(np.int32), unwritten(slots, np.int32)
launched = launch("merge_rows", slots, threads, rows, counts, schedules=0)
expect_equal(counts, rows.sum(axis=0, dtype=np.int32), "wrong when there are many more rows than threads")
expect_parallel(launched, rows.size, tree=True, alone=(
    launch("merge_rows", slots, 1, rows[:125], unwritten(slots, np.int32), schedules=0), 125))
rows = secret_rng("wide").integers(0, 1000, (40, 300)).astype(np.int32)
counts = unwritten(300, np.int32)
launch("merge_rows", 300, 20, rows, counts, schedules=0)
expect_equal(counts, rows.sum(axis=0, dtype=np.int32), "wrong for another number of slots")
### END HIDDEN TESTS

# %% [markdown] id="look-private"
# Once your kernel is written, the cell below draws *your* tree for seven sums, from what your threads did. Does every
# sum reach the top?

# %% id="draw-tree"
from gpucourse import report, tree

seven = np.arange(1, 8, dtype=np.int32).reshape(7, 1)  # seven rows, one slot: 28 in all
tree(merge_rows, 1, 7, seven, np.zeros(1, np.int32))

# %% [markdown] id="look-peak"
# Both kernels together fill the region of the Z from the masses of the sample. The picture is empty until your kernels
# work.

# %% id="first-peak"
rows = cuda.device_array((256, 122), np.int32)  # not zeroed, as on any GPU
counts = cuda.to_device(np.zeros(122, np.int32))
fill_private[2, 128](device_masses, 60.0, 120.0, rows)
merge_rows[122, 64](rows, counts)

plt.figure(figsize=(8, 3))
merged = counts.copy_to_host()
draw(merged, 60.0, 120.0, "private histograms, merged")
show_figure(f"Histogram of your kernels from 60 to 120 GeV, in bins of 0.5 GeV: most pairs, "
            f"{merged[1:-1].max():,}, at {60.25 + 0.5 * merged[1:-1].argmax():.2f} GeV.")

# %% [markdown] id="step-4"
# ## 4. One histogram for all
#
# Private histograms take memory: 100,000 threads with 500 slots fill 200 MB, and all of it has to be read again.
# The alternative is one histogram and an addition that no other thread can interrupt. `cuda.atomic.add(array,
# index, amount)` loads, adds and stores in one step, and threads that need the same slot take turns.
#
# `fill_atomic` adds each value to `counts`, which may already hold events of an earlier launch, so never set it to
# zero. The grid may have fewer threads than there are values, or more, but every value must count once. The work of the
# busiest thread is counted.
#
# Hints: `hint("fill-atomic")`.

# %% id="fill-atomic" role="solution"
@cuda.jit
def fill_atomic(values, low, high, counts):
    """Add the histogram of `values` to `counts`: int32, shape (bins + 2,)."""
    ### BEGIN SOLUTION
    bins = counts.size - 2
    # A grid-stride loop: right for every grid, and it is its own bounds guard.
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(counts, bin_index(values[i], low, high, bins), 1)
    ### END SOLUTION

# %% id="test-fill-atomic" role="test" points=3 starter="PropertyFailed"
values = values_in(secret_rng().integers(0, 12, 1000), 0.0, 10.0, 10, secret_rng("inside"))
counts = np.zeros(12, np.int32)
launched = launch("fill_atomic", 8, 128, values, 0.0, 10.0, counts, schedules=1)
expect_equal(counts, reference(values, 0.0, 10.0, 10),
             "the counts are wrong even with a thread for each value")
expect_parallel(launched, values.size)
counts = np.zeros(12, np.int32)
launched = launch("fill_atomic", 4, 64, values, 0.0, 10.0, counts, schedules=0)
expect_equal(counts, reference(values, 0.0, 10.0, 10),
             "wrong when the grid has fewer threads than there are values")
expect_parallel(launched, values.size)
launch("fill_atomic", 4, 64, values, 0.0, 10.0, counts, schedules=0)
expect_equal(counts, 2 * reference(values, 0.0, 10.0, 10),
             "a second launch does not go on from the counts of the first")
### BEGIN HIDDEN TESTS
cases = [(n, 2, 64, 20) for n in (0, 1, 31, 32, 33, 127, 128, 129, 1009)]
n, grid, block = secret_rng("strict").integers((13_000, 4, 28), (14_500, 6, 33)).tolist()
cases += [(34, 1, 1, 5), (701, 3, 50, 1), (702, 40, 33, 300), (n, grid, block, 40)]
for n, grid, block, bins in cases:
    wanted = secret_rng(f"{n} values").integers(0, bins + 2, n)
    values = values_in(wanted, -2.0, 3.0, bins, secret_rng(f"inside {n}"))
    values.setflags(write=False)
    counts = np.full(bins + 2, 5, np.int32)
    launched = launch("fill_atomic", grid, block, values, -2.0, 3.0, counts, schedules=n == 33)
    expect_equal(counts, 5 + np.bincount(wanted, minlength=bins + 2),
                 "wrong for an empty input" if n == 0 else
                 "wrong for another number of values" if grid == 2 else
                 "wrong for another launch (one thread, odd block sizes) or number of bins")
    expect_parallel(launched, n)
alone = launch("fill_atomic", 1, 1, values[:125], -2.0, 3.0, counts, schedules=0)
expect_parallel(launched, n, alone=(alone, 125))
hot = np.where(secret_rng("hot").random(2003) < 0.95, 4, 9)
for wanted, what in ((hot, "nearly all values fall into one slot"),
                     (np.full(2003, 17), "all values fall into one slot")):
    counts = np.zeros(20, np.int32)
    values = values_in(wanted, 50.0, 60.0, 18, secret_rng("inside"))
    launched = launch("fill_atomic", 7, 96, values, 50.0, 60.0, counts, schedules=0)
    expect_equal(counts, np.bincount(wanted, minlength=20), f"wrong when {what}")
    expect_parallel(launched, values.size)
### END HIDDEN TESTS

# %% [markdown] id="step-5"
# ## 5. A histogram for every block
#
# Atomic additions in global memory are slow, and all threads of the GPU queue for the popular slots. Shared memory is
# faster, and only the threads of one block queue there. `fill_shared` does what `fill_atomic` does, in three stages:
#
# 1. The threads of a block set the block's own histogram in shared memory to zero.
# 2. They count their values in it with atomic additions, because a block has many threads.
# 3. They add it to `counts` in global memory, slot by slot. All blocks do this, at different times.
#
# After which stages must *all* threads of the block have finished before the next one may begin?
#
# A block can have fewer threads than the histogram has slots, even only one. The tests use up to `MAX_SLOTS` slots. The work
# of the busiest thread is counted, and a block may make at most one atomic addition to global memory for each slot.
#
# <details>
# <summary>What else is allowed</summary>
#
# For each slot, 4 accesses are free, so one thread may handle all slots of its block. All blocks together may read 3 numbers
# for each value.
#
# </details>
#
# Hints: `hint("fill-shared")`.

# %% id="fill-shared" role="solution"
@cuda.jit
def fill_shared(values, low, high, counts):
    """Add the histogram of `values` to `counts`; at most MAX_SLOTS slots."""
    ### BEGIN SOLUTION
    mine = cuda.shared.array(MAX_SLOTS, int32)
    slots = counts.size

    # Stage 1. A loop, because there may be more slots than threads.
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        mine[slot] = 0
    # Nobody may count in a slot that another thread has yet to set to zero.
    cuda.syncthreads()

    # Stage 2. The same loop as in fill_atomic; only the target has changed.
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(mine, bin_index(values[i], low, high, slots - 2), 1)
    # Nobody may read a slot that another thread may still count in.
    cuda.syncthreads()

    # Stage 3. Atomic, because other blocks add to the same slots. Empty slots cost nothing.
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        if mine[slot] > 0:
            cuda.atomic.add(counts, slot, mine[slot])
    ### END SOLUTION

# %% id="test-fill-shared" role="test" points=4 starter="PropertyFailed"
values = values_in(secret_rng().integers(0, 42, 1000), 0.0, 10.0, 40, secret_rng("inside"))
counts = np.zeros(42, np.int32)
launch("fill_shared", 8, 128, values, 0.0, 10.0, counts, schedules=1)
expect_equal(counts, reference(values, 0.0, 10.0, 40),
             "the counts are wrong even with a thread for each value")
counts = np.zeros(42, np.int32)
launched = launch("fill_shared", 4, 64, values, 0.0, 10.0, counts, schedules=0)
expect_equal(counts, reference(values, 0.0, 10.0, 40),
             "wrong when the grid has fewer threads than there are values")
expect_parallel(launched, values.size, slots=42)
counts = np.zeros(42, np.int32)
launch("fill_shared", 5, 32, values, 0.0, 10.0, counts, schedules=0)
expect_equal(counts, reference(values, 0.0, 10.0, 40),
             "wrong when a block has fewer threads than there are slots")
### BEGIN HIDDEN TESTS
cases = [(n, 2, 64, 20) for n in (0, 1, 31, 32, 33, 127, 128, 129, 1009)]
cases += [(34, 1, 1, 5), (701, 3, 50, 1), (702, 10, 33, 300), (703, 2, 160, MAX_SLOTS - 2)]
for n, grid, block, bins in cases:
    wanted = secret_rng(f"{n} values").integers(0, bins + 2, n)
    values = values_in(wanted, -2.0, 3.0, bins, secret_rng(f"inside {n}"))
    values.setflags(write=False)
    counts = np.full(bins + 2, 5, np.int32)
    launch("fill_shared", grid, block, values, -2.0, 3.0, counts, schedules=n == 33)
    expect_equal(counts, 5 + np.bincount(wanted, minlength=bins + 2),
                 "wrong for an empty input" if n == 0 else
                 "wrong when a block has fewer threads than there are slots" if bins + 2 > block
                 else "wrong for another number of values, or another launch")
hot = np.where(secret_rng("hot").random(2003) < 0.95, 4, 9)
# Many values for each thread, and few slots: what half of the threads leave to the others shows.
n, strict, threads = secret_rng("many").integers((13_000, 4, 28), (14_500, 6, 33)).tolist()
many = secret_rng("slots").integers(0, 4, n)
for wanted, slots, grid, block, what in ((hot, 20, 7, 96, "nearly all values fall into one slot"),
                                         (np.full(2003, 17), 20, 7, 96, "all values fall into one slot"),
                                         (many, 4, strict, threads, "there are many values")):
    counts = np.zeros(slots, np.int32)
    values = values_in(wanted, 50.0, 60.0, slots - 2, secret_rng("inside"))
    launched = launch("fill_shared", grid, block, values, 50.0, 60.0, counts, schedules=0)
    expect_equal(counts, np.bincount(wanted, minlength=slots), f"wrong when {what}")
    expect_parallel(launched, values.size, slots=slots)
alone = launch("fill_shared", 1, 1, values[:125], 50.0, 60.0, counts, schedules=0)
expect_parallel(launched, values.size, slots=slots, alone=(alone, 125 + slots))
### END HIDDEN TESTS

# %% id="test-shared-traffic" role="test" points=2 starter="PropertyFailed"
values = values_in(secret_rng().integers(0, 12, 4800), 0.0, 10.0, 10, secret_rng("inside"))
counts = np.zeros(12, np.int32)
launched = launch("fill_shared", 3, 64, values, 0.0, 10.0, counts, schedules=0)
expect_equal(counts, reference(values, 0.0, 10.0, 10), "the counts are wrong")
expect_parallel(launched, values.size, slots=12)
if (counted := launched.counters) is not None:  # a real GPU does not tell
    expect(counted.global_atomics <= 3 * 12,
           "more atomic additions to global memory than one for each slot of each block")
    expect(counted.shared_stores + counted.shared_atomics > 0, "nothing is written to shared memory")
### BEGIN HIDDEN TESTS
wanted = np.where(secret_rng("hot").random(5003) < 0.9, 7, secret_rng().integers(0, 52, 5003))
values = values_in(wanted, -4.0, 4.0, 50, secret_rng("inside"))
counts = np.zeros(52, np.int32)
launched = launch("fill_shared", 5, 96, values, -4.0, 4.0, counts, schedules=0)
expect_equal(counts, np.bincount(wanted, minlength=52), "the counts are wrong")
expect_parallel(launched, values.size, slots=52)
expect(launched.counters.global_atomics <= 5 * 52,
       "more atomic additions to global memory than one for each slot of each block")
expect(launched.counters.global_loads <= 3 * values.size,
       "values are read again and again: one block should see to each, and the others leave it alone")
n, grid, threads = secret_rng("many").integers((13_000, 4, 28), (14_500, 6, 33)).tolist()
values = values_in(secret_rng("slots").integers(0, 4, n), -4.0, 4.0, 2, secret_rng("inside"))
launched = launch("fill_shared", grid, threads, values, -4.0, 4.0, np.zeros(4, np.int32), schedules=0)
alone = launch("fill_shared", 1, 1, values[:125], -4.0, 4.0, np.zeros(4, np.int32), schedules=0)
expect_parallel(launched, n, slots=4, alone=(alone, 125 + 4))
### END HIDDEN TESTS

# %% [markdown] id="additions-predict" tags=["predict"]
# ### Predict: additions to global memory
#
# The next cell fills all 29,448 masses into 80 bins with 16 blocks, by each of your last two kernels. How many
# additions to *global* memory does `fill_atomic` make, and how many `fill_shared`?

# %% id="additions-guess"
predict("additions", "29,448, and as many", "29,448, and 82", "29,448, and 1,312 or fewer")

# %% id="additions"
for name in ("fill_atomic", "fill_shared"):
    try:
        launched = launch(name, 16, 128, masses, 0.0, 120.0, np.zeros(82, np.int32), schedules=0)
    except Exception as error:
        print(f"{name}: {type(error).__name__}")
        continue
    counted = launched.counters
    print(f"{name}: {'a GPU does not count them' if counted is None else f'{counted.global_atomics:,}'}")

# %% [markdown] id="additions-why" tags=["why"]
# `fill_atomic` makes one addition for each mass. `fill_shared` makes one for each slot of each block, which is 16 · 82
# = 1,312, or fewer if a block leaves out its empty slots. The first number grows with the number of events, but the
# second does not.

# %% [markdown] id="further" tags=["further"]
# The project ends here: you have filled a histogram in four ways. The following steps go **further**, and each gives
# points. Do them now, or continue with the next lesson and come back later.

# %% [markdown] id="step-6"
# ## 6. For everyday use
#
# Hide the GPU behind a function that takes a NumPy array and returns one. `histogram(values, low, high, bins)` returns
# the `bins + 2` counts as int32:
#
# - It works for any number of values, including none (a launch with zero blocks is an error). If there are many values,
#   it launches several blocks of at least 32 threads each.
# - Each call begins at zero.
# - It uses `fill_shared` if the histogram fits into `MAX_SLOTS` slots, and `fill_atomic` otherwise.
# - It returns what the kernel counted, copied back from the device. To check this, the grader replaces the values by
#   others on their way to the device, and expects the result for those. In every launch that reads tens of thousands of
#   values, the work of the busiest thread is counted. It may run twice as many instructions as in such a launch of
#   `fill_shared`.
#
# Hints: `hint("histogram")`.

# %% id="histogram" role="solution"
def histogram(values, low, high, bins):
    """Return the histogram of a NumPy array, filled on the GPU: int32, shape (bins + 2,)."""
    ### BEGIN SOLUTION
    # New zeros for each call: the kernels add to what they find.
    counts = cuda.to_device(np.zeros(bins + 2, np.int32))
    kernel = fill_shared if bins + 2 <= MAX_SLOTS else fill_atomic
    threads = 256
    # Each block merges once, so more blocks than keep the GPU busy would only add work.
    blocks = max(1, min(math.ceil(values.size / threads), 128))
    kernel[blocks, threads](cuda.to_device(values), low, high, counts)
    return counts.copy_to_host()
    ### END SOLUTION

# %% id="test-histogram" role="test" points=3 starter="PropertyFailed"
values = values_in(secret_rng().integers(0, 52, 10_000), 60.0, 120.0, 50, secret_rng("inside"))
for which in ("first", "second"):
    counts = call("histogram", values, 60.0, 120.0, 50, schedules=0)
    expect_equal(counts, reference(values, 60.0, 120.0, 50), f"wrong in the {which} call")
### BEGIN HIDDEN TESTS
for n in (0, 1, 129, 1009):
    values = values_in(secret_rng(f"{n} values").integers(0, 102, n), -1.0, 1.0, 100,
                       secret_rng("inside"))
    # Without values there is nothing that a kernel would have to count.
    counts = call("histogram", values, -1.0, 1.0, 100, schedules=n == 1009,
                  where="device" if n else "host")
    expect_equal(counts, reference(values, -1.0, 1.0, 100),
                 "wrong for an empty array" if n == 0 else "wrong for another number of values")
values[::7], values[::11], values[::13] = math.nan, math.inf, -math.inf
counts = call("histogram", values, -1.0, 1.0, 100, schedules=0)
expect_equal(counts, reference(values, -1.0, 1.0, 100), "wrong when values are NaN or infinite")
values = values_in(secret_rng("many bins").integers(0, 3002, 5000), 0.0, 1.0, 3000,
                   secret_rng("inside"))
counts = call("histogram", values, 0.0, 1.0, 3000, schedules=0)
expect_equal(counts, reference(values, 0.0, 1.0, 3000), "wrong for more than MAX_SLOTS slots")
for bins in (100, 3000):
    values, others = (values_in(secret_rng(f"{what} {bins}").integers(0, bins + 2, 2003), -1.0, 1.0, bins,
                                secret_rng(f"inside {what} {bins}")) for what in ("given", "exchanged"))
    counts = call("histogram", values, -1.0, 1.0, bins, schedules=0, exchanged=[(values, others)])
    expect_equal(counts, reference(others, -1.0, 1.0, bins), "the counts are not those of the values "
                 "that are on the device: kernels have to count them, not copy what the host counted")
# Many values, exchanged as well: what is counted is the way by which the counts have come about.
wanted, other = (secret_rng(f"many {what}").geometric(0.2, 400_000) % 42 for what in ("given", "exchanged"))
values, others = (values_in(slots, 0.0, 8.0, 40, secret_rng("inside")) for slots in (wanted, other))
counts = call("histogram", values, 0.0, 8.0, 40, schedules=0, exchanged=[(values, others)])
expect(not np.array_equal(counts, np.bincount(wanted, minlength=42)), "the counts of many values are not those "
       "of the values that are on the device: kernels have to count them, not copy what the host counted")
expect_equal(counts, np.bincount(other, minlength=42), "wrong for many values")
# Asked of the work in all: what launches of another shape do together is too little to count the values.
for shaped, few in ((lambda launched: math.prod(launched.grid) > 1,
                     "many values are left to single blocks: the rest of the GPU is idle"),
                    (lambda launched: math.prod(launched.block) >= 32,
                     "many values are left to blocks of fewer than 32 threads: most lanes are idle")):
    expect(sum(launched.counters.thread_instructions for launched in launches() if not shaped(launched))
           < 4 * values.size, few)
expect(sum(launch.counters.global_atomics for launch in launches()) < 200_000,
       "each value is an atomic addition to global memory, though the histogram fits into shared")
counting = launches()
for launched in counting:
    read = min(launched.counters.global_bytes_read // 4, 2 * values.size)
    expect_parallel(launched, read, slots=42)
# Beside fill_shared in the largest of the launches that read much. One that counts a part has its own slots to see to.
much = sum(launched.counters.global_bytes_read for launched in counting) / (2 * len(counting))
grid, block = max(((math.prod(launched.grid), math.prod(launched.block)) for launched in counting
                   if launched.counters.global_bytes_read >= much), key=math.prod)
alike = launch("fill_shared", grid, block, others, 0.0, 8.0, np.zeros(42, np.int32), schedules=0)
expect(sum(launched.counters.busiest_instructions for launched in counting)
       <= 2 * alike.counters.busiest_instructions + 500 * (len(counting) - 1),
       "one thread counts the values of many: it runs more than twice as many instructions as a thread of your "
       "fill_shared does in such a launch. Launch fill_shared itself")
### END HIDDEN TESTS

# %% [markdown] id="look-histogram"
# Your function fills all masses. On a logarithmic axis you can see the small peaks as well as the large ones.

# %% id="all-peaks"
low, high, bins = 0.0, 120.0, 480
try:
    counts = histogram(masses, low, high, bins)
except NotImplementedError:
    print("The picture comes when histogram is written.")
else:
    plt.figure(figsize=(8, 3))
    draw(counts, low, high, "histogram(masses, …)")
    plt.yscale("log")
    show_figure(f"Histogram of your function from 0 to 120 GeV, in bins of 0.25 GeV and with a "
                f"logarithmic scale: most pairs at {0.125 + 0.25 * np.argmax(counts[1:-1]):.2f} GeV.")
    print(f"{counts[0]:,} below, {counts[-1]:,} above, {counts.sum():,} of {masses.size:,} in all")

# %% [markdown] id="step-7"
# ## 7. How many passes?
#
# Atomic additions to one slot take turns. Look at one warp at its `cuda.atomic.add`, where each of the 32 lanes has its own
# slot. If the slots are all different, one *pass* is enough. If at most five lanes need the same slot, it takes
# five passes. If all 32 need one slot, it takes 32.
#
# So you can work out the number of passes of `fill_atomic` before anything runs. Its warps take 32 neighbouring values
# at a time. (The launch has whole warps, and the last one may have fewer values.)
# `predict_passes(values, low, high, bins)` returns the sum of the passes of all warps. Write it for the host, with
# NumPy, where `reference` may help.
#
# Hints: `hint("predict-passes")`.

# %% id="predict-passes" role="solution"
def predict_passes(values, low, high, bins):
    """Return the number of passes that all warps of fill_atomic together take for `values`."""
    ### BEGIN SOLUTION
    passes = 0
    for start in range(0, values.size, 32):
        # The slot that most lanes of this warp want makes the others wait.
        passes += reference(values[start : start + 32], low, high, bins).max()
    return int(passes)
    ### END SOLUTION

# %% id="test-predict-passes" role="test" points=2 starter="PropertyFailed"
for slots, passes, what in (
    (np.arange(32), 1, "all lanes of a warp want different slots"),
    (np.full(32, 4), 32, "all lanes of a warp want the same slot"),
    (np.repeat(np.arange(32), 2), 4, "there are two warps"),
    (np.full(40, 4), 40, "the last warp has fewer values"),
):
    values = values_in(slots, 0.0, 30.0, 30, secret_rng())
    expect(call("predict_passes", values, 0.0, 30.0, 30, where="host") == passes,
           f"wrong when {what}")
### BEGIN HIDDEN TESTS
for n in (0, 1, 31, 33, 129, 1009):
    for bins in (1, 5, 200):
        wanted = secret_rng(f"{n} {bins}").integers(0, bins + 2, n)
        values = values_in(wanted, -1.0, 1.0, bins, secret_rng("inside"))
        warps = [wanted[start : start + 32] for start in range(0, n, 32)]
        passes = sum(np.unique(warp, return_counts=True)[1].max() for warp in warps)
        expect_equal(call("predict_passes", values, -1.0, 1.0, bins, where="host"), passes,
                     "wrong when there are no values" if n == 0 else
                     "wrong for another number of values or bins")
### END HIDDEN TESTS

# %% [markdown] id="dial" tags=["predict"]
# ### Predict, then change the number of bins
#
# Below, the number of bins between 0 and 120 GeV falls from 1,000 to 1, once for the masses and once for as many values
# spread evenly. Lines show your prediction, and dots show the counts while your kernels ran. Before you run the cell:
#
# - Where does the curve for even values end, at 1 bin, into which all values fall?
# - With many bins, which of the two data sets needs more passes?
# - What is the largest number of updates of a single address in `fill_shared`, compared with `fill_atomic`?

# %% id="count-passes-guess"
predict("count-passes", "at 1 pass: one bin, one update", "at 16 passes", "at 32 passes")

# %% id="count-passes"
import virtualgpu
from gpucourse.system.device import device

even = np.random.default_rng(1).uniform(0.0, 120.0, masses.size)
settings = [1, 2, 5, 10, 30, 100, 300, 1000]


def counters(kernel, values, bins):
    """Return the counts of virtualgpu while `kernel` fills `bins` bins from 0 to 120 GeV."""
    counts = cuda.to_device(np.zeros(bins + 2, np.int32))
    with virtualgpu.profile() as profile:
        kernel[16, 128](values, 0.0, 120.0, counts)
    return profile.launches[0].counters


measured = {}
if device().virtual:
    for name, values in (("masses", masses), ("even", even)):
        on_device = cuda.to_device(values)
        for kernel in (fill_atomic, fill_shared):
            measured[name, kernel] = [counters(kernel, on_device, bins) for bins in settings]
else:
    print("A GPU keeps no such counts: the cell after the next takes the time instead.")

# %% id="draw-passes"
def draw_passes(axes, name, values, color):
    """Draw dots for the counted passes, and a line for predict_passes, once it is written."""
    warps = math.ceil(values.size / 32)
    counted = [c.atomic_passes / warps for c in measured[name, fill_atomic]]
    axes.plot(settings, counted, "o", color=color, label=f"{name}, counted")
    try:
        predicted = [predict_passes(values, 0.0, 120.0, bins) / warps for bins in settings]
        axes.plot(settings, predicted, color=color, label=f"{name}, predicted")
    except NotImplementedError:
        print(f"The line “{name}” comes when predict_passes is written.")


def draw_hottest(axes, kernel, color):
    """Draw the updates of the address that received most of them, for the masses."""
    hottest = [c.atomic_hottest for c in measured["masses", kernel]]
    if all(hottest):
        axes.plot(settings, hottest, "o-", color=color, label=kernel.__name__)


if measured:
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.5), layout="constrained")
    draw_passes(left, "masses", masses, "#D55E00")
    draw_passes(left, "even", even, "#0072B2")
    draw_hottest(right, fill_atomic, "#D55E00")
    draw_hottest(right, fill_shared, "#009E73")
    left.set(ylabel="passes of a warp, mean", ylim=(0, 33))
    right.set(ylabel="updates of the hottest address", yscale="log")
    for axes in (left, right):
        axes.set(xlabel="bins from 0 to 120 GeV", xscale="log")
        axes.legend(*axes.get_legend_handles_labels())
    warps = math.ceil(masses.size / 32)
    passes = [f"{c.atomic_passes / warps:.1f} with {bins}"
             for bins, c in zip(settings, measured["masses", fill_atomic], strict=True)]
    show_figure(f"Two plots against the number of bins. Left: passes of a warp at the atomic additions, "
                f"counted as dots, predicted as lines; for the masses {', '.join(passes)} bins. Right: "
                f"updates of the address that gets most, by fill_atomic and by fill_shared.")

# %% [markdown] id="passes-why" tags=["why"]
# With one bin, all lanes of a warp need the same slot, which takes 32 passes. With more bins the even values
# spread out, and a warp needs fewer passes. The masses do not spread: half of them lie below
# 20 GeV, many in the narrow peaks of J/ψ and Υ, so a few slots stay busy however many bins there are.
# **Contention follows the busiest slot, not the number of bins**, and the busiest slot can be the one for underflow.
#
# The picture on the right shows that `fill_shared` needs as many passes, because the lanes of a warp still meet in the same
# slots. However, these passes run in the block's own shared memory, at the same time as those of other blocks. The
# busiest address gets a sixteenth of the updates, because there are 16 blocks.
#
# A dot may be a few passes away from its line, because the compiler unrolls the loop, and the lanes of a warp get out
# of step if they need different numbers of iterations. The passes are also only a model, because real GPUs combine some
# updates of a warp, and let many warps queue at once.

# %% [markdown] id="turn-text"
# Change the number of bins yourself. The picture shows the histogram that your `fill_atomic` counted, with the busiest bin in
# red.

# %% id="turn"
from gpucourse.views.dial import dial
from gpucourse.views.picture import Picture, canvas


def hottest(bins):
    """Draw the histogram of the masses with so many bins, and the share of its hottest bin."""
    counts = cuda.to_device(np.zeros(bins + 2, np.int32))
    fill_atomic[16, 128](device_masses, 0.0, 120.0, counts)
    inside, edges = counts.copy_to_host()[1:-1], np.linspace(0.0, 120.0, bins + 1)
    figure, axes = canvas(8, 2.4)
    axes.stairs(inside, edges, fill=True, color="#56B4E9")
    axes.stairs(np.where(inside == inside.max(), inside, 0), edges, fill=True, color="#D55E00")
    words = f"the hottest bin gets {inside.max() / max(inside.sum(), 1):.0%} of {inside.sum():,} updates"
    if measured:
        passes = measured["masses", fill_atomic][settings.index(bins)].atomic_passes
        words += f"; {passes / math.ceil(masses.size / 32):.1f} passes of a warp"
    axes.set(xlabel="mass of the pair [GeV]", ylabel="updates", title=words)
    return Picture(figure, words)


dial("bins from 0 to 120 GeV", {bins: hottest(bins) for bins in settings})

# %% id="stopwatch"
if device().virtual:
    print("No GPU here: the virtual GPU counts, but its time says nothing about a GPU's.")
else:
    many = cuda.to_device(np.resize(masses, 50_000_000))
    for bins in settings:
        times = []
        for kernel in (fill_atomic, fill_shared):
            counts = cuda.to_device(np.zeros(bins + 2, np.int32))
            start, stop = cuda.event(), cuda.event()
            for _ in range(2):  # the first launch includes compiling; the second is timed
                start.record()
                kernel[1024, 256](many, 0.0, 120.0, counts)
                stop.record()
                stop.synchronize()
            times.append(f"{kernel.__name__} {cuda.event_elapsed_time(start, stop):7.2f} ms")
        print(f"{bins:5} bins: {', '.join(times)}")

# %% [markdown] id="step-8"
# ## 8. Events that count more than once
#
# A detector misses some pairs, and more of them at some masses than at others. To correct for this, each pair that was
# found counts as 1 / efficiency pairs, a number that is called its **weight**. Simulated events also have weights, and
# some of these are negative. A bin is then a sum of weights, Σw, and its error is √(Σw²), which is √n if all weights
# are 1. So the kernel must keep two sums.
#
# `fill_weighted(values, weights, low, high, sums)` is `fill_shared` for weights. It adds to `sums`, a float64 array of shape
# (2, bins + 2). `sums[0, slot]` is the sum of the weights of that slot's values, and
# `sums[1, slot]` is the sum of their squares. Like `fill_shared` it takes at most `MAX_SLOTS` slots and counts in
# shared memory. The work of the busiest thread is counted in the same way, with at most two atomic additions to global
# memory for each slot of each block.
#
# Shared memory may have two dimensions: `cuda.shared.array((2, MAX_SLOTS), float64)`. The index for
# `cuda.atomic.add` is then a tuple, `(0, slot)`. Use `float64`, because float32 keeps seven
# digits and a sum over a million events needs more.
#
# Hints: `hint("fill-weighted")`.

# %% id="fill-weighted" role="solution"
@cuda.jit
def fill_weighted(values, weights, low, high, sums):
    """Add Σw to sums[0] and Σw² to sums[1]; `sums` is float64, shape (2, bins + 2)."""
    ### BEGIN SOLUTION
    mine = cuda.shared.array((2, MAX_SLOTS), float64)
    slots = sums.shape[1]
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        mine[0, slot] = 0.0
        mine[1, slot] = 0.0
    cuda.syncthreads()

    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        slot = bin_index(values[i], low, high, slots - 2)
        cuda.atomic.add(mine, (0, slot), weights[i])
        cuda.atomic.add(mine, (1, slot), weights[i] * weights[i])
    cuda.syncthreads()

    # A sum of weights may be negative, or zero although events are there: the squares tell.
    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        if mine[1, slot] > 0.0:
            cuda.atomic.add(sums, (0, slot), mine[0, slot])
            cuda.atomic.add(sums, (1, slot), mine[1, slot])
    ### END SOLUTION

# %% id="test-fill-weighted" role="test" points=4 starter="PropertyFailed"
slots = secret_rng().integers(0, 42, 8000)
values = values_in(slots, 0.0, 10.0, 40, secret_rng("inside"))
weights = secret_rng("weights").uniform(0.5, 2.0, 8000)
sums = np.zeros((2, 42))
launched = launch("fill_weighted", 4, 64, values, weights, 0.0, 10.0, sums, schedules=0)
for k, what in ((0, "weights"), (1, "squares")):
    expect_close(sums[k], np.bincount(slots, weights ** (k + 1), 42),
                 f"the sums of the {what} are wrong", rtol=1e-5)
expect_parallel(launched, 2 * values.size, slots=2 * 42)
if launched.counters is not None:  # a real GPU does not tell
    expect(launched.counters.global_atomics <= 4 * 2 * 42,
           "more than two atomic additions to global memory for each slot of each block")
launch("fill_weighted", 4, 64, values, -weights, 0.0, 10.0, sums, schedules=0)
expect_close(sums[0], np.zeros(42), "wrong when weights are negative", atol=1e-4)
expect_close(sums[1], 2 * np.bincount(slots, weights**2, 42),
             "a second launch does not go on from the sums of the first", rtol=1e-5)
### BEGIN HIDDEN TESTS
cases = [(n, 2, 64, 20) for n in (0, 1, 31, 32, 33, 127, 128, 129, 1009)]
cases += [(34, 1, 1, 5), (701, 3, 50, 1), (702, 10, 33, 300), (703, 2, 160, MAX_SLOTS - 2)]
n, grid, block = secret_rng("strict").integers((13_000, 4, 28), (14_500, 6, 33)).tolist()
cases += [(n, grid, block, 10)]
for n, grid, block, bins in cases:
    slots = secret_rng(f"{n} values").integers(0, bins + 2, n)
    values = values_in(slots, -2.0, 3.0, bins, secret_rng(f"inside {n}"))
    # Whole numbers add up without rounding in float64, and not in float32.
    weights = secret_rng(f"weights {n}").integers(-(2**20), 2**20, n).astype(np.float64)
    for array in (values, weights):
        array.setflags(write=False)
    sums = np.full((2, bins + 2), 5.0)
    launched = launch("fill_weighted", grid, block, values, weights, -2.0, 3.0, sums,
                      schedules=n == 33)
    expected = [5 + np.bincount(slots, w, bins + 2) for w in (weights, weights**2)]
    expect_equal(sums, expected,
                 "wrong for an empty input" if n == 0 else
                 "wrong when a block has fewer threads than there are slots" if bins + 2 > block
                 else "wrong for another number of values, another launch, or large weights")
    expect_parallel(launched, 2 * n, slots=2 * (bins + 2))
alone = launch("fill_weighted", 1, 1, values[:125], weights[:125], -2.0, 3.0, np.zeros((2, 3)), schedules=0)
expect_parallel(launched, 2 * n, slots=2 * (bins + 2), alone=(alone, 2 * (125 + 3)))
### END HIDDEN TESTS

# %% id="weighted-peak"
low, high, bins = 60.0, 120.0, 60
efficiency = 0.9 - 0.4 * np.clip((masses - 60.0) / 60.0, 0.0, 1.0)  # invented: worse at high mass
weights = 1.0 / efficiency
sums = cuda.to_device(np.zeros((2, bins + 2)))
fill_weighted[16, 128](device_masses, cuda.to_device(weights), low, high, sums)
total, squares = sums.copy_to_host()

plt.figure(figsize=(8, 3))
draw(reference(masses, low, high, bins), low, high, "found")
centres = low + (high - low) * (np.arange(bins) + 0.5) / bins
plt.errorbar(centres, total[1:-1], np.sqrt(squares[1:-1]), fmt=".", color="#D55E00",
             label="corrected: Σw ± √(Σw²)")
plt.legend()
show_figure(f"Histogram from 60 to 120 GeV in bins of 1 GeV, and above it points with error bars, "
            f"corrected by weights: their sum is {total[1:-1].sum():,.0f}.")

# %% [markdown] id="step-9"
# ## 9. Golf
#
# Fill the same histogram with as little memory traffic as you can. The function
# `histogram_golf(values, low, high, bins)` returns what `histogram` returns, for at most 256 slots. You choose the kernels,
# the number of launches and their shapes. The frame below has two kernels. You may
# change their arguments, or leave one out. All launches of a call are counted together:
#
# | | points |
# |---|---|
# | no atomic addition to global memory at all | 1 |
# | no more than 1.1 times the sectors of 32 bytes that the values fill, local memory included | 1 |
# | at most a third of the passes that `predict_passes` says | 2 |
#
# Launches that count values must have at least 16 blocks of at least 128 threads that share the work, because otherwise most
# of a GPU would be idle. The busiest thread may make 6 accesses to memory for each value of its share. Smaller launches
# may add up rows. All of these together may run fewer than four instructions for
# each value. The tests use 100,000 values, many of them in a few of the slots, and
# replace the values on their way to the device as for `histogram`.
#
# For the first point, a block can store its histogram in its own row, and a second launch adds the rows. For the second,
# ask which threads read neighbouring values and neighbouring slots. For the
# third, remember that lanes wait if they need the same slot of the same histogram. Must a block have only one? The card of
# `fill_shared` shows your starting point: passes, sectors and the lines that cost most.
#
# Hints: `hint("golf-kernels")`, `hint("histogram-golf")`.

# %% id="card-shared"
report(fill_shared, 16, 256, masses, 0.0, 120.0, np.zeros(82, np.int32))

# %% id="golf-kernels" role="solution"
COPIES = 8  # histograms in each block
COUNTERS = 256 * COPIES  # shared.array takes a name or a number, no arithmetic


@cuda.jit
def fill_rows(values, low, high, rows):
    """Set rows[b] to the histogram of the values that block b reads."""
    ### BEGIN SOLUTION
    mine = cuda.shared.array(COUNTERS, int32)
    slots = rows.shape[1]
    for k in range(cuda.threadIdx.x, slots * COPIES, cuda.blockDim.x):
        mine[k] = 0
    cuda.syncthreads()

    # Lanes 0, 8, 16 and 24 share a copy: at most four of them can want the same counter.
    copy = cuda.threadIdx.x % COPIES
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        slot = bin_index(values[i], low, high, slots - 2)
        cuda.atomic.add(mine, slot * COPIES + copy, 1)
    cuda.syncthreads()

    for slot in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        total = 0
        for k in range(COPIES):
            total += mine[slot * COPIES + k]
        rows[cuda.blockIdx.x, slot] = total
    ### END SOLUTION


@cuda.jit
def add_rows(rows, counts):
    """Set counts[slot] to the sum of rows[:, slot]."""
    ### BEGIN SOLUTION
    # A thread for each slot: in each iteration a warp reads 32 neighbours of one row.
    slot = cuda.grid(1)
    if slot < counts.size:
        total = 0
        for b in range(rows.shape[0]):
            total += rows[b, slot]
        counts[slot] = total
    ### END SOLUTION

# %% id="histogram-golf" role="solution"
def histogram_golf(values, low, high, bins):
    """Return the histogram of a NumPy array with at most 256 slots: int32, shape (bins + 2,)."""
    ### BEGIN SOLUTION
    rows = cuda.device_array((16, bins + 2), np.int32)
    counts = cuda.device_array(bins + 2, np.int32)
    fill_rows[16, 256](cuda.to_device(values), low, high, rows)
    add_rows[math.ceil((bins + 2) / 64), 64](rows, counts)
    return counts.copy_to_host()
    ### END SOLUTION

# %% id="test-histogram-golf" role="test" points=4 starter="PropertyFailed"
values, others = (values_in(secret_rng(what).geometric(0.25, 100_000) % 82, 0.0, 8.0, 80, secret_rng("inside"))
                  for what in ("given", "exchanged"))
counts = call("histogram_golf", values, 0.0, 8.0, 80, schedules=0, exchanged=[(values, others)])
expect(not np.array_equal(counts, reference(values, 0.0, 8.0, 80)), "the counts are not those of the values "
       "that are on the device: kernels have to count them, not copy what the host counted")
expect_equal(counts, reference(others, 0.0, 8.0, 80), "the histogram is wrong")
counted = [launched.counters for launched in launches() if launched.counters is not None]
golf = 4  # a real GPU does not tell
if counted:
    expect(sum(launched.counters.thread_instructions for launched in launches()
               if math.prod(launched.grid) < 16 or math.prod(launched.block) < 128) < 4 * values.size,
           "the values are not counted by launches of at least 16 blocks of 128 threads")
    for launched in launches():
        read = min(launched.counters.global_bytes_read // 8, values.size)
        # Copies have to be set to zero and added up; a merge may be too short for all threads.
        expect_parallel(launched, read, accesses=6, rounds=5, even=1.5 if read > 5_000 else math.inf)
    atomics = sum(c.global_atomics for c in counted)
    local = sum(c.local_bytes_read + c.local_bytes_written for c in counted)  # off the chip as well
    sectors = (sum(c.global_sectors for c in counted) + local / 32) / (values.nbytes / 32)
    passes = sum(c.atomic_passes for c in counted) / sum(
        reference(warp, 0.0, 8.0, 80).max() for warp in others.reshape(-1, 32))
    golf = (atomics == 0) + (sectors <= 1.1) + 2 * int(passes <= 1 / 3)
    print(f"{atomics:,} global atomics, {sectors:.2f} × the sectors, {passes:.2f} × the passes")
### BEGIN HIDDEN TESTS
for n, bins in ((0, 10), (1, 1), (33, 254), (1009, 100)):
    wanted = secret_rng(f"{n}").integers(0, bins + 2, n)
    values = values_in(wanted, -2.0, 3.0, bins, secret_rng(f"inside {n}"))
    counts = call("histogram_golf", values, -2.0, 3.0, bins, schedules=n == 1009,
                  where="device" if n else "host")
    expect_equal(counts, np.bincount(wanted, minlength=bins + 2),
                 "wrong for an empty array" if n == 0 else "wrong for another number of values or "
                                                           "bins")
### END HIDDEN TESTS
golf

# %% [markdown] id="golf-why"
# Why do the copies help? At a busy slot up to 32 lanes queue. If a block has eight histograms, lane
# k counts in copy k % 8, so at most four lanes can meet. The copies cost shared memory and a
# few more additions at the end, as every privatisation does. You can keep one histogram for all threads, one for each block,
# one for a few lanes of each block, or one for each thread. The best choice depends on the number of slots and on how busy
# they get.
#
# These are counts, which are the same on every machine. But the times on an NVIDIA H200 gave a different result. The
# model answer took 1.20 times as long as section 5, which has a single histogram for each block, both with values in
# peaks and with values spread evenly. If the values are spread evenly, only a few lanes of a warp meet in a slot, but
# the ratio is the same. So on that GPU the extra work for the copies made the difference, not the queue.
#
# If you have a GPU, measure it yourself. The next cell times the first kernel of `histogram_golf` and `cupy.histogram`,
# which searches the edges for each value. For bins of equal width, CUB has a faster function, which is among the
# recorded times.
#
# *Recorded rows: `histogram.peaks/golf`, `histogram.even/golf`, `histogram.peaks/cub`.*

# %% id="race-cupy"
if device().virtual:
    print("No GPU here, so there is nothing to time.")
else:
    import cupy
    from cupyx.profiler import benchmark

    many = cupy.resize(cupy.asarray(masses), 50_000_000)
    rows = cuda.device_array((1024, 242), np.int32)  # 240 bins
    edges = cupy.linspace(0.0, 120.0, 241)
    try:
        fill_rows[1024, 256](many, 0.0, 120.0, rows)
        print(benchmark(lambda: fill_rows[1024, 256](many, 0.0, 120.0, rows), n_repeat=10))
    except Exception as error:
        print(f"fill_rows with these arguments: {type(error).__name__}")
    print(benchmark(lambda: cupy.histogram(many, edges), n_repeat=10))

# %% [markdown] id="recorded-text"
# The next cell shows recorded times of a real GPU for the model answers and for libraries, with values in peaks like the
# masses. If there are none yet, it says so.

# %% id="recorded"
from gpucourse.views.measured import recorded_times

recorded_times("histogram.peaks")

# %% [markdown] id="step-10"
# ## 10. In your own words
#
# A person reads this answer (3 points). Ten sentences are enough.
#
# 1. A colleague tests her histogram kernel by comparing `counts.sum()` with the number of events, and they always
#    agree. Name two mistakes that this test cannot find, and one that it finds only in some runs.
# 2. You have to fill (a) 20 bins and (b) 50,000 bins from a hundred million values, most of which fall
#    into five bins. Which method of this project would you use for each, and what would you count
#    to be sure?

# %% [markdown] id="reflection" role="written" points=3
# ### BEGIN SOLUTION
# *A model answer; one point for each paragraph that is there in substance.*
#
# The total agrees even if every event is in the wrong bin: off by one, a value on an edge put into the
# bin below, NaN in bin 0, or everything in one bin. It also agrees if two mistakes cancel, for example if some
# events are counted twice and others not at all. Compare bin by bin, with values on edges and outside.
#
# A race loses events only if two threads meet at the same slot at the same moment. With few events, many
# bins, one block or a lucky order nothing is lost, so the test passes on some days and for some inputs. A race
# checker looks for accesses that nothing orders, whether or not the result is wrong.
#
# (a) For 20 bins, use one histogram per block in shared memory, in several copies because five slots are
# busy, and then rows or one atomic addition per slot and block. Count the atomic passes. (b) 50,000 counters of 4
# bytes are 200 kB, more than the shared memory of a block, so use global atomics. If the five busy
# slots are known, keep them in shared memory or registers. Count the updates of the busiest address before and after.
# ### END SOLUTION

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## In five sentences
#
# - `counts[slot] += 1` from many threads loses events. A separate counter for each thread, or an atomic addition,
#   loses none.
# - A histogram with the right total can still be wrong in every bin. Compare bin by bin,
#   with NaN, infinities and edges among the values.
# - Shared memory holds garbage at first, so it needs a barrier after zeroing and another before reading, and every
#   thread of the block must reach both.
# - A loop over `range(start, size, stride)` makes a kernel right for every size, grid and block, and
#   a tree that rounds its half up adds any number of partial sums.
# - Contention follows the busiest slot, and counting in shared memory first keeps it inside the block.
#
# ## Read on
#
# - [CUDA C++ Programming Guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/): atomic
#   functions, shared memory, synchronisation
# - [Numba for CUDA](https://nvidia.github.io/numba-cuda/): its atomics and intrinsics
# - [hist](https://hist.readthedocs.io/): histograms with under- and overflow, errors and plots
