# %% [markdown] id="the-question-asked"
# ## Which of these would you maintain?
#
# Run the cell below, which draws the Mandelbrot set. For each point `c` of the plane, it starts at `z = 0`, repeats
# `z = z² + c`, and counts the steps until `|z| > 2`. Points that never leave belong to the set.

# %% id="the-question"
# %load_ext gpucourse
import time

import numpy as np
import virtualgpu
from gpucourse import lesson
from gpucourse.system.device import device, pick
from gpucourse.views.picture import Picture, canvas

check, hint, predict = lesson("18_one_problem_every_tool")

WIDTH, HEIGHT = pick(gpu=(3072, 2048), virtual=(384, 256))
LIMIT = 100  # steps at most
real = np.linspace(-2.2, 0.8, WIDTH, dtype=np.float32)
imag = np.linspace(-1.0, 1.0, HEIGHT, dtype=np.float32)


def whole_picture(xp, real, imag, limit):
    """Steps that each point stays, by operations on whole arrays of the library xp."""
    cx, cy = real[None, :], imag[:, None]
    x = y = xp.zeros((imag.size, real.size), xp.float32)
    steps = xp.zeros(x.shape, xp.int32)
    for _ in range(limit):
        xx, yy = x * x, y * y
        steps = steps + (xx + yy <= 4)
        x, y = xx - yy + cx, (x + x) * y + cy
    return steps


with np.errstate(all="ignore"):  # points that have left run on to infinity
    picture = whole_picture(np, real, imag, LIMIT)
figure, axes = canvas(9, 3.6)
axes.imshow(picture, cmap="magma", extent=(-2.2, 0.8, -1, 1), origin="lower")
axes.set(xlabel="real part of c", ylabel="imaginary part of c")
inside = (picture == LIMIT).mean()
Picture(figure, f"The Mandelbrot set: a heart with discs around it, {inside:.0%} of the picture, in a "
                "halo of points that take long to leave.")

# %% [markdown] id="the-question-stands"
# That was NumPy, in a dozen lines. This lecture compares it with seven other programs that draw the same picture. **Do
# they agree, what does each cost, and which would you maintain for five years?**

# %% [markdown] id="arrays-predict" tags=["predict"]
# ## 1. Whole arrays
#
# `whole_picture` takes its array library as an argument. CuPy's arrays are on the device, and `.get()` copies the
# result back.
#
# *Predict:* how many kernels does CuPy launch for the 100 iterations?

# %% id="cupy-arrays-guess"
predict("cupy-arrays", "1: CuPy compiles the loop", "100, one for each iteration", "1,000")

# %% id="cupy-arrays"
import cupy as cp


def by_cupy_arrays(real, imag, limit):
    return whole_picture(cp, cp.asarray(real), cp.asarray(imag), limit).get()


with virtualgpu.launches() as launched:
    answer = by_cupy_arrays(real, imag, LIMIT)
print("the same picture:", np.array_equal(answer, picture))
if device().virtual:  # with a GPU, a profiler such as Nsight Systems lists them
    print(f"{len(launched):,} launches; the first ten:", *launched[:10], sep="\n")

# %% [markdown] id="arrays-why" tags=["why"]
# It launches a thousand kernels, ten for each iteration, because each operation is a kernel. Each reads whole arrays
# from memory and writes one array.

# %% [markdown] id="pixel-text"
# ## 2. One point at a time
#
# The alternative is a function of *one* point, with a loop that stops when the point leaves. Numba compiles such a
# function unchanged.

# %% id="numba"
from numba import cuda, float32, njit, prange


def stays(cx, cy, limit):
    """Steps that the point cx + i cy stays."""
    x = y = 0.0
    steps = 0
    while steps < limit and x * x + y * y <= 4:
        x, y = x * x - y * y + cx, 2 * x * y + cy
        steps += 1
    return steps


stays_on_cpu = njit(stays)


@njit(parallel=True)
def numba_picture(real, imag, limit):
    steps = np.empty((imag.size, real.size), np.int32)
    for row in prange(imag.size):
        for column in range(real.size):
            steps[row, column] = stays_on_cpu(real[column], imag[row], limit)
    return steps


print("the same picture:", np.array_equal(numba_picture(real, imag, LIMIT), picture))

# %% [markdown] id="numba-why"
# The pictures are not the same, and section 3 explains why.

# %% [markdown] id="elementwise-text"
# CuPy's `ElementwiseKernel` takes the body in CUDA C++, and adds indices, guards and shapes.

# %% id="elementwise"
BODY = """
    float x = 0, y = 0;
    steps = 0;
    while (steps < limit && x * x + y * y <= 4) {
        float next = x * x - y * y + cx;
        y = (x + x) * y + cy;
        x = next;
        ++steps;
    }
"""
stays_elementwise = cp.ElementwiseKernel(
    "float32 cx, float32 cy, int32 limit", "int32 steps", BODY, "stays_elementwise")


def by_elementwise(real, imag, limit):
    cx, cy = cp.asarray(real)[None, :], cp.asarray(imag)[:, None]
    return stays_elementwise(cx, cy, limit).get()


by_elementwise(real, imag, LIMIT).shape

# %% [markdown] id="ship-task"
# ### Exercise: port a ship
#
# The *burning ship* is the same loop, except that `x` and `y` lose their signs before each step. In NumPy a step is
#
# ```python
# x, y = xx - yy + cx, abs(2 * x * y) + cy
# ```
#
# Write `burning_ship(real, imag, limit)`, which takes NumPy arrays and returns one of `int32`, **with the tool you like
# best**, on the GPU or by JAX, in one launch. The check tries odd sizes, and allows differences in the last digits. If
# you are stuck, call `hint("ship")`.

