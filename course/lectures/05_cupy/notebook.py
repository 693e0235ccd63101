# %% [markdown] id="the-question-asked"
# ## NumPy's names: where are they not enough?
#
# In [the walk](03_the_walk.ipynb#2-cupy-numpys-names-arrays-on-the-device), the same function `time_to_wall` ran with
# NumPy and with CuPy, and CuPy launched nine kernels for it. In this lesson you find out where CuPy differs from NumPy,
# how much memory a formula needs, and which kinds of kernel you can write in CuPy. Run the first cell, which creates
# the particles of the walk again, this time in a barrel with lids.

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
# Both libraries run the same function. **So which NumPy programs can you move to CuPy by changing an import, and which
# ones go wrong?**

# %% [markdown] id="differences-predict" tags=["predict"]
# ## 1. Nearly NumPy
#
# The cell runs five lines with both libraries. *Predict:* which lines give different results? One of the differences is
# dangerous.

# %% id="differences-guess"
predict("differences",
        "nowhere: CuPy is NumPy",
        "sums, lists of indices, lists, strings; an index out of bounds gives no error",
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
# - **Sums are arrays** without dimensions, and they stay on the device. Use them in further calculations, and call
#   `float(…)` only at the very end.
# - **Indices in a list aren't checked.** In an array of 4 elements, index 7 returns element 3, because indices wrap
#   around without an error or a warning. To raise an error, CuPy would have to copy a result to the host at every
#   lookup. A single index is already known on the host, so CuPy raises an error for it.
# - CuPy's functions do not accept lists, and its arrays hold only numbers, so there are no arrays of strings or of
#   objects.

# %% [markdown] id="lookup-task"
# ### Exercise: a lookup that warns you
#
# Each hit in a detector has the number of its layer, and each layer has a time offset. In a damaged file, the layer of
# a hit may be missing from the table, and then `offsets[layers]` returns the offset of some *other* layer.
#
# Write `offsets_of(layers, offsets)`, which returns the offset of the layer of every hit, or NaN if there is no such
# layer. Work on the device, without `.get()` and without a loop.

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
# You will meet more differences between CuPy and NumPy, and write three kinds of kernels. Each of them leaves more of
# the work to you than the one before.

# %% [markdown] id="differences-then"
# There is one more difference, which this page can't show. If an index occurs twice in `a[indices] = values`, NumPy
# keeps the last value. On a GPU, any of the threads may write last, so you cannot know which value remains.

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
# It is an error, `Unsupported type <class 'numpy.ndarray'>`. CuPy would have to copy one of the two arrays, and it lets
# you decide which one, and when.

# %% [markdown] id="mixing-then"
# So you write every copy to the device explicitly. Copies to the host are easier to overlook, because many expressions
# make one.

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
# `np.sqrt` stays on the device, as you saw in the walk, and `np.asarray` raises an error. All the other expressions
# copy numbers to the host, and wait until the device has computed them. A single `if` on an element inside a loop is
# enough to make the GPU wait for the host most of the time.
#
# *Small* results may be copied to the host. This histogram is only 100 numbers, however many times it counts.

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
# Requesting memory from the driver is slow, and makes the host wait for the device, so CuPy rarely does it. It keeps
# the memory of deleted arrays in a **pool**, and takes the memory for new arrays of the same size from the pool.
#
# `time_to_wall` takes three arrays and returns one. *Predict:* how many arrays must fit on the device at once? And is
# the memory of a deleted array shown as free, for example in `nvidia-smi`, NVIDIA's list of the programs on its GPUs?

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
# `-b`, `b**2`, `4*a` and `4*a*c`. The pool keeps their memory, so `nvidia-smi` and other programs see it as used, but
# this is not a memory leak. If another program needs the memory, call `free_all_blocks()` of the pool, which is
# `cp.get_default_memory_pool()` unless you choose a different one.

# %% [markdown] id="out-of-memory-predict" tags=["predict"]
# In the next cell, the pool may hold six arrays, which is twice the size of the data. *Predict:* is that enough?

# %% id="out-of-memory-guess"
predict("out-of-memory", "yes: it needs three and makes one", "no")

# %% id="out-of-memory" raises="OutOfMemoryError"
pool.set_limit(size=6 * d_a.nbytes + 4096)
with cp.cuda.using_allocator(pool.malloc):
    time_to_wall(*three)

# %% [markdown] id="out-of-memory-why" tags=["why"]
# It isn't enough. The message gives first the size of the request that failed, which is one array, then the memory that
# was in use, which is six arrays, and then the limit. On a full GPU you get the same error without the limit. To need
# less memory, first delete the arrays that you no longer use. Then try `float32`, work in chunks, and create fewer
# intermediate results, as in section 4.

# %% [markdown] id="in-chunks-task"
# ### Exercise: in chunks
#
# Write `times_in_chunks(a, b, c, chunk)`, which returns the same times in one new array. It applies the formula to
# `chunk` particles at a time, so that each intermediate result has only `chunk` elements. The number of particles may
# be anything, including 0. The check limits the memory to the result and five chunks.

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
# The nine kernels of the formula read and write 22 arrays in total, which is 176 bytes for each particle, although 32
# bytes are enough. A GPU computes such a formula much faster than it can read the numbers, so the number of bytes
# determines the time. You already know the `ElementwiseKernel`, which needs only 32. A shorter remedy is `cp.fuse`,
# which calls your function once, with placeholders for the arrays, and makes *one* kernel of it.

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
# The fused kernel moves 5.5 times fewer bytes and needs no intermediate arrays. CuPy fuses nothing automatically, so
# use `cp.fuse` where a chain of operations takes most of the time. It accepts element-wise operations and simple
# reductions, but it runs your function before the numbers are known, so it can't fuse an `if` on an element, but it can
# fuse `cp.where`.

# %% [markdown] id="elementwise-text"
# ## 5. Two kernels, half written
#
# If each element needs an `if` or a loop, you can give `ElementwiseKernel` a longer body in CUDA C++. [The table in the
# lesson on PyCUDA](04_pycuda.ipynb#1-c-for-readers-of-python) has all the C++ that you need for it. CuPy adds the
# index, the bounds check, the types and broadcasting. A single letter such as `T` stands for one type, which is
# determined by the arguments.

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
# In NumPy you can mix `float32` and `float64` arrays, and the result is `float64`. *Predict:* can you pass them to a
# kernel with the parameters `T a` and `T b`?

# %% id="mismatch-guess"
predict("mismatch",
        "yes, and the result is float64",
        "no: an error",
        "yes, and the result is float32")

# %% id="mismatch" raises="TypeError"
wall_kernel(d_a.astype(np.float32), d_b, d_c)

# %% [markdown] id="mismatch-why" tags=["why"]
# You can't, because `T` is a single type, and the message names the two types that you passed. You can use two letters,
# as in `"T a, U b"`, or fix the type, as in `"float64 a"`, so that CuPy converts the arguments, or convert the array
# where you create it.

# %% [markdown] id="elementwise-task"
# ### Exercise: wall or lid?
#
# The barrel has lids at a distance of `length` on either side of the middle. A particle starts at `z` and flies along
# the barrel with the velocity `vz`. If it flies forwards, it reaches a lid at the time `(length - z) / vz`, and if it
# flies backwards, at `(-length - z) / vz`. If `vz` is 0, it never reaches a lid. Write the body, which sets `time` to
# the time at which the particle leaves, at the wall or at a lid, whichever comes first. Set `lid` to 1 if it leaves
# through a lid, and to 0 if it hits the wall.

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
# A **reduction** computes a single number from many. `cp.ReductionKernel` takes four expressions. The first is applied
# to each element, the second combines two results called `a` and `b`, and the third computes from `a` the number that
# is stored at the end. The fourth is the **identity**, the result for no elements at all. The example computes the
# length of a vector, which is the square root of the sum of its squares.

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
# Write `first_at_lid`, which returns the smallest time among the particles that leave through a lid, and infinity if
# there is none. In C++ you can write infinity as `1.0 / 0.0`, or with CUDA's name `CUDART_INF`, which CuPy also
# accepts. You may use `min(a, b)` and `condition ? this : that`.

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
# If a thread must read *other* elements, you write the whole kernel for a `cp.RawKernel`, as in the walk.
# `ElementwiseKernel` checked bounds and types for you, but now you write the guard yourself, pass `np.int32(n)` for
# `int n`, and pass arrays of the types that the kernel declares, because [nothing compares the
# types](04_pycuda.ipynb#3-two-type-systems-and-no-check-between-them).

# %% [markdown] id="begins-task"
# ### Exercise: where does a group begin?
#
# The hits of a detector are sorted by time. Hits that follow each other closely belong to the same group, and a gap
# longer than `pause` begins a new group. The visits to a web site are counted from its log in the same way. Write the
# kernel `begins`, which sets `begin[i]` to 1 if hit `i` is the first of its group, and to 0 if not. The very first hit
# begins a group. The kernel has to work for any `n`, including 0, and for any number of threads that is at least `n`.

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
# Each time is read by two neighbouring threads, one of which reads it as its own time and the other as the previous
# one. The 64 times occupy 16 sectors of 32 bytes. *Predict:* how many sectors do the warps of 32 threads request in
# your kernel? The picture stays empty until you have written the kernel.

# %% id="raw-memory-guess"
predict("raw-memory", "16", "about twice as many", "128: two for each thread")

# %% id="raw-memory"
in_order = cp.sort(d_times[:64])
gpucourse.memory(begins, 1, 64, in_order, 0.01, cp.zeros(64, np.int8), np.int32(64), array="argument 0",
                 title="begins reads the times")

# %% [markdown] id="raw-memory-why" tags=["why"]
# They request 33 sectors in total, because each warp makes two requests. The first is for 8 sectors with its threads'
# own times, and the second is for up to 9 sectors with the previous times, which are shifted by one element. It is the
# best case for a GPU when neighbouring threads read neighbouring elements. A real GPU also has a small cache, which
# already holds most sectors of the second request. The lesson "Thinking in warps" shows bad cases.

# %% [markdown] id="interchange-text" tags=["predict"]
# ## 7. One array, many libraries
#
# In the walk, a Numba kernel accepted CuPy arrays without a copy. *Predict:* the kernel below changes `d_few`. Does it
# change CuPy's numbers, or those of a copy?

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
# It changes CuPy's own numbers, because nothing is copied. The attribute `__cuda_array_interface__` gives the address,
# shape and type of the array, and a library that reads this attribute works on the same memory. The array then has two
# names, so **if you change it under one name, it changes under both**. Someone must also keep the memory alive, and
# CuPy does so as long as its view exists.

# %% [markdown] id="interchange-then"
# | library | how it takes a CuPy array | how CuPy takes its array |
# |---|---|---|
# | Numba | directly, or with `cuda.as_cuda_array(x)` | `cp.asarray(y)` |
# | JAX | `jax.numpy.from_dlpack(x)` | `cp.from_dlpack(y)` |
# | PyTorch | `torch.from_dlpack(x)` | `cp.from_dlpack(y)` |
# | NumPy | `x.get()`, which copies because host memory is separate | `cp.asarray(y)`, which also copies |
#
# There is a second standard, **DLPack**, which uses a function call instead of an attribute and supports every kind of
# device. Both standards also name the *stream*, the device's queue, that may still have unfinished work on the array,
# so that the receiving library can wait for it. Without a GPU, JAX and PyTorch have no device here, so you can't run
# these two rows of the table.

# %% [markdown] id="measuring-predict" tags=["predict"]
# ## 8. Which is faster, then?
#
# For the host, a launch is like posting a letter. It drops the letter in the box and goes on. *Predict:* what does this
# code measure?
#
# ```python
# start = time.perf_counter()
# time_to_wall(d_a, d_b, d_c)
# print(time.perf_counter() - start)
# ```
#
# `cupyx.profiler.benchmark` calls a function a few times to warm up. Then it calls the function again with events
# before and after it, which are timed by the device's own clock, and waits for them. On a GPU, the next cell prints the
# host's time and the GPU's time for each function.

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
# measures how long it takes to post nine letters. At the first call it also includes compilation, but it never measures
# the time of a kernel. `benchmark` shows the host's time as `CPU`, next to the time of the GPU.

# %% [markdown] id="measuring-then"
# Without a GPU there is no such time, and this course doesn't invent one, but you can count bytes. A kernel that only
# reads, adds and writes cannot be faster than the memory allows. According to NVIDIA's data sheet of 2023, an H100 SXM
# moves at most 3.35 TB per second.

# %% id="bound"
H100_BYTES_PER_S = 3.35e12
for name, bytes_each in (("nine kernels", 176), ("one kernel", fused_bytes)):
    least = bytes_each * 10_000_000 / H100_BYTES_PER_S
    print(f"ten million particles by {name:12}: at least {least * 1e3:.2f} ms")

# %% [markdown] id="bound-why"
# The cell prints *at least*, because these are lower bounds and not timings. For arrays that are too large for the
# caches, expect the times to have the ratio of the bytes, 5.5. For small arrays, expect nine launches to take nine
# times as long as one, however many bytes they move.
#
# [The walk's table](03_the_walk.ipynb#5-side-by-side) has the times that we recorded on an H200, and one of them does
# not follow the bytes. The nine kernels took 3.11 ms and the `ElementwiseKernel` 0.48 ms, but the fused kernel took
# 0.75 ms. So `cp.fuse` takes 1.57 times as long for the same 32 bytes per particle, and *bytes aren't everything.* The
# machine code explains the difference, because `cp.fuse` turns `b**2` into a call of `pow`, whereas the other kernels
# multiply, so its kernel has 141 float64 instructions where the `ElementwiseKernel` has 52. Write `b * b` if you use
# `cp.fuse`, although we have not measured on a GPU how much this gains. Try `cp.fuse` first, because it takes one line,
# and write an `ElementwiseKernel` if that code takes most of the time.
#
# *Recorded rows: `quadratic.float64/cupy-arrays`, `quadratic.float64/cupy-elementwise`, `quadratic.float64/cupy-fuse`.*

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - CuPy is NumPy on the device. Nothing is copied to the host unless you request it, but `print`, `float` and `if` are
#   such requests.
# - Sums stay on the device as arrays without dimensions, and lists of indices wrap around instead of raising an error.
# - Deleted arrays go back to CuPy's pool, not to the driver. The data *and* the intermediate results must fit in
#   memory.
# - Every operation is a separate kernel, which reads and writes whole arrays. Our formula took nine kernels and 176
#   bytes per particle, although one kernel and 32 bytes are enough. Use `cp.fuse`, an `ElementwiseKernel` or a
#   `ReductionKernel`. If you check bounds and types yourself, you can also use a `RawKernel`.
# - A launch returns before the work is done. So warm up first and measure with events, as `cupyx.profiler.benchmark`
#   does.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - CuPy's user guide on [differences from NumPy](https://docs.cupy.dev/en/stable/user_guide/difference.html),
#   [memory](https://docs.cupy.dev/en/stable/user_guide/memory.html), [user-defined
#   kernels](https://docs.cupy.dev/en/stable/user_guide/kernel.html), [other
#   libraries](https://docs.cupy.dev/en/stable/user_guide/interoperability.html) and
#   [performance](https://docs.cupy.dev/en/stable/user_guide/performance.html).
# - For the functions of NumPy and SciPy that CuPy has, see the [comparison
#   table](https://docs.cupy.dev/en/stable/reference/comparison.html).
# - The [CUDA array interface](https://nvidia.github.io/numba-cuda/user/cuda_array_interface.html),
#   [DLPack](https://dmlc.github.io/dlpack/latest/), and the [array API
#   standard](https://data-apis.org/array-api/latest/), with which one function can work with many libraries.

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
# *Where people get stuck.* In `lookup` they write `and` between arrays, where they need `&` and parentheses. In
# `elementwise` they forget semicolons. In `reduction` they leave the identity at 0, so the answer is 0. Ask them what
# the smallest of no numbers should be. In `begins`, thread 0 reads `time[-1]`, and the check names it.
#
# *Frequent questions.* "Does `import cupy as np` work?" Often it does, until you need a plot, a list or a string. "Why
# is the first call slow?" CuPy compiles each kernel when you first use it, and keeps it on disk in
# `~/.cupy/kernel_cache`, so the program is quicker when you run it again. "Is CuPy tied to NVIDIA?" Almost. CuPy also
# runs on AMD's ROCm, but its own documentation calls that support experimental.
