# %% [markdown] id="the-question-asked"
# ## Correct, but how much of the work was useful?
#
# The first cell loads the 71,009 simulated muons of "Numba CUDA" again. This time each thread takes one *event* and
# adds up the `pt` of its muons. Each thread writes to its own element, so there is no race, and the sums are right to
# the last bit. Run the cell, and look at the last two lines of its output.

# %% id="the-question"
# %load_ext gpucourse
import awkward as ak
import numpy as np
import virtualgpu
from gpucourse import lesson
from gpucourse.data import dimuons
from numba import cuda, float32, float64

check, hint, predict = lesson("12_thinking_in_warps")

THREADS = 128
muons = dimuons().muons
muons_per_event = ak.to_numpy(ak.num(muons))
columns = [ak.to_numpy(ak.flatten(muons[name])) for name in ("pt", "eta", "phi", "charge")]
rows = np.column_stack(columns).astype(np.float32)  # a row for each muon


@cuda.jit
def sums_by_event(first, pt, sums):
    event = cuda.grid(1)
    if event < sums.size:
        mine = 0.0
        for k in range(first[event], first[event + 1]):
            mine += pt[k]
        sums[event] = mine


def shares_of_use(kernel, *arguments):
    """What the launch counts: (share of the lanes' iterations with work, of the bytes moved that were read)."""
    with virtualgpu.profile() as profile:
        kernel[(muons_per_event.size + THREADS - 1) // THREADS, THREADS](*arguments)
    counts = profile.counters
    return (1 - counts.lanes_lost / (32 * counts.warp_instructions),
            counts.global_bytes_read / (32 * counts.global_load_sectors))


first_muon = cuda.to_device(np.concatenate([[0], np.cumsum(muons_per_event)]))
d_rows = cuda.to_device(rows)
d_sums = cuda.device_array(muons_per_event.size)
worked, used = shares_of_use(sums_by_event, first_muon, d_rows[:, 0], d_sums)
print("right:", np.allclose(d_sums.copy_to_host(), ak.sum(muons.pt, axis=1), rtol=1e-6))
print(f"of what the lanes were there for, they did {worked:.0%}; of the bytes moved, {used:.0%} were read")

# %% [markdown] id="the-question-stands"
# The sums are right, but half the work was wasted. Lanes were idle, and bytes were moved that no thread needed. **Where
# was it lost?** Both losses have the same cause. Threads don't run alone, but in warps of 32, and the threads of a warp
# also access memory together.

# %% [markdown] id="divergence-text"
# ## 1. Divergence: when lanes part
#
# The 32 threads of a warp, its lanes, execute one instruction at a time together, as you saw [in "Why
# GPUs"](02_why_gpus.ipynb#2-thirty-two-at-a-time). So a GPU thread is less like a CPU thread, which follows its own
# path, and more like one number in a vector register.
#
# In a loop, therefore, a warp iterates until its *busiest* lane is finished. The next cell computes the sums from the
# beginning, where an event has 0 to 7 muons. `order` tells each thread which event to take, and each thread counts its
# iterations.

# %% id="divergence"
from gpucourse.views.threads import draw_lanes


muon_pt = rows[:, 0].copy()
d_muon_pt = cuda.to_device(muon_pt)


@cuda.jit
def event_sums(first, pt, order, sums, turns):
    i = cuda.grid(1)
    if i < order.size:
        event = order[i]
        mine, count = 0.0, 0
        for k in range(first[event], first[event + 1]):
            mine += pt[k]
            count += 1
        sums[event] = mine
        turns[i] = count


def run_events(order):
    """Sums of pt per event, and the iterations that each thread made."""
    d_sums, d_turns = cuda.device_array(order.size), cuda.device_array(order.size, np.int64)
    blocks = (order.size + 127) // 128
    event_sums[blocks, 128](first_muon, d_muon_pt, cuda.to_device(order), d_sums, d_turns)
    return d_sums.copy_to_host(), d_turns.copy_to_host()


as_recorded = np.arange(muons_per_event.size)
sums, turns = run_events(as_recorded)
draw_lanes(turns[:64], per="muon")

# %% [markdown] id="lanes-task"
# In the picture, blue means work and grey means waiting. All 32 lanes have to wait for the slowest one.
#
# ### Exercise: what divergence costs
#
# Your function gets the number of iterations that each thread needs, in the order of the threads. Count the iterations
# that are `useful`, which are blue, and those that are `paid` for, which are blue and grey. A warp pays for 32 lanes in
# every iteration, even if it is a last warp with fewer threads.

# %% id="lanes-exercise" tags=["exercise"]
def lane_turns(work):
    """(useful, paid) iterations for an array with those that each thread needs."""
    useful, paid = None, None
    ### BEGIN SOLUTION
    useful = int(work.sum())
    paid = 0
    for start in range(0, len(work), 32):
        paid += 32 * int(work[start : start + 32].max())
    ### END SOLUTION
    return useful, paid

# %% id="lanes-check"
check("lane-turns", lane_turns)

# %% [markdown] id="divergence-predict" tags=["predict"]
# An `if` can also separate the lanes of a warp. *Predict:* if half of the lanes take one branch and half take the
# other, does the warp run one of the two branches, or both?
#
# In this kernel the branch alternates, from thread to thread if `run = 1`, and from warp to warp if `run = 32`.

# %% id="branches-guess"
predict("branches",
        "one: that of the majority",
        "each lane runs its own branch, all at once",
        "both, one after the other")

# %% id="branches"
import math


@cuda.jit
def two_ways(values, run, out):
    i = cuda.grid(1)
    if i < values.size:
        if (i // run) % 2 == 0:
            out[i] = math.sinh(values[i])
        else:
            out[i] = math.sqrt(values[i])


d_out = cuda.device_array(4096)
d_values = cuda.to_device(muon_pt[:4096].astype(np.float64))  # 128 warps
print("run   divergent branches   instructions of warps   lanes that idled")
for run in (1, 8, 16, 32, 64):
    with virtualgpu.profile() as profile:
        two_ways[32, 128](d_values, run, d_out)
    counts = profile.counters
    idle = counts.lanes_lost / (32 * counts.warp_instructions)
    print(f"{run:3}{counts.divergent_branches:18}{counts.warp_instructions:20,}{idle:20.0%}")

# %% [markdown] id="branches-why" tags=["why"]
# The warp runs both. Where its lanes take different branches, the warp first runs one branch with the other lanes
# masked off, and then the other branch. Where a whole warp takes the same branch, it runs only that branch.

# %% [markdown] id="branches-picture-text"
# The next pictures show two warps of this kernel, step by step. On the left the branches alternate from thread to
# thread, and on the right from warp to warp. Each band is a warp, 32 lanes high, and pale lanes are idle.

# %% id="branches-picture"
import gpucourse

sixty_four = muon_pt[:64].astype(np.float64)
gpucourse.beside(*(
    gpucourse.timeline(two_ways, 1, 64, sixty_four, run, np.zeros(64), steps=60) for run in (1, 32)
))

# %% [markdown] id="divergence-why"
# The lanes that wait while others run a branch are **masked**, and this behaviour is called **divergence**. On the
# right no lane is pale, and the kernel gets the same answer with fewer instructions. Divergence is slow but not wrong,
# as long as there is no barrier in one of the branches.
#
# Since the Volta generation, the hardware keeps a program counter for each lane and may interleave the branches of a
# warp. NVIDIA calls this *independent thread scheduling*. Lanes still share one instruction at a time, but you may no
# longer assume that they run in lockstep.

# %% [markdown] id="short-if-predict" tags=["predict"]
# Should you avoid every `if`, then? The next kernel sets negative numbers to zero. Half of the values are negative, in
# random positions. *Predict:* in how many of the 128 warps do the lanes diverge at this `if`?

# %% id="short-if-guess"
predict("short-if", "in nearly all", "in half of them", "in none")

# %% id="short-if"
@cuda.jit
def no_negatives(values, out):
    i = cuda.grid(1)
    if i < values.size:
        value = values[i]
        if value < 0:
            value = 0.0
        out[i] = value


mixed = cuda.to_device(np.random.default_rng(6).normal(size=4096))
with virtualgpu.profile() as profile:
    no_negatives[32, 128](mixed, d_out)
print("divergent branches:", profile.counters.divergent_branches)
ptx = next(iter(no_negatives.inspect_asm().values()))
print(*(line.strip() for line in ptx.splitlines() if "setp" in line or "selp" in line), sep="\n")

# %% [markdown] id="short-if-why" tags=["why"]
# They diverge in none of the warps. The compiler saw that both branches are short, and replaced them by one
# instruction, `selp`, which means *select by a predicate*. Every lane computes both values and keeps one of them, so
# there is no branch. Divergence costs time only where the branches are long.

# %% [markdown] id="sorted-predict" tags=["predict"]
# Now the events are sorted by their number of muons, so that the lanes of a warp get events of equal length. *Predict:*
# do the sums change, and does the cost change?

# %% id="sorted-guess"
predict("sorted",
        "the sums change, and so does the cost",
        "the sums stay the same, and the cost falls",
        "neither: it's the same work")

# %% id="sorted"
by_length = np.argsort(muons_per_event, kind="stable")
for name, order_of_events in (("as recorded", as_recorded), ("sorted", by_length)):
    again, turns = run_events(order_of_events)
    print(f"{name:12} same sums: {np.array_equal(again, sums)}; (useful, paid) =", lane_turns(turns))
draw_lanes(run_events(by_length)[1][26_656:26_720], per="muon", first=26_656)

# %% [markdown] id="sorted-why" tags=["why"]
# The sums are the same to the last bit. The number of iterations that are paid for fell from more than twice the useful
# ones to hardly more than those. The picture shows where, in the sorted list, the events with two muons begin. But
# sorting takes time too, so it is worthwhile only if the work of a thread is long and uneven.

# %% [markdown] id="shares-predict" tags=["predict"]
# ## 2. Coalescing: reading side by side
#
# In a grid-stride loop, neighbouring threads read neighbouring muons. With 4,096 threads, thread 0 takes elements 0,
# 4096, 8192 and so on. On a CPU you would rather give each thread a contiguous share, so that thread 0 takes elements 0
# to 17 and thread 1 takes elements 18 to 35. Then each core reads its own part of memory from front to back.
#
# Memory is moved in sectors of 32 bytes, as you saw in the puzzles, and a sector holds eight `float32` numbers.
# *Predict:* which of the two versions moves more sectors on a GPU, and how many times as many?

# %% id="shares-guess"
predict("shares",
        "the same: each number is read once",
        "the grid-stride loop, twice as many",
        "the shares, eight times as many")

# %% id="shares"
@cuda.jit
def partial_sums(values, partial):
    me = cuda.grid(1)
    mine = 0.0
    for i in range(me, values.size, cuda.gridsize(1)):
        mine += values[i]
    partial[me] = mine


@cuda.jit
def sums_of_shares(values, partial):
    me = cuda.grid(1)
    share = (values.size + cuda.gridsize(1) - 1) // cuda.gridsize(1)
    mine = 0.0
    for i in range(me * share, min((me + 1) * share, values.size)):
        mine += values[i]
    partial[me] = mine


d_partial = cuda.device_array(32 * 128)
print(f"{'':16}{'requests':>10}{'sectors moved':>15}{'enough would be':>17}")
for kernel in (partial_sums, sums_of_shares):
    with virtualgpu.profile() as profile:
        kernel[32, 128](d_muon_pt, d_partial)
    counts = profile.counters
    print(f"{kernel.py_func.__name__:16}{counts.global_load_requests:10,}"
          f"{counts.global_load_sectors:15,}{counts.global_load_ideal_sectors:17,}")

# %% id="shares-picture"
gpucourse.beside(
    gpucourse.memory(partial_sums, 32, 128, muon_pt, np.zeros(4096), array="values",
                     steps=8, title="side by side"),
    gpucourse.memory(sums_of_shares, 32, 128, muon_pt, np.zeros(4096), array="values",
                     steps=8, title="a share for each"),
)

# %% [markdown] id="shares-why" tags=["why"]
# The version with shares moves eight times as many. When a warp loads, its 32 lanes make their requests at the same
# moment, and the hardware combines them into as few sectors as it can. If the lanes read neighbouring elements, 32
# numbers fill 4 sectors, and every byte that is moved is used. Such an access is **coalesced**. With shares, each lane
# requests a number in a different sector, and seven eighths of the bytes that are moved are not needed *at that
# moment*.
#
# ![Two patterns of eight threads that read four-byte numbers. Above, thread i reads element i, so all eight numbers are
# in one sector of 32 bytes, and one sector moves. Below, thread i reads element 8 i, so each number is in a different
# sector, eight sectors move, and seven eighths of the bytes are not used.](../img/coalescing.svg)
#
# A GPU also has caches, but they are small for so many threads. A CPU core has some tens of kB in its first cache and
# about a megabyte in the second, for one thread or two. A multiprocessor of an H100 has 256 kB for up to 2,048 threads.
# That is 128 bytes for each, if shared memory takes nothing from it. The sector that a lane has loaded may already be
# evicted when the lane needs its next number. The counts in this lesson include every sector, as if there were no
# cache. On a real GPU some of them come from a cache, and a profiler tells you how many.
#
# A GPU doesn't speculate either, whereas a CPU predicts branches and continues before it knows the result. While a warp
# waits, a GPU runs another warp instead. So arrange the work for the *warp*, so that in each instruction neighbouring
# lanes access neighbouring addresses. The next cell shows the report of the slow kernel, in which one line is dark.

# %% id="shares-card"
gpucourse.report(sums_of_shares, 32, 128, muon_pt, np.zeros(4096))

# %% [markdown] id="records-predict" tags=["predict"]
# The most common way to lose coalescing is to store a table by rows. The first cell had the muons as rows of the four
# numbers `pt`, `eta`, `phi` and charge, as you might write them to a file. The next cell compares these rows with the
# same numbers in four columns.
#
# *Predict:* a kernel adds up only `pt`. How many times as many sectors does it move from the rows as from the columns?

# %% id="records-guess"
predict("records", "the same: it reads only pt", "four times", "eight times")

# %% id="records"
d_columns = cuda.to_device(np.ascontiguousarray(rows.T))
for name, column in (("rows", d_rows[:, 0]), ("columns", d_columns[0])):
    with virtualgpu.profile() as profile:
        partial_sums[32, 128](column, d_partial)
    print(f"from {name:8} {profile.counters.global_load_sectors:7,} sectors,",
          f"{d_partial.copy_to_host().sum():,.1f} GeV")

# %% [markdown] id="records-why" tags=["why"]
# It moves four times as many, because each sector also contains the unused `eta`, `phi` and charge of its muons. This
# is one reason why Awkward Arrays, cuDF and Parquet files store each column separately.

# %% [markdown] id="mended-text"
# Now we know the cause of both losses, and you can avoid both on the host. Give a warp events of similar length, and
# store the values of `pt` next to each other.

# %% id="mended"
alike = muons.pt[by_length]
first_alike = cuda.to_device(np.concatenate([[0], np.cumsum(ak.to_numpy(ak.num(alike)))]))
d_alike = cuda.to_device(ak.to_numpy(ak.flatten(alike)))
again = shares_of_use(sums_by_event, first_alike, d_alike, d_sums)
print("the same sums:", np.array_equal(d_sums.copy_to_host(), sums[by_length]))
for name, (worked_so, used_so) in {"at first": (worked, used), "mended": again}.items():
    print(f"{name:9} lanes did {worked_so:4.0%} of what they were there for; {used_so:4.0%} of the bytes moved were read")

# %% [markdown] id="mended-why"
# The kernel is exactly the same, and only the layout of its data has changed. Even now, a warp does not use all bytes
# of a sector at once. If its events have two muons each, it first reads every second number and then the numbers
# between them.
#
# One problem remains. A kernel that *transposes* a table on the device turns rows into columns. If a warp reads along a
# row, where the elements are adjacent, it has to write along a column, where they are far apart, or the other way
# round. You can solve this with shared memory, which has its own trap.

# %% [markdown] id="banks-predict" tags=["predict"]
# ## 3. Bank conflicts
#
# Shared memory is not divided into sectors but into 32 **banks**. The 4-byte word with the number `k` is in bank
# `k % 32`, and each bank delivers one word at a time. If two lanes need different words of the same bank, one of them
# waits, and the request takes an additional *wavefront*. If they need the same word, both get it at once.
#
# There are two ways to fold 128 numbers, and both give the right sum. One adds the upper half to the lower half, as in
# "Trees and barriers". The other adds neighbours, then neighbouring sums, and so on. *Predict:* which of the two has
# bank conflicts?

# %% id="banks-guess"
predict("banks", "the one that adds halves: its words are far apart", "the one that adds neighbours", "both")

# %% id="banks"
@cuda.jit
def fold_halves(values, sums):
    place = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    place[t] = values[cuda.grid(1)]
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if t < half:
            place[t] += place[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        sums[cuda.blockIdx.x] = place[0]


@cuda.jit
def fold_neighbours(values, sums):
    place = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    place[t] = values[cuda.grid(1)]
    cuda.syncthreads()
    step = 1
    while step < THREADS:
        k = 2 * step * t
        if k < THREADS:
            place[k] += place[k + step]
        cuda.syncthreads()
        step *= 2
    if t == 0:
        sums[cuda.blockIdx.x] = place[0]

# %% id="banks-counts"
full = d_muon_pt[: 554 * THREADS]  # whole blocks only: this is about banks, not about guards
d_sums = cuda.device_array(554, np.float32)
print(f"{'':18}{'requests':>10}{'wavefronts':>12}{'conflicts':>11}")
for kernel in (fold_halves, fold_neighbours):
    with virtualgpu.profile() as profile:
        kernel[554, THREADS](full, d_sums)
    counts = profile.counters
    requests = counts.shared_load_requests + counts.shared_store_requests
    wavefronts = counts.shared_load_wavefronts + counts.shared_store_wavefronts
    print(f"{kernel.py_func.__name__:18}{requests:10,}{wavefronts:12,}{wavefronts - requests:11,}")

some = muon_pt[:THREADS]
gpucourse.beside(*(
    gpucourse.memory(kernel, 1, THREADS, some, np.zeros(1, np.float32), array="shared", steps=10)
    for kernel in (fold_halves, fold_neighbours)
))

# %% [markdown] id="banks-why" tags=["why"]
# Only the fold that adds neighbours has bank conflicts. At its first level, lane `t` needs word `2t`, so lanes 0 and 16
# both need bank 0, lanes 1 and 17 both need bank 2, and so on. Every request takes two wavefronts, and at the second
# level four. Click on requests 3 and 9 to see that several lanes use the same bank. In the other fold, lane `t` needs
# word `t`, so each lane uses a different bank.

# %% [markdown] id="padding-predict" tags=["predict"]
# The worst case is the column of a square tile. In an array of 32 × 32 words, `tile[0, 3]`, `tile[1, 3]`, `tile[2, 3]`
# … are 32 words apart, so they are all in bank 3. A warp that reads a column takes 32 wavefronts. *Predict:* how many
# does it take if the tile has 33 columns, of which the last is never used?

# %% id="padding-guess"
predict("padding", "still 32 wavefronts: the last column is unused", "2 wavefronts", "1 wavefront")

# %% id="padding"
bank = np.arange(32 * 32).reshape(32, 32) % 32
padded = np.arange(32 * 33).reshape(32, 33) % 32
print("32 columns: the banks of tile[:, 3] are", *bank[:, 3])
print("33 columns: the banks of tile[:, 3] are", *padded[:, 3])

# %% [markdown] id="padding-why" tags=["why"]
# It takes one wavefront. Because 33 is one more than 32, each row begins one bank after the row above it, so the words
# of a column are in 32 different banks.

# %% [markdown] id="turn-task"
# ### Exercise: transpose a table
#
# Write `turn`, which transposes a table of any size, so that `turned[j, i] = table[i, j]`. Both the reads *and* the
# writes must be coalesced, without bank conflicts. The kernel below is the plain version, whose writes are not
# coalesced.
#
# Use blocks of 32 × 32 threads. A block reads a tile of the table with coalesced reads into shared memory, waits at a
# barrier, and writes it with coalesced writes as a tile of the transposed table. The check counts sectors and
# conflicts.

# %% id="turn-plain"
@cuda.jit
def turn_plainly(table, turned):
    j, i = cuda.grid(2)  # the first of the two changes from lane to lane
    if i < table.shape[0] and j < table.shape[1]:
        turned[j, i] = table[i, j]


# How many muons went where: 40 rows in eta, 64 columns in phi.
where = np.histogram2d(rows[:, 1], rows[:, 2], (40, 64))[0].astype(np.float32)
gpucourse.memory(turn_plainly, (2, 2), (32, 32), where, np.zeros((64, 40), np.float32),
                 array="turned", steps=4)

# %% [markdown] id="turn-unguarded-text"
# The sides of a table are rarely multiples of 32. If you leave out the guard, the blocks at the edge access elements
# beyond the table. In two dimensions the message names a thread by two numbers, x first.

# %% id="turn-unguarded" raises="MemoryAccessError"
@cuda.jit
def turn_unguarded(table, turned):
    j, i = cuda.grid(2)
    turned[j, i] = table[i, j]


with virtualgpu.check():
    turn_unguarded[(2, 2), (32, 32)](cuda.to_device(where), cuda.to_device(np.zeros((64, 40), np.float32)))

# %% [markdown] id="turn-unguarded-why"
# It reads row 40 of a table with 40 rows. In block (0, 1), thread (0, 8) is the first whose `i`, 32 + 8, is too large.
# In your kernel, a thread reads one element and writes a *different* one, so you need two guards, one for each.

# %% id="turn-exercise" tags=["exercise"]
@cuda.jit
def turn(table, turned):
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    first_i, first_j = 32 * cuda.blockIdx.y, 32 * cuda.blockIdx.x  # where this block's tile begins
    ### BEGIN SOLUTION
    tile = cuda.shared.array((32, 33), float32)
    if first_i + y < table.shape[0] and first_j + x < table.shape[1]:
        tile[y, x] = table[first_i + y, first_j + x]
    cuda.syncthreads()
    if first_j + y < table.shape[1] and first_i + x < table.shape[0]:
        turned[first_j + y, first_i + x] = tile[x, y]
    ### END SOLUTION

# %% id="turn-check"
check("turn", turn)
gpucourse.report(turn, (2, 2), (32, 32), where, np.zeros((64, 40), np.float32))

# %% [markdown] id="clock-predict" tags=["predict"]
# ### What a count can tell you, and what it can't
#
# We have three counts, each of which predicts a ratio of times. The version with shares moves eight times as many
# sectors. Folding neighbours takes two, four and more wavefronts for a request where the other fold takes one. The
# plain transposition writes eight times as many sectors.
#
# *Predict:* which of these three ratios do you find in full if you measure the times on an H200?

# %% id="clock-guess"
predict("clock", "all three", "the first and the last: banks matter less", "none of them")

# %% id="clock"
from gpucourse.views.measured import recorded, recorded_times

recorded(*map(recorded_times, ("lesson.coalescing", "lesson.banks", "lesson.turning")))

# %% [markdown] id="clock-why" tags=["why"]
# You find none of them in full, because the times have the ratios 1.9, 1.00 and 2.5. The counts are right, but a count
# can't tell you *whether anything waits for it*.
#
# - The cache of this GPU, 60 MB, kept much of what the lanes with shares read again. Coalesced reads are still about
#   twice as fast, according to the recorded rows `lesson.coalescing`.
# - The bank conflicts cost **no measurable time**, with 1.267 and 1.269 ms in the recorded rows `lesson.banks`. Both
#   kernels take nearly four times as long as merely reading the data. They are waiting for something else, probably for
#   barriers, and the extra wavefronts are hidden behind this wait. We have not measured what 32 wavefronts cost when a
#   warp reads a column without padding. `make bench-gpu` will measure it, with nothing else to wait for, and with your
#   `turn` on a tile of 32 columns.
# - Only the writes of the plain transposition are not coalesced. The version with a tile is faster than CuPy's own
#   transposition, according to the recorded rows `lesson.turning`.

# %% [markdown] id="clock-then"
# In other lessons, too, some times do not follow the counts, each time for a particular reason.
#
# - CuPy's `fuse` moves as many bytes as an `ElementwiseKernel`, but it takes 1.57 times as long, according to the
#   recorded rows `quadratic.float64`.
# - In project 1, the golf kernel has fewer atomics and sectors than the simpler kernel, but it takes 1.20 times as
#   long, according to the recorded rows `histogram.peaks`.
#
# So count to find out *which* unnecessary work a kernel does. Before you remove it, measure whether the kernel waits
# for it.

# %% [markdown] id="further" tags=["further"]
# The main part of the lesson ends here. Sections 4 to 6 go **further** and do not depend on each other. Do them now, or
# go on with the next lesson and come back later.

# %% [markdown] id="shuffle-predict" tags=["predict"]
# ## 4. Shuffles
#
# The 32 lanes of a warp run together, so they can exchange numbers without any memory.
# `cuda.shfl_down_sync(mask, value, k)` returns to each lane the `value` of the lane whose number is larger by `k`.
# `mask` has one bit for each lane that takes part, so `0xFFFFFFFF` means all 32.
#
# So within a warp you can fold without shared memory and without barriers. *Predict:* how many shuffles does the sum of
# 32 numbers take, and which lane has the sum at the end?

# %% id="shuffle-guess"
predict("shuffle", "31, and every lane", "5, and every lane", "5, and lane 0")

# %% id="shuffle"
from gpucourse.views.tree import draw_levels

ALL = 0xFFFFFFFF


@cuda.jit
def warp_fold(values, seen):
    lane = cuda.threadIdx.x
    mine = values[lane]
    seen[0, lane] = mine
    level = 1
    for k in (16, 8, 4, 2, 1):
        mine += cuda.shfl_down_sync(ALL, mine, k)
        seen[level, lane] = mine
        level += 1


d_seen = cuda.to_device(np.zeros((6, 32), np.int64))
warp_fold[1, 32](cuda.to_device(muons_per_event[:32]), d_seen)
levels = [d_seen[k].copy_to_host()[: 32 >> k] for k in range(6)]
draw_levels(levels)

# %% [markdown] id="shuffle-why" tags=["why"]
# It takes five shuffles, and lane 0 has the sum. The picture leaves out the upper lanes, whose sums aren't used. If a
# lane asks for a value beyond the end of the warp, it gets its own value back.

# %% [markdown] id="shuffle-then"
# Now we add up all muons. Each thread adds up its share in a grid-stride loop, each warp folds these sums with
# shuffles, and one lane of each warp adds the result to the total. The cell also runs the last kernel of "Trees and
# barriers", which folds in shared memory.

# %% id="shuffle-real"
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


@cuda.jit
def sum_by_warps(values, total):
    mine = 0.0
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        mine += values[i]
    for k in (16, 8, 4, 2, 1):
        mine += cuda.shfl_down_sync(ALL, mine, k)
    if cuda.threadIdx.x % 32 == 0:
        cuda.atomic.add(total, 0, mine)

# %% id="shuffle-counts"
def new_total():
    return cuda.to_device(np.zeros(1))


print(f"{'':14}{'barriers':>10}{'shared accesses':>17}{'instructions':>14}{'atomics':>9}")
for kernel in (sum_all, sum_by_warps):
    d_total = new_total()
    with virtualgpu.profile() as profile:
        kernel[32, THREADS](d_muon_pt, d_total)
    counts = profile.counters
    assert np.isclose(d_total[0], muon_pt.sum(dtype=np.float64))
    print(f"{kernel.py_func.__name__:14}{counts.barriers:10,}"
          f"{counts.shared_loads + counts.shared_stores:17,}{counts.warp_instructions:14,}"
          f"{counts.global_atomics:9,}")

# %% [markdown] id="shuffle-broken-predict" tags=["predict"]
# The kernel with shuffles uses no barrier and no shared memory, so no warp ever waits for another. In return, it needs
# four times as many atomics, one for each warp. Here it also needs a few more instructions, because each of the four
# warps folds, and a 64-bit number takes two shuffles of 32 bits. On an H200 the loss was larger than the gain. For 268
# million numbers the kernel with shuffles took 4 % *longer* than the tree. For a million numbers it took 2.2 times as
# long, 19.1 µs compared with 8.7 µs, because all these atomics go to one address, one after the other. Libraries
# combine the two, with shuffles within the warps and shared memory between them.
#
# *Recorded rows: `reduction/shuffle`, `reduction/tree`, `scaling.reduction/shuffle`.*
#
# Now we break the kernel by putting the bounds guard around everything, as in every kernel so far. *Predict:* with 100
# muons in 128 threads, is the sum right?

# %% id="shuffle-broken-guess"
predict("shuffle-broken", "yes: the guard keeps the others out", "no")

# %% id="shuffle-broken"
@cuda.jit
def sum_guarded(values, total):
    i = cuda.grid(1)
    if i < values.size:
        mine = values[i]
        for k in (16, 8, 4, 2, 1):
            mine += cuda.shfl_down_sync(ALL, mine, k)
        if cuda.threadIdx.x % 32 == 0:
            cuda.atomic.add(total, 0, mine)


for n in (96, 100):
    d_total = new_total()
    sum_guarded[1, THREADS](d_muon_pt[:n], d_total)
    print(f"{n} muons: {d_total[0]:,.1f} GeV, should be {muon_pt[:n].sum(dtype=np.float64):,.1f}")

# %% [markdown] id="shuffle-broken-why" tags=["why"]
# It is wrong, although it would be right for 96 muons, which fill three whole warps. In the fourth warp only four lanes
# pass the guard, but `mask` says that all 32 take part. Lane 3, for example, reads from lane 19, which gives no value.
# CUDA leaves the result undefined. The virtual GPU returns an absurd number, so large that the sum overflows, so that
# you notice the mistake. A real GPU may return whatever is in the register. As with a barrier, put the guard around the
# *value*, and not around the shuffle.

# %% [markdown] id="shuffle-broken-then"
# ### Exercise: the maximum of a warp
#
# Write `warp_maxima`, where `maxima[w]` is the largest of the values `32 w` to `32 w + 31`, which belong to warp `w`,
# or minus infinity if there are none. Use only shuffles, in five rounds. The check tries arrays of any length, with
# block sizes that are multiples of 32.

# %% id="warp-max-exercise" tags=["exercise"]
@cuda.jit
def warp_maxima(values, maxima):
    i = cuda.grid(1)
    ### BEGIN SOLUTION
    mine = values[i] if i < values.size else -math.inf
    for k in (16, 8, 4, 2, 1):
        mine = max(mine, cuda.shfl_down_sync(ALL, mine, k))
    if i % 32 == 0:
        maxima[i // 32] = mine
    ### END SOLUTION

# %% id="warp-max-check"
check("warp-max", warp_maxima)

# %% [markdown] id="occupancy-text"
# ## 5. Occupancy: enough warps to hide waiting
#
# A number from global memory takes hundreds of cycles to arrive, according to [table 3 of a 2023
# study](https://pmc.ncbi.nlm.nih.gov/articles/PMC10448217/table/t0015). While a warp waits, its multiprocessor switches
# to another warp, so it needs many warps to choose from. Their number is limited by what each block occupies. When a
# block starts, its threads get registers and the block gets shared memory, and both remain occupied until the block
# ends. The number of warps that fit, divided by the largest possible number, is the **occupancy**.
#
# The number of registers of a thread is chosen by `ptxas`, NVIDIA's assembler, which turns PTX into machine code. It
# needs no GPU and is installed with this course, so the next cell runs it.

# %% id="registers"
import re
import subprocess
import tempfile
from pathlib import Path

from cuda.pathfinder import find_nvidia_binary_utility
from gpucourse.views.picture import Picture, canvas


def assembled(kernel):
    """What a kernel takes: (registers of a thread, bytes of shared memory of a block)."""
    ptx = next(iter(kernel.inspect_asm().values()))
    target = re.search(r"\.target (\w+)", ptx)[1]
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        command = [find_nvidia_binary_utility("ptxas"), "-v", f"-arch={target}", source, "-o", result]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    shared = re.search(r"(\d+) bytes smem", said)
    return int(re.search(r"Used (\d+) registers", said)[1]), int(shared[1]) if shared else 0


kernels = (sums_by_event, two_ways, sum_all, sum_by_warps)
for kernel in kernels:
    registers, shared = assembled(kernel)
    print(f"{kernel.py_func.__name__:16}{registers:4} registers,{shared:6,} bytes of shared memory")

# %% [markdown] id="occupancy-task"
# ### Exercise: how many warps fit?
#
# The list gives the limits of a multiprocessor of compute capability 9.0, such as that of an H100. Other GPUs have the
# same kinds of limits, with different numbers.
#
# - It holds at most 64 warps, and at most 32 blocks.
# - It has four parts, with 16,384 registers each. A warp belongs to one part and takes 32 times the registers of its
#   threads, rounded up to a multiple of 256.
# - It has 233,472 bytes of shared memory for its blocks. A block takes as many bytes as its kernel requests, and 1,024
#   bytes more.
# - A block fits completely or not at all.
#
# Write a function that returns the number of warps that run on a multiprocessor at the same time. The starter always
# returns 64. `shared` will be a multiple of 128 and `threads` a multiple of 32, and you may distribute the warps of a
# block over the parts in any way.

# %% id="occupancy-exercise" tags=["exercise"]
def resident_warps(threads, registers, shared):
    """Warps that fit at once, for blocks of `threads`, `registers` a thread, `shared` bytes a block."""
    warps = threads // 32  # of one block
    blocks = 64 // warps
    ### BEGIN SOLUTION
    of_a_warp = (32 * registers + 255) // 256 * 256
    blocks = min(blocks, 32)
    blocks = min(blocks, 4 * (16_384 // of_a_warp) // warps)
    blocks = min(blocks, 233_472 // (shared + 1024))
    ### END SOLUTION
    return blocks * warps

# %% id="occupancy-check"
check("occupancy", resident_warps)

# %% id="occupancy-picture"
sizes = np.arange(32, 1025, 32)
heavy = {"32 registers": (32, 0), "64 registers": (64, 0), "128 registers": (128, 0),
         "32 registers, 32 kB shared": (32, 32_768)}
figure, axes = canvas(9, 3)
for (name, need), style in zip(heavy.items(), ("-", "--", "-.", ":"), strict=True):
    axes.plot(sizes, [resident_warps(int(n), *need) / 64 for n in sizes], style, label=name)
axes.set(xlabel="threads in a block", ylabel="occupancy", ylim=(0, 1.05), xlim=(0, 1040))
axes.legend(fontsize=8, loc="lower right")
best = {name: max(resident_warps(int(n), *need) for n in sizes) for name, need in heavy.items()}
Picture(figure, "Occupancy against the size of a block, by your function. At best, of 64 warps: "
                + ", ".join(f"{warps} with {name}" for name, warps in best.items()) + ".")

# %% [markdown] id="occupancy-why"
# With 32 registers or fewer, all 64 warps fit, if a block has 64 threads or more and 64 warps are a whole number of
# blocks. With 128 registers there is room for 16 warps, and a block of more than 512 threads does not start at all. The
# curve in the picture has teeth because only whole blocks fit.
#
# Don't try to reach the last per cent, because occupancy isn't speed. It is the number of other warps to which a
# multiprocessor can switch. Once there are enough of them to cover the waiting time, more warps do not help. A kernel
# that keeps more numbers in registers and has a quarter of the occupancy may well be faster. Look at the occupancy if a
# kernel waits for memory and has few warps. Then try smaller blocks, fewer registers with `@cuda.jit(max_registers=…)`,
# or less shared memory, and measure the effect on the GPU.

# %% [markdown] id="matmul-text"
# ## 6. A matrix product, from naive to tiled
#
# You need matrix products to find out how similar two events are, which variables are correlated, or how light travels
# through glass. Deep learning consists mostly of matrix products. The next kernel has one thread for each element of
# the result.

# %% id="matmul-naive"
@cuda.jit
def matmul(a, b, product):
    column, row = cuda.grid(2)
    if row < product.shape[0] and column < product.shape[1]:
        total = float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        product[row, column] = total


rng = np.random.default_rng(5)
a, b = (rng.normal(size=(96, 96)).astype(np.float32) for _ in range(2))
d_a, d_b, d_product = cuda.to_device(a), cuda.to_device(b), cuda.device_array((96, 96), np.float32)
with virtualgpu.profile() as naive:
    matmul[(6, 6), (16, 16)](d_a, d_b, d_product)
print("NumPy agrees:", np.allclose(d_product.copy_to_host(), a @ b, atol=1e-4))
print(f"loads from global memory: {naive.counters.global_loads:,} numbers, {a.size + b.size:,} exist")

# %% [markdown] id="tile-predict" tags=["predict"]
# The result is right, but the kernel is wasteful, because each of the 18,432 numbers is loaded 96 times, by 96 threads.
# In shared memory, the threads of a block can share the numbers that they load.
#
# Cut the matrices into **tiles** of 16 × 16. For each pair of tiles, every one of the 256 threads of a block loads one
# number of each tile, waits at a barrier, and then computes 16 products from shared memory. *Predict:* by what factor
# does the number of loads from global memory fall?

# %% id="matmul-tiled-guess"
predict("matmul-tiled", "2", "16", "256")

# %% id="matmul-tiled"
TILE = 16


@cuda.jit
def matmul_tiled(a, b, product):
    """For matrices whose sides are multiples of TILE; blocks of TILE × TILE threads."""
    tile_a = cuda.shared.array((TILE, TILE), float32)
    tile_b = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], TILE):
        tile_a[y, x] = a[row, start + x]
        tile_b[y, x] = b[start + y, column]
        cuda.syncthreads()  # now both tiles are filled
        for k in range(TILE):
            total += tile_a[y, k] * tile_b[k, x]
        cuda.syncthreads()  # now nobody reads them any more
    product[row, column] = total


with virtualgpu.profile() as tiled:
    matmul_tiled[(6, 6), (TILE, TILE)](d_a, d_b, d_product)
print("NumPy agrees:", np.allclose(d_product.copy_to_host(), a @ b, atol=1e-4))
print(f"{'':10}{'global loads':>14}{'shared loads':>14}{'sectors':>10}{'flops':>12}")
for name, counts in (("naive", naive.counters), ("tiled", tiled.counters)):
    print(f"{name:10}{counts.global_loads:14,}{counts.shared_loads:14,}"
          f"{counts.global_load_sectors:10,}{counts.flops:12,}")

# %% [markdown] id="tile-why" tags=["why"]
# It falls by a factor of 16, the side of the tile, because each number is now loaded by 6 blocks instead of 96 threads.
# The number of arithmetic operations is the same, but their inputs are in fast memory. The number of sectors falls only
# by a factor of 8, because in the naive kernel half a warp reads the *same* element of `a`, so one sector serves 16
# threads.

# %% [markdown] id="barrier-missing-predict" tags=["predict"]
# *Predict:* what can go wrong without the second barrier?

# %% id="barrier-missing-guess"
predict("barrier-missing",
        "nothing: the first barrier is enough",
        "a fast warp overwrites what a slow one still needs",
        "the threads hang")

# %% id="barrier-missing"
@cuda.jit
def matmul_hasty(a, b, product):
    tile_a = cuda.shared.array((TILE, TILE), float32)
    tile_b = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], TILE):
        tile_a[y, x] = a[row, start + x]
        tile_b[y, x] = b[start + y, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += tile_a[y, k] * tile_b[k, x]
    product[row, column] = total


small_a, small_b = a[:32, :32].copy(), b[:32, :32].copy()
small = *map(cuda.to_device, (small_a, small_b)), cuda.device_array((32, 32), np.float32)


def agrees():
    return np.allclose(small[2].copy_to_host(), small_a @ small_b, atol=1e-4)


matmul_hasty[(2, 2), (TILE, TILE)](*small)
print("as it comes, NumPy agrees:", agrees())
with virtualgpu.schedule(3):
    matmul_hasty[(2, 2), (TILE, TILE)](*small)
print("in another order:         ", agrees())
with virtualgpu.check() as report:
    matmul_hasty[(2, 2), (TILE, TILE)](*small)
print(report)

# %% [markdown] id="barrier-missing-why" tags=["why"]
# A fast warp continues with the next tile and overwrites numbers that a slow warp still needs, which is a race. In the
# usual order the answer is right, so a test would pass. `virtualgpu.check()` names both lines all the same, and
# `virtualgpu.schedule(seed)` runs the threads in an order in which the answer is wrong.

# %% [markdown] id="tiled-matmul-task"
# ### Exercise: tiles for every size
#
# `matmul_tiled` reads out of bounds unless all sides are multiples of 16. Correct it in two ways. Where a tile extends
# beyond its matrix, it must hold zeros, which add nothing to the sum. And only threads that have an element in the
# result may write. Every thread of the block must still reach both barriers, so there must be no early `return`. The
# check counts the loads from global memory, and the work of the busiest thread.

# %% id="tiled-matmul-exercise" tags=["exercise"]
@cuda.jit
def matmul_any(a, b, product):
    tile_a = cuda.shared.array((TILE, TILE), float32)
    tile_b = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    ### BEGIN SOLUTION
    for start in range(0, a.shape[1], TILE):
        tile_a[y, x] = tile_b[y, x] = 0
        if row < a.shape[0] and start + x < a.shape[1]:
            tile_a[y, x] = a[row, start + x]
        if start + y < b.shape[0] and column < b.shape[1]:
            tile_b[y, x] = b[start + y, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += tile_a[y, k] * tile_b[k, x]
        cuda.syncthreads()
    if row < product.shape[0] and column < product.shape[1]:
        product[row, column] = total
    ### END SOLUTION

# %% id="tiled-matmul-check"
check("tiled-matmul", matmul_any)

# %% [markdown] id="recorded-product-text"
# The next cell shows recorded times of an H200 for two matrices of 4,096 × 4,096. The kernel with tiles loads a 16th of
# the numbers. How many times as fast do you expect it to be?

# %% id="recorded-product"
from gpucourse.views.measured import recorded_times

recorded_times("lesson.product")

# %% [markdown] id="recorded-why"
# It is 5.5 times as fast, with 18.2 ms instead of 100.6 ms, and not 16 times. The count is right, but our counts do not
# include caches, and a load that another thread has just made usually comes from a cache. So many of the loads that the
# tiles save were already cheap. cuBLAS is another 6.8 times as fast as the tiles. Each of its threads keeps many
# results in registers instead of one, so that each number from shared memory is also used several times. This explains
# the gap between our kernel and a library.
#
# *Recorded rows: `lesson.product`.*

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - Threads run in warps of 32 lanes. A warp runs every branch that one of its lanes takes, and iterates until its
#   busiest lane is finished, so give the lanes of a warp similar work.
# - Memory is moved in sectors of 32 bytes, so in each instruction, neighbouring lanes should read neighbouring
#   addresses. Therefore store columns and not rows.
# - Shared memory has 32 banks. Lanes that need different words of one bank wait for each other, and an extra column of
#   padding spreads the words over the banks.
# - Lanes can exchange numbers with shuffles, and all lanes that the mask names must take part.
# - Without a clock you can count idle lanes, sectors, wavefronts of shared memory, and warps that fit. Only a clock
#   tells you whether a kernel waits for them.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - NVIDIA's best practices guide on
#   [coalescing, bank conflicts and occupancy](https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/), and the
#   [tuning guide of the H100](https://docs.nvidia.com/cuda/hopper-tuning-guide/) for the limits in section 5.
# - The Numba-CUDA manual on [warp shuffles](https://nvidia.github.io/numba-cuda/user/intrinsics.html).
# - NVIDIA's programming guide on [SIMT
#   kernels](https://docs.nvidia.com/cuda/cuda-programming-guide/02-basics/writing-cuda-kernels.html).

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 45 minutes
#
# | minutes | what |
# |---|---|
# | 0-3 | the question; two columns on the board, "lanes" and "bytes", to be filled in on the way |
# | 3-17 | section 1, with `lane-turns` |
# | 17-28 | section 2; come back to the board |
# | 28-45 | section 3, with `turn` |
#
# Sections 4 to 6 are good homework, 40 minutes in all. If you take section 6, do not cut its race.
#
# *Ten minutes early:* ask for `turn` with a tile of 16 × 16 without padding, and ask what the report says about its
# banks.
#
# *Where people get stuck.* In `turn`, they exchange `x` and `y` in both accesses, which transposes twice. Only the
# *tile* is indexed with `x` and `y` exchanged, and both tables are accessed row by row. In `warp-max`, they put the
# shuffle inside the guard. In `occupancy`, they assume one large register file instead of four parts. Let them find
# this by themselves, because the messages explain it.
#
# *Frequent questions.* "Is sorting worthwhile?" It is if each thread has much work, or if you use the same order again.
# Here it only shows what divergence costs. "Don't caches fix the reads of the shares?" They fix some of them, but the
# counts ignore caches. A profiler on a GPU shows how much the cache helped. "Which is the best occupancy?" The best is
# the smallest at which the multiprocessor always has a warp that is ready to run.
