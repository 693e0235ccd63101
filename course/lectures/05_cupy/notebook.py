# %% [markdown] id="the-question-asked"
# ## One line of NumPy: how often is each number fetched?
#
# Particles start near the middle of a barrel of 1.1 m radius and fly off in straight lines, at the speed of
# light. When does each hit the wall? Where $a t^2 + b t + c = 0$: the formula from school, here in NumPy. Run the
# cell: it calls the *same function* with arrays in the computer's memory, and with arrays in a GPU's.

# %% id="the-question"
# %load_ext gpucourse
import cupy as cp
import gpucourse
import numpy as np
import virtualgpu
from gpucourse import lesson
from gpucourse.system.device import device, pick
from gpucourse.views.picture import COLOURS, Picture, canvas

check, hint, predict = lesson("05_cupy")
RADIUS, LIGHT = 1.1, 0.3  # m, m/ns
n = pick(gpu=4_000_000, virtual=100_000)

random = np.random.default_rng(3)
x, y, z = random.normal(0, 0.05, (3, n))  # where the particles start [m]
cosine, phi = random.uniform(-1, 1, n), random.uniform(-np.pi, np.pi, n)
vx, vy, vz = LIGHT * np.stack([np.sqrt(1 - cosine**2) * np.cos(phi),
                               np.sqrt(1 - cosine**2) * np.sin(phi), cosine])  # [m/ns]
a, b, c = vx**2 + vy**2, 2 * (x * vx + y * vy), x**2 + y**2 - RADIUS**2


def time_to_wall(a, b, c):
    """When a straight line, a·t² + b·t + c = 0, reaches the wall [ns]."""
    return (-b + np.sqrt(b**2 - 4 * a * c)) / (2 * a)


times = time_to_wall(a, b, c)
d_a, d_b, d_c = cp.asarray(a), cp.asarray(b), cp.asarray(c)  # d_: in the memory of the device
d_times = time_to_wall(d_a, d_b, d_c)
print(f"NumPy: {times[:4]} ns\nCuPy:  {d_times[:4]} ns\nagree: {np.allclose(times, d_times.get())}")

# %% [markdown] id="the-question-stands"
# The function is the same, to the letter. That is CuPy's promise: NumPy's names, NumPy's rules, arrays on the
# device. **But how often does the GPU fetch each number, and how few times would do?**

# %% [markdown] id="differences-predict" tags=["predict"]
# ## 1. Nearly NumPy
#
# *Predict:* the cell runs five lines with both libraries. Where do they differ? One of the differences is dangerous.

# %% id="differences-guess"
predict("differences",
        "nowhere: CuPy is NumPy",
        "sums, lists of indices, lists, texts; an index out of bounds is quiet",
        "only in speed")

# %% id="differences"
lines = {
    "layers.sum()": lambda xp: xp.arange(4).sum(),
    "layers[7]": lambda xp: xp.arange(4)[7],
    "layers[[1, 7]]": lambda xp: xp.arange(4)[[1, 7]],
    "sum([1, 2])": lambda xp: xp.sum([1, 2]),
    "array(['barrel'])": lambda xp: xp.array(["barrel"]),
}
for line, run in lines.items():
    for xp in (np, cp):
        try:
            answer = repr(run(xp))
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        print(f"{line:18} {xp.__name__:6} {answer}")

# %% [markdown] id="differences-why" tags=["why"]
# - **Sums are arrays** without dimensions, still on the device. Go on calculating with them, and say `float(…)` at the
#   very end.
# - **Indices in a list aren't checked.** Element 7 of 4 is element 3: indices wrap around, no error, no
#   warning. An error would have to travel to the host, for every lookup. A single number is known on the
#   host; there, CuPy complains.
# - Lists are not arrays, and arrays hold numbers only: no text, no objects.

# %% [markdown] id="lookup-task"
# ### Exercise: a lookup that says so
#
# Each hit in a detector has the number of its layer, and each layer an offset in time. Where a hit's layer is
# not in the table (a damaged file), `offsets[layers]` gives the offset of some *other* layer.
# Write `offsets_of(layers, offsets)`: the offset of every hit's layer, and NaN where there is no such layer.
# Stay on the device: no `.get()`, no loop. `hint("lookup")` gives a first hint, and called again, a second one.

