# %% [markdown] id="the-question-asked"
# ## Where did the momentum go?
#
# The course comes with 50,000 collision events, and in them about 71,000 muons, each with a transverse momentum `pt` in
# GeV. To add them all up, we start one GPU thread per muon and have each add its own number to one total. Run the cell.
#
# (The events are simulated: "Numba CUDA" says why.)

# %% id="the-question"
# %load_ext gpucourse
import math

import awkward as ak
import numpy as np
import virtualgpu
from gpucourse import lesson
from gpucourse.data import dimuons
from numba import cuda

check, hint, predict = lesson("04_thinking_in_threads")

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

# %% [markdown] id="who-am-i-predict" tags=["predict"]
# ## 1. Who am I?
#
# A GPU has a memory of its own: `cuda.to_device` copies an array there, `copy_to_host` copies one back.
# The function under `@cuda.jit` is a **kernel**: every thread runs it from top to bottom. It has no loop over the data, for
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

# %% [markdown] id="launch-shape-task"
# ### Exercise: the shape of a launch
#
# Blocks come whole, so the threads rarely match the data: 71,009 muons take 555 blocks of 128, and 31 threads are left over. Write
# the function that every launch needs: for `n` elements and blocks of `threads` threads, how many
# blocks are just enough, and how many threads will be *loose*? (No elements need no block.)
#
# Run the check as often as you like. `hint("launch-shape")` gives a first hint, and called again, a second one.

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
# Here is a kernel that does something useful: the energy of a muon follows from its `pt` and its `eta`, the
# pseudorapidity, which says how far forward it flies (0 is straight across the beam). `cuda.device_array` reserves
# room on the device without filling it.
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
# They ask `if i < pt.size`, find no element, and end: they are the loose ones. That `if` is the
# **bounds guard**.

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
# Elements 5 and 13, in its first iteration and its second (the numbers in the picture). Look along a column:
# every element has one visitor. Look at one colour: in each iteration, neighbouring threads stand at
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

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - The launch is the loop: every thread runs the whole kernel, and finds its element by
#   `cuda.grid(1)`. Threads come in whole blocks, so guard the bounds, or stride over the data.
# - Threads run in no order. If two touch the same address, one of them writes, and nothing orders
#   them, that is a race: a wrong program, even on the days when its answer is right.
# - An atomic makes load, change and store one step. It makes no order: compare sums of floats with a tolerance.
# - `virtualgpu.check()` names the line and the threads of a race, also where the answer happens to be right.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - Numba-CUDA: [writing kernels](https://nvidia.github.io/numba-cuda/user/kernels.html),
#   [atomics](https://nvidia.github.io/numba-cuda/user/intrinsics.html).
# - NVIDIA's programming guide:
#   [SIMT kernels](https://docs.nvidia.com/cuda/cuda-programming-guide/02-basics/writing-cuda-kernels.html):
#   threads, blocks, warps and memories, from those who build them.
# - What exactly is a race on a GPU: the
#   [memory consistency model](https://docs.nvidia.com/cuda/parallel-thread-execution/index.html#memory-consistency-model)
#   of PTX, which `virtualgpu.check()` goes by.

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 60 minutes
#
# | minutes | what |
# |---|---|
# | 0-3 | the question; collect guesses where the momentum went, and write them on the board |
# | 3-34 | sections 1 to 3; exercises 1 and 2 alone, 3 in pairs. Shorter after "Numba CUDA" |
# | 34-50 | section 4; play the interleaving with two people and a number on the board |
# | 50-60 | section 5 |
#
# *Ten minutes late:* leave out the exercise `check-then-act`.
# *Ten minutes early:* ask for the minimum and the maximum in one kernel.
#
# *Where people stall.* In `bounds-guard`, the guard is about `i + 1`. In `grid-stride`, they write
# `counts[me] += 1` into memory that nobody has set to zero. Let them stall: the messages say so.
#
# *What someone always asks.* "Why does the first cell give the same wrong answer each time?" The virtual
# GPU goes at the same pace on each run; with `virtualgpu.schedule(seed)` it does not, and neither does a
# real GPU.
#
# *What goes wrong.* Cells that are run out of order give a `NameError`: Run, Restart Kernel and Run All
# Cells, then back to the exercise. On a machine with a GPU, cells under `check()`, `schedule()` and
# `profile()` run on the virtual one all the same, the rest on the GPU.
