# %% [markdown] id="the-question-asked"
# ## Where did the momentum go?
#
# The course comes with 50,000 collision events, and in them about 71,000 muons. Each has a transverse
# momentum `pt` in GeV. To add them all up, we start one GPU thread per muon and have each thread add
# its own number to one total. Run the cell.
#
# (The events are simulated by `gpucourse.data`, because then nothing has to be downloaded and everybody has the same
# ones. The real ones: [record 12341 of CMS Open Data](https://opendata.cern.ch/record/12341), 2.2 GB, which
# `gpucourse data fetch` brings.)

# %% id="the-question"
# %load_ext gpucourse
import math

import awkward as ak
import numpy as np
import virtualgpu
from gpucourse.exercises.checks import lecture
from gpucourse.exercises.predictions import predictions
from gpucourse.data import dimuons
from numba import cuda, float32, float64

check, hint = lecture("06_thinking_in_threads")
predict = predictions("06_thinking_in_threads")

muons = dimuons().muons
muon_pt = ak.to_numpy(ak.flatten(muons.pt))
d_muon_pt = cuda.to_device(muon_pt)  # d_: lives in the memory of the device


@cuda.jit
def add_all(values, total):
    i = cuda.grid(1)  # which thread am I?
    if i < values.size:
        total[0] += values[i]


d_total = cuda.to_device(np.zeros(1))
add_all[555, 128](d_muon_pt, d_total)  # 555 × 128 threads: enough for every muon

print(f"NumPy:   {muon_pt.sum(dtype=np.float64):12,.1f} GeV from {muon_pt.size:,} muons")
print(f"threads: {d_total.copy_to_host()[0]:12,.1f} GeV")

# %% [markdown] id="the-question-stands"
# There's no error and no warning, yet nearly all of it is missing. Every muon had its thread, and every thread ran
# the line that adds. **So where did the momentum go?**
#
# You will find the line that loses it, have a machine point at it, and mend it: first somehow, then
# properly. That is the first part, sections 1 to 8. The second, sections 9 to 13, is about kernels that are
# right and slow, and about seeing why; its last two sections are for when there is time.

# %% [markdown] id="who-am-i-predict" tags=["predict"]
# ## 1. Who am I?
#
# What the cell did: `@cuda.jit` compiles a Python function for the GPU when it is first launched. A GPU
# has a memory of its own: `cuda.to_device` copies an array there, `copy_to_host` copies one back, and
# `cuda.device_array` reserves room for one without filling it.
#
# The function is a **kernel**: every thread runs it from top to bottom. It has no loop over the data, for
# the launch is the loop. `kernel[blocks, threads_per_block](…)` starts `blocks` groups, called
# **blocks**, of `threads_per_block` **threads** each; all blocks together are the **grid**.
#
# *Predict:* launched as `sign_in[2, 4]`, how often does the body of this kernel run: 2, 4 or 8 times?
# (Settle on an answer before you run a cell. The wrong ones teach most.)

# %% id="who-am-i-guess"
predict("who-am-i", "2", "4", "8")

# %% id="who-am-i"
from gpucourse.views.threads import draw_lanes, draw_threads, draw_visits
from gpucourse.views.tree import draw_levels  # they draw what your kernels wrote


@cuda.jit
def sign_in(block, thread):
    i = cuda.grid(1)
    block[i] = cuda.blockIdx.x
    thread[i] = cuda.threadIdx.x


d_block = cuda.to_device(np.full(8, -1))
d_thread = cuda.to_device(np.full(8, -1))
sign_in[2, 4](d_block, d_thread)
draw_threads(d_block.copy_to_host(), d_thread.copy_to_host())

# %% [markdown] id="who-am-i-why" tags=["why"]
# Eight: two blocks of four.

# %% [markdown] id="who-am-i-then"
# All threads run the same text, and only three numbers tell them apart:
#
# | | |
# |---|---|
# | `cuda.blockIdx.x` | which block I am in |
# | `cuda.threadIdx.x` | which thread of my block I am: it starts again from 0 in every block |
# | `cuda.blockDim.x` | how many threads a block has |
#
# `cuda.grid(1)` is short for `cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x`: one number for
# each thread of the grid (the 1 stands for one dimension). With it, a thread finds *its* element. A
# block has at most 1024 threads; a grid may have two thousand million blocks.

# %% [markdown] id="loose-threads-predict" tags=["predict"]
# Blocks come whole, so the threads rarely match the data. There are 71,009 muons; with blocks of 128,
# 555 blocks are needed.
#
# Here is a kernel that does something useful: the energy of a muon follows from its `pt` and its `eta`, the
# pseudorapidity, which says how far forward it flies (0 is straight across the beam).
#
# *Predict:* 555 × 128 is 71,040. What do the last 31 threads do?

# %% id="energies-guess"
predict("energies",
        "they find no element, and end",
        "they take the last element again",
        "they write past the end")

# %% id="energies"
muon_eta = ak.to_numpy(ak.flatten(muons.eta))
d_muon_eta = cuda.to_device(muon_eta)


@cuda.jit
def energies(pt, eta, energy):
    i = cuda.grid(1)
    if i < pt.size:
        energy[i] = pt[i] * math.cosh(eta[i])  # GeV; a muon's mass hardly matters here


d_energy = cuda.device_array(muon_pt.size, np.float32)
energies[555, 128](d_muon_pt, d_muon_eta, d_energy)
print("NumPy agrees:", np.allclose(d_energy.copy_to_host(), muon_pt * np.cosh(muon_eta)))

# %% [markdown] id="loose-threads-why" tags=["why"]
# They ask `if i < pt.size`, find no element, and end. We call them *loose threads*; that `if` is the
# **bounds guard**.

# %% [markdown] id="launch-shape-task"
# ### Exercise: the shape of a launch
#
# Write the function that every launch needs: for `n` elements and blocks of `threads` threads, how many
# blocks are just enough, and how many threads will be loose? (No elements need no block.)
#
# Run the check as often as you like. `hint("launch-shape")` gives a first hint, and called again, a
# second one.

