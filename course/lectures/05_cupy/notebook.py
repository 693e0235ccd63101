# %% [markdown] id="the-question-asked"
# ## NumPy's names: where are they not enough?
#
# In [the walk](03_the_walk.ipynb#2-cupy-numpys-names-arrays-on-the-device) one function, `time_to_wall`, ran with NumPy
# and with CuPy, and CuPy launched nine kernels for it. In this lesson you find out where CuPy differs from NumPy, how
# much memory a formula needs, and which kinds of kernel you can write in CuPy. Run the cell, which makes the particles
# of the walk again, now in a barrel with lids.

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
d_a, d_b, d_c = cp.asarray(a), cp.asarray(b), cp.asarray(c)
d_times = time_to_wall(d_a, d_b, d_c)
print(f"NumPy: {times[:4]} ns\nCuPy:  {d_times[:4]} ns\nagree: {np.allclose(times, d_times.get())}")

# %% [markdown] id="the-question-stands"
# The function is the same for both. **So which NumPy programs can you move by changing an import, and which ones go
# wrong?**

# %% [markdown] id="differences-predict" tags=["predict"]
# ## 1. Nearly NumPy
#
# The cell runs five lines with both libraries. *Predict:* which lines differ? One of the differences is dangerous.

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
# - **Sums are arrays** without dimensions, still on the device. Go on calculating with them, and call `float(…)` at the
#   very end.
# - **Indices in a list aren't checked.** Element 7 of 4 is element 3, because indices wrap around without an error or a
#   warning. To raise an error, CuPy would have to copy a result to the host at every lookup. A single number is already
#   known on the host, so for that CuPy does raise an error.
# - Lists are not arrays, and arrays hold only numbers, so there are no arrays of text or of objects.

# %% [markdown] id="lookup-task"
# ### Exercise: a lookup that warns you
#
# Each hit in a detector has the number of its layer, and each layer an offset in time. In a damaged file a hit's layer
# may not be in the table, and then `offsets[layers]` gives the offset of some *other* layer.
#
# Write `offsets_of(layers, offsets)`, which returns the offset of every hit's layer, and NaN where there is no such
# layer. Stay on the device, without `.get()` and without a loop.

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
# You will meet more differences between CuPy and NumPy, and write three kinds of kernels, each with less done for you.

# %% [markdown] id="differences-then"
# There is one more difference, which this page can't show. When an index occurs twice in `a[indices] = values`, NumPy
# keeps the last value, but on a GPU any of the threads may come last.

# %% [markdown] id="mixing-predict" tags=["predict"]
# ## 2. Arrays that live elsewhere
#
# As in the walk, `cp.asarray` has copied `a` to the device, and `d_a` is the copy. *Predict:* is `d_a - a` a CuPy
# array, a NumPy array, or an error?

# %% id="mixing-guess"
predict("mixing", "a CuPy array", "a NumPy array", "an error")

# %% id="mixing" raises="TypeError"
d_a - a

# %% [markdown] id="mixing-why" tags=["why"]
# It is an error, `Unsupported type <class 'numpy.ndarray'>`. One of the two would have to be copied, so CuPy makes you
# say which one, and when.

# %% [markdown] id="mixing-then"
# So you always write copies explicitly, and there are more ways to do that than you may think.

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
# `np.sqrt` stays on the device, as you saw in the walk, and `np.asarray` is refused. All the others copy numbers to the
# host, and wait until the device has computed them. Put one `if` on an element inside a loop, and the GPU spends its
# time waiting for the host.
#
# *Small* results may come back to the host. A histogram is 100 numbers, however many times went into it.

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
# Asking the driver for memory is slow, and makes the host wait for the device. So CuPy asks rarely. It keeps the memory
# of deleted arrays in a **pool**, from which it takes the next array of that size.
#
# `time_to_wall` takes three arrays and returns one. *Predict:* how many arrays must fit on the device? And does
# the memory of a deleted array show as free, say in `nvidia-smi`, NVIDIA's list of the programs on its GPUs?

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
# Seven arrays must fit. While Python evaluates the expression, up to four intermediate results exist at once, namely
# `-b`, `b**2`, `4*a` and `4*a*c`. Their memory stays with the pool, so `nvidia-smi` and other programs see it as used,
# but that isn't a memory leak. When another program needs it, return it with `free_all_blocks()` of the pool, which is
# `cp.get_default_memory_pool()` unless you choose another.

# %% [markdown] id="out-of-memory-predict" tags=["predict"]
# Here the pool may hold six arrays, which is twice the data. *Predict:* is that enough?

