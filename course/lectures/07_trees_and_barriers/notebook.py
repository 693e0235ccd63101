# %% [markdown] id="the-question-asked"
# ## A right sum, in a queue
#
# The first cell loads the 71,009 simulated muons of "Numba CUDA" again and repeats the sum that came out right, in
# which each thread adds its muon's momentum to one total with an atomic. Run the cell. In it, `virtualgpu.profile()`
# counts the launch's operations.

# %% id="the-question"
# %load_ext gpucourse
import math

import awkward as ak
import numpy as np
import virtualgpu
from gpucourse import lesson
from gpucourse.data import dimuons
from numba import cuda, float64

check, hint, predict = lesson("07_trees_and_barriers")

muons = dimuons().muons
muon_pt = ak.to_numpy(ak.flatten(muons.pt))
d_muon_pt = cuda.to_device(muon_pt)


@cuda.jit
def add_all_atomic(values, total):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(total, 0, values[i])


d_total = cuda.to_device(np.zeros(1))
with virtualgpu.profile() as profile:
    add_all_atomic[555, 128](d_muon_pt, d_total)
print(f"{d_total.copy_to_host()[0]:,.1f} GeV, by {profile.counters.global_atomics:,} atomics at one address")

# %% [markdown] id="the-question-stands"
# One address can be updated by only one thread at a time. So **71,009 threads wait in a queue, and work that was meant
# to be parallel happens one step after the other. How can a thousand threads add up their values without a queue?**
#
# You will write two trees, break each of them, and end with the kind of sum that libraries use, which needs 32 atomics
# instead of 71,009.

# %% [markdown] id="tree-predict" tags=["predict"]
# ## 1. A tree of sums
#
# A **tree reduction** needs no queue. You fold the array in the middle, so that the upper half is added to the lower
# half. Then you fold the remaining half, and continue until one value is left. In each fold, no two threads access the
# same element.
#
# If the number of values is odd, the lower half is the larger one, and its last value, the middle one, stays where it
# is. Each fold is one launch. *Predict:* how many launches does it take to fold 13 numbers into one?

# %% id="tree-guess"
predict("tree", "3", "4", "12")

# %% id="tree"
from gpucourse.views.tree import draw_levels  # it draws what your kernel wrote


@cuda.jit
def fold(values, n):
    """Add the upper half of the first n values onto the lower half."""
    i = cuda.grid(1)
    half = (n + 1) // 2
    if i + half < n:
        values[i] += values[i + half]


muons_per_event = ak.to_numpy(ak.num(muons.pt))
d_values = cuda.to_device(muons_per_event[:13])
levels = [d_values.copy_to_host()]
n = 13
while n > 1:
    fold[1, 32](d_values, n)
    n = (n + 1) // 2
    levels.append(d_values[:n].copy_to_host())
draw_levels(levels)

# %% [markdown] id="tree-why" tags=["why"]
# It takes four launches, one for each level, because 13 values become 7, then 4, 2 and 1. The picture shows the muons
# in the first 13 events after each launch of your kernel. For twice as many values you need only one more launch.

# %% [markdown] id="fold-task"
# ### Exercise: fold towards the Z
#
# You can use a tree for any operation in which neither the order nor the grouping of the values matters. Write a fold
# that keeps the one of the two values that is closer to `target`. If both are equally close, keep either of them. At
# the end, the first element is the mass that is closest to that of the Z boson.

# %% id="fold-exercise" tags=["exercise"]
@cuda.jit
def fold_closest(values, n, target):
    """One level: of values[i] and values[i + half], keep the one closer to target."""
    i = cuda.grid(1)
    ### BEGIN SOLUTION
    half = (n + 1) // 2
    if i + half < n and abs(values[i + half] - target) < abs(values[i] - target):
        values[i] = values[i + half]
    ### END SOLUTION


# %% id="fold-check"
check("fold", fold_closest)

# %% [markdown] id="tree-then"
# The next cell uses such a tree to sum all 71,009 muons.