# %% id="launch-shape-exercise" tags=["exercise"]
def launch_shape(n, threads):
    """(blocks, loose threads) to give each of n elements a thread."""
    blocks, loose = None, None
    ### BEGIN SOLUTION
    blocks = (n + threads - 1) // threads
    loose = blocks * threads - n
    ### END SOLUTION
    return blocks, loose


# %% id="launch-shape-check"
check("launch-shape", launch_shape)

# %% [markdown] id="guard-predict" tags=["predict"]
# ## 2. A kernel that reaches too far
#
# The same kernel without its guard. *Predict:* will it (a) give wrong energies, (b) give right energies
# and stop with an error, or (c) give right energies and say nothing?
#
# `with virtualgpu.check():` runs the launches inside it on the virtual GPU and watches every access to
# memory, also on a machine that has a real GPU.

# %% id="guard-missing-guess"
predict("guard-missing",
        "wrong energies",
        "right energies, and an error",
        "right energies, and nothing is said")

# %% id="guard-missing" raises="MemoryAccessError"
@cuda.jit
def energies_unguarded(pt, eta, energy):
    i = cuda.grid(1)
    energy[i] = pt[i] * math.cosh(eta[i])


with virtualgpu.check():
    energies_unguarded[555, 128](d_muon_pt, d_muon_eta, d_energy)

# %% [markdown] id="guard-missing-why" tags=["why"]
# Read the message from the end. The last lines say *where*: kernel, line, thread and block. Block 554
# is the last one, and its thread 97 is the first loose thread: 554 × 128 + 97 = 71,009, one past the
# last index. Before them stands *what*: it reads `pt[71009]` of 71009 elements, and 30 more threads do
# likewise.
#
# The virtual GPU stops at once. A real one may stop too ("illegal address"), some time after the launch
# and without naming a thread; or the 31 threads read and write whatever lies there. Then all three
# answers can come true. "It ran" does not mean that the guard is not needed.

# %% [markdown] id="gaps-task"
# ### Exercise: a guard that fits
#
# Write the body of `gaps`, NumPy's `np.diff`: `out[i] = values[i + 1] - values[i]` for every `i` for
# which that makes sense. `out` is one shorter than `values`. The check launches more threads than there
# are elements.

# %% id="gaps-exercise" tags=["exercise"]
@cuda.jit
def gaps(values, out):
    i = cuda.grid(1)
    ### BEGIN SOLUTION
    if i + 1 < values.size:
        out[i] = values[i + 1] - values[i]
    ### END SOLUTION


# %% id="gaps-check"
check("bounds-guard", gaps)

# %% [markdown] id="stride-predict" tags=["predict"]
# ## 3. More work than threads
#
# So far the data decided how many threads there are. The other way round is often better: choose a
# launch, and let each thread take elements until none is left. It starts at its own number and goes on
# by `cuda.gridsize(1)`, the number of all threads. That is the **grid-stride loop**, and it is its own
# guard.
#
# *Predict:* eight threads share 20 elements in this way. Which elements does thread 5 take?

# %% id="stride-guess"
predict("stride", "5", "5, 6 and 7", "5 and 13", "5, 9, 13 and 17")

# %% id="stride"
@cuda.jit
def who_visits(turn):
    me = cuda.grid(1)
    count = 0
    for i in range(me, turn.shape[1], cuda.gridsize(1)):
        count += 1
        turn[me, i] = count


d_turn = cuda.to_device(np.zeros((8, 20), np.int64))
who_visits[2, 4](d_turn)
draw_visits(d_turn.copy_to_host())

# %% [markdown] id="stride-why" tags=["why"]
# Elements 5 and 13, in its first turn and its second (the numbers in the picture). Look along a column:
# every element has one visitor. Look at one colour: in each turn, neighbouring threads stand at
# neighbouring elements, which is how the memory of a GPU likes to be read.

# %% [markdown] id="stride-then"
# Now something real. Each thread adds up its own share and writes the sum to **its own place**, so no
# thread can disturb another. NumPy then adds the 4,096 partial sums.

# %% id="partial-sums"
@cuda.jit
def partial_sums(values, partial):
    me = cuda.grid(1)
    mine = 0.0
    for i in range(me, values.size, cuda.gridsize(1)):
        mine += values[i]
    partial[me] = mine


d_partial = cuda.device_array(32 * 128)
partial_sums[32, 128](d_muon_pt, d_partial)
print(f"NumPy:   {muon_pt.sum(dtype=np.float64):12,.1f} GeV")
print(f"threads: {d_partial.copy_to_host().sum():12,.1f} GeV")

# %% [markdown] id="stride-broken-predict" tags=["predict"]
# The first right answer. Its weak spot is the last step: 4,096 numbers were left to the CPU.
#
# Break the loop on purpose: stride by `cuda.blockDim.x`, the threads of *one* block, instead of all.
# *Predict:* which elements are then visited twice?

# %% id="stride-broken-guess"
predict("stride-broken", "none", "all from element 4 on", "all of them")

# %% id="stride-broken"
@cuda.jit
def who_visits_too_often(turn):
    me = cuda.grid(1)
    count = 0
    for i in range(me, turn.shape[1], cuda.blockDim.x):
        count += 1
        turn[me, i] = count


d_turn = cuda.to_device(np.zeros((8, 20), np.int64))
who_visits_too_often[2, 4](d_turn)
draw_visits(d_turn.copy_to_host())

# %% [markdown] id="stride-broken-why" tags=["why"]
# All from element 4 on: each block now walks to the end as if it were alone. With one block the mistake
# does not show, so always try more than one.

# %% [markdown] id="grid-stride-task"
# ### Exercise: count the hard muons
#
# *Hard* means: with much `pt`. Each thread counts the values above `cut` in its own share and writes the
# number to its own place in `counts`, which has one place per thread. `counts` comes from
# `cuda.device_array`: what it holds before is anybody's guess.

# %% id="grid-stride-exercise" tags=["exercise"]
@cuda.jit
def count_above(values, cut, counts):
    me = cuda.grid(1)
    ### BEGIN SOLUTION
    mine = 0
    for i in range(me, values.size, cuda.gridsize(1)):
        if values[i] > cut:
            mine += 1
    counts[me] = mine
    ### END SOLUTION