# %% id="out-of-memory-guess"
predict("out-of-memory", "yes: it needs three and makes one", "no")

# %% id="out-of-memory" raises="OutOfMemoryError"
pool.set_limit(size=6 * d_a.nbytes + 4096)
with cp.cuda.using_allocator(pool.malloc):
    time_to_wall(*three)

# %% [markdown] id="out-of-memory-why" tags=["why"]
# It isn't enough. Read the message from the left. It gives the size of the request that failed, which is one array,
# then the memory in use by then, which is six, and then the limit. On a full GPU you get the same error without the
# limit. To need less memory, first delete what you no longer use, then use `float32`, work in chunks, and create fewer
# intermediate results, as in section 4.

# %% [markdown] id="in-chunks-task"
# ### Exercise: in chunks
#
# Write `times_in_chunks(a, b, c, chunk)`, which returns the same times in one new array, but applies the formula to
# `chunk` particles at a time, so that intermediate results are `chunk` long. Any number of particles may come,
# including 0. The check leaves room for the result and five chunks.

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

# %% [markdown] id="launches-text"
# ## 4. One kernel in place of nine
#
# The nine kernels of the formula read or write 22 arrays, 176 bytes for each particle, where 32 are enough. A GPU does
# such arithmetic much faster than it can fetch numbers, so the bytes decide. You know one cure, the
# `ElementwiseKernel`. `cp.fuse` is the shortest one, because it calls your function once, with placeholders for arrays,
# and makes *one* kernel of it.

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

# %% [markdown] id="fused-why"
# That is 5.5 times fewer bytes, and no intermediate arrays at all. CuPy fuses nothing on its own, so ask for it where a
# chain of operations takes most of the time. `cp.fuse` accepts element-wise operations and simple reductions. It runs
# your function once, before there are numbers, so it can't fuse an `if` on an element, but it can fuse `cp.where`.

# %% [markdown] id="elementwise-text"
# ## 5. Two kernels, half written
#
# When each element needs an `if` or a loop, an `ElementwiseKernel` takes a longer body in CUDA C++, for which [the
# table in the lesson on PyCUDA](04_pycuda.ipynb#1-c-for-readers-of-python) has all that you need. CuPy does the rest,
# which is index, bounds, types and broadcasting. A single letter such as `T` is one type, chosen by the arguments.

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
# In NumPy you can mix `float32` and `float64` arrays, and the result is `float64`. *Predict:* can you mix them as
# `T a` and `T b`?

# %% id="mismatch-guess"
predict("mismatch",
        "yes, and the result is float64",
        "no: an error",
        "yes, and the result is float32")

# %% id="mismatch" raises="TypeError"
wall_kernel(d_a.astype(np.float32), d_b, d_c)

# %% [markdown] id="mismatch-why" tags=["why"]
# You can't, because `T` is one type, and the message names the two that you gave. Use two letters, as in `"T a, U b"`,
# or fix a type, as in `"float64 a"`, so that arguments are converted, or convert the array where you create it.

# %% [markdown] id="elementwise-task"
# ### Exercise: wall or lid?
#
# The barrel has lids, `length` to either side of the middle. A particle that starts at `z` and flies along the barrel
# with `vz` reaches its lid at `(length - z) / vz` if it flies forwards, at `(-length - z) / vz` backwards, and never if
# `vz` is 0. Write the body, which sets `time` to when the particle leaves, by wall or lid, whichever comes first, and
# `lid` to 1 if that is a lid, and to 0 for the wall.

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
# A **reduction** makes one number of many. `cp.ReductionKernel` takes four lines. The first says what to do with each
# element, the second how to combine two results called `a` and `b`, the third what to store in the end from `a`, and
# the fourth is the **identity**, the result for no elements at all. Here is the length of a vector, the root of the sum
# of its squares.

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
# Write `first_at_lid`, the smallest time among the particles that leave by a lid, and infinity if there is none. In C++
# infinity is `1.0 / 0.0`, or CUDA's `CUDART_INF`, which CuPy knows. You may use `min(a, b)` and
# `condition ? this : that`.

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

# %% [markdown] id="raw-text"
# ## 6. All of it yourself
#
# When threads must look at *other* elements, you write the whole kernel, for a `cp.RawKernel` as in the walk.
# `ElementwiseKernel` checked bounds and types for
# you, but now you write the guard, pass `np.int32(n)` for an `int n`, and pass arrays of the kernel's type, because
# [nothing compares the types](04_pycuda.ipynb#3-two-type-systems-and-no-check-between-them).

