# %% [markdown] id="the-question-asked"
# ## Where does mine go?
#
# A weather station has recorded the strongest gust of each of 71,009 hours. (The gusts are simulated.) We want only the
# storms, above 60 km/h, in one array. In Python this is `gusts[gusts > 60]`, but in a kernel each thread looks at one
# hour, and must know *which index to write to*. One solution is to draw a ticket, as in "Numba CUDA".

# %% id="the-question"
# %load_ext gpucourse
import gpucourse
import numpy as np
import virtualgpu
from gpucourse import lesson
from gpucourse.views.picture import COLOURS, INK, Picture, bare, canvas
from numba import cuda, int64

check, hint, predict = lesson("13_scan")

THREADS = 128
gusts = (30 * np.random.default_rng(13).weibull(2, 71_009)).astype(np.float32)  # km/h
d_gusts = cuda.to_device(gusts)
expected = gusts[gusts > 60]


@cuda.jit
def keep_by_ticket(values, cut, next_ticket, kept):
    i = cuda.grid(1)
    if i < values.size and values[i] > cut:
        kept[cuda.atomic.add(next_ticket, 0, 1)] = values[i]


for seed in (1, 2):
    d_kept = cuda.device_array(expected.size, np.float32)
    with virtualgpu.schedule(seed):
        keep_by_ticket[555, THREADS](d_gusts, 60, cuda.to_device(np.zeros(1, np.int64)), d_kept)
    kept = d_kept.copy_to_host()
    print(f"order {seed}: {kept.size:,} storms, the first are {kept[:3]}; the right ones: "
          f"{np.array_equal(np.sort(kept), np.sort(expected))}, in their order: {np.array_equal(kept, expected)}")

# %% [markdown] id="the-question-stands"
# We get the right gusts, but in a different order each time, so we can't tell which storm came first. Also, all threads
# that keep a gust queue at *one* address.
#
# **How can a thread know its index without asking all the others?** Its index is the number of gusts kept *before* its
# own. So we need a running sum at every element, a **scan**, which looks serial but isn't.

# %% [markdown] id="places-predict" tags=["predict"]
# ## 1. Counts in, positions out
#
# Four threads want to write 2, 0, 3 and 1 numbers. *Predict:* at which index does each of the four begin?

# %% id="places-guess"
predict("places", "2, 2, 5, 6", "0, 2, 2, 5", "0, 2, 3, 5")

# %% id="places"
counts = np.array([2, 0, 3, 1])
print("counts        ", counts)
print("inclusive scan", np.cumsum(counts))
print("exclusive scan", np.cumsum(counts) - counts)

# %% [markdown] id="places-why" tags=["why"]
# They begin at 0, 2, 2 and 5, each at the index where the one before it ends. This is the **exclusive** scan, the sum
# of all elements *before* each element. The **inclusive** scan, which NumPy calls `cumsum`, includes the element
# itself, so it says where each thread's numbers end, and its last element is the total size. If the count is 1 for an
# element to keep and 0 for others, the exclusive scan numbers the elements that are kept.

# %% [markdown] id="places-task"
# ### Exercise: offsets
#
# Such indices are the *n* + 1 offsets of an [Awkward Array](10_awkward_and_the_z.ipynb#1-what-a-jagged-array-is), which
# say where each list begins and where the last one ends. Compute the offsets from the counts, in NumPy for now. An
# array without any lists has one offset, 0.

# %% id="places-exercise" tags=["exercise"]
def offsets_of(counts):
    """int64 offsets, one more than counts."""
    offsets = None
    ### BEGIN SOLUTION
    offsets = np.zeros(len(counts) + 1, np.int64)
    offsets[1:] = np.cumsum(counts)
    ### END SOLUTION
    return offsets


# %% id="places-check"
check("offsets", offsets_of)

# %% [markdown] id="block-predict" tags=["predict"]
# ## 2. A block scans
#
# In this method, published by W. D. Hillis and G. L. Steele in 1986, each thread holds one number. In the first step it
# adds the number of its neighbour to the left, in the second step the number two places to the left, then four, then
# eight, and so on. After the step with distance *d*, element *i* is the sum of the last 2*d* numbers up to *i*.
#
# *Predict:* how many steps do 128 numbers take?