# %% id="grid-stride-check"
check("grid-stride", count_above)

# %% [markdown] id="order-predict" tags=["predict"]
# ## 4. Races
#
# Back to the missing momentum. One question first: *who goes first?*
#
# In this kernel each thread draws a ticket from a machine that never gives a number twice (the next
# section explains it). *Predict:* which thread draws the first ticket?
#
# `virtualgpu.schedule(seed)` lets the warps (groups of 32 threads) and the threads of a warp take turns
# in a random order, one that a real GPU could take too.

# %% id="order-guess"
predict("order", "thread 0, always", "thread 0 often, others too", "each thread equally often")

# %% id="order"
@cuda.jit
def draw_ticket(next_ticket, drawn_by):
    ticket = cuda.atomic.add(next_ticket, 0, 1)
    drawn_by[ticket] = cuda.grid(1)


first_threads = []
for seed in range(12):
    d_next = cuda.to_device(np.zeros(1, np.int64))
    d_drawn_by = cuda.device_array(512, np.int64)
    with virtualgpu.schedule(seed):
        draw_ticket[8, 64](d_next, d_drawn_by)
    first_threads.append(int(d_drawn_by[0]))
print("in twelve orders, the first ticket went to threads", first_threads)

# %% [markdown] id="order-why" tags=["why"]
# Often thread 0, but not always: CUDA promises no order between threads or between blocks. What
# holds is only this: *inside one thread*, one line comes after the other.

# %% [markdown] id="order-then"
# And a line is not the smallest step. `total[0] += value` is three: **load** the total, **add**,
# **store** the result. In between, other threads take steps of their own.
#
# Let us step two threads through by hand. A adds 1, B adds 2, and the total starts at 10. Each letter
# of `order` lets that thread take its next step.

# %% id="interleave"
def replay(order):
    """Step threads A (adds 1) and B (adds 2) through load, add, store; returns the total."""
    total, adds, sees, step = 10, {"A": 1, "B": 2}, {}, {"A": 0, "B": 0}
    for thread in order:
        what = ("load", "add", "store")[step[thread]]
        if what == "load":
            sees[thread] = total
        elif what == "add":
            sees[thread] += adds[thread]
        else:
            total = sees[thread]
        step[thread] += 1
        print(f"  {thread} {what:5}  {thread} holds {sees[thread]}, the total is {total}")
    return total


print("one after the other:")
replay("AAABBB")
print("interleaved:")
replay("ABAABB");

# %% [markdown] id="lost-update-task"
# ### Exercise: lose the other update
#
# In the second order, A's 1 was lost: B had loaded the total before A stored. Find an `order` that loses
# B's 2 instead, so that 11 is left. And which totals are `possible` over all orders? Write the set.

# %% id="lost-update-exercise" tags=["exercise"]
order = None
possible = None
### BEGIN SOLUTION
order = "ABABBA"  # both load 10; B stores 12, then A stores 11 over it
possible = {11, 12, 13}
### END SOLUTION

# %% id="lost-update-check"
check("lost-update", order, possible)

# %% [markdown] id="machine-replays-text"
# Now let the machine do it: the same two threads, one in each block, in 40 orders.

# %% id="machine-replays"
@cuda.jit
def add_one_or_two(total):
    total[0] += cuda.grid(1) + 1


ended_at = {}
for seed in range(40):
    d_total = cuda.to_device(np.array([10]))
    with virtualgpu.schedule(seed):
        add_one_or_two[2, 1](d_total)
    total = int(d_total.copy_to_host()[0])
    ended_at[total] = ended_at.get(total, 0) + 1
print("total: how often", ended_at)

# %% [markdown] id="race-text"
# The same program each time, and not the same answer. (Your set holds all that a real GPU may answer, and
# in forty orders each of them came up.) This is a **race**: two threads touch the same address, at least one
# of them writes, and nothing says who is first. A rare race is the worst kind: it passes every test until
# the day it matters.
#
# So do not wait for a wrong answer. `virtualgpu.check()` watches which threads touch which address, and
# reports a race even when the answer happens to be right. Here is the kernel from the beginning.

# %% id="race-found"
d_total = cuda.to_device(np.zeros(1))
with virtualgpu.check() as report:
    add_all[555, 128](d_muon_pt, d_total)
print(report)

# %% [markdown] id="race-replayed-text"
# The same kernel with two muons and two threads. Step through it with the buttons above the picture; before
# the last step, say what will stand in `total[0]`.

# %% id="race-replayed"
import gpucourse

gpucourse.race(add_all, 2, 1, np.array([30.0, 12.0]), np.zeros(1))

# %% [markdown] id="race-found-why"
# The report names the line, and two of the threads that collide in it. This is where the momentum went:
# thousands of threads loaded the same total, each added its one muon, and each store wiped out those
# before.
#
# `partial_sums` has no race: there, every thread has a place of its own. That was the first way to mend
# it. Here is the second.

# %% [markdown] id="atomic-predict" tags=["predict"]
# ## 5. Atomics: one step instead of three
#
# `cuda.atomic.add(array, index, value)` makes load, add and store one step that no other thread can
# interrupt. It returns the value from before, so each caller gets a different one: that was the
# ticket machine.
#
# *Predict:* will the sum be right? Will it be the same for every order of the threads?

# %% id="atomic-guess"
predict("atomic",
        "right, but another in each order",
        "right, and the same in each order",
        "wrong in some orders")

# %% id="atomic"
@cuda.jit
def add_all_atomic(values, total):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(total, 0, values[i])


for seed in (1, 2, 3):
    d_total = cuda.to_device(np.zeros(1))
    with virtualgpu.schedule(seed):
        add_all_atomic[555, 128](d_muon_pt, d_total)
    print(f"order {seed}: {d_total.copy_to_host()[0]:,.3f} GeV")

# %% [markdown] id="atomic-why" tags=["why"]
# Right, three times, and the same each time.

# %% [markdown] id="atomic-broken-predict" tags=["predict"]
# Now the same with the total as a `float32`, which carries about seven digits.
# *Predict:* what changes?

# %% id="atomic-float32-guess"
predict("atomic-float32", "nothing", "updates get lost again", "another sum in each order")