# %% [markdown] id="begins-task"
# ### Exercise: where does a group begin?
#
# The hits of a detector come in time order. Hits that follow each other closely belong together, and a pause longer
# than `pause` begins a new group. Visits to a web site are counted from its log in the same way. Write the kernel
# `begins`, which sets `begin[i]` to 1 if hit `i` is the first of its group, and to 0 if not. The very first hit begins
# a group. The kernel has to work for any `n`, including 0, and for any number of threads, as long as there are at least
# `n`.

# %% id="begins-exercise" tags=["exercise"]
BEGINS = r"""
extern "C" __global__
void begins(const double *time, double pause, signed char *begin, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
}
"""
### BEGIN SOLUTION
BEGINS = r"""
extern "C" __global__
void begins(const double *time, double pause, signed char *begin, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        begin[i] = i == 0 || time[i] - time[i - 1] > pause;
}
"""
### END SOLUTION
begins = cp.RawKernel(BEGINS, "begins")

# %% id="begins-check"
check("begins", begins)

# %% [markdown] id="raw-memory-text" tags=["predict"]
# Two neighbouring threads read each time, one as its own and the other as the one before. The 64 times occupy 16
# sectors of 32 bytes. *Predict:* how many sectors do your kernel's warps of 32 threads request? The picture is empty as
# long as your kernel is.

# %% id="raw-memory-guess"
predict("raw-memory", "16", "about twice as many", "128: two for each thread")

# %% id="raw-memory"
in_order = cp.sort(d_times[:64])
gpucourse.memory(begins, 1, 64, in_order, 0.01, cp.zeros(64, np.int8), np.int32(64), array="argument 0",
                 title="begins reads the times")

# %% [markdown] id="raw-memory-why" tags=["why"]
# They request 33 in all, because each warp requests twice, 8 sectors for its threads' own times, and up to 9 for
# those shifted by one element.
# Neighbouring threads that read neighbouring elements are the best case for a GPU, and a real one has a small cache
# that will already hold the second request's sectors. The lesson "Thinking in warps" shows bad cases.

# %% [markdown] id="interchange-text" tags=["predict"]
# ## 7. One array, many libraries
#
# In the walk, a Numba kernel took CuPy's arrays as they are. The kernel below changes `d_few`. *Predict:* do CuPy's
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
# CuPy's own numbers change, because nothing is copied. An attribute, `__cuda_array_interface__`, gives the address,
# shape and type of the array, and a library that reads it works in place. It is one array with two names, so **a change
# under one name is a change under all**, and someone must keep the memory alive. CuPy does so for as long as its view
# exists.

# %% [markdown] id="interchange-then"
# | library | takes a CuPy array | CuPy takes its array |
# |---|---|---|
# | Numba | as it is, or `cuda.as_cuda_array(x)` | `cp.asarray(y)` |
# | JAX | `jax.numpy.from_dlpack(x)` | `cp.from_dlpack(y)` |
# | PyTorch | `torch.from_dlpack(x)` | `cp.from_dlpack(y)` |
# | NumPy | `x.get()`: a copy, because host memory is separate | `cp.asarray(y)`: a copy |
#
# **DLPack** is the other standard, which uses a function call instead of an attribute, for every kind of device. Both
# also say on which queue of the device, called a *stream*, there may be unfinished work, so that the receiver waits for
# it. Without a GPU, JAX and PyTorch have no device here, so these two rows don't run.

# %% [markdown] id="measuring-predict" tags=["predict"]
# ## 8. Which is faster, then?
#
# For the host, a launch is like posting a letter, because it drops the letter in the box and goes on. *Predict:* what
# does this measure?
#
# ```python
# start = time.perf_counter()
# time_to_wall(d_a, d_b, d_c)
# print(time.perf_counter() - start)
# ```
#
# `cupyx.profiler.benchmark` calls a function a few times to warm up, then again with events before and after it, on the
# device's own clock, and waits for them. On a GPU it prints the host's time and the GPU's time for each function.