# %% id="block-guess"
predict("block", "7", "64", "127")

# %% id="block"
@cuda.jit
def show_steps(values, seen):
    tile = cuda.shared.array(32, int64)
    t = cuda.threadIdx.x
    tile[t] = values[t]
    seen[0, t] = values[t]
    cuda.syncthreads()
    step, distance = 1, 1
    while distance < cuda.blockDim.x:
        left = tile[t - distance] if t >= distance else 0
        cuda.syncthreads()  # everybody has read …
        tile[t] += left
        cuda.syncthreads()  # … and everybody has written
        seen[step, t] = tile[t]
        step += 1
        distance *= 2


d_seen = cuda.to_device(np.zeros((4, 8), np.int64))
show_steps[1, 8](cuda.to_device(np.array([3, 1, 4, 1, 5, 9, 2, 6])), d_seen)
levels = d_seen.copy_to_host()

figure, axes = canvas(7, 3)
for step, row in enumerate(levels):
    for i, value in enumerate(row):
        for source in (i, i - 2 ** (step - 1)) if step else ():
            if source >= 0:
                axes.plot([source, i], [1 - step - 0.2, -step + 0.2], color=COLOURS[0], lw=1)
        axes.text(i, -step, str(value), ha="center", va="center", color=INK)
bare(axes)
axes.set(xlim=(-0.6, 7.6), ylim=(-3.5, 0.5), xlabel="thread", xticks=range(8), yticks=range(0, -4, -1),
         yticklabels=["as given", *(f"distance {2 ** step}" for step in range(3))])
Picture(figure, f"A scan of eight numbers in three steps. It begins with {list(map(int, levels[0]))} and ends with "
                f"{list(map(int, levels[-1]))}; in each step a number is added to one 1, 2, then 4 places to its right.")

# %% [markdown] id="block-why" tags=["why"]
# They take seven steps, because the distance doubles until it reaches 128. A loop on one core takes 127 additions, one
# after the other. The scan makes some 770 additions, but it takes only 7 steps. Parallel algorithms often do more work
# in total to finish sooner. The tree that G. E. Blelloch published in 1990 takes twice as many steps as this method,
# but only about twice as many additions as the loop.

# %% [markdown] id="one-barrier-predict" tags=["predict"]
# There are two barriers in each step. *Predict:* what happens if reading and writing are one line,
# `tile[t] += tile[t - distance]`, with one barrier after it?

# %% id="one-barrier-guess"
predict("one-barrier",
        "the same, and faster",
        "a race: a neighbour is read before or after it was written",
        "a deadlock")

# %% id="one-barrier"
@cuda.jit
def scan_with_one_barrier(values, sums):
    tile = cuda.shared.array(THREADS, int64)
    t = cuda.threadIdx.x
    tile[t] = values[t]
    cuda.syncthreads()
    distance = 1
    while distance < THREADS:
        if t >= distance:
            tile[t] += tile[t - distance]
        cuda.syncthreads()
        distance *= 2
    sums[t] = tile[t]


ones = cuda.to_device(np.ones(THREADS, np.int64))
d_sums = cuda.device_array(THREADS, np.int64)
for seed in (1, 2, 3):
    with virtualgpu.schedule(seed):
        scan_with_one_barrier[1, THREADS](ones, d_sums)
    print(f"order {seed}: the last of 128 ones is {d_sums[THREADS - 1]}")
with virtualgpu.check() as report:
    scan_with_one_barrier[1, THREADS](ones, d_sums)
print(report)

# %% [markdown] id="one-barrier-why" tags=["why"]
# It is a race, because a thread may read its neighbour's number before or after the neighbour has added to it. If it
# reads after that, some numbers are counted twice. The checker names two threads of one warp, because CUDA doesn't
# guarantee that even the threads of one warp run in step. In the halving tree, no element is both read and written in
# the same step. Here, in one step, an element may be read by one thread and written by another. So each step must
# **read, wait, write, wait**.