# %% id="atomic-float32"
for seed in (1, 2, 3):
    d_total = cuda.to_device(np.zeros(1, np.float32))
    with virtualgpu.schedule(seed):
        add_all_atomic[555, 128](d_muon_pt, d_total)
    print(f"order {seed}: {d_total.copy_to_host()[0]:,.3f} GeV")

# %% [markdown] id="atomic-float32-why" tags=["why"]
# No update is lost, and yet each order gives another sum, off by up to several GeV. Each addition rounds, and
# what it rounds away depends on what is in the total already: for floats, (a + b) + c need not be
# a + (b + c). Atomics make each step whole; they do not make an order. (The `float64` total had
# room for every digit: each of these values has 24 bits, and their sum still fits into 53.)

# %% [markdown] id="atomic-float32-then"
# So compare sums of floats with a tolerance, and add into a wider type where you can.

# %% [markdown] id="check-then-act-task"
# ### Exercise: the hardest muon
#
# A race needs no `+=`. Here two threads may both look at `best[0]`, both find themselves harder, and
# the lesser one may store last:
#
# ```python
# if i < values.size and values[i] > best[0]:
#     best[0] = values[i]
# ```
#
# Write `hardest` so that it is right in every order. `best[0]` starts at minus infinity. There is an
# atomic for that: [the list](https://nvidia.github.io/numba-cuda/user/intrinsics.html).

# %% id="check-then-act-exercise" tags=["exercise"]
@cuda.jit
def hardest(values, best):
    i = cuda.grid(1)
    ### BEGIN SOLUTION
    if i < values.size:
        cuda.atomic.max(best, 0, values[i])
    ### END SOLUTION


# %% id="check-then-act-check"
check("check-then-act", hardest)

# %% [markdown] id="tree-predict" tags=["predict"]
# ## 6. A tree of sums
#
# The atomic total is right, but all 71,009 threads queue at one address: what was to be done in parallel
# is done one after the other.
#
# A **tree reduction** needs no queue. Fold the array in the middle and add the upper half onto the lower
# half; then fold the half that is left; go on until one value is left. In each fold, no two threads touch
# the same element.
#
# `half` rounds up, so that with an odd number the one in the middle stays where it is.
# *Predict:* how many launches does it take to fold 13 numbers?

# %% id="tree-guess"
predict("tree", "3", "4", "12")

# %% id="tree"
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
# Four: 13 values become 7, then 4, 2 and 1. The picture shows the muons in the first 13 events, as your kernel
# left them after each launch. Twice as many values need only one launch more.

# %% [markdown] id="tree-then"
# All 71,009 muons:

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

# %% [markdown] id="tree-real-why" tags=["predict"]
# A bonus: the tree adds numbers of similar size, so it loses less to rounding than a long queue does, where small
# numbers meet a large total. (NumPy's own `sum` works in a similar way.)
#
# Now break it, twice. First, a fold that *rounds down*, as many published ones do. *Predict:* for which
# lengths is it right?

# %% id="tree-broken-guess"
predict("tree-broken", "for even lengths", "for powers of two", "for all")

# %% id="tree-broken"
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

# %% [markdown] id="tree-broken-why" tags=["why"]
# Only for powers of two: at every odd length, the last value falls off (dashed). Tests with 64, 128 and
# 1024 elements all pass.

# %% [markdown] id="tree-one-launch-predict" tags=["predict"]
# Second: 17 launches look like a waste. Put the whole loop into the kernel and launch once.
# *Predict:* right or wrong?

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
# Wrong, and another wrong in each order. A thread that has finished its level goes on to the next, and
# reads values that others have not yet added up. An atomic would not help: no two threads write to the
# same element at the same level. They must *wait for each other* between levels, and the end of a launch
# does just that: the next launch begins when every thread of the last one is done, in every block. In an
# ordinary kernel, nothing else makes the whole grid wait.

# %% [markdown] id="fold-task"
# ### Exercise: fold towards the Z
#
# A tree works for any operation where neither order nor grouping matters. Write a fold that keeps, of the two
# values, the one closer to `target` (of two equally close ones, either will do). At the end, the first
# element is the mass closest to that of the Z boson.

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

# %% [markdown] id="shared-text"
# ## 7. Shared memory and barriers
#
# Threads of *one block* can wait for each other without a new launch: `cuda.syncthreads()` is a
# **barrier**, where each thread stops until all threads *of its block* have come. And they have a small,
# fast memory in common, **shared memory**: `cuda.shared.array(size, type)`, the size fixed when the
# kernel is compiled.
#
# ![A grid with two blocks. Each thread has its own local variables. Each block has a shared memory of its
# own, which only its threads reach, and syncthreads waits for the threads of that block alone. All
# blocks reach the one global memory, where arrays live; only the end of the launch waits for the whole
# grid.](../img/who_sees_what.svg)
#
# So each block can fold its own 128 values down to one: no launches, and no trips to the slow global
# memory in between. With eight values it looks like this:
#
# ![Eight values 3, 1, 7, 0, 4, 1, 6, 3 in shared memory. In the first step threads 0 to 3 add what lies four
# places on: 7, 2, 13, 3. In the second, threads 0 and 1 add what lies two places on: 20, 5. In the third,
# thread 0 adds its neighbour: 25. A barrier after each step sees to it that a sum is complete before another
# thread reads it.](../img/tree_reduction.svg)

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
    print(f"{n:6,} values → {blocks} block sums")
    n, d_values = blocks, d_sums
print(f"{d_values.copy_to_host()[0]:,.1f} GeV")

# %% [markdown] id="shared-why"
# Three launches instead of 17. Note three things in the kernel:
#
# - A loose thread does not leave. It puts a 0, which changes no sum, into its place, and goes on: it has
#   to come to the barriers like all others.
# - `if` around the *adding*, never around the barrier.
# - Only one thread writes the result.

# %% [markdown] id="barrier-predict" tags=["predict"]
# Let us break it three times. First, without the barrier after the filling. *Predict:* will the sum be
# wrong?