# %% id="lookup-exercise" tags=["exercise"]
def offsets_of(layers, offsets):
    """offsets[layer] [ns] for each of layers, two CuPy arrays; NaN where the table has no such layer."""
    ### BEGIN SOLUTION
    known = (layers >= 0) & (layers < offsets.size)
    return cp.where(known, offsets[layers], cp.nan)
    ### END SOLUTION


# %% id="lookup-check"
check("lookup", offsets_of)

# %% [markdown] id="the-way" tags=["whole"]
# You will meet more of what CuPy does *not* promise, and write kernels of three kinds, with less and less done for you.

# %% [markdown] id="differences-then"
# Another difference this page cannot show: with `a[indices] = values` and an index that occurs twice, NumPy keeps
# the last value. On a GPU, any of the threads may come last.

# %% [markdown] id="mixing-predict" tags=["predict"]
# ## 2. Arrays that live elsewhere
#
# `cp.asarray` copies a NumPy array to the device, `.get()` copies one back. *Predict:* `d_a` is on the
# device, `a` is not. What is `d_a - a`: a CuPy array, a NumPy array, or an error?

# %% id="mixing-guess"
predict("mixing", "a CuPy array", "a NumPy array", "an error")

# %% id="mixing" raises="TypeError"
d_a - a

# %% [markdown] id="mixing-why" tags=["why"]
# An error: `Unsupported type <class 'numpy.ndarray'>`. One of the two would have to travel, and the path
# between host and device is the slowest on the whole machine: CuPy makes you say which one, and when.

# %% [markdown] id="mixing-then"
# So you always write copies out. There are more ways to write one than you may think:

# %% id="crossings"
d_few = d_times[:3]
print("np.sqrt(x) is an array of", type(np.sqrt(d_few)).__module__)
for name, crossing in {
    ".get()": d_few.get, "cp.asnumpy(x)": lambda: cp.asnumpy(d_few), ".tolist()": d_few.tolist,
    "print(x)": lambda: str(d_few), "float(x[0])": lambda: float(d_few[0]),
    "if x[0] > 0": lambda: bool(d_few[0] > 0), "np.asarray(x)": lambda: np.asarray(d_few),
}.items():
    try:
        print(f"{name:14} gives {type(crossing()).__name__}")
    except TypeError as error:
        print(f"{name:14} is refused: {error}")

# %% [markdown] id="crossings-why"
# All but the last fetch numbers, and wait until the device has them: `print`, `float` and `if` as well. One
# `if` on an element inside a loop, and the GPU does nothing but wait for the host. (`np.sqrt` asks its
# argument who should do the work, and CuPy's arrays say: we. That is why `time_to_wall` runs on both.)
#
# What *is* small may come home. A histogram is 100 numbers, however many times went into it:

# %% id="histogram"
counts, edges = (part.get() for part in cp.histogram(d_times, 100, (3, 13)))
figure, axes = canvas(9, 2.5)
axes.stairs(counts, edges, fill=True, color=COLOURS[5])
axes.set(xlabel="time to the wall [ns]", ylabel="particles per 0.1 ns", xlim=(3, 13))
peak = edges[counts.argmax()]
Picture(figure, f"Histogram of times to the wall from 3 to 13 ns: a sharp rise to its peak of {counts.max()} "
                f"particles at {peak:.1f} ns, those that fly straight at the wall, then a long fall.")

# %% [markdown] id="pool-predict" tags=["predict"]
# ## 3. Who holds the memory?
#
# Asking the driver for memory is slow, and makes the host wait for the device. So CuPy asks rarely: what you
# delete goes to a **pool**, and the next array of that size comes from there.
#
# `time_to_wall` gets three arrays and returns one. *Predict:* how many arrays must fit on the device? And does
# the memory of a deleted array show as free, say in `nvidia-smi`, NVIDIA's list of who uses its GPUs?

# %% id="pool-guess"
predict("pool", "four, and free at once", "seven, and free at once", "seven, and not free")