# %% [markdown] id="block-task"
# ### Exercise: a scan for every block
#
# Write `scan_blocks`, which sets `sums[i]` to the sum of the values of *its block* up to and including `values[i]`, and
# `totals[b]` to the sum of block *b*. It must work for any length, with blocks of 128. The check counts memory accesses
# to make sure that all threads share the work and that no thread does it alone.

# %% id="block-exercise" tags=["exercise"]
@cuda.jit
def scan_blocks(values, sums, totals):
    tile = cuda.shared.array(THREADS, int64)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    ### BEGIN SOLUTION
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
    ### END SOLUTION


# %% id="block-check"
check("scan-blocks", scan_blocks)

# %% [markdown] id="block-picture-text"
# Here are the four warps of a block, step by step. Pale lanes have no neighbour that far to their left. At the end, one
# lane of the last warp writes the total.

# %% id="block-picture"
gpucourse.timeline(scan_blocks, 1, THREADS, np.arange(THREADS), np.zeros(THREADS, np.int64), np.zeros(1, np.int64))

# %% [markdown] id="grid-predict" tags=["predict"]
# ## 3. Across blocks
#
# Each block has scanned its own 128 numbers. Element *i* still lacks the sum of all *blocks* before its own, which is
# an exclusive scan of the totals. So we scan the blocks, scan the totals, and add them to the elements. Each of these
# steps is a separate launch, because an ordinary launch has no barrier for the whole grid. A cooperative launch has
# one, but its grid can't have more blocks than fit on the GPU at once.
#
# *Predict:* a million values have 7,813 totals, which is more than one block can scan. How do you scan them?

# %% id="grid-guess"
predict("grid",
        "the host adds up the totals",
        "the same again: blocks scan the totals",
        "larger blocks, of 7,813 threads")

# %% id="grid"
n, level = 1_000_000, 0
while n > 1:
    blocks = (n + THREADS - 1) // THREADS
    print(f"level {level}: {n:9,} numbers in {blocks:5,} blocks")
    n, level = blocks, level + 1

# %% [markdown] id="grid-why" tags=["why"]
# We scan the totals in the same way as the values, and the totals of that scan again. It takes three levels for a
# million values, and just five for two billion. The host could add up the totals, but then the GPU would wait while
# they are copied to the host and back.

# %% [markdown] id="large-block-text"
# It would be simpler if one block could scan all the totals, so let's try.

# %% id="large-block" raises=["LaunchError", "CUDAError", "CudaAPIError"]
d_totals = cuda.to_device(np.ones(7813, np.int64))
scan_blocks[1, 7813](d_totals, d_totals, d_totals)

# %% [markdown] id="large-block-why"
# A block runs on one multiprocessor, whose shared memory and barriers it uses, and can't have more than 1,024 threads.
# The message tells you to use more blocks.

# %% [markdown] id="grid-task"
# ### Exercise: scan everything
#
# Write `scan(d_values)`, which returns the inclusive scan of a device array of int64 as a new device array. The array
# may have any length except 0. `scan` launches `scan_blocks`, calls itself for the totals if there is more than one
# block, and launches a kernel that you write, which adds the totals to the elements.

# %% id="grid-exercise" tags=["exercise"]
def scan(d_values):
    n = d_values.size
    blocks = (n + THREADS - 1) // THREADS
    d_sums, d_totals = cuda.device_array(n, np.int64), cuda.device_array(blocks, np.int64)
    scan_blocks[blocks, THREADS](d_values, d_sums, d_totals)
    ### BEGIN SOLUTION
    if blocks > 1:
        add_blocks_before[blocks, THREADS](d_sums, scan(d_totals))
    ### END SOLUTION
    return d_sums


### BEGIN SOLUTION
@cuda.jit
def add_blocks_before(sums, totals):
    i = cuda.grid(1)
    if cuda.blockIdx.x > 0 and i < sums.size:
        sums[i] += totals[cuda.blockIdx.x - 1]
### END SOLUTION

# %% id="grid-check"
check("scan", scan)

# %% [markdown] id="traffic-predict" tags=["predict"]
# A scan has to read each number once and write one result for it, so it moves at least twice the size of the array.
# *Predict:* how much does your scan move?

