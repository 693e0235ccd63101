# %% [markdown] id="the-question-asked"
# ## Six bug reports
#
# A colleague has written six GPU programs, and there is a bug report about each of them. Some give a wrong number, one
# crashes, one never returns, one is only slow, and one is right on most days. None of the reports says what causes the
# problem. Run the cell. It reproduces the first report. Its energies, in GeV, are random draws from a gamma
# distribution with a fixed seed.

# %% id="the-question"
# %load_ext gpucourse
import math

import gpucourse
import numpy as np
import virtualgpu
from gpucourse import lesson
from gpucourse.views.paper_streams import PaperGPU, draw
from numba import cuda, float64

check, hint, predict = lesson("23_kernel_detective")

THREADS = 128
energies = np.random.default_rng(14).gamma(2.0, 10.0, 128_000)  # GeV
d_energies = cuda.to_device(energies)


@cuda.jit
def block_sums(values, sums):
    tile = cuda.shared.array(THREADS, float64)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i < values.size:
        tile[t] = values[i]
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


for n in (1024, 1000):
    d_sums = cuda.device_array(8)
    block_sums[8, THREADS](d_energies[:n], d_sums)
    print(f"{n} values: {d_sums.copy_to_host().sum():.6g} GeV; NumPy: {energies[:n].sum():.6g} GeV")

# %% [markdown] id="method"
# **How do you find out which line of a kernel is wrong?** Staring at the code rarely helps, because its author has
# already done that. A detective repeats the same four steps, as you will six times:
#
# 1. **Reproduce** the fault, with as little data as you can.
# 2. **Let a tool name a line**, and guess beforehand what it will name.
# 3. **Explain** the whole symptom from what that line does.
# 4. **Fix one thing**, and test again what worked before.

# %% [markdown] id="sum-predict" tags=["predict"]
# ## Case 1: the sum of 1,000
#
# The tree in `block_sums` is the one from "Trees and barriers", which is right for 1,024 values, but not for 1,000.
# *Predict:* what does the checker report?

# %% id="sum-guess"
predict("sum",
        "a race in the tree",
        "an index beyond the end of values",
        "a read of something that was never written")

# %% id="sum"
with virtualgpu.check() as report:
    block_sums[8, THREADS](d_energies[:1000], d_sums)
print(report)

# %% [markdown] id="sum-why" tags=["why"]
# It reports elements of `tile` that were never written. The last 24 threads have no value, so they skip the line that
# fills the tile, but they still take part in the tree. The sum is wrong because shared memory doesn't start at zero.
# 1,024 values work because they fill eight blocks exactly.

# %% [markdown] id="sum-task"
# ### Exercise: close case 1
#
# Write `mended_sums`, which is right for every length, and also for blocks without a single value. In each case you fix
# a *copy*: paste the kernel into the exercise's cell, give it the name in the exercise, and change what is wrong. The
# check runs your copy under all the tools.

# %% id="sum-exercise" tags=["exercise"]
mended_sums = block_sums  # a mended copy in its place: @cuda.jit, def mended_sums(values, sums): …
### BEGIN SOLUTION
@cuda.jit
def mended_sums(values, sums):
    tile = cuda.shared.array(THREADS, float64)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t] = values[i] if i < values.size else 0.0
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
### END SOLUTION

# %% id="sum-check"
check("wrong-sum", mended_sums)

# %% [markdown] id="tools"
# The virtual GPU fills shared memory with absurd values so that you notice the fault. On a real GPU, shared memory
# contains the values of the previous block, and then the sum is wrong by only a *little*. The next table lists the
# tools for all six cases.
#
# | the symptom | the tool | what it tells you |
# |---|---|---|
# | a wrong number, a crash | `with virtualgpu.check() as report:` | races, bad addresses, memory that was never written, barriers that threads miss |
# | right on most days | `with virtualgpu.schedule(seed):` | the result of the same launch in a different order that a GPU may choose |
# | it never returns | the stop button, a time limit | the line on which a thread waits |
# | slow | `gpucourse.report`, `with virtualgpu.profile()` | counts of sectors, instructions and barriers, line by line |
# | wrong between launches | `PaperGPU` and its orders | what was queued, and which tasks have no defined order |
#
# All of these tools work without a GPU. If you have one, NVIDIA's `compute-sanitizer` and Nsight do the same jobs, as
# the end of this lesson shows.