# %% id="ship-exercise" tags=["exercise"]
def burning_ship(real, imag, limit):
    """Steps that each point of the burning ship stays, as an array of imag.size rows."""
    steps = np.zeros((imag.size, real.size), np.int32)
    ### BEGIN SOLUTION
    kernel = cp.ElementwiseKernel(
        "float32 cx, float32 cy, int32 limit", "int32 steps",
        BODY.replace("(x + x) * y + cy", "abs((x + x) * y) + cy"), "ship")
    steps = kernel(cp.asarray(real)[None, :], cp.asarray(imag)[:, None], limit).get()
    ### END SOLUTION
    return steps


# %% id="ship-check"
check("ship", burning_ship)

# %% [markdown] id="arrays-then"
# JAX runs the program of section 1 with two changes. The loop becomes `lax.fori_loop`, because otherwise JAX would
# compile a hundred copies of its body, and `jit` compiles the whole function.

# %% id="jax"
from functools import partial

import jax
import jax.numpy as jnp


@partial(jax.jit, static_argnames="limit")
def jax_picture(real, imag, limit):
    cx, cy = real[None, :], imag[:, None]

    def turn(_, state):
        x, y, steps = state
        xx, yy = x * x, y * y
        return xx - yy + cx, (x + x) * y + cy, steps + (xx + yy <= 4)

    zeros = jnp.zeros((imag.size, real.size), jnp.float32)
    return jax.lax.fori_loop(0, limit, turn, (zeros, zeros, zeros.astype(jnp.int32)))[2]


def by_jax(real, imag, limit):
    return np.asarray(jax_picture(real, imag, limit))


by_jax(real, imag, LIMIT).shape

# %% [markdown] id="jax-refuses-predict" tags=["predict"]
# Now we return to the function of one point. *Predict:* does `jax.vmap`, which maps a function over an axis, accept
# `stays`?

# %% id="jax-refuses-guess"
predict("jax-refuses", "yes", "no")

# %% id="jax-refuses" raises="TracerBoolConversionError"
jax.vmap(stays, in_axes=(0, None, None))(real, imag[0], LIMIT)

# %% [markdown] id="jax-refuses-why" tags=["why"]
# It does not, and the error is `Attempted boolean conversion of traced array`. JAX does not compile Python code, but
# runs the function once with stand-ins for the numbers, and the `while` needs a decision that depends on these numbers.
# So the loop has to be a JAX loop, `lax.while_loop`, which "JAX in depth" explains.

# %% [markdown] id="raw-text"
# A `RawKernel` is a complete kernel in CUDA C++, in which you compute the index of your point, guard the bounds and
# choose the launch. PyCUDA compiles the same source, and copies the arrays that are marked `In` and `Out`.

# %% id="raw"
SOURCE = (
    """
extern "C" __global__
void stays(const float *real, const float *imag, int limit, int *out, int width, int height)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= height || column >= width) return;
    float cx = real[column], cy = imag[row];
    int steps;
"""
    + BODY
    + """
    out[row * width + column] = steps;
}
"""
)
stays_raw = cp.RawKernel(SOURCE, "stays")


def blocks_for(width, height):
    """Enough blocks of 32 × 8 threads."""
    return (width + 31) // 32, (height + 7) // 8


def by_raw(real, imag, limit, kernel=stays_raw):
    out = cp.empty((imag.size, real.size), cp.int32)
    numbers = np.int32(limit), out, np.int32(real.size), np.int32(imag.size)
    kernel(blocks_for(*out.shape[::-1]), (32, 8), (cp.asarray(real), cp.asarray(imag), *numbers))
    return out.get()


# %% id="pycuda"
import pycuda.autoprimaryctx  # the context that Numba and CuPy use, too
import pycuda.driver as driver
from pycuda.compiler import SourceModule

stays_pycuda = SourceModule(SOURCE, no_extern_c=True).get_function("stays")


def by_pycuda(real, imag, limit):
    out = np.empty((imag.size, real.size), np.int32)
    stays_pycuda(
        driver.In(real), driver.In(imag), np.int32(limit), driver.Out(out),
        np.int32(real.size), np.int32(imag.size),
        grid=blocks_for(real.size, imag.size), block=(32, 8, 1),
    )
    return out


print("on", pycuda.autoprimaryctx.device.name(), "RawKernel and PyCUDA give the same picture:",
      np.array_equal(by_raw(real, imag, LIMIT), by_pycuda(real, imag, LIMIT)))

# %% [markdown] id="numba-cuda-text"
# The kernel in Python calls a device function. It is `stays` with two changes: its zeros are `float32`, and `2 * x`
# became `x + x`.

# %% id="numba-cuda"
def stays_single(cx, cy, limit):
    x = y = float32(0)
    steps = 0
    while steps < limit and x * x + y * y <= float32(4):
        x, y = x * x - y * y + cx, (x + x) * y + cy
        steps += 1
    return steps


def picture_kernel(function):
    """A kernel that calls a function of one point for every pixel."""
    on_device = cuda.jit(device=True)(function)

    @cuda.jit
    def kernel(real, imag, limit, out):
        column, row = cuda.grid(2)
        if row < out.shape[0] and column < out.shape[1]:
            out[row, column] = on_device(real[column], imag[row], limit)

    return kernel


stays_cuda = picture_kernel(stays_single)