# %% id="barrier-missing-guess"
predict("barrier-missing",
        "wrong, each time",
        "right as it comes, wrong in another order",
        "right, always: each thread fills its place first")

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
# As it comes, the answer is right: on the virtual GPU all warps go at the same pace unless a schedule
# says otherwise, and on a real one they often do. In another order, a thread adds a place that its owner
# has not filled yet. What it finds there is left over from something else: **shared memory does not start
# at zero** (the virtual GPU fills it with absurd numbers, so that you notice). The report names the two
# lines that a barrier must separate.

# %% [markdown] id="early-return-predict" tags=["predict"]
# Second, a loose thread that leaves early. *Predict:* 129 values in two blocks. Which block is wrong?

# %% id="early-return-guess"
predict("early-return", "block 0", "block 1", "both")

# %% id="early-return"
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

# %% [markdown] id="early-return-why" tags=["why"]
# Block 0 is full, so its sum is right. Block 1 had one value and 127 threads that left. The first two findings
# say so: at both barriers, one thread waits for threads that have ended. Every thread of a block must
# come to a barrier; a GPU that goes on regardless, as this one does, is being kind. The third finding is
# where the absurd number comes from: 127 of the places were never filled, and the fold reads them.

# %% [markdown] id="barrier-in-if-predict" tags=["predict"]
# Third, two lines that look as if they belonged together. *Predict:* will the sum be wrong?

# %% id="barrier-in-if-guess"
predict("barrier-in-if",
        "the sum is wrong",
        "the sum is right, and the program wrong",
        "the sum is right, and all is well")

# %% id="barrier-in-if"
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

# %% [markdown] id="barrier-in-if-why" tags=["why"]
# The sum is right, and the program is wrong. At the first level, half of the threads have no partner:
# they skip the barrier, go round the loop and end, while the others wait. This is called a *divergent
# barrier*. CUDA leaves open what happens then: a real GPU may go on, mix up two barriers, or hang. So
# guard the work, not the barrier.

# %% [markdown] id="block-max-task"
# ### Exercise: the maximum of a block
#
# Write `block_maxima`: `maxima[b]` is the largest of the values of block `b`. Fold in shared memory. The
# check tries any length, negative values, and blocks of any size up to 128 (so use `cuda.blockDim.x` for
# the number of places in use). `-math.inf` works in a kernel.

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
# ## 8. All of it in one kernel
#
# Everything so far, in its place: the grid-stride loop gives each thread a share, which it adds up
# alone; the threads of a block fold their sums in shared memory; and one thread of each block adds the
# block's sum to the total, with an atomic. One launch, any length, no race: this is how the kernel from the beginning
# is mended in practice.

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
# How much better is it? Not by the clock: the time that a CPU takes to play a GPU says nothing.
# `virtualgpu.profile()` *counts* what a launch does; the counts are exact, and the same on each run.
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
# 32 atomics, one for each block, instead of 71,009; one launch instead of 17; and each muon is read once,
# which is the least that a sum can do. Such counts tell you *why* a kernel is slow, on any machine.

# %% [markdown] id="count-then"
# And by the clock of a real GPU? Recorded times of these kernels, of one with shuffles (section 12), and of libraries,
# for an array far larger than any cache (rows `reduction`); or a line that says that nobody has measured yet:

# %% id="recorded"
from gpucourse.views.measured import recorded_times

recorded_times("reduction")

# %% [markdown] id="divergence-predict" tags=["predict"]
# ## 9. Divergence: when lanes part
#
# Part two: the kernels are right from here on. Are they fast?
#
# The hardware runs threads in **warps** of 32. The threads of a warp, its **lanes**, share one
# instruction at a time. So a thread is less like a thread of a CPU, which goes its own way, and more like one
# number in a vector register.
#
# *Predict:* at an `if`, half of a warp's lanes go one way and half the other. Does the warp run one of the
# two ways, or both?
#
# In this kernel the ways alternate: with `run = 1` from thread to thread, with `run = 32` from warp to
# warp.

# %% id="branches-guess"
predict("branches",
        "one: the way of the majority",
        "each lane runs its own way, all at once",
        "both, one after the other")

# %% id="branches"
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
# Both: where lanes part, the warp runs one way with the others masked off, then the other way. Where a whole
# warp goes one way, it runs only that.

# %% [markdown] id="branches-picture-text"
# Here are two warps of that kernel, step by step: on the left the ways alternate from thread to thread, on the
# right from warp to warp. Each band is a warp, 32 lanes high; pale lanes are doing nothing.

# %% id="branches-picture"
sixty_four = muon_pt[:64].astype(np.float64)
gpucourse.beside(*(
    gpucourse.timeline(two_ways, 1, 64, sixty_four, run, np.zeros(64), steps=60) for run in (1, 32)
))

# %% [markdown] id="divergence-why"
# Both, one after the other. During each, the lanes that went the other way are **masked**: they sit it
# out. That is **divergence**. From `run = 32` on, all lanes of a warp agree, and it skips the other way: the
# same answer with fewer instructions, and no lane idle. Divergence is slow but not wrong, as long as no
# barrier stands in one of the ways.

# %% [markdown] id="short-if-predict" tags=["predict"]
# Should you avoid every `if`, then? Here is one that sets negative numbers to zero. Half of the values are
# negative, at random. *Predict:* at how many of the 128 warps' `if`s do the lanes part?

# %% id="short-if-guess"
predict("short-if", "at nearly all", "at half of them", "at none")

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
# At none. The compiler saw that both ways are short, and made one instruction of them, `selp`: *select by a
# predicate*. Every lane computes both values and keeps one, which is what masking comes to, without the
# branch. Divergence costs where the ways are long.

# %% [markdown] id="short-if-then"
# A loop diverges too: a warp goes round until its *busiest* lane is done. Let each thread take one
# event and add up its muons, of which an event has 0 to 7.

# %% id="divergence"
first_muon = cuda.to_device(np.concatenate([[0], np.cumsum(muons_per_event)]))


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
    """Sums of pt per event, and the turns that each thread took."""
    d_sums, d_turns = cuda.device_array(order.size), cuda.device_array(order.size, np.int64)
    blocks = (order.size + 127) // 128
    event_sums[blocks, 128](first_muon, d_muon_pt, cuda.to_device(order), d_sums, d_turns)
    return d_sums.copy_to_host(), d_turns.copy_to_host()


