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
from numba import cuda, float64

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
# properly. (How fast a right kernel is, and why, is the question of "Thinking in warps".)

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

# %% id="who-am-i-guess"
predict("who-am-i", "2", "4", "8")

# %% id="who-am-i"
from gpucourse.views.threads import draw_threads, draw_visits  # they draw what your kernels wrote


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
# block has at most 1024 threads; a grid may have about two billion blocks.

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

# %% [markdown] id="dial-text"
# How large should a block be, then? Give 21 elements their threads, in blocks of 1 to 32, and turn the dial (click on a
# size; the arrow keys go on from there). Loose threads are hollow.

# %% id="dial"
from gpucourse.views.dial import dial


def signed(threads, n=21):
    blocks = (n + threads - 1) // threads
    d_block, d_thread = (cuda.device_array(blocks * threads, np.int64) for _ in range(2))
    sign_in[blocks, threads](d_block, d_thread)
    return draw_threads(d_block.copy_to_host(), d_thread.copy_to_host(), n)


dial("threads in a block", {threads: signed(threads) for threads in (1, 2, 4, 8, 16, 32)})

# %% [markdown] id="dial-then"
# Only the last block has loose threads, so they are always fewer than a block has threads. Here that may be a third of all; for
# the muons it was 31 of 71,040. So loose threads are no reason for small blocks: take 128 or 256 to begin with.

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
# In this kernel each thread draws a ticket from a machine that never gives a number twice (section 5
# explains it). *Predict:* which thread draws the first ticket?
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
# One way to mend it is a place of its own for every thread, as in `partial_sums` of section 3. The other is an
# **atomic**: `cuda.atomic.add(total, 0, values[i])` loads, adds and stores in one step, and no thread comes between.
# (Section 5 is about atomics.)

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
# **barrier**, where each thread stops until all threads *of its block* have come. And they share a small,
# fast memory, **shared memory**: `cuda.shared.array(size, type)`, the size fixed when the
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
#   to come to the barriers like all the others.
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
# which is the least that a sum can do. Such counts often tell you *why* a kernel is slow.

# %% [markdown] id="count-then"
# And by the clock of a real GPU? Recorded times of these kernels, of one with shuffles ("Thinking in warps" has it), and of
# libraries, for an array far larger than any cache (rows `reduction`); or a line that says that nobody has measured yet:

# %% id="recorded"
from gpucourse.views.measured import recorded_times

recorded_times("reduction")

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
# - What a launch does can be counted: launches, atomics, bytes. Counts are the same on each run, on any machine.

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
# - Mark Harris,
#   [Optimizing Parallel Reduction in CUDA](https://developer.download.nvidia.com/assets/cuda/files/reduction.pdf):
#   the classic. It takes powers of two for granted, and warps that never part; compare it with yours.

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 90 minutes
#
# | minutes | what |
# |---|---|
# | 0-3 | the question; collect guesses where the momentum went, and write them on the board |
# | 3-32 | sections 1 to 3; exercises 1 and 2 alone, 3 in pairs. Faster after "Numba CUDA" |
# | 32-54 | sections 4 and 5; play the interleaving with two people and a number on the board |
# | 54-84 | sections 6 and 7; `block-max` is the exercise that must not be cut |
# | 84-90 | section 8 |
#
# *Ten minutes late:* leave out the exercises `fold` and `check-then-act`.
# *Ten minutes early:* ask for the minimum and the maximum in one kernel.
#
# *Where people stall.* In `bounds-guard`, the guard is about `i + 1`. In `grid-stride`, they write
# `counts[me] += 1` into memory that nobody has set to zero. In `block-max`, they give 0 to the loose
# threads, and all values are negative. Let them stall: the messages say so.
#
# *What someone always asks.* "Why does the first cell give the same wrong answer each time?" The virtual
# GPU goes at the same pace on each run; with `virtualgpu.schedule(seed)` it does not, and neither does a
# real GPU. "Why not `cuda.reduce`?" Do use it, or CuPy's `sum`, once you can tell what it does. "Is a
# barrier slow?" Not beside a launch, and a wrong sum is of no use at any speed.
#
# *What goes wrong.* Cells that are run out of order give a `NameError`: Run, Restart Kernel and Run All
# Cells, then back to the exercise. On a machine with a GPU, cells under `check()`, `schedule()` and
# `profile()` run on the virtual one all the same, the rest on the GPU.