def by_numba_cuda(real, imag, limit, kernel=stays_cuda):
    out = cuda.device_array((imag.size, real.size), np.int32)
    d_real, d_imag = cuda.to_device(real), cuda.to_device(imag)
    kernel[blocks_for(real.size, imag.size), (32, 8)](d_real, d_imag, limit, out)
    return out.copy_to_host()


by_numba_cuda(real, imag, LIMIT).shape

# %% [markdown] id="agree-predict" tags=["predict"]
# ## 3. Do they agree?
#
# All eight programs seem to compute the same formula in `float32`, and count whole steps. *Predict:* do none, a few, or
# many of the pixels differ from NumPy's?

# %% id="agree-guess"
predict("agree", "none: it's the same formula", "a few", "many: float32 is coarse")

# %% id="agree"
tools = {
    "NumPy": lambda *arguments: whole_picture(np, *arguments),
    "Numba, CPU": numba_picture,
    "CuPy, arrays": by_cupy_arrays,
    "CuPy, ElementwiseKernel": by_elementwise,
    "CuPy, RawKernel": by_raw,
    "PyCUDA": by_pycuda,
    "Numba CUDA": by_numba_cuda,
    "JAX": by_jax,
}


def differing(answer):
    return np.count_nonzero(answer != picture)


with np.errstate(all="ignore"):
    answers = {name: run(real, imag, LIMIT) for name, run in tools.items()}
print(f"of {picture.size:,} pixels")
for name, answer in answers.items():
    print(f"{differing(answer):6} differ: {name}")

# %% id="agree-where"
different = answers["CuPy, RawKernel"] != picture
rows, columns = np.nonzero(different)
figure, axes = canvas(9, 3.6)
axes.imshow(picture, cmap="Greys", extent=(-2.2, 0.8, -1, 1), origin="lower")
axes.plot(real[columns], imag[rows], "o", markersize=7, markerfacecolor="none", color="#D55E00")
axes.set(xlabel="real part of c", ylabel="imaginary part of c")
spread = np.abs(answers["CuPy, RawKernel"] - picture)[different]
Picture(figure, f"The set in grey, with a ring around each of the {rows.size} pixels where the RawKernel "
                f"differs from NumPy. All lie at the edge of the set. They differ by {spread.min()} to "
                f"{spread.max()} steps.")

# %% [markdown] id="agree-why" tags=["why"]
# A few differ, for one of two reasons, and all of them are at the edge of the set, where neighbouring points diverge.
# There a difference in the last digit doubles with almost every step, until it decides when the point leaves.
#
# - **Some round once, and others twice.** A GPU has an instruction for `a * b + c` that rounds only once, at the end,
#   and is called **fma**, fused multiply-add. NVCC, NVRTC and NVVM use it wherever they can, and so does XLA, even on
#   the CPU. NumPy and CuPy's array operations round after each operation, and so does Numba on the CPU unless you ask
#   for `fastmath`. Neither result is wrong, but the fma is a little closer to the exact one.
# - **Some use double precision by accident.** In `stays`, the zeros are Python floats and `2` is an integer. NumPy then
#   computes in the type of the arrays, but Numba computes in `float64`, as "Numba CUDA" explains.

# %% [markdown] id="agree-exactly-predict" tags=["predict"]
# We can make the programs agree, however. *Predict:* which of the four in the next cell give exactly NumPy's picture?

# %% id="agree-exactly-guess"
predict("agree-exactly", "none: each program has its own arithmetic", "those on the CPU", "all four")

# %% id="agree-exactly"
from numba.cuda import libdevice


def stays_rounding_twice(cx, cy, limit):
    x = y = float32(0)
    steps = 0
    while steps < limit:
        xx, yy = libdevice.fmul_rn(x, x), libdevice.fmul_rn(y, y)  # a product that nobody may fuse
        if xx + yy > float32(4):
            break
        x, y = xx - yy + cx, libdevice.fmul_rn(x + x, y) + cy
        steps += 1
    return steps


twice_cuda = picture_kernel(stays_rounding_twice)
twice_raw = cp.RawKernel(SOURCE, "stays", options=("--fmad=false",))
stays_on_cpu = njit(stays_single)
numba_picture.recompile()  # it has the old stays_on_cpu in it: a stale global
with jax.disable_jit():
    jax_by_steps = by_jax(real, imag, LIMIT)
for name, answer in {
    "Numba, CPU, in float32": numba_picture(real, imag, LIMIT),
    "Numba CUDA, products by fmul_rn": by_numba_cuda(real, imag, LIMIT, twice_cuda),
    "CuPy, RawKernel, --fmad=false": by_raw(real, imag, LIMIT, twice_raw),
    "JAX, each operation by itself": jax_by_steps,
}.items():
    print(f"{differing(answer):6} differ: {name}")

# %% [markdown] id="agree-exactly-why" tags=["why"]
# All four do, pixel for pixel. `--fmad=false` works for everything that NVRTC compiles, including PyCUDA and
# `ElementwiseKernel`. Numba's CUDA target has no such switch, so there you call a function for the product, which the
# compiler may not fuse. XLA does not promise exact agreement for code under `jit`.

# %% [markdown] id="agree-exactly-then"
# While you *debug* a port, demand exact equality. If you switch contraction off, you remove one source of differences.
# In production, leave the fma on, and compare with a tolerance that you can defend, for example "fewer than one pixel
# in a thousand". If your tests demand equal bits from all tools, any compiler update can break them.