# %% id="traffic-guess"
predict("traffic", "twice, the least there can be", "about four times", "about fourteen times: each of the seven steps reads and writes")

# %% id="traffic"
d_counts = cuda.to_device(np.ones(100_000, np.int64))
with virtualgpu.profile() as profile:
    scan(d_counts)
moved = 0
for launch in profile.launches:
    counts = launch.counters
    sectors = counts.global_load_sectors + counts.global_store_sectors
    moved += 32 * sectors  # bytes
    print(f"{launch.kernel:18} {counts.global_loads:8,} loads {counts.global_stores:8,} stores: {sectors:7,} sectors")
print(f"{moved / (8 * 100_000):.2f} times the size of the array")

# %% [markdown] id="traffic-why" tags=["why"]
# It moves about four times the size, because the scan of the blocks reads and writes everything once, and the last
# kernel reads and writes everything again. The seven steps stay in shared memory, and when all lanes of a warp load
# *the same* total, that is one sector. A scan does hardly any arithmetic, so its memory traffic determines its time.
#
# Libraries reduce the traffic to twice the size, in one launch. A block writes its total as soon as it has computed it.
# Then it **looks back** over the totals of the blocks before it, and adds them up until it reaches a block whose
# complete running sum is already known, as [D. Merrill and M. Garland described in
# 2016](https://research.nvidia.com/publication/2016-03_single-pass-parallel-prefix-scan-decoupled-look-back). A block
# may only wait for one that is already running, and a GPU promises no order in which blocks start. So a block draws its
# position from a *ticket* when it starts, instead of using `blockIdx`. Every smaller ticket then belongs to a block
# that has started. "Puzzles 3" ends with such a scan, which needs flags, fences and care, so use the library's scan in
# your programs.

# %% id="libraries"
import cupy
import jax
import jax.numpy as jnp

by_us = scan(d_counts).copy_to_host()
scanned = jax.jit(jax.lax.associative_scan, static_argnums=0)
print("CuPy agrees:", np.array_equal(by_us, cupy.cumsum(cupy.asarray(d_counts)).get()))
print("JAX agrees: ", np.array_equal(by_us[:1000], scanned(jnp.add, jnp.ones(1000, jnp.int32))))
print("gusts         ", gusts[9:17].round(1))
print("largest so far", np.asarray(scanned(jnp.maximum, jnp.asarray(gusts[9:17]))).round(1))

# %% [markdown] id="libraries-why"
# The last two lines are a scan with `max` in place of `+`. A scan works with any associative operation, that is, one
# where `(a · b) · c` equals `a · (b · c)`. Sums of integers, maxima and products of matrices are associative. Sums of
# floats are so only approximately, because the rounding depends on the order of the additions. So the last digits of a
# parallel scan differ from those of a loop.
#
# With `cuda.compute`, in the package `cuda-cccl`, you can call NVIDIA's own algorithms and pass them operations written
# in Python. It needs a GPU and isn't among the course's packages, so read this program without running it.
#
# ```python
# import cuda.compute
#
# def larger(a, b):  # compiled, as a kernel is
#     return max(a, b)
#
# cuda.compute.inclusive_scan(d_in=d_gusts, d_out=d_so_far, op=larger, init_value=np.zeros(1, np.float32), num_items=d_gusts.size)
# ```

# %% [markdown] id="compact-text"
# ## 4. Compaction
#
# Now we return to the storms. One kernel sets flags, the scan turns them into indices, and a last kernel writes. No
# ticket is needed, because every thread knows its index.

# %% [markdown] id="compact-task"
# ### Exercise: the gusts above the cut
#
# Write the last of the three kernels. In it, `flags[i]` is 1 if value *i* is kept and 0 if not, and `ends` is the
# *inclusive* scan of the flags.

# %% id="compact-exercise" tags=["exercise"]
@cuda.jit
def mark(values, cut, flags):
    i = cuda.grid(1)
    if i < values.size:
        flags[i] = values[i] > cut


@cuda.jit
def write_kept(values, flags, ends, kept):
    i = cuda.grid(1)
    ### BEGIN SOLUTION
    if i < values.size and flags[i]:
        kept[ends[i] - 1] = values[i]
    ### END SOLUTION