# %% id="pool"
pool = cp.cuda.MemoryPool()  # a pool of our own, to see this formula alone


def held(when):
    used, total = pool.used_bytes() / d_a.nbytes, pool.total_bytes() / d_a.nbytes
    print(f"{when:24} in use: {used:.1f} arrays, held by the pool: {total:.1f}")


with cp.cuda.using_allocator(pool.malloc):
    three = [cp.asarray(part) for part in (a, b, c)]
    held("a, b and c")
    result = time_to_wall(*three)
    held("the formula has run")
    del result
    held("the result is deleted")
pool.free_all_blocks()  # back to the driver with all that is not in use
held("free_all_blocks()")

# %% [markdown] id="pool-why" tags=["why"]
# Seven arrays. While NumPy's expression is worked out, up to four intermediate results live at once: `-b`, `b**2`,
# `4*a` and `4*a*c`. Their memory stays with the pool, so `nvidia-smi` and other programs see it as taken;
# that isn't a memory leak. `free_all_blocks()` gives it back, where somebody else needs it. (The pool that CuPy uses
# unasked is `cp.get_default_memory_pool()`.)

# %% [markdown] id="out-of-memory-predict" tags=["predict"]
# *Predict:* the data fit twice. Is that enough? Here the pool may hold six arrays:

# %% id="out-of-memory-guess"
predict("out-of-memory", "yes: it needs three and makes one", "no")

# %% id="out-of-memory" raises="OutOfMemoryError"
pool.set_limit(size=6 * d_a.nbytes + 4096)
with cp.cuda.using_allocator(pool.malloc):
    time_to_wall(*three)

# %% [markdown] id="out-of-memory-why" tags=["why"]
# It isn't enough. Read the message from the left: what was asked for last (one array), what was held by then (six), and the limit.
# On a full GPU you get the same error without the limit. What helps, in this order: delete what you no longer
# need, use `float32`, work in chunks, make fewer intermediate results (section 4).

# %% [markdown] id="in-chunks-task"
# ### Exercise: in chunks
#
# Write `times_in_chunks(a, b, c, chunk)`: the same times in one new array, but with the formula taken for
# `chunk` particles at once, so that intermediate results are `chunk` long. Any number of particles may come, 0 too.
# The check lets you have room for
# the result and five chunks.

# %% id="in-chunks-exercise" tags=["exercise"]
def times_in_chunks(a, b, c, chunk):
    ### BEGIN SOLUTION
    times = cp.empty_like(a)
    for start in range(0, a.size, chunk):
        part = slice(start, start + chunk)
        times[part] = time_to_wall(a[part], b[part], c[part])
    return times
    ### END SOLUTION


# %% id="in-chunks-check"
check("in-chunks", times_in_chunks)

# %% [markdown] id="launches-predict" tags=["predict"]
# ## 4. Nine kernels against one
#
# Now the first question. CuPy knows nothing of the whole formula: Python hands it one operation after the other,
# and each becomes a **kernel**, a program that the GPU runs once for every element. *Predict:* which nine are these, and
# how many arrays does each read or write? (`virtualgpu.launches()` lists what CuPy would launch. Where a real GPU
# answers, only a profiler can tell.)

# %% id="launches-guess"
predict("launches",
        "two or three: one or two in, one out",
        "three each: two in, one out",
        "all nine together read three and write one")

# %% id="launches"
with virtualgpu.launches() as launched:
    d_times = time_to_wall(d_a, d_b, d_c)
print(launched)
arrays = [one.details["dtypes"].count("float64") for one in launched] or [2, 2, 2, 3, 3, 2, 3, 2, 3]
print(f"arrays read or written by each: {arrays}, together {sum(arrays)}: "
      f"{8 * sum(arrays)} bytes for each particle")

# %% [markdown] id="launches-why" tags=["why"]
# Nine: `-b`, `b**2` (which is `square` here, not a power), `4*a`, times `c`, the difference, the root, the sum,
# `2*a`, and the division. The names tell their types: `float64` is an array, `float` a Python number.
#
# Each kernel fetches its arrays from memory and writes a result there, for the next one to fetch. A GPU does
# such arithmetic far faster than it can fetch numbers, so what counts is bytes. The formula needs three
# arrays and makes one: 32 bytes for each particle. It moves 176.