# %% [markdown] id="cost-predict" tags=["predict"]
# ## 4. What does each cost?
#
# On a GPU you would measure, and we do that below. But many costs can be *counted* exactly, on any machine. For two
# ways of running on a GPU we count launches, floating point operations, and the bytes that threads request from global
# memory.
#
# The virtual GPU counts these for kernels. For CuPy's arrays, the list of launches above is enough, because each kernel
# reads its operands and writes its result.
#
# *Predict:* how many bytes does the array version move for each byte that a single kernel moves, 10, 100 or 1,000?

# %% id="cost-guess"
predict("cost", "10", "100", "1,000")

# %% id="cost"
A_TURN = [  # of the loop of whole_picture: (kernels, flops for a pixel, bytes for a pixel)
    (8, 1, 4 + 4 + 4),  # multiply, add, subtract: two float32 in, one out
    (1, 0, 4 + 1),  # <= 4: a float32 in, a bool out
    (1, 0, 4 + 1 + 4),  # steps + ...: an int32 and a bool in, an int32 out
]


def asked_by_arrays(pixels, limit):
    """(launches, flops, bytes) of whole_picture with CuPy."""
    launches = limit * sum(kernels for kernels, _, _ in A_TURN)
    flops = limit * pixels * sum(kernels * each for kernels, each, _ in A_TURN)
    nbytes = limit * pixels * sum(kernels * each for kernels, _, each in A_TURN)
    return launches, flops, nbytes


def asked_by_kernel(run):
    with virtualgpu.profile() as profile:
        run(real, imag, LIMIT)
    counts = profile.counters
    return 1, counts.flops, counts.global_bytes_read + counts.global_bytes_written


work = {
    "CuPy, arrays": asked_by_arrays(picture.size, LIMIT),
    "one kernel (Numba CUDA)": asked_by_kernel(by_numba_cuda),
}
for name, (launches, flops, nbytes) in work.items():
    print(f"{name:24}{launches:6,} launches{flops / 1e6:8,.1f} Mflop{nbytes / 1e6:10,.1f} MB"
          f"{flops / nbytes:8.2f} flops per byte")

# %% [markdown] id="cost-why" tags=["why"]
# It moves nearly a thousand times as many. It also does more operations, because whole arrays cannot stop early for the
# points that have left. The single kernel reads two numbers, keeps `x` and `y` in registers for all its steps, and
# writes one number. That is the benefit of *fusing*. JAX fuses each iteration of the loop into a few passes over
# memory, so it is between the two.

# %% [markdown] id="cost-then"
# But the lanes of the kernel diverge, because neighbouring points stay for different numbers of steps, as the kernel's
# report card shows.

# %% id="cost-card"
import gpucourse

gpucourse.report(stays_raw, blocks_for(384, 256), (32, 8), real[:384], imag[:256], np.int32(LIMIT),
                 np.zeros((256, 384), np.int32), np.int32(384), np.int32(256))

# %% [markdown] id="compile-text"
# The card shows 20 operations for each byte, and we counted 25 for Numba's kernel. The compilers differ: NVRTC keeps
# the squares from the test of the loop for the next step, and Numba's compiler computes them twice.
#
# Two more costs are the time to compile and the effort of writing. They arise on the CPU, so they are the same with and
# without a GPU. The next cell measures the time to compile on this machine.

# %% id="compile"
from virtualgpu.api import compile_to_ptx


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


arrays = jax.ShapeDtypeStruct(real.shape, real.dtype), jax.ShapeDtypeStruct(imag.shape, imag.dtype)
signature = (float32[::1], float32[::1], cuda.types.int64, cuda.types.int32[:, ::1])
fresh_kernel = picture_kernel(stays_single)  # one that was never compiled, as is the source:
fresh = f"// {time.time()}\n" + SOURCE
compiling = {
    "Numba, CPU": seconds(numba_picture.recompile),
    "Numba CUDA": seconds(lambda: cuda.compile_ptx(fresh_kernel.py_func, signature, cc=(9, 0))),
    "CUDA C++, NVRTC": seconds(lambda: compile_to_ptx(fresh)),
    "JAX": seconds(lambda: jax.jit(jax_picture.__wrapped__, static_argnames="limit")
                   .lower(*arrays, limit=LIMIT).compile()),
}
print(*(f"{took:6.2f} s to compile: {name}" for name, took in compiling.items()), sep="\n")

# %% [markdown] id="lines-text"
# The next cell counts how much there is to read, in lines that Python or the CUDA compiler acts on.

# %% id="lines"
def lines(*texts):
    """Lines of functions (by their bytecode) and of CUDA sources (that hold a letter)."""
    count = 0
    for text in texts:
        if isinstance(text, str):
            count += sum(any(letter.isalpha() for letter in line) for line in text.splitlines())
        else:
            code = getattr(text, "__code__", text)
            inner = [part for part in code.co_consts if hasattr(part, "co_lines")]
            count += len({line for *_, line in code.co_lines() if line}) + lines(*inner)
    return count


written = {
    "NumPy, CuPy arrays": lines(whole_picture),
    "JAX": lines(jax_picture.__wrapped__),
    "Numba, CPU": lines(stays_single, numba_picture.py_func),
    "Numba CUDA": lines(stays_single, stays_cuda.py_func, by_numba_cuda),
    "CuPy, ElementwiseKernel": lines(BODY, by_elementwise),
    "CuPy, RawKernel": lines(SOURCE, blocks_for, by_raw),
    "PyCUDA": lines(SOURCE, blocks_for, by_pycuda),
}
print(*(f"{count:4} lines: {name}" for name, count in written.items()), sep="\n")