# %% id="measuring-guess"
predict("measuring",
        "the time of nine kernels",
        "how long it takes to post nine letters",
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
# `time_to_wall` returns when nine letters are in the box, long before the ninth kernel has run. So the host's clock
# measures how long it takes to post nine letters and, at the first call, to compile, but it doesn't time a single
# kernel. `benchmark` shows that time too, as `CPU`, beside the one you want.

# %% [markdown] id="measuring-then"
# Without a GPU there is no such time, and nothing here invents one, but there are counts. A kernel that only reads,
# adds and writes cannot be faster than memory delivers. According to NVIDIA's data sheet of 2023, an H100 SXM moves at
# most 3.35 TB per second.

# %% id="bound"
H100_BYTES_PER_S = 3.35e12
for name, bytes_each in (("nine kernels", 176), ("one kernel", fused_bytes)):
    least = bytes_each * 10_000_000 / H100_BYTES_PER_S
    print(f"ten million particles by {name:12}: at least {least * 1e3:.2f} ms")

# %% [markdown] id="bound-why"
# The cell prints *at least*, because these are bounds and not timings. But for arrays too large for the caches, expect
# their ratio, 5.5. For small arrays, expect nine launches to cost nine times as much as one, whatever they move.
#
# [The walk's table](03_the_walk.ipynb#5-side-by-side) has the times that we recorded on an H200, and one of them is not
# as the bytes promise. The nine kernels took 3.11 ms, the `ElementwiseKernel` 0.48, but the fused kernel 0.75. So with
# the same 32 bytes, `cp.fuse` takes 1.57 times as long, and *bytes aren't everything.* The machine code explains the
# delay, because `cp.fuse` turns `b**2`, elsewhere a product, into a call of `pow`, and its kernel has 141 float64
# instructions where the `ElementwiseKernel` has 52. Write `b * b` there, although we have not measured on a GPU how
# much that gains. So fuse first, because that is one line, and write the `ElementwiseKernel` where that code takes most
# of the time.
#
# *Recorded rows: `quadratic.float64/cupy-arrays`, `quadratic.float64/cupy-elementwise`, `quadratic.float64/cupy-fuse`.*

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - CuPy is NumPy on the device. Nothing crosses unless you ask for it, and `print`, `float` and `if` do ask.
# - Sums stay on the device as arrays without dimensions, and lists of indices wrap around instead of failing.
# - Deleted arrays go back to CuPy's pool, not to the driver. The data *and* the intermediate results must fit.
# - Every operation is a separate kernel, and reads and writes whole arrays. Our formula took nine kernels and 176 bytes
#   where one kernel and 32 bytes are enough. Fuse, or write an `ElementwiseKernel`, a `ReductionKernel` or, when you
#   check bounds and types yourself, a `RawKernel`.
# - A launch returns before the work is done, so measure with events after a warm-up, as `cupyx.profiler.benchmark`
#   does.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - CuPy's user guide: [differences from NumPy](https://docs.cupy.dev/en/stable/user_guide/difference.html),
#   [memory](https://docs.cupy.dev/en/stable/user_guide/memory.html), [user-defined
#   kernels](https://docs.cupy.dev/en/stable/user_guide/kernel.html), [other
#   libraries](https://docs.cupy.dev/en/stable/user_guide/interoperability.html) and
#   [performance](https://docs.cupy.dev/en/stable/user_guide/performance.html).
# - What CuPy has of NumPy and SciPy: the
#   [comparison table](https://docs.cupy.dev/en/stable/reference/comparison.html).
# - The [CUDA array interface](https://nvidia.github.io/numba-cuda/user/cuda_array_interface.html),
#   [DLPack](https://dmlc.github.io/dlpack/latest/), and the [array API standard](https://data-apis.org/array-api/latest/),
#   by which one function can serve many libraries.

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 55 minutes
#
# | minutes | what |
# |---|---|
# | 0-4 | the question: which lines of a NumPy program would you worry about? |
# | 4-18 | sections 1 and 2; `lookup` |
# | 18-28 | section 3; `in-chunks` is good homework |
# | 28-42 | sections 4 and 5; `elementwise`, then `reduction` in pairs |
# | 42-55 | sections 6 to 8; `begins`; show section 7 without changing it |
#
# *Ten minutes late:* skip `in-chunks` and the table of section 7, and explain section 8 without running it.
#
# *Where people get stuck.* In `lookup` they write `and` between arrays, where they need `&`, with brackets. In
# `elementwise` they forget semicolons. In `reduction` the identity stays 0, and the answer is 0, so ask what the
# smallest of no numbers should be. In `begins` thread 0 reads `time[-1]`, and the check names it.
#
# *Frequent questions.* "Does `import cupy as np` work?" Often it does, until you need a plot, a list or a string. "Why
# is the first call slow?" CuPy compiles each kernel when you first use it, and keeps it on disk
# (`~/.cupy/kernel_cache`), so the second run of the program is quicker. "Is CuPy tied to NVIDIA?" Almost. CuPy also
# runs on AMD's ROCm, but its own documentation calls that support experimental.