# %% [markdown] id="launches-then"
# `cp.fuse` watches a function once, with placeholders for arrays, and makes *one* kernel of it:

# %% id="fused"
@cp.fuse()
def fused_time(a, b, c):
    return (-b + cp.sqrt(b**2 - 4 * a * c)) / (2 * a)


fused_time(d_a, d_b, d_c)  # the first call compiles
with virtualgpu.launches() as launched, virtualgpu.profile() as profile:
    d_fused = fused_time(d_a, d_b, d_c)
print(launched)
print("the same times:", bool(cp.allclose(d_fused, d_times)))
moved = profile.counters.global_bytes_read + profile.counters.global_bytes_written
fused_bytes = moved / n or 32  # (0 where a real GPU did it)
print(f"counted as it ran: {fused_bytes:.0f} bytes for each particle")

# %% id="traffic-picture"
figure, axes = canvas(8, 1.8)
left = 0
for k, count in enumerate(arrays):
    axes.barh("NumPy's way", 8 * count, left=left, color=COLOURS[k % 2], edgecolor="white")
    left += 8 * count
axes.barh("fused", fused_bytes, color=COLOURS[2])
axes.set(xlabel="bytes read and written for each particle", xlim=(0, 180))
Picture(figure, f"Bytes moved for each particle: NumPy's way {left}, in nine pieces for nine kernels; "
                f"fused {fused_bytes:.0f}, in one.")

# %% [markdown] id="fused-why"
# 5.5 times fewer, and no intermediate arrays at all. Nothing fuses by itself in CuPy: where a chain of operations
# is hot, say so. (JAX fuses whatever you compile with it.) `cp.fuse` takes element-wise operations and simple
# reductions; since it runs your function once, before there are numbers, an `if` on an element cannot be fused:
# `cp.where` can.

# %% [markdown] id="elementwise-text"
# ## 5. Two kernels, half written
#
# Where an `if` or a loop belongs to each element, write the body yourself, in CUDA C++ (section 1 of "PyCUDA: CUDA
# C++ in a string" has what you need of it in one table), and let CuPy do the rest: loop, bounds, types,
# broadcasting. `cp.ElementwiseKernel` takes inputs, outputs, body and name; a single
# letter such as `T` stands for one type, chosen by the arguments.

# %% id="elementwise"
wall_kernel = cp.ElementwiseKernel(
    "T a, T b, T c",
    "T time",
    """
    T root = b * b - 4 * a * c;
    time = root < 0 ? -1 : (-b + sqrt(root)) / (2 * a);  // never there: -1
    """,
    "wall_kernel",
)
print("the same times:", bool(cp.allclose(wall_kernel(d_a, d_b, d_c), d_times)))
print("broadcast:", wall_kernel(d_a[:2, None], d_b[:3], -1.21).shape,
      "in", wall_kernel(d_a[:2].astype(np.float32), np.float32(0), np.float32(-1.21)).dtype)

# %% [markdown] id="mismatch-predict" tags=["predict"]
# In NumPy, `float32` and `float64` arrays may meet, and the result is `float64`. *Predict:* may they meet as
# `T a` and `T b`?

# %% id="mismatch-guess"
predict("mismatch",
        "yes, and the result is float64",
        "no: an error",
        "yes, and the result is float32")

# %% id="mismatch" raises="TypeError"
wall_kernel(d_a.astype(np.float32), d_b, d_c)

# %% [markdown] id="mismatch-why" tags=["why"]
# No. `T` is one type; the message names both. Give them two letters (`"T a, U b"`), fix a type (`"float64 a"`:
# then arguments are converted), or convert the array where it is made.

# %% [markdown] id="elementwise-task"
# ### Exercise: wall or lid?
#
# The barrel has lids, `length` to either side of the middle. A particle that starts at `z` and flies along the
# barrel with `vz` reaches its lid at `(length - z) / vz` if it flies forwards, at `(-length - z) / vz`
# backwards, and never if `vz` is 0. Write the body: `time` is when the particle leaves, by wall or lid, whichever
# comes first; `lid` is 1 if that is a lid, and 0 for the wall.