def above(values, cut):
    """values[values > cut], in their order, by three kernels."""
    blocks = (values.size + THREADS - 1) // THREADS
    d_values, d_flags = cuda.to_device(values), cuda.device_array(values.size, np.int64)
    mark[blocks, THREADS](d_values, cut, d_flags)
    d_ends = scan(d_flags)
    d_kept = cuda.device_array(values.size, values.dtype)  # room for all; this many are kept:
    count = d_ends[values.size - 1]
    write_kept[blocks, THREADS](d_values, d_flags, d_ends, d_kept)
    return d_kept.copy_to_host()[:count]


# %% id="compact-check"
check("compact", write_kept)

# %% id="compact-orders"
for seed in (1, 2):
    with virtualgpu.schedule(seed):
        print(f"order {seed}: the same as NumPy's:", np.array_equal(above(gusts[:2000], 60), gusts[:2000][gusts[:2000] > 60]))

# %% id="compact-picture"
gpucourse.memory(write_kept, 8, THREADS, gusts[:1024], (gusts[:1024] > 60).astype(np.int64), np.cumsum(gusts[:1024] > 60),
                 np.zeros(1024, np.float32), array="kept", steps=8, title="where the kept ones go")

# %% [markdown] id="compact-why"
# The results are the same in every order. The lanes of a warp write to adjacent elements, so their writes fall into one
# or two sectors, whereas tickets would have scattered them.
#
# You will meet this pattern again, for example in Awkward's two passes, which count, *scan* and fill. A radix sort
# flags, scans and writes for each digit. Sparse matrices, table joins, and simulations in which particles appear and
# disappear use it, too. Whenever threads have different numbers of results, look for a scan.

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - A scan gives every element the sum of those before it. It turns counts into positions, so that threads with
#   different numbers of results can write them in order.
# - A block of *n* threads takes log2(*n*) steps, and each step reads, waits, writes and waits. If you leave out one of
#   the waits, the step has a race.
# - For more than one block, scan the blocks, scan their totals in the same way, and add these to the elements, with
#   separate launches for each level.
# - An atomic ticket also finds a position, but a different one each time, and all threads queue for it.
# - In your programs, use `cupy.cumsum`, CUB or `jax.lax.associative_scan`. The best library scans move half as many
#   bytes as ours.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - M. Harris, S. Sengupta, J. Owens, [Parallel Prefix Sum (Scan) with
#   CUDA](https://developer.nvidia.com/gpugems/gpugems3/part-vi-gpu-computing/chapter-39-parallel-prefix-sum-scan-cuda),
#   which is the classic text and also shows how to avoid bank conflicts.
# - D. Merrill and M. Garland, [Single-pass Parallel Prefix Scan with Decoupled Look-back](https://research.nvidia.com/publication/2016-03_single-pass-parallel-prefix-scan-decoupled-look-back).
# - JAX: [associative_scan](https://docs.jax.dev/en/latest/_autosummary/jax.lax.associative_scan.html), with the
#   operations and arrays that it accepts.

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 45 minutes
#
# | minutes | what |
# |---|---|
# | 0-4 | the question; five people write names into one list, and each knows only how many names come before theirs |
# | 4-12 | section 1 and `offsets` |
# | 12-24 | section 2; the picture on the board, by hand; `scan-blocks` in pairs |
# | 24-37 | section 3; `scan` |
# | 37-45 | section 4 |
#
# *Ten minutes late:* give `scan` as homework, because section 4 runs with the solution. *Ten minutes early:* ask for an
# exclusive scan that uses no subtraction. (Shift the inclusive scan right by one element and begin with 0.)
#
# *Where people get stuck.* In `scan-blocks` they put a barrier inside `if t >= distance`, forget the 0 for threads
# beyond the end, or take `totals` from the thread of the *last value* and not from the block's last thread. In `scan`
# they add a block's own total to its elements, which are then too large.
#
# *Frequent questions.* "Isn't a loop on the CPU faster?" For a thousand numbers it is, by far. But if the numbers are
# already on the device, copying them to the host takes longer than scanning them on the device. "Why not use one block
# with a loop?" It works, but all multiprocessors except one are idle.
