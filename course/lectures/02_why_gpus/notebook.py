# %% [markdown] id="the-question-asked"
# ## A GPU loses against a Python loop
#
# A GPU performs tens of trillions of additions and multiplications per second. Plain Python needs about a tenth of a
# microsecond for one step of a simulated pendulum. Run the cell to see which of them finishes a thousand steps first.

# %% id="the-question"
# %load_ext gpucourse
import math
import time
from dataclasses import dataclass

import cupy as cp
import gpucourse
import numpy as np
import virtualgpu
from gpucourse import lesson
from gpucourse.system.device import device, pick
from gpucourse.views.picture import COLOURS, Picture, canvas

check, hint, predict = lesson("02_why_gpus")
DT, GRAVITY = 0.001, 9.81  # s; m/s², for a pendulum of 1 m


def swing(angle, speed, steps, xp):
    """The angle [rad] after some steps of DT."""
    for _ in range(steps):
        speed = speed - DT * GRAVITY * xp.sin(angle)
        angle = angle + DT * speed
    return angle


def seconds(run):
    """The shortest of five, on the clock of this computer."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


in_python = swing(1.0, 0.0, 1000, math)
with virtualgpu.launches() as launched:
    on_device = swing(cp.array([1.0]), cp.array([0.0]), 1000, cp)
print(f"angle: {in_python:.6f} and {float(on_device[0]):.6f} rad")

# %% [markdown] id="the-race-text"
# Both compute the same angle. One step is five array operations, and CuPy, which is NumPy for GPUs, starts a
# [kernel](01_first_steps.ipynb#1-add-ten) for each of them. One start takes [a few
# microseconds](https://developer.nvidia.com/blog/cuda-graphs/), according to a measurement that NVIDIA made on a V100
# in 2019. We assume 4 µs.

# %% id="the-race"
START = 4e-6  # s, to start one kernel, or one copy: our assumption throughout
programs = len(launched) or 5 * 1000  # counted, or (a real GPU keeps no list) worked out
python_s = seconds(lambda: swing(1.0, 0.0, 1000, math))
print(f"Python, measured on this computer:    {python_s * 1e3:6.2f} ms")
if device().virtual:
    print(f"a GPU, {programs:,} starts of 4 µs: at least {programs * START * 1e3:.0f} ms (arithmetic: no GPU ran)")
else:
    gpu_s = seconds(lambda: float(swing(cp.array([1.0]), cp.array([0.0]), 1000, cp)[0]))
    print(f"{device().name}, measured: {gpu_s * 1e3:.1f} ms for {programs:,} starts")

# %% [markdown] id="the-question-stands"
# The plain Python loop wins by far, so a GPU is not simply "a faster computer". **What is it fast at, then, and how can
# you tell before porting anything?** If your machine has no GPU, a *virtual* GPU runs the kernels and counts what they
# do, but it has no clock.

# %% [markdown] id="throughput-predict" tags=["predict"]
# ## 1. Latency and throughput
#
# **Latency** is the time that one item takes, and **throughput** is the number of items that are finished per second.
# CPU cores are like bicycle couriers, who deliver one parcel after another. A GPU is like a container ship, which is
# slow but carries ten thousand containers.
#
# An H100's memory delivers 3.35 TB/s, but each number takes 0.23 µs to arrive. *Predict:* if each thread requests one
# 8-byte number and waits for it, how many threads must be waiting at the same time to keep the memory busy?

# %% id="throughput-guess"
predict("throughput", "100", "10,000", "100,000")

# %% id="throughput"
LATENCY, BANDWIDTH = 400 / 1.755e9, 3.35e12  # s, bytes/s
for threads in (1, 100, 10_000, 100_000):
    reached = min(threads * 8 / LATENCY, BANDWIDTH)
    print(f"threads {threads:7,}: {reached / 1e9:9.3f} GB/s, {reached / BANDWIDTH:9.4%} of what there is")

# %% [markdown] id="throughput-why" tags=["why"]
# Nearly 100,000 threads must be waiting, because the number of bytes in flight is latency × throughput. This is
# Little's law. A CPU hides latency with caches and speculative execution. A GPU hides it by running other threads that
# are ready to continue.

# %% [markdown] id="in-flight-task"
# ### Exercise: how many threads?
#
# Write `threads_needed(latency, bandwidth, bytes_each)`. It returns the number of threads, rounded up, that must be
# waiting to keep the memory busy if each of them waits for `bytes_each` bytes.

# %% id="in-flight-exercise" tags=["exercise"]
def threads_needed(latency, bandwidth, bytes_each):
    """latency in s, bandwidth in bytes/s."""
    ### BEGIN SOLUTION
    return math.ceil(latency * bandwidth / bytes_each)
    ### END SOLUTION


print("numbers of 8 bytes:", threads_needed(LATENCY, BANDWIDTH, 8))
print("numbers of 4 bytes:", threads_needed(LATENCY, BANDWIDTH, 4))

# %% id="in-flight-check"
check("in-flight", threads_needed)

# %% [markdown] id="throughput-then"
# So the first question about any job is: **are there a hundred thousand things to do at once?** A sequence of time
# steps, each of which depends on the previous one, counts as a single task. The table compares the bicycles with the
# ship, using the manufacturers' figures. Our latency of 0.23 µs is 400 cycles at 1.755 GHz, from [table 3 of a 2023
# study](https://pmc.ncbi.nlm.nih.gov/articles/PMC10448217/table/t0015). Other studies measure a higher latency, so
# 100,000 threads are a lower bound.
#
# | | CPU: AMD EPYC 9654 (2022) | GPU: NVIDIA H100 SXM (2022) |
# |---|---|---|
# | processors | 96 cores | 132 *multiprocessors* |
# | threads in flight at once | 192 | 270,336 (2,048 on each) |
# | its memory delivers | 0.46 TB/s | 3.35 TB/s |
# | its memory holds | up to 6 TB | 80 GB |
#
# Next you will see how a GPU works and what it costs to move data to it. Then you'll take three jobs for which a GPU is
# slower, and work out how large each must become before the GPU wins. You need no CUDA for this.

# %% [markdown] id="warps-predict" tags=["predict"]
# ## 2. Thirty-two at a time
#
# In the kernel below, each thread simulates one pendulum. You launch it with `[2, 32]`, which means 2 blocks of 32
# threads, and `cuda.to_device` copies an array to the GPU.
#
# *Predict:* how many times as many instructions does the GPU issue for 32 pendulums as for one, and how many times as
# many for 33?

# %% id="warps-guess"
predict("warps",
        "32 times, and 33 times",
        "hardly more for 32, about twice for 33",
        "hardly more for 32, and hardly more for 33")

# %% id="warps"
from numba import cuda


@cuda.jit
def swing_each(angles, steps, out):
    i = cuda.grid(1)
    if i < angles.size:
        angle, speed = angles[i], 0.0
        for _ in range(steps):
            speed -= DT * GRAVITY * math.sin(angle)
            angle += DT * speed
        out[i] = angle


issued = {}
for pendulums in (1, 32, 33, 64):
    angles = np.linspace(0.2, 1.0, pendulums)
    with virtualgpu.profile() as profile:
        swing_each[2, 32](cuda.to_device(angles), 100, cuda.device_array(pendulums))  # 64 threads
    issued[pendulums] = profile.counters.warp_instructions
    print(f"pendulums {pendulums:3}: {issued[pendulums]:6,} instructions issued, "
          f"{issued[pendulums] / issued[1]:.2f} times as many")

# %% [markdown] id="warps-why" tags=["why"]
# Thirty-two pendulums cost hardly more than one, and the 33rd costs as much as all the others together. The few extra
# instructions are for `sin`, which takes a different branch for larger angles. The hardware doesn't run single threads,
# but *warps* of 32 threads, which execute each instruction together, in 32 *lanes*. A single pendulum uses one lane but
# costs as much as all 32.

# %% id="warps-picture"
numbers = [1, 8, 16, 24, 32, 33, 40, 48, 56, 64]
counts = []
for pendulums in numbers:
    d_angles = cuda.to_device(np.linspace(0.2, 1.0, pendulums))
    with virtualgpu.profile() as profile:
        swing_each[2, 32](d_angles, 100, cuda.device_array(pendulums))
    counts.append(profile.counters.warp_instructions)
figure, axes = canvas(8, 2.4)
axes.plot(numbers, counts, "o-", color=COLOURS[5])
axes.axvline(32.5, color="0.7", linestyle=":")
axes.set(xlabel="pendulums", ylabel="instructions issued", ylim=(0, None), xticks=range(0, 65, 8))
Picture(figure, f"Instructions issued against the number of pendulums: a step. {counts[0]:,} for one and {counts[4]:,} for 32; "
                f"{counts[5]:,} for 33 and {counts[-1]:,} for 64.")

# %% [markdown] id="divergence-predict" tags=["predict"]
# If the lanes of a warp take different branches, the warp runs both branches, one after the other, and masks off the
# lanes that did not take the branch that it runs:
#
# ![Time runs to the right, eight lanes of a warp lie below each other. Together they reach an if on odd
# lanes. First the odd lanes run the if side while the even lanes are masked off, then the even lanes run the
# else side while the odd lanes are masked off, then all go on together. The warp pays for both
# sides.](../img/warp_divergence.svg)
#
# *Predict:* this kernel replaces negative numbers by 0 and all other numbers by their square roots. How many of a
# warp's 32 lanes are active in each step?

# %% id="divergence-guess"
predict("divergence",
        "all 32, in every step",
        "only some where signs are mixed, all 32 where they are not",
        "half of them, always")

# %% id="divergence"
@cuda.jit
def root_or_zero(values):
    i = cuda.grid(1)
    if i < values.size:
        if values[i] < 0:
            values[i] = 0
        else:
            values[i] = math.sqrt(values[i])


mixed = np.random.default_rng(1).normal(size=64)
mixed[32:] = abs(mixed[32:])
gpucourse.timeline(root_or_zero, 1, 64, mixed)

# %% [markdown] id="divergence-why" tags=["why"]
# The numbers of the first warp have both signs, so it runs both branches. First 14 lanes write a zero while the other
# 18, drawn pale, wait. Then those 18 write their square roots. Rest the pointer on a step to see its line and lanes.
# The second warp has only positive numbers, so all its lanes work in every step. Nothing warns you of this difference,
# so remember that a GPU needs many threads that do *the same thing* to different data.

# %% [markdown] id="terms-text"
# ## 3. One machine, four vocabularies
#
# Every manufacturer has its own names for the same things, and this course uses those of CUDA:
#
# | what it is | CUDA | HIP | SYCL | OpenCL |
# |---|---|---|---|---|
# | a program for the GPU | kernel | kernel | kernel | kernel |
# | one run of it, for one element | thread | thread | work-item | work-item |
# | the threads that execute each instruction together | warp (32) | warp or wavefront (32 or 64) | sub-group | sub-group |
# | the threads that can wait for each other and share memory | block | block | work-group | work-group |
# | all threads of a launch | grid | grid | ND-range | NDRange |
# | the large memory of the device | global memory | global memory | global memory | global memory |
# | the processor that runs blocks | multiprocessor | compute unit | compute unit | compute unit |
#
# **CUDA** was released by NVIDIA in 2007, and most scientific GPU software was first written for it. **HIP** comes from
# AMD and is nearly the same as CUDA with different names. **SYCL** and **OpenCL** are open standards for the GPUs of
# several manufacturers.

# %% [markdown] id="memories-text" tags=["predict"]
# ## 4. Where the numbers live
#
# ![A pyramid of memories, from small and near to large and far: the registers of a thread, at most 255 of 4 bytes
# each; the shared memory of a block, up to 227 kB; the L2 cache of the whole GPU, 50 MB; global memory, 80 GB at
# 3.3 TB per second; and the memory of the host, behind a PCIe link of 64 GB per second. Each step down is larger,
# slower and seen by more threads.](../img/memory_hierarchy.svg)
#
# The figures in the picture are for an H100. The **host** is your computer with its CPU, the **device** is the GPU, and
# each has its own memory. Data for the GPU must be transferred over a link with a fiftieth of the bandwidth of the
# GPU's own memory. The size of GPU memory is fixed. When the host runs out of its own memory, it moves some of the
# contents to the disk. *Predict:* what happens if you request a terabyte of GPU memory?

# %% id="too-much-guess"
predict("too-much",
        "it gets slow: the rest goes to the disk",
        "an error",
        "it gets slow: the rest stays on the host")

# %% id="too-much" raises="OutOfMemoryError"
cp.empty(2**40, np.uint8)

# %% [markdown] id="too-much-why" tags=["why"]
# The end of the message says how much memory you requested and how much was already allocated. A GPU never moves data
# to the disk, so if your data don't fit, process them in pieces, use several GPUs, or stay on the CPU. *Managed
# memory*, CuPy's `cupy.cuda.malloc_managed`, is an exception, because its pages move over the link automatically when
# the host or the device accesses them. Then you don't have to write the copies, but the data still have to be
# transferred.

# %% [markdown] id="too-much-then"
# The class `Ferry` in the next cell counts transfers, which it calls trips, and their bytes. On a real GPU it also
# measures how long they take.

# %% id="ferry"
class Ferry:
    """Carries arrays between host and device, and counts."""

    def __init__(self):
        self.bytes, self.trips, self.seconds = 0, 0, 0.0

    def there(self, array):
        """A NumPy array becomes an array on the device."""
        return self._carry(cp.asarray, array)

    def back(self, d_array):
        """An array on the device becomes a NumPy array."""
        return self._carry(cp.asnumpy, d_array)

    def _carry(self, how, array):
        start = time.perf_counter()
        carried = how(array)
        cp.cuda.Device().synchronize()  # wait until the device is done
        self.seconds += time.perf_counter() - start
        self.bytes, self.trips = self.bytes + array.nbytes, self.trips + 1
        return carried


@dataclass(frozen=True)
class GPU:
    """Published figures, in bytes per second: its memory, and its link to the host, one way."""

    name: str
    memory: float
    link: float


T4 = GPU("T4 (2018)", 320e9, 16e9)  # PCIe 3.0 x16; the GPU that Colab lends for free
H100 = GPU("H100 SXM (2022)", 3.35e12, 64e9)  # PCIe 5.0 x16

# %% [markdown] id="transfer-predict" tags=["predict"]
# *Predict:* to double a million 8-byte numbers on a GPU, you copy them to the GPU, double them, and copy them back.
# What fraction of the time does the doubling take?

# %% id="transfer-guess"
predict("transfer", "a half", "a tenth", "a twentieth or less")

# %% id="transfer"
for count in (1_000, 1_000_000):
    ferry = Ferry()
    heights = np.ones(count)
    d_doubled = ferry.there(heights) * 2
    doubled = ferry.back(d_doubled)
    print(f"{count:,} numbers: {ferry.bytes:,} bytes in {ferry.trips} trips")
    if not device().virtual:
        print(f"  {device().name}, measured: {ferry.seconds * 1e6:,.0f} µs for the trips")
    for gpu in (T4, H100):
        trips = ferry.trips * START + ferry.bytes / gpu.link
        work = START + 2 * heights.nbytes / gpu.memory  # each number is read and written
        print(f"  {gpu.name:15} at least {trips * 1e6:7.1f} µs for the trips, {work * 1e6:5.1f} µs for the work: "
              f"{work / (trips + work):.0%}")

# %% [markdown] id="transfer-why" tags=["why"]
# For a million numbers, the doubling takes a twentieth of the time or less, because nearly all of the time is spent on
# the link. For a thousand numbers, nearly all of the time goes into starting the copies and the kernel. These times are
# lower bounds from published figures and our 4 µs, and real copies are slower.

# %% [markdown] id="transfer-then"
# You save time if you transfer less, as these two timelines show:
#
# ![Two timelines, each with a host and a device. Above, three kernels, each with its array copied there and back: most
# of the time goes into six copies. Below, the array is copied once, the host launches three kernels, which return at
# once while the device works through them, and waits only when it copies the result
# back.](../img/host_device_transfers.svg)

# %% [markdown] id="ferry-task"
# ### Exercise: transfer less
#
# Heat spreads in a ring of rods. In each step, the new temperature of every rod is the mean of its own temperature and
# those of its two neighbours. The function `relax_there_and_back` copies all temperatures back and forth in every step,
# just to record the highest one.
#
# Write `relax`, which returns the same results but copies all temperatures to the device once and back once. You may
# also copy the highest temperature back after each step, which is 8 bytes per step.

# %% id="ferry-exercise" tags=["exercise"]
def smooth(d_heat):
    return (cp.roll(d_heat, 1) + d_heat + cp.roll(d_heat, -1)) / 3


def relax_there_and_back(ferry, heat, steps):
    """The temperatures after some steps, and the hottest after each step (two NumPy arrays)."""
    hottest = np.zeros(steps)
    for step in range(steps):
        heat = ferry.back(smooth(ferry.there(heat)))
        hottest[step] = heat.max()
    return heat, hottest


def relax(ferry, heat, steps):
    hottest = np.zeros(steps)
    ### BEGIN SOLUTION
    d_heat = ferry.there(heat)
    for step in range(steps):
        d_heat = smooth(d_heat)
        hottest[step] = ferry.back(d_heat.max())
    heat = ferry.back(d_heat)
    ### END SOLUTION
    return heat, hottest


rods = np.random.default_rng(2).uniform(0, 100, 10_000)
for version in (relax_there_and_back, relax):
    ferry = Ferry()
    version(ferry, rods, 50)
    print(f"{version.__name__:21} {ferry.bytes:11,} bytes in {ferry.trips:3} trips")

# %% id="ferry-check"
check("ferry", relax)

# %% [markdown] id="model-text"
# ## 5. When does a GPU win?
#
# So you pay for each start of a kernel or a copy, for each byte that crosses the link, and for each byte that the GPU
# reads from or writes to its own memory. The sum of these costs is a *model* of the time that the GPU takes. It leaves
# out arithmetic and assumes that the link and the memory reach their full bandwidth, so the GPU takes *at least* that
# long. We compare the model with NumPy, which we measure on one core of this computer.
#
# For `n` elements the GPU takes `starts × 4 µs` plus `n` times its cost per element, and the CPU takes `n` times its
# own cost per element. The next two cells define four jobs with their costs. A GPU loses at the first three as long as
# they are small. These are a sum, our pendulum, and a hundred iterations of `2x + 1` with a transfer in each iteration.
# The fourth job does the same iterations but transfers its data only once. In the first job, `1 + 3` starts means one
# kernel and three copies.

# %% id="prices"
@dataclass(frozen=True)
class Job:
    """What a job costs on a GPU: starts in all; bytes over the link and of memory, per element."""

    name: str
    starts: int
    over_link: int
    in_memory: int
    on_cpu: object  # the same with NumPy, for n elements

    def per_element(self, gpu):
        return self.over_link / gpu.link + self.in_memory / gpu.memory

    def on_gpu(self, gpu, n):
        return self.starts * START + n * self.per_element(gpu)


def one_sum(n):
    heights, waves = np.ones((2, n))
    return lambda: heights + waves


def pendulums(n, steps=20):
    angles, speeds = np.linspace(0.2, 1.0, n), np.zeros(n)
    return lambda: swing(angles, speeds, steps, np)


def hundred_times(n):
    heights = np.ones(n)

    def run():
        values = heights
        for _ in range(100):
            values = 2 * values + 1
    return run


# %% id="jobs"
JOBS = [
    Job("one sum, carried there and back", 1 + 3, 3 * 8, 3 * 8, one_sum),
    Job("20 steps of n pendulums", 20 * 5 + 3, 3 * 8, 20 * 12 * 8, pendulums),
    Job("100 times 2x + 1, carried each time", 100 * 4, 100 * 16, 100 * 4 * 8, hundred_times),
    Job("100 times 2x + 1, carried once", 100 * 2 + 2, 16, 100 * 4 * 8, hundred_times),
]
with virtualgpu.launches() as launched:
    swing(cp.zeros(9), cp.zeros(9), 20, cp)
print("20 steps, starts:", len(launched) or 100)

# %% [markdown] id="prices-why"
# We counted these starts and bytes by hand. The expression `2 * x + 1` takes two kernels, and each of them reads `n`
# numbers of 8 bytes and writes as many. That is 32 bytes per element and iteration. One step of a pendulum takes five
# kernels, which read and write 12 arrays in all, or 96 bytes per element. The lecture "CuPy: NumPy on the device" shows
# how to *fuse* the five kernels into one.

# %% [markdown] id="crossover-task"
# ### Exercise: the crossover
#
# Write `crossover(starts, gpu_each, cpu_each)`. It returns the smallest whole number `n` for which the GPU, which takes
# `starts * START + n * gpu_each` seconds, is no slower than the CPU, which takes `n * cpu_each` seconds. Return `None`
# if there is no such `n`, because then no size helps.

# %% id="crossover-exercise" tags=["exercise"]
def crossover(starts, gpu_each, cpu_each):
    ### BEGIN SOLUTION
    gain = cpu_each - gpu_each  # what each element brings in
    if gain <= 0:
        return None
    return math.ceil(starts * START / gain)
    ### END SOLUTION


# %% id="crossover-check"
check("crossover", crossover)

# %% [markdown] id="lab-predict" tags=["predict"]
# *Predict:* which of the four jobs never pays off on a T4, and which pays off at the smallest size? Until your
# `crossover` is right, the table says "never" throughout.

# %% id="lab-guess"
predict("lab",
        "the first never, and the third soonest",
        "the first and the third may never, and the fourth soonest",
        "none: enough elements make each of them pay off")

# %% id="lab"
cpu_each = {job.on_cpu: seconds(job.on_cpu(100_000)) / 100_000 for job in JOBS}  # measured here
verdicts = {}
print(f"{'ns for each element':37}{'this CPU':>10}{'T4':>9}{'H100':>9}{'T4 wins from':>16}{'H100 from':>13}")
for job in JOBS:
    prices = [job.per_element(gpu) for gpu in (T4, H100)]
    sizes = [crossover(job.starts, price, cpu_each[job.on_cpu]) for price in prices]
    verdicts[job.name] = sizes
    nanoseconds = [1e9 * each for each in (cpu_each[job.on_cpu], *prices)]
    told = [f"n = {n:,}" if n else "never" for n in sizes]
    print(f"{job.name:37}{nanoseconds[0]:10.2f}{nanoseconds[1]:9.2f}{nanoseconds[2]:9.2f}{told[0]:>16}{told[1]:>13}")

# %% [markdown] id="lab-why" tags=["why"]
# The columns of the GPUs are the model's lower bounds. The CPU column was measured with 100,000 numbers, which may fit
# into the CPU's caches. With many more numbers, the CPU would take longer for each of them. "Never" appears where an
# element takes longer on the GPU than on your CPU, usually because of the link alone, and then no number of elements
# helps. Your CPU and the link decide whether this happens to the first and the third job. The last job is the same as
# the third, but it transfers the data only once. **The computation is the same, and only the number of transfers makes
# the difference.**

# %% [markdown] id="lab-then"
# With a single pendulum, as at the beginning, the GPU loses. The next cell tries larger numbers of pendulums:

# %% id="lab-picture"
job = JOBS[1]
sizes = [10**k for k in range(pick(gpu=7, virtual=6))]
measured = [seconds(job.on_cpu(n)) * 1e3 for n in sizes]
figure, axes = canvas(8.5, 3.2)
axes.loglog(sizes, measured, "o-", color=COLOURS[6], label="NumPy, measured here, one core")
if not device().virtual:

    def on_device(n):
        angles, speeds = cp.linspace(0.2, 1.0, n), cp.zeros(n)
        return lambda: (swing(angles, speeds, 20, cp), cp.cuda.Device().synchronize())

    on_gpu = [seconds(on_device(n)) * 1e3 for n in sizes]
    axes.loglog(sizes, on_gpu, "s-", color=COLOURS[2], label=f"{device().name}, measured")
for gpu, style in ((T4, "--"), (H100, ":")):
    axes.loglog(sizes, [job.on_gpu(gpu, n) * 1e3 for n in sizes], style, color=COLOURS[5],
                label=f"{gpu.name}: model, at least")
axes.set(xlabel="pendulums", ylabel="time for 20 steps [ms]")
axes.legend()
Picture(figure, f"Time for 20 steps against the number of pendulums, both logarithmic. NumPy, measured: "
                f"{measured[0]:.2f} ms for one and {measured[-1]:.1f} ms for {sizes[-1]:,}. The models of two GPUs are flat at "
                f"{job.starts * START * 1e3:.1f} ms, the price of {job.starts} starts, up to about 10,000 pendulums; NumPy's "
                "line rises across them, and lies above both at the right.")

# %% [markdown] id="lab-picture-why"
# In the flat part of the model lines, the time goes into starting kernels and the GPU is nearly idle, so ten thousand
# pendulums take hardly longer than one. On the right the GPU is fully used, and NumPy's line has crossed the lines of
# the models. With a real GPU the crossover is further to the right, because the models are lower bounds. The next cell
# shows times that were recorded on a real GPU. They are for a different job, the quadratic formula with the numbers
# already on the GPU, and for starting one kernel.

# %% id="recorded"
from gpucourse.views.measured import recorded, recorded_scaling, recorded_times

recorded(recorded_scaling("scaling.quadratic"), recorded_times("launch"))

# %% [markdown] id="recorded-why"
# Were our 4 µs for a start a good assumption? On the H200 itself, a start took 2.9 µs. But Python makes the calls, and
# in a sequence of calls, each one took 6.5 µs for a C++ kernel (CuPy's `RawKernel`), 12.5 µs for CuPy's own functions,
# 25 µs for Numba and 42 µs for JAX. So CuPy's 5,000 starts for the pendulum would take about 62 ms instead of 20 ms,
# and the crossover moves to arrays three times as large. The link is also slower than its nominal 64 GB/s. A NumPy
# array was transferred at 9 GB/s, because the driver [first copies it to its own
# memory](https://developer.nvidia.com/blog/how-optimize-data-transfers-cuda-cc/). An array in *pinned* memory, which
# needs no such copy, was transferred at 55 GB/s.
#
# *Recorded rows: `launch`, `link/to-device`, `link/to-device-pinned`.*

# %% [markdown] id="when-not"
# So **when does a GPU not help?** It does not help if there are few elements, if each step has to wait for the previous
# one, if you transfer more than you compute, if each thread takes a different path, or if the data do not fit. Nor do
# you need one if your code is fast enough already, or waits for a disk. A GPU built for games computes in double
# precision at 1/64 of its speed in single precision, according to NVIDIA's [table of
# throughputs](https://docs.nvidia.com/cuda/cuda-c-programming-guide/#arithmetic-instructions). If a program spends 80 %
# of its time in the part that you port, it runs at most five times as fast, and only if the ported part then takes no
# time at all.

# %% [markdown] id="landscape-text"
# ## 6. The tools, today
#
# The table has one line for each tool that this course teaches, as of late 2026:
#
# | tool | what you write | what to know |
# |---|---|---|
# | [CuPy](https://docs.cupy.dev/en/stable/) | NumPy and SciPy | closest to what you know; one kernel per operation unless you fuse. Lecture "CuPy" |
# | [JAX](https://docs.jax.dev/) | NumPy, as pure functions | compiles, fuses and differentiates; needs functional style. Lecture "JAX" |
# | [cuDF](https://docs.rapids.ai/api/cudf/stable/) | pandas | tables; `cudf.pandas` runs pandas code unchanged. Lecture "Tables on the device" |
# | [Awkward Array](https://awkward-array.org/) | arrays of lists | jagged data, in Numba kernels too. Lecture "Jagged data" |
# | [numba-cuda](https://nvidia.github.io/numba-cuda/) | kernels in Python | lecture "Numba CUDA"; since June 2026 in maintenance: security and critical bugs only |
# | [PyCUDA](https://documen.tician.de/pycuda/) | CUDA C++ in a string | the oldest (2008), all of CUDA's driver; released again in 2026 (2026.1). Lecture "PyCUDA" |
#
# Start at the top of the table, because a library call that does what you need is often faster than your own kernel,
# and costs nothing to maintain. But this depends on the call, because `cupy.matmul` takes a seventh of the time of the
# kernel that you will write, but `cupy.histogram` takes two to six times as long as the kernel of Project 1. Go down
# the table if no call does what you need. Most of these tools accept each other's arrays without a copy, so you can
# change your mind later. The lecture "One problem, every tool" compares most of them, and names nine more.
#
# *Recorded rows: `lesson.product`, `histogram.even`, `histogram.peaks`.*

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - A CPU finishes a single task quickly. A GPU finishes very many tasks per second, if about a hundred thousand are in
#   flight at once.
# - Threads run in warps of 32 that execute every instruction together. One thread costs as much as 32, and a warp whose
#   lanes take different branches runs both.
# - Each start takes microseconds, and the bandwidth of the link to the host is tens of times lower than that of the
#   GPU's memory. Start few kernels, and transfer your data once.
# - Count starts and bytes before you port a program, because no size helps if transferring an element takes longer than
#   computing it on the CPU.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - NVIDIA's [CUDA programming guide](https://docs.nvidia.com/cuda/cuda-programming-guide/), especially its first
#   chapters, and the [best practices](https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/) on what to port, and
#   when.
# - For the same concepts in other systems, read AMD's [HIP
#   documentation](https://rocm.docs.amd.com/projects/HIP/en/latest/), Khronos on [SYCL](https://www.khronos.org/sycl/)
#   and [OpenCL](https://www.khronos.org/opencl/), and [CUDA's terms in
#   SYCL](https://oneapi-src.github.io/SYCLomatic/dev_guide/reference/term-mapping-quick-ref.html).
# - The figures come from NVIDIA's pages on the [H100](https://www.nvidia.com/en-us/data-center/h100/) and the
#   [T4](https://www.nvidia.com/en-us/data-center/tesla-t4/).

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 50 minutes
#
# | minutes | what |
# |---|---|
# | 0-7 | the question; ask for bets before the second cell |
# | 7-18 | section 1 and `in-flight`; act it out: one courier, one ship |
# | 18-27 | section 2; the table of section 3 is for looking up |
# | 27-38 | section 4 and `ferry` |
# | 38-48 | section 5; `crossover`, then bets on the table |
# | 48-50 | section 6: point at the three lines that this audience will use |
#
# *Ten minutes late:* skip `in-flight` and the timeline, and give the solution of `crossover`.
#
# *Where people get stuck.* In `ferry`, people fetch all of `d_heat` to find its maximum, although `d_heat.max()` finds
# it on the device. The check also accepts `hottest[step] = d_heat.max()`. There NumPy converts the result to a number,
# and CuPy transfers this number without the ferry's knowledge. This is a good moment to say that transfers are easily
# overlooked. The check doesn't accept `d_heat.get().max()`, which transfers everything. In `crossover`, people round
# down, or divide by a negative gain.
#
# *Frequent questions.* "But my laptop's GPU shares the memory of the CPU!" Then transfers are as fast as the memory,
# but each kernel still takes time to start. "Why 4 µs?" It is an assumption near the best reported values. Launches
# from Python take longer, as the recorded rows `launch/numba` and `launch/cupy` show. "So is a GPU 100 times faster or
# not?" For suitable work it can be, compared with one core, as the recorded rows `scaling.quadratic/numba` and
# `scaling.quadratic/numpy` show. If you compare it with all 96 cores, the bandwidths in the table of section 1 differ
# only by a factor of seven.
#
# *What goes wrong.* On a busy machine the measured column varies, but the conclusions hold, except for a job that is
# close to "never".