as_recorded = np.arange(muons_per_event.size)
sums, turns = run_events(as_recorded)
draw_lanes(turns[:64], per="muon")

# %% [markdown] id="lanes-task"
# Blue is work, grey is waiting. A slow lane does not pay alone: all 32 do.
#
# ### Exercise: what divergence costs
#
# Given the turns that each thread needs, in the order of the threads, count the turns that are `useful`
# (blue) and those that are `paid` for (blue and grey: 32 lanes for every turn of a warp; a last warp that
# is not full has 32 lanes all the same).

# %% id="lanes-exercise" tags=["exercise"]
def lane_turns(work):
    """(useful, paid) turns for an array with the turns that each thread needs."""
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

# %% [markdown] id="sorted-predict" tags=["predict"]
# The same events, sorted by their number of muons, so that the lanes of a warp get equally long ones.
# *Predict:* do the sums change? Does the cost?

# %% id="sorted-guess"
predict("sorted",
        "the sums change, and the cost",
        "the sums stay, the cost falls",
        "neither: it's the same work")

# %% id="sorted"
by_length = np.argsort(muons_per_event, kind="stable")
for name, order_of_events in (("as recorded", as_recorded), ("sorted", by_length)):
    again, turns = run_events(order_of_events)
    print(f"{name:12} same sums: {np.array_equal(again, sums)}; (useful, paid) =", lane_turns(turns))
draw_lanes(run_events(by_length)[1][26_656:26_720], per="muon", first=26_656)

# %% [markdown] id="sorted-why" tags=["why"]
# The sums are the same to the last bit; what is paid for fell from more than twice the useful turns to
# hardly more than those. The picture shows where, in the sorted list, the events with one muon end and
# those with two begin. Sorting is not free either: it pays where the work of a thread is long and uneven.

# %% [markdown] id="shares-predict" tags=["predict"]
# ## 10. Coalescing: reading side by side
#
# In section 3 the threads walked through the muons side by side: with 4,096 threads, thread 0 took elements
# 0, 4096, 8192 and so on. On a CPU one would rather give each thread a share that hangs together: thread 0
# takes elements 0 to 17, thread 1 takes 18 to 35. Each core then reads its own stretch of memory from front
# to back.
#
# Memory moves in **sectors** of 32 bytes, eight `float32` numbers. *Predict:* which of the two moves more
# sectors on a GPU, and how many times as many?

# %% id="shares-guess"
predict("shares",
        "the same: each number is read once",
        "side by side, twice as many",
        "the shares, eight times as many")

# %% id="shares"
@cuda.jit
def sums_of_shares(values, partial):
    me = cuda.grid(1)
    share = (values.size + cuda.gridsize(1) - 1) // cuda.gridsize(1)
    mine = 0.0
    for i in range(me * share, min((me + 1) * share, values.size)):
        mine += values[i]
    partial[me] = mine


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
# The shares move eight times as much. When a warp loads, its 32 lanes ask at the same moment, and the
# hardware gathers what they ask for into as few sectors as it can. Side by side, 32 numbers fill 4 sectors, and
# nothing is moved in vain: the access is **coalesced**. In shares, each lane asks for a number of its own
# sector, and seven eighths of what moves is not wanted *now*.
#
# ![Two patterns of eight threads that read four-byte numbers. Above, thread i reads element i: all eight lie in
# one sector of 32 bytes, and one sector moves. Below, thread i reads element 8 i: each lies in a sector of its
# own, so eight sectors move and seven eighths of the bytes are thrown away.](../img/coalescing.svg)
#
# It will be wanted next: is there no cache? There is, but a small one for so many. A core of a CPU keeps some
# tens of kB in its first cache and a megabyte or so in the second, for one thread or two. A multiprocessor of an
# H100 has 256 kB for up to 2,048 threads: 128 bytes each, if shared memory takes nothing from it. What a lane
# has fetched may be gone before it comes back. (The counts here know no cache: every sector counts. A real GPU
# gets some of them from its caches, and a profiler tells how many.)
#
# Nor does a GPU guess ahead, as a CPU does when it predicts branches and runs on before it knows. It has
# something else to do while a warp waits: another warp. So arrange the work for the *warp*: in one
# instruction, neighbouring lanes, neighbouring addresses. Here is the card of the slow one; look at which line
# is dark.

# %% id="shares-card"
gpucourse.report(sums_of_shares, 32, 128, muon_pt, np.zeros(4096))

# %% [markdown] id="records-predict" tags=["predict"]
# The most common way to lose coalescing is a table. Here are the muons as rows of four numbers (`pt`, `eta`,
# `phi`, charge), as one would write them into a file, and as four columns.
#
# *Predict:* a kernel adds up only `pt`. How many times as many sectors does it move from the rows?

# %% id="records-guess"
predict("records", "the same: it reads only pt", "four times", "eight times")

# %% id="records"
rows = np.column_stack([ak.to_numpy(ak.flatten(muons[name])) for name in
                        ("pt", "eta", "phi", "charge")]).astype(np.float32)
d_rows = cuda.to_device(rows)
d_columns = cuda.to_device(np.ascontiguousarray(rows.T))
for name, column in (("rows", d_rows[:, 0]), ("columns", d_columns[0])):
    with virtualgpu.profile() as profile:
        partial_sums[32, 128](column, d_partial)
    print(f"from {name:8} {profile.counters.global_load_sectors:7,} sectors,",
          f"{d_partial.copy_to_host().sum():,.1f} GeV")

# %% [markdown] id="records-why" tags=["why"]
# Four times: the `eta`, `phi` and charge of each muon come along for nothing. Awkward Arrays, cuDF and Parquet
# files keep each column by itself, and this is one reason. The other question is how to *turn* a table from
# rows into columns: a warp that reads a row side by side writes down a column, far apart, and the other way
# round. The way out is shared memory, and shared memory has a trap of its own.