# %% [markdown] id="compare-text"
# The next cell compares everything on a small picture. It times what ran on this machine's processor, or on its GPU if
# it has one, and counts what ran on the virtual GPU, with a separate axis for each. All functions take NumPy arrays and
# return one, so the times of a GPU include the copies. They exclude compiling, because the first call does not count.
# Some pixels at the edge differ because of the fma. Look at the memory moved, where one kernel moves far more than the
# others.

# %% id="compare"
small = real[::4].copy(), imag[::4].copy()
gpucourse.compare(tools, *small, LIMIT)

# %% [markdown] id="outlier-predict" tags=["predict"]
# The `ElementwiseKernel` moves some forty times as much memory as the `RawKernel`, although both have the *same body*.
# In CuPy, the names of arrays in the body are references, so `steps` is not a separate variable but an element of the
# output array. *Predict:* which value does the kernel keep reading and writing in memory?

# %% id="outlier-guess"
predict("outlier", "the coordinates of the picture", "the number of steps", "x and y")

# %% id="outlier"
COUNT_IN_A_REGISTER = (
    BODY.replace("steps = 0", "int k = 0").replace("steps <", "k <").replace("++steps", "++k")
    + "    steps = k;"
)
frugal = cp.ElementwiseKernel(
    "float32 cx, float32 cy, int32 limit", "int32 steps", COUNT_IN_A_REGISTER, "stays_frugal")


def by_frugal(real, imag, limit):
    return frugal(cp.asarray(real)[None, :], cp.asarray(imag)[:, None], limit).get()


print("the same picture:", np.array_equal(by_frugal(*small, LIMIT), by_elementwise(*small, LIMIT)))
for name, run in (("as it was", by_elementwise), ("counting in a register", by_frugal)):
    with virtualgpu.profile() as profile:
        run(*small, LIMIT)
    if profile.launches:  # CuPy's kernels are seen where they run on the virtual GPU
        counts = profile.counters
        moved = 32 * (counts.global_load_sectors + counts.global_store_sectors)
        print(f"{name:24}{counts.global_stores:10,} stores{moved / 1000:10,.1f} kB moved")

# %% [markdown] id="outlier-why" tags=["why"]
# It is the number of steps, because `++steps` stores into global memory in every iteration. With a local variable the
# loop stays in registers, and one store at the end is enough. The answer was right in both cases, and only the count
# showed the problem. The RawKernel avoided it by luck, because its `steps` is a local variable.

# %% [markdown] id="outlier-then"
# The times on a real GPU, and the limits on them, are at the end of the next section.

# %% [markdown] id="roofline-text"
# ## 5. The roofline
#
# How fast could these programs be at best? A GPU can do a certain number of operations per second, its *peak*, and move
# a certain number of bytes per second, its *bandwidth*. If a program does `I` operations for each byte, which is called
# its **arithmetic intensity**, neither limit lets it go faster. Plotted against `I`, the two limits form a slope that
# ends in a ceiling, which is called the **roofline**.
#
# | | year | float32 peak | bandwidth of its memory | to the host |
# |---|---|---|---|---|
# | NVIDIA T4 (on Colab) | 2018 | 8.1 TFLOPS | 320 GB/s | PCIe 3.0 × 16, 16 GB/s each way |
# | NVIDIA H100 SXM | 2022 | 67 TFLOPS | 3,350 GB/s | PCIe 5.0 × 16, 64 GB/s each way |
#
# NVIDIA publishes these numbers in the product brief and on the [page of the
# T4](https://www.nvidia.com/en-us/data-center/tesla-t4/), and in the data sheet and on the [page of the
# H100](https://www.nvidia.com/en-us/data-center/h100/). The numbers for PCIe are from its standards, rounded. An fma
# counts as two operations, and real programs don't reach these numbers.
#
# ### Exercise: how fast it can be
#
# Write the function `attainable`, which takes an intensity in flops per byte, a peak in flops per second and a
# bandwidth in bytes per second. It returns the most flops per second that a program can reach, and the limit that
# applies, `"memory"` or `"arithmetic"`.

# %% id="roofline-exercise" tags=["exercise"]
def attainable(intensity, peak, bandwidth):
    """(flops per second at best, "memory" or "arithmetic")."""
    best, limit = peak, "arithmetic"
    ### BEGIN SOLUTION
    if intensity * bandwidth < peak:
        best, limit = intensity * bandwidth, "memory"
    ### END SOLUTION
    return best, limit


# %% id="roofline-check"
check("roofline", attainable)

# %% [markdown] id="roofline-predict" tags=["predict"]
# *Predict:* are the array program and the single kernel under the slope, or under the ceiling?

# %% id="roofline-guess"
predict("roofline",
        "both under the slope",
        "the arrays under the slope, the kernel near the corner",
        "both under the ceiling")

# %% id="roofline"
GPUS = {
    "T4": {"peak": 8.1e12, "bandwidth": 320e9, "host": 16e9},
    "H100": {"peak": 67e12, "bandwidth": 3350e9, "host": 64e9},
}
intensity = {name: flops / nbytes for name, (_, flops, nbytes) in work.items()}
figure, axes = canvas(9, 3.8)
scale = np.geomspace(0.01, 1000, 200)
for (name, gpu), style in zip(GPUS.items(), ("--", "-"), strict=True):
    roof = [attainable(value, gpu["peak"], gpu["bandwidth"])[0] / 1e12 for value in scale]
    axes.loglog(scale, roof, style, color="0.5", label=f"{name}, at best")