# %% id="elementwise-exercise" tags=["exercise"]
BODY = """
    time = wall;
    lid = 0;
"""
### BEGIN SOLUTION
BODY = """
    time = wall;
    lid = 0;
    if (vz != 0) {
        T at_lid = ((vz > 0 ? length : -length) - z) / vz;
        if (at_lid < wall) {
            time = at_lid;
            lid = 1;
        }
    }
"""
### END SOLUTION
leave = cp.ElementwiseKernel("T wall, T z, T vz, T length", "T time, int8 lid", BODY, "leave")
d_z, d_vz = cp.asarray(z), cp.asarray(vz)
d_left, d_lid = leave(d_times, d_z, d_vz, 3.0)
print(f"{float(d_lid.mean()):.1%} leave by a lid, the last one after {float(d_left.max()):.2f} ns")

# %% id="elementwise-check"
check("elementwise", leave)

# %% [markdown] id="reduction-text"
# A **reduction** makes one number of many. `cp.ReductionKernel` takes four lines: what to do with each element,
# how to combine two results (called `a` and `b`), what to store in the end (from `a`), and the **identity**,
# the result for no elements at all. Here is the length of a vector, the root of the sum of its squares:

# %% id="reduction"
length_of = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "length_of")
with virtualgpu.launches() as in_steps:
    by_steps = cp.sqrt((d_times**2).sum())
with virtualgpu.launches() as at_once:
    in_one = length_of(d_times)
print(in_steps, at_once, sep="\n-- against --\n")
print("agree:", bool(cp.allclose(by_steps, in_one)), " along an axis:", length_of(cp.eye(3), axis=1))

# %% [markdown] id="reduction-task"
# ### Exercise: the first through the lid
#
# Write `first_at_lid`: of the times of the particles that leave by a lid, the smallest; infinity (in C++
# `1.0 / 0.0`, and CuPy knows CUDA's `CUDART_INF`) if there is none. `min(a, b)` and `condition ? this : that` are there for you.

# %% id="reduction-exercise" tags=["exercise"]
EACH, COMBINE, IDENTITY = "time", "a + b", "0"
### BEGIN SOLUTION
EACH, COMBINE, IDENTITY = "lid ? time : 1.0 / 0.0", "min(a, b)", "1.0 / 0.0"
### END SOLUTION
first_at_lid = cp.ReductionKernel(
    "float64 time, int8 lid", "float64 first", EACH, COMBINE, "first = a", IDENTITY, "first_at_lid"
)
print("first:", first_at_lid(d_left, d_lid), "ns")

# %% id="reduction-check"
check("reduction", first_at_lid)

# %% [markdown] id="raw-predict" tags=["predict"]
# ## 6. All of it yourself
#
# When threads must look at *other* elements, nothing is left to do for you: `cp.RawKernel` takes a whole kernel,
# and you launch it with `kernel((blocks,), (threads,), (arguments…))`: so many **blocks** of so many **threads**,
# each of which runs the text once.
#
# Here is our formula once more: thread `i` takes particle `i`. `gpucourse.report` runs a kernel on copies of its
# arguments and says what it did. 1,000 particles, 8 blocks of 128 threads. *Predict:* is the answer right?

# %% id="raw-guess"
predict("raw",
        "yes",
        "the 1,000 are, and 24 threads too many write behind them",
        "no: threads overwrite each other's results")

# %% id="raw"
UNGUARDED = r"""
extern "C" __global__
void wall(const double *a, const double *b, const double *c, double *time)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    time[i] = (-b[i] + sqrt(b[i] * b[i] - 4 * a[i] * c[i])) / (2 * a[i]);
}
"""
few = [d_array[:1000].copy() for d_array in (d_a, d_b, d_c)]
gpucourse.report(cp.RawKernel(UNGUARDED, "wall"), 8, 128, *few, cp.zeros(1000))

# %% [markdown] id="raw-why" tags=["why"]
# 8 × 128 is 1,024, and 24 threads have no particle. They compute one all the same, from what lies behind the
# arrays, and write it behind `time`. On a GPU that is often another array of CuPy's pool: nothing fails, and
# some other result is wrong. `ElementwiseKernel` had guarded you.