# %% [markdown] id="banks-predict" tags=["predict"]
# ## 11. Bank conflicts
#
# Shared memory has no sectors. It has 32 **banks**: the word of 4 bytes with the number `k` lies in bank
# `k % 32`, and each bank hands out one word in a turn. If two lanes want different words of the same bank,
# one of them waits. (If they want the same word, both get it.)
#
# Two ways to fold 128 numbers, both right. One adds the far half onto the near half, as in section 7; the
# other adds neighbours, then neighbours of neighbours. *Predict:* which has bank conflicts?

# %% id="banks-guess"
predict("banks", "the far half: its words lie far apart", "the neighbours", "both")

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
print(f"{'':18}{'requests':>10}{'turns':>8}{'conflicts':>11}")
for kernel in (fold_halves, fold_neighbours):
    with virtualgpu.profile() as profile:
        kernel[554, THREADS](full, d_sums)
    counts = profile.counters
    requests = counts.shared_load_requests + counts.shared_store_requests
    turns = counts.shared_load_wavefronts + counts.shared_store_wavefronts
    print(f"{kernel.py_func.__name__:18}{requests:10,}{turns:8,}{turns - requests:11,}")

some = muon_pt[:THREADS]
gpucourse.beside(*(
    gpucourse.memory(kernel, 1, THREADS, some, np.zeros(1, np.float32), array="shared", steps=10)
    for kernel in (fold_halves, fold_neighbours)
))

# %% [markdown] id="banks-why" tags=["why"]
# The neighbours. In their first level lane `t` wants word `2t`: lanes 0 and 16 both want bank 0, and so on, so
# every request takes two turns; in the second level four. Click on requests 3 and 9 to see the rows pile up. In the
# other fold, lane `t` wants word `t`, and each lane has a bank to itself.

# %% [markdown] id="padding-predict" tags=["predict"]
# The worst case is the column of a square tile. In an array of 32 × 32 words, `tile[0, 3]`, `tile[1, 3]`,
# `tile[2, 3]` … lie 32 words apart: all in bank 3. A warp that reads a column takes 32 turns. *Predict:*
# what becomes of it if the tile is declared with 33 columns, of which the last is never used?

# %% id="padding-guess"
predict("padding", "still 32 turns: the last column is unused", "2 turns", "1 turn")

# %% id="padding"
bank = np.arange(32 * 32).reshape(32, 32) % 32
padded = np.arange(32 * 33).reshape(32, 33) % 32
print("32 columns: the banks of tile[:, 3] are", *bank[:, 3])
print("33 columns: the banks of tile[:, 3] are", *padded[:, 3])

# %% [markdown] id="padding-why" tags=["why"]
# One turn. 33 is one more than 32, so each row begins one bank further than the row above it: the words of a
# column lie in 32 different banks.

# %% [markdown] id="turn-task"
# ### Exercise: turn a table
#
# Write `turn`: `turned[j, i] = table[i, j]`, for tables of any size. Reading *and* writing must be coalesced,
# and no bank may be in conflict. Below is the plain way, whose writes are scattered.
#
# The way out: a block of 32 × 32 threads reads a tile of the table side by side into shared memory, waits,
# and writes it as a tile of the turned table, side by side again. The check counts sectors and conflicts.

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

# %% [markdown] id="shuffle-predict" tags=["predict"]
# ## 12. Shuffles (if there is time)
#
# The 32 lanes of a warp go together, so they can hand each other numbers without any memory between:
# `cuda.shfl_down_sync(mask, value, k)` gives each lane the `value` of the lane `k` further on. `mask` says which
# lanes take part, a bit for each: `0xFFFFFFFF` is all 32.
#
# The fold of a tree, then, needs neither shared memory nor barriers within a warp. *Predict:* how many shuffles
# does it take, and which lane has the sum at the end?

# %% id="shuffle-guess"
predict("shuffle", "31, and every lane", "5, and every lane", "5, and lane 0")

# %% id="shuffle"
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
# Five, and lane 0. (The picture leaves out the upper lanes: they get sums too, which aren't used. A lane
# that asks beyond the end of the warp gets its own value back.)

# %% [markdown] id="shuffle-then"
# Now the sum of all muons. Each thread adds up its share, side by side; each warp folds by shuffles; and one
# lane of each warp adds to the total.

# %% id="shuffle-real"
@cuda.jit
def sum_by_warps(values, total):
    mine = 0.0
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        mine += values[i]
    for k in (16, 8, 4, 2, 1):
        mine += cuda.shfl_down_sync(ALL, mine, k)
    if cuda.threadIdx.x % 32 == 0:
        cuda.atomic.add(total, 0, mine)


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
# No barrier and no shared memory: no warp ever waits for another. The price is four times as many atomics, one
# for each warp, and here a few more instructions: each of the four warps folds, and 64 bits travel in two
# shuffles of 32. Libraries combine the two: shuffles within the warps, shared memory among them.
#
# Now break it: put the bounds guard around everything, as you have done in every kernel so far. *Predict:* 100
# muons in 128 threads. Is the sum right?

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
# Right for 96, three whole warps. In the fourth warp of 100, four lanes are at work, and `mask` says that all
# 32 are: lane 3 asks lane 19, which has nothing to give. CUDA leaves open what comes of that. The virtual GPU
# hands over an absurd number (so absurd here that the sum overflows), so that you notice; a real one may
# hand over whatever the register holds. So: as for a barrier, guard the *value*, not the shuffle.

# %% [markdown] id="shuffle-broken-then"
# ### Exercise: the maximum of a warp
#
# Write `warp_maxima`: `maxima[w]` is the largest of the values of warp `w` (values `32 w` to `32 w + 31`), minus
# infinity where there are none. Use shuffles only. The check tries any length; blocks are multiples of 32.

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
# ## 13. Occupancy: warps to wait with (if there is time)
#
# A number from global memory takes hundreds of cycles to arrive
# ([a study of 2023, table 3](https://pmc.ncbi.nlm.nih.gov/articles/PMC10448217/table/t0015)). While a warp waits, its
# multiprocessor turns to another one; so it needs many warps at hand. How many fit? That is settled when a block starts: its
# threads get registers, the block gets shared memory, and they keep both to the end. The share of the
# possible warps that fit is the **occupancy**.
#
# How many registers a thread takes is decided by NVIDIA's assembler, `ptxas`, which turns PTX into machine
# code. It needs no GPU, and it is installed with this course. Let us ask it.

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