# %% id="tree-real"
def tree_sum(values):
    """The sum of a device array, which it overwrites, and the number of launches."""
    n, launches = values.size, 0
    while n > 1:
        half = (n + 1) // 2
        fold[(half + 127) // 128, 128](values, n)
        n, launches = half, launches + 1
    return values[0], launches


total, launches = tree_sum(cuda.to_device(muon_pt))
print(f"the tree, float32:      {total:,.3f} GeV in {launches} launches")
print(f"one by one, float32:    {np.cumsum(muon_pt)[-1]:,.3f} GeV")
print(f"exactly:                {muon_pt.sum(dtype=np.float64):,.3f} GeV")

# %% [markdown] id="tree-real-why"
# The tree also adds numbers of similar size, so it loses less to rounding than a long queue, in which small numbers are
# added to a large total. NumPy's own `sum` works in a similar way.

# %% [markdown] id="tree-broken-predict" tags=["whole", "predict"]
# The next fold *rounds down*, as many published ones do. *Predict:* for which lengths is its result right?

# %% id="tree-broken-guess" tags=["whole"]
predict("tree-broken", "for even lengths", "for powers of two", "for all")

# %% id="tree-broken" tags=["whole"]
@cuda.jit
def fold_down(values, n):
    i = cuda.grid(1)
    half = n // 2
    if i < half:
        values[i] += values[i + half]


d_values = cuda.to_device(muons_per_event[:13])
levels = [d_values.copy_to_host()]
n = 13
while n > 1:
    fold_down[1, 32](d_values, n)
    n = n // 2
    levels.append(d_values[:n].copy_to_host())
draw_levels(levels)

# %% [markdown] id="tree-broken-why" tags=["whole", "why"]
# It is right only for powers of two. At every odd length it drops the last value, which is drawn dashed. Tests with 64,
# 128 and 1024 elements all pass.

# %% [markdown] id="tree-one-launch-predict" tags=["predict"]
# It looks wasteful to make 17 launches, so in the next cell we put the whole loop into the kernel and launch it once.
# *Predict:* is the sum right or wrong?

# %% id="tree-one-launch-guess"
predict("tree-one-launch", "right: the loop is the same", "wrong")

# %% id="tree-one-launch"
@cuda.jit
def fold_all(values):
    i = cuda.grid(1)
    n = values.size
    while n > 1:
        half = (n + 1) // 2
        if i + half < n:
            values[i] += values[i + half]
        n = half


for seed in (1, 2, 3):
    d_values = cuda.to_device(muon_pt.astype(np.float64))
    with virtualgpu.schedule(seed):
        fold_all[278, 128](d_values)
    print(f"order {seed}: {d_values[0]:,.1f} GeV")

with virtualgpu.check() as report:
    fold_all[278, 128](cuda.to_device(muon_pt))
print(report)

# %% [markdown] id="tree-one-launch-why" tags=["why"]
# It is wrong, and each order of the threads gives a different wrong sum. A thread that has finished its level goes on
# to the next level, where it reads values to which other threads have not yet added anything. An atomic would not help,
# because no two threads write to the same element at the same level. The threads must *wait for each other* between
# levels. The end of a launch does exactly that, because the next launch begins only when every thread in every block of
# the previous one has finished. In an ordinary kernel, nothing else makes the whole grid wait.

# %% [markdown] id="shared-text"
# ## 2. Shared memory and barriers
#
# Threads of *one block* can wait for each other without a new launch. `cuda.syncthreads()` is a **barrier**, at which
# each thread stops until all threads *of its block* have arrived. The threads of a block also share a small, fast
# memory, the **shared memory**. You create an array in it with `cuda.shared.array(size, type)`, and its size is fixed
# when the kernel is compiled.
#
# ![A grid with two blocks. Each thread has its own local variables. Each block has its own shared memory, which only
# its threads can access, and syncthreads waits only for the threads of that block. All blocks can access the one global
# memory, which holds the arrays, and only the end of the launch waits for the whole grid.](../img/who_sees_what.svg)
#
# So each block can fold its own 128 values into one, without more launches, and without accesses to the slow global
# memory in between. The picture shows this for eight values.
#
# ![Eight values 3, 1, 7, 0, 4, 1, 6, 3 in shared memory. In the first step threads 0 to 3 add the values four elements
# further on and get 7, 2, 13, 3. In the second, threads 0 and 1 add the values two elements further on and get 20, 5.
# In the third, thread 0 adds its neighbour and gets 25. A barrier after each step ensures that a sum is complete before
# another thread reads it.](../img/tree_reduction.svg)

# %% id="block-sums"
THREADS = 128


@cuda.jit
def block_sums(values, sums):
    place = cuda.shared.array(THREADS, float64)  # one for each block
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    place[t] = values[i] if i < values.size else 0.0
    cuda.syncthreads()  # now every place is filled
    n = THREADS
    while n > 1:
        half = (n + 1) // 2
        if t + half < n:
            place[t] += place[t + half]
        cuda.syncthreads()  # now every thread has finished this level
        n = half
    if t == 0:
        sums[cuda.blockIdx.x] = place[0]


n, d_values = muon_pt.size, d_muon_pt
while n > 1:
    blocks = (n + THREADS - 1) // THREADS
    d_sums = cuda.device_array(blocks)
    block_sums[blocks, THREADS](d_values, d_sums)
    print(f"values {n:6,} → block sums {blocks}")
    n, d_values = blocks, d_sums
print(f"{d_values.copy_to_host()[0]:,.1f} GeV")

# %% [markdown] id="shared-why"
# This takes three launches instead of 17. In the kernel, note the following three things.
#
# - A *loose thread*, which is a thread without an element, must not return early, because it has to reach the barriers
#   like all the others. It stores a 0, which doesn't change any sum, and continues.
# - The `if` encloses the *addition*, and never the barrier.
# - Only one thread writes the result.

# %% [markdown] id="barrier-predict" tags=["predict"]
# Now we break the kernel by leaving out the barrier after the threads have filled the shared array. *Predict:* will the
# sum be wrong?

# %% id="barrier-missing-guess"
predict("barrier-missing",
        "wrong, each time",
        "right in the usual order, wrong in a different one",
        "always right: each thread fills its own element first")

# %% id="barrier-missing"
@cuda.jit
def block_sums_hasty(values, sums):
    place = cuda.shared.array(THREADS, float64)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    place[t] = values[i] if i < values.size else 0.0
    n = THREADS
    while n > 1:
        half = (n + 1) // 2
        if t + half < n:
            place[t] += place[t + half]
        cuda.syncthreads()
        n = half
    if t == 0:
        sums[cuda.blockIdx.x] = place[0]


d_sums = cuda.device_array(555)
block_sums_hasty[555, THREADS](d_muon_pt, d_sums)
print(f"as it comes: {d_sums.copy_to_host().sum():.7g} GeV")
for seed in (1, 2, 3):
    with virtualgpu.schedule(seed):
        block_sums_hasty[555, THREADS](d_muon_pt, d_sums)
    print(f"order {seed}:     {d_sums.copy_to_host().sum():.7g} GeV")
with virtualgpu.check() as report:
    block_sums_hasty[555, THREADS](d_muon_pt, d_sums)
print(report)

# %% [markdown] id="barrier-missing-why" tags=["why"]
# In lockstep the answer is right. On the virtual GPU all warps run at the same pace unless you set a schedule, and on a
# real GPU they often do. In a different order, a thread adds an element that its owner has not filled yet. It then
# reads whatever was in this memory before, because **shared memory does not start at zero**. The virtual GPU fills
# shared memory with absurd numbers, so that you notice the mistake. The report names the two lines that need a barrier
# between them.

# %% [markdown] id="early-return-predict" tags=["whole", "predict"]
# We break the kernel again, so that a loose thread returns early. *Predict:* with 129 values in two blocks, which block
# gives a wrong sum?

# %% id="early-return-guess" tags=["whole"]
predict("early-return", "block 0", "block 1", "both")

# %% id="early-return" tags=["whole"]
@cuda.jit
def block_sums_leaving(values, sums):
    place = cuda.shared.array(THREADS, float64)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i >= values.size:
        return
    place[t] = values[i]
    cuda.syncthreads()
    n = THREADS
    while n > 1:
        half = (n + 1) // 2
        if t + half < n:
            place[t] += place[t + half]
        cuda.syncthreads()
        n = half
    if t == 0:
        sums[cuda.blockIdx.x] = place[0]


d_sums = cuda.device_array(2)
with virtualgpu.check() as report:
    block_sums_leaving[2, THREADS](d_muon_pt[:129], d_sums)
print(d_sums.copy_to_host(), "should be", muon_pt[:128].sum(), muon_pt[128])
print(report)

# %% [markdown] id="early-return-why" tags=["whole", "why"]
# The sum of block 1 is wrong. Block 0 is full, so its sum is right. In block 1, one thread had a value and the other
# 127 returned. The first two findings say that one thread waits at each of the two barriers for threads that have
# ended. Every thread of a block must reach a barrier. The virtual GPU continues anyway, but a real one may not. The
# third finding explains the absurd number, because 127 elements were never filled, and the fold reads them.

# %% [markdown] id="barrier-in-if-predict" tags=["whole", "predict"]
# We break the kernel a third time, by moving one line under the `if` that precedes it. *Predict:* will the sum be
# wrong?

# %% id="barrier-in-if-guess" tags=["whole"]
predict("barrier-in-if",
        "the sum is wrong",
        "the sum is right, but the program is wrong",
        "the sum is right, and so is the program")

# %% id="barrier-in-if" tags=["whole"]
@cuda.jit
def block_sums_divided(values, sums):
    place = cuda.shared.array(THREADS, float64)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    place[t] = values[i] if i < values.size else 0.0
    cuda.syncthreads()
    n = THREADS
    while n > 1:
        half = (n + 1) // 2
        if t + half < n:
            place[t] += place[t + half]
            cuda.syncthreads()
        n = half
    if t == 0:
        sums[cuda.blockIdx.x] = place[0]


d_sums = cuda.device_array(555)
with virtualgpu.check() as report:
    block_sums_divided[555, THREADS](d_muon_pt, d_sums)
print(f"{d_sums.copy_to_host().sum():,.1f} GeV")
print(report)

# %% [markdown] id="barrier-in-if-why" tags=["whole", "why"]
# The sum is right, but the program is wrong. At the first level, half of the threads have no partner. They skip the
# barrier, finish the loop and end, while the others wait. This is called a *divergent barrier*, and CUDA does not
# define what happens then. A real GPU may continue, confuse two barriers, or hang. So always put the `if` around the
# work, and never around the barrier.

# %% [markdown] id="block-max-task"
# ### Exercise: the maximum of a block
#
# Write `block_maxima`, which sets `maxima[b]` to the largest of the values of block `b`, by folding in shared memory.
# The check tries arrays of any length, negative values, and blocks of any size up to 128, so the number of elements to
# fold is `cuda.blockDim.x`. You can use `-math.inf` in a kernel.

# %% id="block-max-exercise" tags=["exercise"]
@cuda.jit
def block_maxima(values, maxima):
    place = cuda.shared.array(THREADS, float64)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    ### BEGIN SOLUTION
    place[t] = values[i] if i < values.size else -math.inf
    cuda.syncthreads()
    n = cuda.blockDim.x
    while n > 1:
        half = (n + 1) // 2
        if t + half < n:
            place[t] = max(place[t], place[t + half])
        cuda.syncthreads()
        n = half
    if t == 0:
        maxima[cuda.blockIdx.x] = place[0]
    ### END SOLUTION


# %% id="block-max-check"
check("block-max", block_maxima)

# %% [markdown] id="together-text"
# ## 3. All of it in one kernel
#
# The next kernel combines everything so far. With a grid-stride loop, each thread adds up its own share of the values.
# Then the threads of a block fold their sums in shared memory, and one thread of each block adds the block's sum to the
# total with an atomic. This takes one launch, works for any length, and has no race. In practice, you would write the
# kernel at the top of this lesson in this way.

# %% id="together"
@cuda.jit
def sum_all(values, total):
    place = cuda.shared.array(THREADS, float64)
    t = cuda.threadIdx.x
    mine = 0.0
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        mine += values[i]
    place[t] = mine
    cuda.syncthreads()
    n = THREADS
    while n > 1:
        half = (n + 1) // 2
        if t + half < n:
            place[t] += place[t + half]
        cuda.syncthreads()
        n = half
    if t == 0:
        cuda.atomic.add(total, 0, place[0])


d_total = cuda.to_device(np.zeros(1))
with virtualgpu.check() as report:
    sum_all[32, THREADS](d_muon_pt, d_total)
print(f"NumPy:   {muon_pt.sum(dtype=np.float64):12,.1f} GeV")
print(f"threads: {d_total.copy_to_host()[0]:12,.1f} GeV; no findings: {report.ok}")

# %% [markdown] id="count-predict" tags=["predict"]
# We want to know how much better this kernel is. We can't measure it with the clock, because the time that a CPU takes
# to simulate a GPU says nothing about a GPU, so we count.
#
# *Predict:* how many atomics does each of the three versions take?

# %% id="count-guess"
predict("count", "71,009, 0 and 32", "71,009, 17 and 1", "71,009, 0 and 4,096")

# %% id="count"
def new_total():
    return cuda.to_device(np.zeros(1))


versions = {
    "an atomic for each muon": lambda: add_all_atomic[555, 128](d_muon_pt, new_total()),
    "a launch for each level": lambda: tree_sum(cuda.to_device(muon_pt)),
    "all of it in one kernel": lambda: sum_all[32, THREADS](d_muon_pt, new_total()),
}
print(f"{'':26}{'launches':>9}{'atomics':>9}{'kB of global memory':>21}")
for name, run in versions.items():
    with virtualgpu.profile() as profile:
        run()
    counts = profile.counters
    traffic = (counts.global_bytes_read + counts.global_bytes_written) / 1000
    print(f"{name:26}{len(profile.launches):9}{counts.global_atomics:9,}{traffic:21,.0f}")

# %% [markdown] id="count-why" tags=["why"]
# The new kernel needs 32 atomics, one for each block, instead of 71,009, and it takes one launch instead of 17. It
# reads each muon once, which is the minimum for a sum. Such counts often tell you *why* a kernel is slow.

# %% [markdown] id="count-then"
# A real GPU has a clock. The next cell shows recorded times of these kernels, of libraries, and of a kernel with
# shuffles, which "Thinking in warps" explains. The array was far larger than any cache.

# %% id="recorded"
from gpucourse.views.measured import recorded_times

recorded_times("reduction")

# %% [markdown] id="recorded-why"
# The version with a launch for each level takes 4.4 times as long as the tree in one kernel, as you would expect from
# its memory traffic and its launches. But that tree itself takes 1.3 times as long as `cupy.sum`, although both read
# each number once. The same tree in C++ takes no longer than the library, so the algorithm is not the reason. The
# machine code shows that Numba tests the sign of every index, because `values[-1]` counts from the end. So Numba's
# kernel needs 20 instructions per number, and the C++ kernel needs 7. The counts showed which kernel is slow, but only
# the clock showed how close the best one comes to the limit of the memory.
#
# *Recorded rows: `reduction/launches`, `reduction/tree`, `reduction/cupy`, `reduction/cpp`.*

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - A tree adds up any number of values without a queue. If `half` is rounded *up*, the tree is right for every length.
# - A barrier makes the threads of one block wait for each other, and all of them must reach it. Only the end of a
#   launch waits for the whole grid.
# - Shared memory belongs to a block, and does not start at zero.
# - In a reduction of any length, each thread adds up its share, each block folds its sums in shared memory, and one
#   thread per block adds the result to the total with an atomic.
# - You can count launches, atomics and bytes, and the counts are the same on each run and on any machine.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - The Numba-CUDA manual on [shared memory and barriers](https://nvidia.github.io/numba-cuda/user/memory.html).
# - Mark Harris, [Optimizing Parallel Reduction in
#   CUDA](https://developer.download.nvidia.com/assets/cuda/files/reduction.pdf), is the classic text. It assumes that
#   lengths are powers of two and that the lanes of a warp always run in lockstep. The second is no longer true, so
#   compare its kernels with yours.

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 40 minutes
#
# | minutes | what |
# |---|---|
# | 0-2 | the question; what else could 71,009 threads do than queue? |
# | 2-16 | section 1, with the exercise `fold` |
# | 16-34 | section 2; `block-max` is the exercise that must not be cut |
# | 34-40 | section 3 |
#
# *Ten minutes late:* leave out the exercise `fold`.
# *Ten minutes early:* ask for the minimum and the maximum of a block in one kernel.
#
# *Where people get stuck.* In `block-max`, they let loose threads store 0, which is wrong if all values are negative.
# Let them find this by themselves, because the message of the check explains it.
#
# *Frequent questions.* "Why not `cuda.reduce`?" Do use it, or CuPy's `sum`, once you know what it does. "Is a barrier
# slow?" It is quick compared with a launch, and without it the sum would be wrong.