for (name, value), marker in zip(intensity.items(), "so", strict=True):
    bests = [attainable(value, gpu["peak"], gpu["bandwidth"])[0] / 1e12 for gpu in GPUS.values()]
    axes.plot([value] * 2, bests, marker, color="#D55E00" if marker == "s" else "#0072B2", label=name)
axes.set(xlabel="arithmetic intensity [flops per byte]", ylabel="TFLOPS at best", ylim=(0.001, 200))
axes.legend(fontsize=8)
told = [
    f"{name} with {value:.2g} flops per byte, limited by "
    f"{attainable(value, gpu['peak'], gpu['bandwidth'])[1]} on the {card}"
    for name, value in intensity.items() for card, gpu in GPUS.items()
]
Picture(figure, "Rooflines of two GPUs: slopes that end in ceilings. " + "; ".join(told) + ".")

# %% [markdown] id="roofline-why" tags=["why"]
# The array version is far down the slope. With 0.07 operations per byte, an H100 reaches only a quarter of a TFLOPS
# there, although its peak is 67 TFLOPS. The kernel is near the corner, where it reaches both limits, memory bandwidth and
# arithmetic, at about the same time. With a larger `LIMIT` the kernel moves to the right, under the ceiling.
#
# So before you tune a program, find out on which side of the corner it is. Under the slope, move fewer bytes: fuse
# operations, use smaller types, keep data in registers and shared memory, and coalesce accesses. Under the ceiling, do
# fewer or cheaper operations, and avoid divergence. The roofline is only an upper bound. A kernel may be far below it
# for reasons that the roofline does not include, above all divergence and waiting.

# %% [markdown] id="roofline-then"
# The next cell shows *measurements* on a real GPU. The first picture has the times of this lecture's programs, without
# copies, for 3,072 × 2,048 points. The second has the roofline of that GPU, with kernels of this course below it.

# %% id="recorded"
from gpucourse.views.measured import recorded, recorded_roofline, recorded_times

recorded(recorded_times("mandelbrot.picture"), recorded_roofline())

# %% [markdown] id="recorded-why"
# The slowest takes 365 times as long as the fastest. C++ took 0.090 ms and Numba 0.112 ms. `ElementwiseKernel` took
# 0.205 ms, or 0.103 ms if it counts in a register. JAX took 4.1 ms, and CuPy's arrays 33 ms. JAX's loop and CuPy's
# arrays compute every step for the whole picture, until the last pixel is done. In the other programs a thread stops
# when its own pixel is done.
#
# *Recorded rows: `mandelbrot.picture`.*

# %% [markdown] id="crossover-text"
# ## 6. When does the GPU win?
#
# In addition to the computation, you pay for compiling, for launching, and for copying the answer to the host. The
# following **model** includes only launches, copies, and the computation at the speed of the roofline:
#
# > time = launches × 4 µs + bytes to and from the host / its bandwidth + the larger of (flops / peak) and (bytes of
# > memory / bandwidth)
#
# You compile only once, so only one line of the table below includes it. The model gives the *best* case and is not a
# measurement. The 4 µs for a launch are an assumption. NVIDIA writes of [a few
# microseconds](https://developer.nvidia.com/blog/cuda-graphs/), and a launch from Python takes longer, as the recorded
# rows `launch` show. No program reaches the peak, and no copy reaches the rate of the bus, so on a real GPU you need
# more pixels than the model says.

# %% [markdown] id="crossover-predict" tags=["predict"]
# The next cell compares the measured time of Numba on *this* machine's processor with the model of a T4. `crossover` is
# the calculation from "Why GPUs, and when not", with costs per pixel. *Predict:* from how many pixels on would a T4 be
# faster, at best: a hundred, ten thousand or a million?

# %% id="crossover-here-guess"
predict("crossover-here", "a hundred or so", "ten thousand", "a million")

# %% id="crossover-here"
def crossover(cpu, start, gpu):
    """Smallest n with start + n * gpu < n * cpu, or None; all in seconds."""
    return int(start / (cpu - gpu)) + 1 if cpu > gpu else None


numba_picture(real, imag, LIMIT)
cpu = min(seconds(lambda: numba_picture(real, imag, LIMIT)) for _ in range(5)) / picture.size


def modelled(launches, flops, nbytes, gpu):
    """(seconds that do not depend on n, seconds for a pixel) by the model, for the work on our picture."""
    run = max(flops / gpu["peak"], nbytes / gpu["bandwidth"]) / picture.size
    return launches * 4e-6, run + 4 / gpu["host"]  # 4 bytes of each pixel go to the host


print(f"Numba on this processor: {1e9 * cpu:.0f} ns for a pixel, measured")
models = {name: modelled(*amounts, GPUS["T4"]) for name, amounts in work.items()}
start, gpu = models["one kernel (Numba CUDA)"]
models["one kernel, and compiling it"] = start + compiling["Numba CUDA"], gpu
wins = {name: crossover(cpu, *costs) for name, costs in models.items()}
print(f"{'by the model of a T4, at best':32}{'ns for a pixel':>16}{'wins from n =':>16}")
for name, (_, gpu) in models.items():
    print(f"{name:32}{1e9 * gpu:16.2f}{wins[name]!s:>16}")