kernels = (add_all_atomic, two_ways, sum_all, sum_by_warps)
for kernel in kernels:
    registers, shared = assembled(kernel)
    print(f"{kernel.py_func.__name__:16}{registers:4} registers,{shared:6,} bytes of shared memory")

# %% [markdown] id="occupancy-task"
# ### Exercise: how many warps fit?
#
# Here are the limits of a multiprocessor of compute capability 9.0, such as an H100's. (Others have the same
# kinds of limits, and other numbers.)
#
# - It holds at most 64 warps, and at most 32 blocks.
# - It has four parts, with 16,384 registers each. A warp lives in one part and takes 32 times the registers of
#   its threads, rounded up to a multiple of 256.
# - It has 233,472 bytes of shared memory for its blocks. A block takes what its kernel asks for, and
#   1,024 bytes more.
# - A block fits whole or not at all.
#
# Write the number of warps at work. The starter knows only that there are 64. (`shared` will be a multiple
# of 128 and `threads` of 32; blocks may be spread over the parts as you like.)

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
# With 32 registers or fewer, all 64 warps fit, if blocks have 64 threads or more and divide 64 warps evenly; 128
# registers leave room for 16, and a block of more than 512 such threads does not start at all. The teeth are
# blocks that do not fit whole.
#
# Don't chase the last per cent. Occupancy isn't speed. It's how many other warps a multiprocessor can switch to: once
# there are enough of them to cover the waiting, more do nothing, and a kernel that keeps more in registers at a quarter of the
# occupancy may well be the faster one. Look at it when a kernel waits for memory and few warps are there; then try
# smaller blocks, fewer registers (`@cuda.jit(max_registers=…)`) or less shared memory, and measure on the GPU.

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - The launch is the loop: every thread runs the whole kernel, and finds its element by
#   `cuda.grid(1)`. Threads come in whole blocks, so guard the bounds, or stride over the data.
# - Threads run in no order. If two touch the same address, one of them writes, and nothing orders
#   them, that is a race: a wrong program, even on the days when its answer is right.
# - An atomic makes one update whole. A barrier makes the threads of one block wait for each other, and
#   all of them must reach it. Only the end of a launch waits for the grid.
# - A reduction of any length: each thread adds up its share, a block folds in shared memory with `half`
#   rounded *up*, and one thread per block adds the rest with an atomic.
# - A warp of 32 lanes runs every way that one of them takes, pays for its busiest lane, and works best with its lanes
#   side by side: neighbours in global memory, different banks in shared memory. All of it can be counted.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - Numba-CUDA: [writing kernels](https://nvidia.github.io/numba-cuda/user/kernels.html),
#   [shared memory and barriers](https://nvidia.github.io/numba-cuda/user/memory.html),
#   [atomics](https://nvidia.github.io/numba-cuda/user/intrinsics.html).
# - NVIDIA's programming guide:
#   [SIMT kernels](https://docs.nvidia.com/cuda/cuda-programming-guide/02-basics/writing-cuda-kernels.html):
#   threads, blocks, warps and memories, from those who build them.
# - What exactly is a race on a GPU: the
#   [memory consistency model](https://docs.nvidia.com/cuda/parallel-thread-execution/index.html#memory-consistency-model)
#   of PTX, which `virtualgpu.check()` goes by.
# - NVIDIA's best practices guide on
#   [coalescing, bank conflicts and occupancy](https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/), and the
#   [tuning guide of the H100](https://docs.nvidia.com/cuda/hopper-tuning-guide/) for the limits in section 13.
# - [Warp shuffles](https://nvidia.github.io/numba-cuda/user/intrinsics.html) in Numba-CUDA.
# - Mark Harris,
#   [Optimizing Parallel Reduction in CUDA](https://developer.download.nvidia.com/assets/cuda/files/reduction.pdf):
#   the classic. It takes powers of two for granted, and warps that never part; compare it with yours.
#
# Next: fill a histogram in parallel (project 1), where all of this is needed at once.

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 145 minutes
#
# | minutes | what |
# |---|---|
# | 0-3 | the question; collect guesses where the momentum went, and write them on the board |
# | 3-32 | sections 1 to 3; exercises 1 and 2 alone, 3 in pairs. Faster after "Numba CUDA" |
# | 32-54 | sections 4 and 5; play the interleaving with two people and a number on the board |
# | 54-84 | sections 6 and 7; `block-max` is the exercise that must not be cut |
# | 84-89 | section 8, and a breath: from here on it is about speed |
# | 89-104 | section 9 |
# | 104-124 | sections 10 and 11, with `turn` |
# | 124-145 | sections 12 and 13; they stand by themselves, and are good homework |
#
# Take two sittings, with the cut after section 8.
#
# *Ten minutes late:* leave out the exercises `fold` and `lane-turns`, and the second prediction of section 10.
# *Ten minutes early:* ask for the minimum and the maximum in one kernel.
#
# *Where people stall.* In `bounds-guard`, the guard is about `i + 1`. In `grid-stride`, they write
# `counts[me] += 1` into memory that nobody has set to zero. In `block-max`, they give 0 to the loose
# threads, and all values are negative. In `turn`, they move `x` and `y` on both sides, which turns the table
# twice: the *tile* is indexed crosswise, and the rest goes by rows. Let them stall: the messages say so.
#
# *What someone always asks.* "Why does the first cell give the same wrong answer each time?" The virtual
# GPU goes at the same pace on each run; with `virtualgpu.schedule(seed)` it does not, and neither does a
# real GPU. "Why not `cuda.reduce`?" Do use it, or CuPy's `sum`, once you can tell what it does. "Is a
# barrier slow?" Not beside a launch, and a wrong sum is of no use at any speed.
#
# *What goes wrong.* Cells that are run out of order give a `NameError`: Run, Restart Kernel and Run All
# Cells, then back to the exercise. On a machine with a GPU, cells under `check()`, `schedule()` and
# `profile()` run on the virtual one all the same, the rest on the GPU.