# %% [markdown] id="crash-predict" tags=["predict"]
# ## Case 2: the crash at 129
#
# The program finds the largest energy in each run of 128. The report says that it "works for 128, 256 and 128,000
# values, crashes at 129", although the kernel has a guard. *Predict:* which line causes the crash?

# %% id="crash-guess"
predict("crash",
        "the guard: it should be i < values.size - 1",
        "a line of the host, not of the kernel",
        "the atomic: blockIdx.x is too large for it")

# %% id="crash" raises="MemoryAccessError"
@cuda.jit
def keep_maxima(values, maxima):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.max(maxima, cuda.blockIdx.x, values[i])


def run_maxima(values):
    """The largest of each 128 values, and of the rest."""
    d_maxima = cuda.to_device(np.full(values.size // THREADS, -math.inf))
    blocks = (values.size + THREADS - 1) // THREADS
    keep_maxima[blocks, THREADS](cuda.to_device(values), d_maxima)
    return d_maxima.copy_to_host()


with virtualgpu.check():  # on the virtual GPU, on a machine with a real one too
    print("128:", run_maxima(energies[:128]))
    print("129:", run_maxima(energies[:129]))

# %% [markdown] id="crash-why" tags=["why"]
# It is a line of the host, although the message names a line of the *kernel*. The bad address is used there: thread 0
# of block 1 accesses `maxima[1] of 1`. Two blocks are right for 129 values, but one element of `maxima` is not enough.
# The host rounds the number of blocks up, but the number of elements down. **The named line is where the fault shows,
# which is not always where it was made**, so trace each number back to its origin.

# %% [markdown] id="crash-task"
# ### Exercise: close case 2
#
# Write `mended_maxima`. It must accept any number of values, including none. Note that a launch needs at least one
# block.

# %% id="crash-exercise" tags=["exercise"]
mended_maxima = run_maxima  # a mended copy in its place: def mended_maxima(values): …
### BEGIN SOLUTION
def mended_maxima(values):
    blocks = (values.size + THREADS - 1) // THREADS
    maxima = np.full(blocks, -math.inf)
    if not blocks:
        return maxima
    d_maxima = cuda.to_device(maxima)
    keep_maxima[blocks, THREADS](cuda.to_device(values), d_maxima)
    return d_maxima.copy_to_host()
### END SOLUTION

# %% id="crash-check"
check("crash", mended_maxima)

# %% [markdown] id="hang-predict" tags=["predict"]
# ## Case 3: it never returns
#
# The program finds the largest energy that is above a cut, with a *lock*. The thread that changes `lock[0]` from 0 to 1
# holds the lock, and the others try again. An atomic maximum would be enough here, and faster. The lock is an example
# of work that no single atomic can do. The report says "used to work; hangs since we cut at 5 GeV".
#
# *Predict:* on which line does the report show a waiting thread?

# %% id="hang-guess"
predict("hang",
        "on the while: it waits for the lock",
        "on the return: it can't leave",
        "on the exch: it can't release the lock")

# %% id="hang" raises="EndlessError"
@cuda.jit
def keep_best(values, cut, best, lock):
    i = cuda.grid(1)
    if i < values.size:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        cuda.threadfence()
        if values[i] < cut:
            return
        if values[i] > best[0]:
            best[0] = values[i]
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


for cut in (0.0, 5.0):
    d_best, d_lock = cuda.to_device(np.zeros(1)), cuda.to_device(np.zeros(1, np.int32))
    with virtualgpu.check():
        keep_best[1, 32](d_energies[:32], cut, d_best, d_lock)
    print(f"cut at {cut} GeV: {d_best[0]:.2f} GeV")

# %% [markdown] id="hang-why" tags=["why"]
# It is the `while`, although there is nothing wrong with that line. The thread on it waits for another thread. **A hang
# report tells you which thread is waiting, so ask what it is waiting for.** The last line releases the lock. A thread
# whose energy is below the cut never gets there, because it returns while it holds the lock. Without a cut no thread
# takes that path, so the program used to work.
#
# A real GPU would hang in the same way. A driver may kill the launch after some seconds, but it won't name a line.

# %% [markdown] id="hang-task"
# ### Exercise: close case 3
#
# Write `mended_best`. Keep the lock, and make sure that `lock[0]` is 0 again at the end.

# %% id="hang-exercise" tags=["exercise"]
mended_best = keep_best  # a mended copy in its place
### BEGIN SOLUTION
@cuda.jit
def mended_best(values, cut, best, lock):
    i = cuda.grid(1)
    if i < values.size and values[i] >= cut:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        cuda.threadfence()
        if values[i] > best[0]:
            best[0] = values[i]
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)
### END SOLUTION

# %% id="hang-check"
check("hang", mended_best)

# %% [markdown] id="slow-predict" tags=["predict"]
# ## Case 4: right but slow
#
# A table has 256 rows of 480 energies. Each thread adds up one row, from its first value to its last, as you would
# share out work among people, and the sums are right for every size. *Predict:* what does the report card complain
# about?

# %% id="slow-guess"
predict("slow",
        "lanes that wait for others",
        "the order in which the lanes of a warp read",
        "nothing: each thread reads neighbours, one after the other")

# %% id="slow"
@cuda.jit
def row_sums(table, sums):
    row = cuda.grid(1)
    if row < table.shape[0]:
        mine = 0.0
        for column in range(table.shape[1]):
            mine += table[row, column]
        sums[row] = mine


table = energies[: 256 * 480].reshape(256, 480)
gpucourse.report(row_sums, 2, THREADS, table, np.zeros(256))

# %% id="slow-picture"
gpucourse.memory(row_sums, 2, THREADS, table, np.zeros(256), array="table", steps=8,
                 title="a row for each thread")

# %% [markdown] id="slow-why" tags=["why"]
# The report complains about the order of the reads. One *thread* reads neighbours, one after the other, which suits a
# CPU's cache. But a warp reads *together*. At any moment its 32 lanes are in 32 different rows, 480 elements apart, and
# each lane fetches a sector of 32 bytes but uses only 8 of them. That is four times the necessary traffic, for a kernel
# that does little else.

# %% [markdown] id="slow-task"
# ### Exercise: close case 4
#
# Write `mended_rows`, which computes the same sums with a block of 32 threads for each row. Let the 32 lanes read
# adjacent elements, so that each lane computes a part of the sum. Then combine the parts, with shuffles or in shared
# memory.
#
# The check allows at most a tenth more than the fewest possible sectors, and requires that all 32 lanes take part.

# %% id="slow-exercise" tags=["exercise"]
mended_rows = row_sums  # a mended copy in its place; launched as [rows, 32]
### BEGIN SOLUTION
@cuda.jit
def mended_rows(table, sums):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x
    mine = 0.0
    for column in range(lane, table.shape[1], 32):
        mine += table[row, column]
    for k in (16, 8, 4, 2, 1):
        mine += cuda.shfl_down_sync(0xFFFFFFFF, mine, k)
    if lane == 0:
        sums[row] = mine
### END SOLUTION

# %% id="slow-check"
check("slow", mended_rows)
gpucourse.memory(mended_rows, 256, 32, table, np.zeros(256), array="table", steps=8,
                 title="your way")

# %% [markdown] id="days-predict" tags=["predict"]
# ## Case 5: right on most days
#
# The program computes every energy as a share of the total. All threads add to the total, then all wait, and then all
# divide. The report says that "the shares add up to 1, except when the GPU is busy". *Predict:* how many blocks may a
# launch have and still be right in every order?

# %% id="days-guess"
predict("days", "any number", "as many as run at the same time", "one")

# %% id="days"
@cuda.jit
def shares_at_once(values, total):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(total, 0, values[i])
    cuda.syncthreads()  # now the total is complete
    if i < values.size:
        values[i] /= total[0]


for blocks in (1, 8):
    sums = []
    for seed in range(1, 7):
        d_values = cuda.to_device(energies[: blocks * THREADS])
        with virtualgpu.schedule(seed):
            shares_at_once[blocks, THREADS](d_values, cuda.to_device(np.zeros(1)))
        sums.append(f"{d_values.copy_to_host().sum():.4f}")
    print(f"blocks: {blocks}, six orders:", *sums)

# %% id="days-found"
with virtualgpu.check() as report:
    shares_at_once[8, THREADS](d_values, cuda.to_device(np.zeros(1)))
print(report)

# %% [markdown] id="days-why" tags=["why"]
# It may have only one block, because `cuda.syncthreads()` waits only for the threads of *one block*. So the comment
# beside it is wrong, but if eight blocks happen to run in step, the total is complete anyway, and every test passes.
# The finding names two lines, which two different blocks executed, and advises a second launch. **If a wrong answer
# comes and goes, an order is missing. Don't repeat the test until it passes. Use the checker, which finds the fault in
# any run.**

# %% [markdown] id="days-task"
# ### Exercise: close case 5
#
# Write `mended_shares(values)`, a host function that takes a NumPy array of any length except 0 and returns the shares
# as a NumPy array. The device must do the additions and the divisions, so write the kernels for them.

# %% id="days-exercise" tags=["exercise"]
def shares(values):
    """Each value over the sum of all."""
    d_values, d_total = cuda.to_device(values), cuda.to_device(np.zeros(1))
    shares_at_once[(values.size + THREADS - 1) // THREADS, THREADS](d_values, d_total)
    return d_values.copy_to_host()


mended_shares = shares  # a mended copy in its place, and its kernels
### BEGIN SOLUTION
@cuda.jit
def add_up(values, total):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(total, 0, values[i])


@cuda.jit
def divide(values, total):
    i = cuda.grid(1)
    if i < values.size:
        values[i] /= total[0]


def mended_shares(values):
    d_values, d_total = cuda.to_device(values), cuda.to_device(np.zeros(1))
    blocks = (values.size + THREADS - 1) // THREADS
    add_up[blocks, THREADS](d_values, d_total)
    divide[blocks, THREADS](d_values, d_total)
    return d_values.copy_to_host()
### END SOLUTION

# %% id="days-check"
check("most-days", mended_shares)

# %% [markdown] id="streams-predict" tags=["predict"]
# ## Case 6: two streams
#
# The program computes the same shares for two halves of the data, in two streams, so that one half can be copied while
# the other is computed. Each kernel is a separate launch, so the mistake of case 5 seems impossible. `PaperGPU`, from
# "Streams", records what is queued, and `run(seed)` executes it in an order that CUDA permits.
#
# *Predict:* in which stream can a division run too early?

# %% id="streams-guess"
predict("streams", "in the first only", "in the second only", "in either")

# %% id="streams"
def add_half(values, totals, which):
    totals[which] = values.sum()


def divide_half(values, totals):
    values /= totals[0] + totals[1]


def hasty(gpu, halves, results):
    totals = gpu.buffer(2)
    for k in (0, 1):
        stream, buffer = gpu.stream(), gpu.buffer(halves[k].size)
        stream.copy_in(halves[k], buffer, label=f"in {k}")
        stream.launch(add_half, buffer, totals, k, label=f"add {k}")
        stream.launch(divide_half, buffer, totals, label=f"divide {k}")
        stream.copy_out(buffer, results[k], label=f"out {k}")


def try_orders(program, orders=100):
    """How often each half is right, in so many orders that are allowed."""
    right = [0, 0]
    for seed in range(orders):
        gpu, halves = PaperGPU(), [energies[:50], energies[50:100]]
        results = [np.zeros(50), np.zeros(50)]
        program(gpu, halves, results)
        gpu.run(seed)
        for k in (0, 1):
            right[k] += np.allclose(results[k], halves[k] / energies[:100].sum())
    return f"of {orders} orders, half 0 is right in {right[0]} and half 1 in {right[1]}"


print(try_orders(hasty))

# %% [markdown] id="streams-why" tags=["why"]
# It can run too early in either stream. Each division needs *both* totals, but only the total of its own stream is
# certain to be ready. The other one may not be. The end of a launch orders what comes after it in **its own stream**,
# but only an event orders two streams.

# %% [markdown] id="streams-task"
# ### Exercise: close case 6
#
# Write `in_two_streams(gpu, halves, results)`, which must be right in every order and done after 6 units of time. With
# one stream for everything it would take 8. Make an event with `event = gpu.event()`, and use `event.record(stream)`
# and `event.wait(stream)`. An event must be recorded before a stream can wait for it, so think about the order in which
# you *queue*.

# %% id="streams-exercise" tags=["exercise"]
def in_two_streams(gpu, halves, results):
    totals = gpu.buffer(2)
    streams = [gpu.stream(), gpu.stream()]
    buffers = [gpu.buffer(half.size) for half in halves]
    ### BEGIN SOLUTION
    added = [gpu.event(), gpu.event()]
    for k in (0, 1):
        streams[k].copy_in(halves[k], buffers[k], label=f"in {k}")
        streams[k].launch(add_half, buffers[k], totals, k, label=f"add {k}")
        added[k].record(streams[k])
    for k in (0, 1):
        added[1 - k].wait(streams[k])
        streams[k].launch(divide_half, buffers[k], totals, label=f"divide {k}")
        streams[k].copy_out(buffers[k], results[k], label=f"out {k}")
    ### END SOLUTION


gpu = PaperGPU()
in_two_streams(gpu, [np.ones(4), np.ones(4)], [np.zeros(4), np.zeros(4)])
print(try_orders(in_two_streams))
draw(gpu, "Your two streams")

# %% id="streams-check"
check("two-streams", in_two_streams)

# %% [markdown] id="nsight-text"
# ## When you need Nsight
#
# In case 4, counts led to the line. They are exact, the same in each run, and need no GPU. But they contain no *time*,
# so they can't tell you which of twenty launches is slow, or what its warps wait for. On a GPU you use NVIDIA's two
# profilers, in this order.
#
# - **Nsight Systems** (`nsys`) draws the timeline of a *program*, with its copies, launches and gaps. Look here first,
#   because the problem may not be a kernel at all.
# - **Nsight Compute** (`ncu`) analyses *one kernel* with hundreds of metrics. It runs each launch several times, so name the kernel that you want.
#
# Both run a script, not a notebook, and if you give names to parts of the script with **NVTX ranges**, the names appear
# on the timeline. One way is `cupyx.profiler.time_range`, as a context manager or a decorator, which does nothing
# without a profiler.

# %% id="nsight-program"
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cupyx.profiler import time_range
from gpucourse.system.device import device

PROGRAM = """
import numpy as np
from cupyx.profiler import time_range
from numba import cuda

@cuda.jit
def row_sums(table, sums):
    row = cuda.grid(1)
    if row < table.shape[0]:
        mine = 0.0
        for column in range(table.shape[1]):
            mine += table[row, column]
        sums[row] = mine

with time_range("copy in"):
    table = cuda.to_device(np.ones((256, 480)))
    sums = cuda.device_array(256)
for _ in range(3):  # the first one compiles
    with time_range("add up the rows"):
        row_sums[2, 128](table, sums)
        cuda.synchronize()
"""
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
script = Path(tempfile.mkdtemp(), "sums.py")
script.write_text(PROGRAM)
for command in (
    f"nsys profile --trace=cuda,nvtx --stats=true --output={script.with_suffix('')} {sys.executable} {script}",
    f"ncu --kernel-name regex:row_sums --metrics {SECTORS} {sys.executable} {script}",
):
    words = command.split()
    if device().virtual or not shutil.which(words[0]):
        shown = command.replace(f"{sys.executable} {script}", "python sums.py").replace(str(script.with_suffix("")), "sums")
        print(f"not run, for want of a GPU or of {words[0]}:\n  $ {shown}\n")
    else:
        print(subprocess.run(words, capture_output=True, text=True, timeout=300).stdout[-4000:])

# %% [markdown] id="nsight-read"
# If you have a GPU, you've just seen the output of both. Without one, here is what to look for. `nsys` prints four
# tables. `nvtx_sum` lists the NVTX ranges. The first "add up the rows" is the longest, because it compiles.
# `cuda_api_sum` lists the driver calls, `cuda_gpu_kern_sum` the kernels, with `row_sums` three times, and
# `cuda_gpu_mem_time_sum` the copies. We show no times here, because we have no recorded run of these commands.

# %% [markdown] id="nsight-predict" tags=["predict"]
# `ncu` prints one line for each metric. Its counts of memory traffic should agree with those of the virtual GPU. In
# `row_sums` each lane reads its own row. *Predict:* how many sectors does a request of a warp touch, and how many would
# it touch if the lanes read adjacent elements?

# %% id="nsight-guess"
predict("nsight", "32, then 8", "32, then 1", "8, then 4")

# %% id="nsight"
from virtualgpu.api import METRICS


@cuda.jit
def side_by_side(table, sums):  # as mended, each lane's part added by an atomic
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x
    mine = 0.0
    for column in range(lane, table.shape[1], 32):
        mine += table[row, column]
    cuda.atomic.add(sums, row, mine)


columns = []
for kernel, launch in ((row_sums, (2, THREADS)), (side_by_side, (256, 32))):
    d_table, d_sums = cuda.to_device(table), cuda.to_device(np.zeros(256))
    with virtualgpu.profile() as profile, time_range(kernel.__name__):
        kernel[launch](d_table, d_sums)
    columns.append(profile.counters)

print("NOT ncu's output: the virtual GPU's counts, under ncu's names\n")
print(f"{'':56}{'row_sums':>10}{'side_by_side':>14}")
for counter in ("global_load_requests", "global_load_sectors", "global_store_sectors", "divergent_branches",
                "warp_instructions", "thread_instructions"):
    (name,) = METRICS[counter]
    print(f"{name:56}{getattr(columns[0], counter):10,}{getattr(columns[1], counter):14,}")
print("sectors for each request:", *(f"{one.global_load_sectors / one.global_load_requests:.1f}" for one in columns))

# %% [markdown] id="nsight-why" tags=["why"]
# It touches 32, and would touch 8, because the 32 lanes of a warp read 32 × 8 bytes. If the elements are adjacent, they
# fill 8 sectors of 32 bytes. If the lanes read different rows, each needs its own sector.

# %% [markdown] id="nsight-names"
# | here | in `ncu` |
# |---|---|
# | `global_load_sectors`, `…_store_…` | `l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum`, `…_st.sum` |
# | `global_load_requests`, `…_store_…` | `l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum`, `…_st.sum` |
# | `global_atomic_requests` | <code>l1tex__t_requests_pipe<wbr>_lsu_mem_global_op_atom.sum</code> + `…_red.sum` |
# | `shared_load_wavefronts`, `…_store_…` | <code>l1tex__data_pipe_lsu_wavefronts<wbr>_mem_shared_op_ld.sum</code>, `…_st.sum` |
# | `shared_load_conflicts`, `…_store_…` | <code>l1tex__data_bank_conflicts<wbr>_pipe_lsu_mem_shared_op_ld.sum</code>, `…_st.sum` |
# | `divergent_branches` | `smsp__sass_branch_targets_threads_divergent.sum` (of machine code) |
# | `warp_instructions`, `thread_instructions` | `smsp__inst_executed.sum`, `smsp__thread_inst_executed.sum` (of machine code) |
# | `lanes_lost` | no counterpart; <code>smsp__thread_inst_executed<wbr>_per_inst_executed.ratio</code> has the lanes at work, 32 at best |
# | `global_load_ideal_sectors` | no counterpart; <code>smsp__sass_average_data_bytes<wbr>_per_sector_mem_global_op_ld.pct</code> has the share that is used |
# | `atomic_passes`, `atomic_hottest`, `barriers`, `busiest_accesses` | no counterpart |
# | *not counted here:* time | `gpu__time_duration.sum` |
# | *not counted here:* how busy the memory is | <code>dram__throughput<wbr>.avg.pct_of_peak_sustained_elapsed</code> |
# | *not counted here:* what the caches saved | `l1tex__t_sector_hit_rate.pct`, `lts__t_sector_hit_rate.pct` |
# | *not counted here:* how many warps were there | <code>sm__warps_active<wbr>.avg.pct_of_peak_sustained_active</code> |
# | *not counted here:* how busy the tensor cores are | <code>sm__pipe_tensor_cycles_active<wbr>.avg.pct_of_peak_sustained_active</code> |
#
# So use counts while you write, at home and in tests, because they say *why* a kernel is slow. Then use the profilers
# on the GPU, because they say *whether it matters*. `ncu --query-metrics` lists the metrics of your version. On some
# machines only administrators may read these counters, and then `ncu` reports `ERR_NVGPUCTRPERM`.

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - Reproduce the fault with little data, let a tool name a line, explain the whole symptom, fix one thing, and test again what worked before.
# - The named line is where the fault shows. Trace the number back to its origin, or ask what the thread waits for.
# - If a fault comes and goes, an order is missing. `check()` finds it even in a run whose answer is right.
# - A barrier orders the threads of a block, the end of a launch orders its stream, and an event orders two streams. A
#   cooperative launch also has a barrier for its whole grid.
# - A line is also responsible when a kernel is slow, so count sectors before you guess. To learn whether it matters,
#   use `nsys` first and then `ncu`.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - [compute-sanitizer](https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html): runs `memcheck`,
#   `racecheck`, `initcheck` and `synccheck` on a real GPU. It reports case 2 as you have seen. None of its tools finds
#   case 1, because `initcheck` looks only at global memory. `racecheck` looks only at shared memory, so it doesn't find
#   case 5.
# - [Nsight Systems](https://docs.nvidia.com/nsight-systems/UserGuide/index.html) and
#   [Nsight Compute's profiling guide](https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html), which explains how its metrics are named.
# - [Debugging](https://nvidia.github.io/numba-cuda/user/debugging-with-lineinfo.html) in Numba-CUDA, on how to get line
#   numbers into messages.
# - The [memory model](https://docs.nvidia.com/cuda/parallel-thread-execution/index.html#memory-consistency-model) of
#   PTX, which defines exactly what "nothing orders the two" means.
#
# Next, look at your own code: put `with virtualgpu.check() as report:` around a launch that you trust.

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 60 minutes
#
# | minutes | what |
# |---|---|
# | 0-6 | the six reports, the method; ask which of them people have had |
# | 6-14 | case 1 |
# | 14-21 | case 2 |
# | 21-29 | case 3; two people play threads, and a key on a string is the lock |
# | 29-38 | case 4 |
# | 38-46 | case 5; ask for a comment that would be true |
# | 46-54 | case 6 |
# | 54-60 | the profilers; with a GPU at hand, run the two commands on the projector |
#
# The cases are independent, so if you have half an hour, choose 1, 3 and 5. They are more fun in pairs, in which one
# person guesses the line and the other runs the tool.
#
# *Ten minutes late:* leave out case 2, which takes a minute to fix at home. *Ten minutes early:* people break one thing
# in one of their own kernels, and write a seventh bug report about it for their neighbour.
#
# *Where people get stuck.* In case 2 they change the kernel, and then 129 values give only one maximum. In case 3 they
# put an `exch` before the `return`, which is also right, but forget the fence before it. In case 6 they wait for both
# events in one stream only.
#
# *Frequent questions.* "Why not just print?" `print` works in kernels, but it shows what happened in one particular
# order, and a race may disappear when you print. "Does the checker find everything?" No, because it sees only the
# launches that you make, with the data that you pass. A kernel that is wrong for 129 elements may be right for 128.