# %% id="crossover-picture"
sizes = np.geomspace(10, 1e9, 60)
figure, axes = canvas(9, 3.6)
axes.loglog(sizes, sizes * cpu, color="0.5", label="Numba, this processor (measured rate)")
colours = ("#D55E00", "#0072B2", "#CC79A7")
for (name, (start, gpu)), colour, style in zip(models.items(), colours, ("--", "-.", ":"), strict=True):
    axes.loglog(sizes, start + sizes * gpu, style, color=colour, label=f"T4, model: {name}")
if not device().virtual:
    for n in (4, 16, 64, 256):
        few = real[:: max(1, WIDTH // (8 * n))].copy(), imag[:: max(1, HEIGHT // (4 * n))].copy()
        took = min(seconds(lambda few=few: by_numba_cuda(*few, LIMIT)) for _ in range(5))
        axes.plot(few[0].size * few[1].size, took, "o", color="#009E73")  # this GPU, measured
axes.set(xlabel="pixels", ylabel="seconds")
axes.legend(fontsize=8)
crossings = "; ".join(f"{name}: {f'at {n:,} pixels' if n else 'never'}" for name, n in wins.items())
Picture(figure, "Seconds against pixels, on logarithmic axes. The processor's line is straight; the model's "
                f"lines for a T4 are level at first, then rise. They cross the processor's: {crossings}.")

# %% [markdown] id="crossover-why" tags=["why"]
# Some tens or hundreds of pixels are enough for the single kernel, and some ten thousands or more for a thousand
# launches. If the kernel is compiled for just this picture, it takes about a million. The numbers depend on your
# processor: if it has many cores, it may be faster than the arrays for every size, and then the answer is `None`. If
# this machine has a GPU, the green points are measurements on it. So before you answer "is the GPU faster?", ask how
# often you compute, how large the data are, and where they are before and after.

# %% [markdown] id="toast-text"
# ## 7. A port of real size
#
# TOAST is a large Python program for the study of the cosmic microwave background. MPI spreads its pipelines over many
# machines, and C++ kernels with OpenMP do the work. Around 2023 a group at NERSC and Berkeley ported **13 of these
# kernels** to the GPUs of the supercomputer Perlmutter, with JAX and, for comparison, with OpenMP's directives for
# GPUs. The table lists the results that they report.
#
# | | |
# |---|---|
# | speed of a kernel, JAX on a GPU against the optimised C++ on the CPU | up to 45 times |
# | lines of code, JAX against C++ | 7 times fewer |
# | the steps | C++ to NumPy, NumPy to JAX, with unit tests for each step |
# | data | moved to the GPU once at the beginning of a pipeline, and back once at its end |
# | intervals of unequal length, over which the kernels loop | padded to one length and masked, by a helper `imap` |
# | kernels that change their arguments | a small class, `MutableJaxArray`, holds the current array |
# | future work | move less data, port the remaining kernels, compile each pipeline into one program |
#
# "Up to" refers to the best kernel, not to the whole program. The unported parts and the data transfers reduce the
# gain. The authors recommend JAX if your code is Python and could be NumPy, if the sizes of your arrays do not change
# all the time, and if one CPU thread is good enough where there is no GPU.
#
# The sources are N. Demeure, *Introduction to porting Python to GPU with JAX*, NERSC, slides of 2024, and N. Demeure et
# al., [the study for CUG 2023](https://cug.org/proceedings/cug2023_proceedings/cug2023_doi/papers_pages/pap107.html)
# and *High-Level GPU Code: A Case Study Examining JAX and OpenMP*, workshops of SC23.
#
# The next lecture, "A port, done", takes such a kernel through all these steps: tests, NumPy, padding and a mask, JAX,
# and CUDA.

# %% [markdown] id="guide-text"
# ## 8. Which tool for which work?
#
# | your work | begin with | because | not if |
# |---|---|---|---|
# | NumPy code with large arrays and few operations on each | CuPy, arrays | you change almost nothing | a loop launches thousands of small kernels |
# | the same formula for every element | CuPy `ElementwiseKernel`, or `jax.jit` | one pass, a few lines | elements need their neighbours |
# | array code to differentiate, or to run on GPUs, TPUs and CPUs | JAX | `grad`, `vmap`, fusion; one source | sizes change with every call; updates in place |
# | elements take different paths; trees, histograms, stencils | Numba CUDA | threads and shared memory, in Python | a library has it already |
# | a kernel that exists in CUDA C++, or needs the newest hardware | CuPy `RawKernel` or `RawModule` | all of CUDA, with CuPy's arrays around it | nobody in the group reads C++ |
# | the same, with direct control of contexts, streams and memory | PyCUDA, or NVIDIA's `cuda.core` | nothing is hidden | you only want the kernel |
# | tables | cuDF | the same methods as pandas | they are small |
# | events of unequal length | Awkward Arrays | no padding | they are of equal length |
# | linear algebra, FFT, sorting, random numbers | the library: CuPy, JAX, nvmath-python | tuned for years | you need one pass and it makes several; if two calls do the same, take the faster one (rows `sampling.numbers`) |
# | one small array, one time | NumPy, or Numba on the CPU | see section 6 | |
#
# Here are nine more tools, with one line on each, as of late 2026. "Programming in blocks" teaches Pallas and shows a
# Triton kernel.
#
# | tool | what you write | what to know |
# |---|---|---|
# | [PyTorch](https://pytorch.org/) | tensors, much like NumPy's arrays | one more array library, with gradients; made for deep learning; "PyTorch as a neighbour" calls a kernel from it |
# | [numba-cuda-mlir](https://nvidia.github.io/numba-cuda-mlir/latest/) | Numba's kernels | numba-cuda's successor, where development continues; young, and not yet a complete replacement |
# | [cuda.core](https://nvidia.github.io/cuda-python/cuda-core/latest/) | Python around CUDA C++ | NVIDIA's own devices, streams, compiling and launching; stable since 1.0 |
# | [cuda.cccl](https://nvidia.github.io/cccl/python/) | sort, scan, reduce with your own operators | NVIDIA's tuned parallel algorithms; `cuda.compute` is stable since 1.0 (May 2026) |
# | [nvmath-python](https://docs.nvidia.com/cuda/nvmath-python/latest/) | calls of NVIDIA's mathematical libraries | matrix products, FFTs, solvers, with every option; 1.0 |
# | [Triton](https://triton-lang.org/) | kernels on blocks of data | made for deep learning, and on AMD's GPUs too; you think in tiles, not in threads |
# | [Pallas](https://docs.jax.dev/en/latest/pallas/) | kernels inside JAX | for GPU and TPU; experimental and changing |
# | [CUDA Tile](https://docs.nvidia.com/cuda/cutile-python) (cuTile) | kernels on tiles | NVIDIA's answer to Triton; needs a recent driver (580 or later) |
# | [Warp](https://nvidia.github.io/warp/stable/) | kernels in typed Python | simulation, robotics, geometry; differentiable; runs on CPUs too |
#
# All of them run on NVIDIA's GPUs. For AMD's GPUs there are builds of PyTorch, JAX and Triton, and experimental builds
# of CuPy. [PyOpenCL](https://documen.tician.de/pyopencl/) runs nearly everywhere. If SciPy or scikit-learn has the
# function that you need, look into `cupyx.scipy` and [cuML](https://docs.rapids.ai/api/cuml/stable/) first. TensorFlow
# is similar to PyTorch and older, [Taichi](https://www.taichi-lang.org/) compiles Python for simulation and graphics,
# and in C++ and Fortran you can mark loops for a GPU with OpenMP and OpenACC.
#
# Three habits make it cheap to change your mind later. Keep a plain NumPy version that is slow and right, because you
# can test all others against it. Keep data on the device between steps, whatever the tool. On a GPU, CuPy, Numba,
# PyCUDA and JAX pass arrays to each other without a copy, through DLPack or the CUDA array interface. And always
# measure or count before you rewrite.

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - Eight programs that draw one picture agree in every pixel if they round in the same way, and in all but a few pixels
#   in ten thousand if they do not. The usual reasons for a difference are fma and accidental double precision.
# - Each array operation launches a kernel and writes its result to memory. A single kernel keeps intermediate results
#   in registers. Launches, flops and bytes can be counted without a GPU.
# - The roofline is the lesser of peak and intensity × bandwidth. It tells you whether to save bytes or operations.
# - Launches, transfers and compilation have fixed costs, so a GPU pays if the work is large or repeated often. State
#   your model first, and measure afterwards.
# - Port in small steps, test each against a plain version, move data once, and pad and mask uneven data.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - [CuPy's user-defined kernels](https://docs.cupy.dev/en/stable/user_guide/kernel.html),
#   [Numba-CUDA](https://nvidia.github.io/numba-cuda/), [PyCUDA](https://documen.tician.de/pycuda/),
#   [JAX](https://docs.jax.dev/en/latest/), [cuda.core](https://nvidia.github.io/cuda-python/cuda-core/latest/).
# - NVIDIA on [floating point and fma](https://docs.nvidia.com/cuda/floating-point/index.html), which explains why two
#   right programs differ.
# - S. Williams, A. Waterman and D. Patterson, *Roofline: an insightful visual performance model for multicore
#   architectures*, Communications of the ACM 52 (2009) 65, and
#   [Berkeley's introduction](https://crd.lbl.gov/departments/computer-science/par/research/roofline/introduction/).
# - [TOAST](https://github.com/hpc4cmb/toast), with its kernels in several languages side by side.
# - A report by a user whom XLA's fma surprised: [openxla/xla, issue
#   41579](https://github.com/openxla/xla/issues/41579).

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 55 minutes
#
# | minutes | what |
# |---|---|
# | 0-3 | the question; everyone chooses a favourite now, and again at the end |
# | 3-21 | sections 1 and 2; read the eight programs without typing them; everyone writes `ship` alone, with the tool they choose |
# | 21-27 | section 3 |
# | 27-37 | section 4 |
# | 37-50 | sections 5 and 6 |
# | 50-55 | sections 7 and 8; end with the second vote |
#
# *Ten minutes late:* leave out section 6 and show only the card. *Ten minutes early:* have everyone set `LIMIT = 1000`,
# and ask how the points of the roofline move.
#
# *Where people get stuck.* In `ship`, they take `abs` of the wrong thing, or write an array version with a thousand
# launches, and the check reports both.
#
# *Frequent questions.* "Which is fastest?" C++ is, as the timings in section 5 show. The kernels with one thread for
# each pixel have nearly the same PTX, but C++ is 1.24 times as fast as Numba. Numba counts steps in 64 bits, so a step
# takes 14 machine instructions instead of 11. "Is fma wrong, then?" No, its result is closer to the exact one, but it
# is not the same. "Where are the GPU timings?" They are in the recorded pictures, and below the cells if your machine
# has a GPU. This course shows only times that were measured.
#
# *What goes wrong.* On a machine with a GPU, `import pycuda.autoinit` would create a second context, which can't access
# the arrays of CuPy and Numba. Use `pycuda.autoprimaryctx`, which shares their context.