# %% [markdown] id="raw-then"
# Now the guard is yours:

# %% id="raw-guarded"
GUARDED = r"""
extern "C" __global__
void wall(const double *a, const double *b, const double *c, double *time, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        time[i] = (-b[i] + sqrt(b[i] * b[i] - 4 * a[i] * c[i])) / (2 * a[i]);
}
"""
wall = cp.RawKernel(GUARDED, "wall")
d_raw = cp.empty_like(d_a)
wall(((n + 127) // 128,), (128,), (d_a, d_b, d_c, d_raw, np.int32(n)))
print("the same times:", bool(cp.allclose(d_raw, d_times)))

# %% [markdown] id="raw-types-predict" tags=["predict"]
# It's `np.int32(n)` because the kernel says `int n`. *Predict:* what if an array has the wrong type? Here is one of
# `float32` for a `double *`:

# %% id="raw-types-guess"
predict("raw-types", "an error", "the numbers are converted", "nonsense, and no error")

# %% id="raw-types"
single = cp.arange(10, dtype=np.float32) + 1
d_out = cp.zeros(5)
with virtualgpu.check() as findings:
    wall((1,), (32,), (single, single, -single, d_out, np.int32(5)))
print(d_out)
print(findings)

# %% [markdown] id="raw-types-why" tags=["why"]
# It isn't noticed. A pointer carries no type: the kernel takes eight bytes where you meant four, and the numbers are
# nonsense. `virtualgpu.check()` compares what you hand over with what the kernel declares. (On a machine with a
# GPU, CuPy's launches do not pass by it: use `gpucourse.report`.)

# %% [markdown] id="raw-task"
# ### Exercise: gaps
#
# Sort all hits by time: how long is the pause between one and the next? Write the kernel `gaps`: of `n` times,
# in order, the `n - 1` differences `gap[i] = time[i + 1] - time[i]`. Any `n` may come, 0 and 1 too, and any
# number of threads, as long as there are `n` or more.

# %% id="raw-exercise" tags=["exercise"]
GAPS = r"""
extern "C" __global__
void gaps(const double *time, double *gap, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
}
"""
### BEGIN SOLUTION
GAPS = r"""
extern "C" __global__
void gaps(const double *time, double *gap, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n - 1)
        gap[i] = time[i + 1] - time[i];
}
"""
### END SOLUTION
gaps = cp.RawKernel(GAPS, "gaps")

# %% id="raw-check"
check("raw", gaps)

# %% [markdown] id="raw-memory-text" tags=["predict"]
# Two neighbouring threads read each time: one as its own, the other as its next. *Predict:* 64 times are 16 pieces of 32 bytes, which memory moves as a
# whole. How many pieces do your kernel's **warps** (32 threads, which read together) ask for? (The picture is
# empty as long as your kernel is.)

# %% id="raw-memory-guess"
predict("raw-memory", "16", "about twice as many", "128: two for each thread")

# %% id="raw-memory"
in_order = cp.sort(d_times[:64])
gpucourse.memory(gaps, 1, 64, in_order, cp.zeros(63), np.int32(64), array="argument 0",
                 title="gaps reads the times")

# %% [markdown] id="raw-memory-why" tags=["why"]
# Each warp asks twice, for 8 pieces and, shifted by one element, for up to 9: 33 in all. Neighbours side by side are
# what a GPU likes, and a real one has a small cache that will hold the second request's pieces already. "Thinking
# in warps" looks at patterns that it doesn't like.

# %% [markdown] id="interchange-text" tags=["predict"]
# ## 7. One array, many libraries
#
# A kernel may be written in Python just as well: Numba's CUDA kernels (there is a lecture on them, "Numba CUDA:
# kernels in Python") take CuPy's arrays as they are. *Predict:* the kernel below changes `d_few`. Do CuPy's
# numbers change, or those of a copy?

# %% id="interchange-guess"
predict("interchange", "CuPy's own", "those of a copy")

# %% id="interchange"
from numba import cuda


@cuda.jit
def to_picoseconds(times):
    i = cuda.grid(1)
    if i < times.size:
        times[i] *= 1000


d_few = d_times[:3].copy()
to_picoseconds[1, 32](d_few)
print("CuPy sees", d_few, "ps")
made_by_numba = cuda.to_device(np.array([3.7, 4.1]))
seen_by_cupy = cp.asarray(made_by_numba)
seen_by_cupy += 100
print("Numba sees", made_by_numba.copy_to_host())
for array in (made_by_numba, seen_by_cupy):
    print({key: array.__cuda_array_interface__[key] for key in ("data", "shape", "typestr")})

# %% [markdown] id="interchange-why" tags=["why"]
# CuPy's own. No number moves: an attribute, `__cuda_array_interface__`, tells where the memory begins, its shape
# and its type, and a library that reads it works on the spot. Same address, one array, two names. So **a change
# under one name is a change under all**, and someone must hold on to it (CuPy does, for as long as its view exists).

# %% [markdown] id="interchange-then"
# | library | takes a CuPy array | CuPy takes its array |
# |---|---|---|
# | Numba | as it is, or `cuda.as_cuda_array(x)` | `cp.asarray(y)` |
# | JAX | `jax.numpy.from_dlpack(x)` | `cp.from_dlpack(y)` |
# | PyTorch | `torch.from_dlpack(x)` | `cp.from_dlpack(y)` |
# | NumPy | `x.get()`: a copy, because it lies elsewhere | `cp.asarray(y)`: a copy |
#
# **DLPack** is the other standard: a function call instead of an attribute, for every kind of device. Both also
# tell in which queue of the device (its *stream*) there may be unfinished work, so that the taker waits for it. (JAX and PyTorch have no device here when there is no
# GPU, so these two rows do not run without one.)

# %% [markdown] id="measuring-predict" tags=["predict"]
# ## 8. Which is faster, then?
#
# Seen from the host, a launch is a note in a letter box: it drops the note in and goes on. *Predict:* what does this
# measure?
#
# ```python
# start = time.perf_counter()
# time_to_wall(d_a, d_b, d_c)
# print(time.perf_counter() - start)
# ```
#
# `cupyx.profiler.benchmark` calls a function some times to warm up, then again with events before and after it, on the
# device's own clock, and waits for them. On a GPU it prints two times for each function: the host's, and the
# GPU's.

# %% id="measuring-guess"
predict("measuring",
        "the time of nine kernels",
        "how long it takes to write nine notes",
        "the time of the last kernel")

# %% id="measuring"
from cupyx.profiler import benchmark

for function in (time_to_wall, fused_time):
    result = benchmark(function, (d_a, d_b, d_c), n_repeat=10, n_warmup=3)
    if device().virtual:
        print(f"{function.__name__}: on the GPU's clock {result.gpu_times.mean()} s: no GPU ran")
    else:
        print(result)

# %% [markdown] id="measuring-why" tags=["why"]
# `time_to_wall` returns when nine notes are in the box, long before the ninth kernel has run. So the clock of the host
# measures how long it takes to write nine notes and, at the first call, to compile. Not one kernel. `benchmark` shows it too, as `CPU`, beside the time that counts.

# %% [markdown] id="measuring-then"
# Without a GPU there is no such time, and nothing here will make one up. What there is: counts. A kernel that
# only reads, adds and writes cannot be faster than memory delivers. An H100 (SXM) moves at most 3.35 TB per
# second, says NVIDIA's data sheet of 2023:

# %% id="bound"
H100_BYTES_PER_S = 3.35e12
for name, bytes_each in (("nine kernels", 8 * sum(arrays)), ("one kernel", fused_bytes)):
    least = bytes_each * 10_000_000 / H100_BYTES_PER_S
    print(f"ten million particles by {name:12}: at least {least * 1e3:.2f} ms")

# %% [markdown] id="bound-why"
# *At least*: these are bounds, not timings. But their ratio, 5.5, is what to expect of arrays too large for the
# caches; and of small arrays, that nine launches cost nine times as much as one, whatever they move.
#
# Here are recorded times of the formula on a real GPU (rows `quadratic.float64`), with the share that each reaches of
# the bandwidth of a plain copy. Say first by how much the two versions with one kernel are ahead of the nine, and of each other:

# %% id="recorded"
from gpucourse.views.measured import recorded_times

recorded_times("quadratic.float64")

# %% [markdown] id="recorded-why"
# The nine took 3.09 ms, the fused kernel 0.75, the `ElementwiseKernel` 0.48 (rows `quadratic.float64/cupy-arrays`, `quadratic.float64/cupy-fuse`,
# `quadratic.float64/cupy-elementwise`). That's 4.1 and 6.5 around the 5.5 that the bytes promise. And the same 32 bytes take `cp.fuse` 1.57 times as long (`quadratic.float64/cupy-fuse`):
# the `ElementwiseKernel` moves them as fast as a plain copy does, the fused one at two thirds of that. *Bytes aren't all.* A count of them can't
# say what holds it up, but the machine code can: of `b**2`, a product elsewhere, `cp.fuse` makes a call of `pow`, and its kernel has 141
# instructions of float64 where the `ElementwiseKernel` has 52. Write `b * b` there (what that gains no GPU has been asked yet:
# `make bench-gpu` does). So fuse first, since that's one line; where the chain is hot, write the `ElementwiseKernel`.

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - CuPy is NumPy on the device; nothing crosses unless you say so, and `print`, `float` and `if` say so.
# - Sums stay on the device as arrays without dimensions, and lists of indices wrap around instead of failing.
# - Deleted arrays go back to CuPy's pool, not to the driver. What must fit is the data *and* the intermediate
#   results.
# - Every operation is a kernel of its own, and reads and writes whole arrays: nine kernels and 176 bytes where one
#   kernel and 32 bytes do. Fuse, or write an `ElementwiseKernel`, a `ReductionKernel` or, with guard and types in
#   your own care, a `RawKernel`.
# - A launch returns before the work is done: measure with events, as `cupyx.profiler.benchmark` does, after a
#   warm-up.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - CuPy's user guide: [differences from NumPy](https://docs.cupy.dev/en/stable/user_guide/difference.html),
#   [memory](https://docs.cupy.dev/en/stable/user_guide/memory.html),
#   [kernels of one's own](https://docs.cupy.dev/en/stable/user_guide/kernel.html),
#   [other libraries](https://docs.cupy.dev/en/stable/user_guide/interoperability.html) and
#   [performance](https://docs.cupy.dev/en/stable/user_guide/performance.html).
# - What CuPy has of NumPy and SciPy: the
#   [comparison table](https://docs.cupy.dev/en/stable/reference/comparison.html).
# - The [CUDA array interface](https://nvidia.github.io/numba-cuda/user/cuda_array_interface.html),
#   [DLPack](https://dmlc.github.io/dlpack/latest/), and the [array API standard](https://data-apis.org/array-api/latest/),
#   by which one function can serve many libraries.

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 65 minutes
#
# | minutes | what |
# |---|---|
# | 0-6 | the question; let people guess a number of kernels, and write the guesses on the board |
# | 6-20 | sections 1 and 2; `lookup` |
# | 20-30 | section 3; `in-chunks` is good homework |
# | 30-50 | sections 4 and 5; back to the guesses on the board; `elementwise`, then `reduction` in pairs |
# | 50-65 | sections 6 to 8; `raw`; show section 7 as it is |
#
# *Ten minutes late:* leave out `in-chunks` and the table of section 7, and tell section 8 without running it.
#
# *Where people stall.* In `lookup`, on `and` between arrays: it is `&`, with brackets. In `elementwise`, semicolons.
# In `reduction`, the identity stays 0, and the answer is 0; ask what the smallest of no numbers should be. In
# `raw`, `i < n` instead of `i < n - 1`: the check names the thread that reads behind the end.
#
# *What someone always asks.* "Does `import cupy as np` do?" Often; until a plot, a list or a text comes. "Why is
# the first call slow?" CuPy compiles each kernel when it is first used, and keeps it on disk
# (`~/.cupy/kernel_cache`): the second run of the program is quicker. "Is CuPy tied to NVIDIA?" Nearly: its support of
# AMD's ROCm is called experimental in its own documentation.
