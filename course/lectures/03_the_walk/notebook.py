# %% [markdown] id="the-question-asked"
# ## How many programs does one formula need?
#
# A particle starts near the middle of a round pipe and flies in a straight line. The time at which it hits the wall is
# the solution of a quadratic equation, $a t^2 + b t + c = 0$, which you know from school. The first cell solves it in
# NumPy for many particles. In this lesson you run the same formula on a GPU with PyCUDA, CuPy, Numba CUDA and JAX, and
# count what each of them does.

# %% id="the-question"
# %load_ext gpucourse
import math

import numpy as np
import virtualgpu
from gpucourse import lesson
from gpucourse.system.device import pick

check, hint, predict = lesson("03_the_walk")
RADIUS, SPEED = 1.1, 0.3  # m, m/ns
n = pick(gpu=4_000_000, virtual=100_000)

random = np.random.default_rng(3)
x, y = random.normal(0, 0.05, (2, n))  # where the particles start [m]
angle = random.uniform(-np.pi, np.pi, n)
vx, vy = SPEED * np.cos(angle), SPEED * np.sin(angle)  # how they fly [m/ns]
a, b, c = vx**2 + vy**2, 2 * (x * vx + y * vy), x**2 + y**2 - RADIUS**2


def time_to_wall(a, b, c):
    """When a straight line, a·t² + b·t + c = 0, reaches the wall [ns]."""
    return (-b + np.sqrt(b**2 - 4 * a * c)) / (2 * a)


times = time_to_wall(a, b, c)
print(f"{n:,} particles; the first four hit the wall after", times[:4].round(3), "ns")

# %% [markdown] id="the-question-stands"
# We give each tool the same three arrays, and it must return the same times. **Who writes the loop, who copies the
# arrays, and how many kernels does the GPU run?** At the end you choose a tool for your own work.

# %% [markdown] id="pycuda-text"
# ## 1. PyCUDA: the kernel in CUDA C++
#
# Most of the world's kernels are written in CUDA C++, and [PyCUDA](https://documen.tician.de/pycuda/) runs them from
# Python. You write the kernel as a string, and `SourceModule` compiles it. As in [the puzzles](01_first_steps.ipynb),
# each thread runs the kernel with its own number `i`, and the guard `if (i < n)` stops the threads that have no
# element. Three things are new: statements end with semicolons, `__global__ void` marks a kernel, and every variable
# has a type. For example, `const double *a` is an array of 64-bit floats that the kernel only reads. In the launch,
# `block` gives the number of threads in a block and `grid` the number of blocks, each in up to three dimensions.

# %% id="pycuda"
import pycuda.autoinit  # picks the GPU
import pycuda.driver as drv
from pycuda.compiler import SourceModule

wall_source = r"""
__global__ void wall(const double *a, const double *b, const double *c, double *time, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        time[i] = (-b[i] + sqrt(b[i] * b[i] - 4 * a[i] * c[i])) / (2 * a[i]);
}
"""
wall = SourceModule(wall_source).get_function("wall")

by_pycuda = np.empty_like(times)
wall(drv.In(a), drv.In(b), drv.In(c), drv.Out(by_pycuda), np.int32(n),
     block=(128, 1, 1), grid=((n + 127) // 128, 1))
print(f"PyCUDA {pycuda.VERSION_TEXT} gives the same times:", np.allclose(by_pycuda, times))

# %% [markdown] id="past-task"
# ### Exercise: when did it come in?
#
# The formula has a second solution, with a minus sign before the root. It is negative, because it is the time at which
# a particle on the same straight line would have entered the pipe. Write the kernel `entered`, which stores this time
# in `time[i]`. The check tries arrays of many lengths, always with more threads than particles.

# %% id="past-exercise" tags=["exercise"]
entered_source = r"""
__global__ void entered(const double *a, const double *b, const double *c, double *time, int n)
{
    ### BEGIN SOLUTION
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        time[i] = (-b[i] - sqrt(b[i] * b[i] - 4 * a[i] * c[i])) / (2 * a[i]);
    ### END SOLUTION
}
"""

# %% id="past-check"
check("entered", entered_source)

# %% [markdown] id="copies-predict" tags=["predict"]
# `drv.In` copies an array from the computer's memory to the GPU's memory before the launch, and `drv.Out` copies an
# array back after the launch.
#
# *Predict:* how many bytes are copied between the two memories for each particle? A `double` has 8 bytes.

# %% id="copies-guess"
predict("copies", "none: the GPU reads NumPy's memory", "8: the result", "32: three numbers there, one back")

# %% id="copies"
there, back = a.nbytes + b.nbytes + c.nbytes, by_pycuda.nbytes
print(f"there: {there / n:.0f} bytes for each particle, back: {back / n:.0f}, together {(there + back) / n:.0f}")

# %% [markdown] id="copies-why" tags=["why"]
# Each particle needs 32 bytes, because three numbers are copied to the GPU and one is copied back. PyCUDA copies them
# at *every* call. The link between the two memories is slow, so a program with many launches should copy its arrays
# only once, as we do next with CuPy.

# %% [markdown] id="cupy-text"
# ## 2. CuPy: NumPy's names, arrays on the device
#
# [CuPy](https://cupy.dev) arrays stay in the GPU's memory, and CuPy has NumPy's functions for them. Copy the inputs
# once, and call `time_to_wall` unchanged, because `np.sqrt` recognises a CuPy array and calls CuPy.

# %% id="cupy"
import cupy as cp

d_a, d_b, d_c = cp.asarray(a), cp.asarray(b), cp.asarray(c)  # d_: in the memory of the device
d_times = time_to_wall(d_a, d_b, d_c)
print("CuPy gives the same times:", np.allclose(d_times.get(), times))  # .get() copies back

# %% [markdown] id="nine-predict" tags=["predict"]
# You wrote no kernel this time, but CuPy launched some, and `virtualgpu.launches()` lists them.
#
# *Predict:* how many kernels does this one call launch?

# %% id="nine-guess"
predict("nine", "1: the formula", "3: one for each array", "9: one for each operation")

# %% id="nine"
with virtualgpu.launches() as launched:
    d_times = time_to_wall(d_a, d_b, d_c)
print(launched)

# %% [markdown] id="nine-why" tags=["why"]
# It launches nine, one for each operation: `-b`, `b**2`, `4*a`, and so on. Python passes one operation after the other
# to CuPy, so CuPy never sees the whole formula. Each kernel reads its arrays from memory and writes a new array for the
# next kernel. If you run the cell on a real GPU, the list may be empty, because only a profiler can see CuPy's launches
# there.

# %% [markdown] id="elementwise-text"
# So let us give CuPy the whole formula. You give `cp.ElementwiseKernel` the C++ line for one element, and it generates
# the index, the guard and the launch. `T` stands for the type of the arguments, whatever it is.

# %% id="elementwise"
wall_kernel = cp.ElementwiseKernel(
    "T a, T b, T c", "T time", "time = (-b + sqrt(b * b - 4 * a * c)) / (2 * a)", "wall_kernel")

with virtualgpu.launches() as launched:
    d_by_elementwise = wall_kernel(d_a, d_b, d_c)
print(launched)
print("the same times:", bool(cp.allclose(d_by_elementwise, d_times)))

# %% [markdown] id="raw-text"
# `cp.RawKernel` takes the source of a whole kernel. Here it is the string that PyCUDA ran, with `extern "C"` in front
# so that the compiler keeps the kernel's name. You launch it with `kernel(blocks, threads, arguments)`. On the virtual
# GPU, `virtualgpu.profile()` counts the bytes that a kernel reads and writes. The cell prints these counts for the two
# programs that need only one kernel.

# %% id="raw"
raw_wall = cp.RawKernel('extern "C"' + wall_source, "wall")
d_by_raw = cp.empty_like(d_a)


def bytes_moved(call):
    """Bytes of device memory read and written for each particle."""
    with virtualgpu.profile() as profile:
        call()
    moved = profile.counters.global_bytes_read + profile.counters.global_bytes_written
    return f"{moved / n:.0f} bytes for each particle" if moved else "run on the GPU, not counted"


print("RawKernel:        ", bytes_moved(
    lambda: raw_wall(((n + 127) // 128,), (128,), (d_a, d_b, d_c, d_by_raw, np.int32(n)))))
print("ElementwiseKernel:", bytes_moved(lambda: wall_kernel(d_a, d_b, d_c)))
print("the same times:", bool(cp.allclose(d_by_raw, d_times)))

# %% [markdown] id="raw-then"
# Each program moves 32 bytes per particle, because each input is read once and each result is written once. No program
# for this formula can move fewer. The nine kernels of the CuPy arrays move 176 bytes per particle in total.

# %% [markdown] id="numba-text"
# ## 3. Numba CUDA: the kernel in Python
#
# [Numba](https://nvidia.github.io/numba-cuda/) compiles kernels that are written in Python, as in the puzzles. A
# function that a kernel calls is a *device function*, which you mark with `cuda.jit(device=True)`. Numba's kernels
# accept CuPy arrays without a copy.

# %% id="numba"
from numba import cuda


@cuda.jit(device=True)
def wall_time(a, b, c):
    return (-b + math.sqrt(b**2 - 4 * a * c)) / (2 * a)


@cuda.jit
def wall_in_python(a, b, c, time):
    i = cuda.grid(1)
    if i < time.size:
        time[i] = wall_time(a[i], b[i], c[i])


d_by_numba = cp.empty_like(d_a)
print("Numba:", bytes_moved(lambda: wall_in_python[(n + 127) // 128, 128](d_a, d_b, d_c, d_by_numba)))
print("the same times:", bool(cp.allclose(d_by_numba, d_times)))

# %% [markdown] id="missed-task"
# ### Exercise: some lines miss
#
# A particle that starts *outside* the pipe may fly past it. Then $b^2 - 4ac$ is negative and has no real root, so the
# formula gives `nan`. Write the Numba kernel `wall_or_miss`, which computes the time as before, but stores `-1.0` for a
# particle that misses. A line that just touches the pipe, where $b^2 - 4ac$ is 0, does not miss it.

# %% id="missed-exercise" tags=["exercise"]
@cuda.jit
def wall_or_miss(a, b, c, time):
    i = cuda.grid(1)
    ### BEGIN SOLUTION
    if i < time.size:
        under_root = b[i] ** 2 - 4 * a[i] * c[i]
        if under_root < 0:
            time[i] = -1.0
        else:
            time[i] = (-b[i] + math.sqrt(under_root)) / (2 * a[i])
    ### END SOLUTION


# %% id="missed-check"
check("wall-or-miss", wall_or_miss)

# %% [markdown] id="missed-then"
# In a kernel, it is natural to write an `if` for each element. With whole arrays you write `np.where`, which computes
# both results for all elements and then chooses between them.

# %% [markdown] id="jax-predict" tags=["predict"]
# ## 4. JAX: the formula compiled as a whole
#
# [JAX](https://docs.jax.dev) also has arrays and functions with NumPy's names. `jax.jit` runs your function once to
# record its operations, and then compiles them together for a GPU, a TPU or a CPU. Without a GPU, JAX compiles the
# function for your processor, because JAX does not use the virtual GPU.
#
# *Predict:* JAX records nine operations. How many loops over the arrays does its compiler generate?

# %% id="jax-guess"
predict("jax", "1", "3", "9")

# %% id="jax"
import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)  # otherwise JAX computes in float32


@jax.jit
def wall_in_jax(a, b, c):
    return (-b + jnp.sqrt(b**2 - 4 * a * c)) / (2 * a)


operations = jax.make_jaxpr(wall_in_jax)(a, b, c).eqns[0].params["jaxpr"].eqns
compiled = wall_in_jax.lower(a, b, c).compile().as_text()
loops = compiled[compiled.index("ENTRY"):].count(" fusion(")
print(f"{len(operations)} operations written down, {loops} loop compiled")
print("JAX gives the same times:", np.allclose(wall_in_jax(a, b, c), times))

# %% [markdown] id="jax-why" tags=["why"]
# It generates one, because the compiler *fuses* the nine operations into one loop, or on a GPU into one kernel. You
# wrote neither C++ nor a kernel for that. JAX knows the whole formula, so it can do more with it. In the next cell it
# computes the derivative.

# %% id="jax-then"
slower = jax.grad(lambda b: wall_in_jax(a[0], b, c[0]))(b[0])
step = 1e-6
later, sooner = time_to_wall(a[0], b[0] + step, c[0]), time_to_wall(a[0], b[0] - step, c[0])
by_difference = (later - sooner) / (2 * step)
print(f"derivative of the first time with respect to b: {slower:.4f}, by differences {by_difference:.4f}")

# %% [markdown] id="times-predict" tags=["predict"]
# ## 5. Side by side
#
# We measured six of these programs on an NVIDIA H200, with 67 million particles. PyCUDA is not among the six because it
# was not installed there, but it would run the same source as the `RawKernel`.
#
# *Predict:* the nine kernels move 176 bytes for each particle, and a single kernel moves 32. How much longer do the
# nine kernels take than the `ElementwiseKernel`?

# %% id="times-guess"
predict("times", "no longer", "about six times as long", "about fifty times as long")

# %% id="times"
from gpucourse.views.measured import recorded_times

recorded_times("quadratic.float64")

# %% [markdown] id="times-why" tags=["why"]
# They take about six times as long, 3.11 ms compared with 0.48 ms. This is close to 176 / 32 = 5.5, so the time is
# spent on reading and writing memory. The programs with one kernel take 0.48 to 0.51 ms, whether they are written in
# C++, in Python or as a formula for JAX. The only exception is CuPy's automatic fusion, which takes 0.75 ms. You will
# meet it in the lesson on CuPy as `cp.fuse`.

# %% [markdown] id="choose"
# So speed is rarely a reason to choose one of these tools over another. The tables list better reasons.
#
# | | PyCUDA | CuPy arrays | CuPy kernels | Numba CUDA | JAX |
# |---|---|---|---|---|---|
# | you write | CUDA C++ | NumPy | one line or a kernel in C++ | Python | NumPy, without changing arrays in place |
# | who writes the loop | you | CuPy | CuPy, or you | you | the compiler |
# | who copies the arrays | you | you, once | you, once | you, or Numba at each launch | JAX, once |
# | kernels for our formula | 1 | 9 | 1 | 1 | 1 |
# | runs without NVIDIA | no | mostly no | mostly no | no | yes |
#
# Which tool would you use for the following?
#
# | your work | tool | because |
# |---|---|---|
# | a NumPy program that has become too slow | CuPy arrays | you change the import and the copies, and little else |
# | one formula that takes most of a NumPy program's time | an `ElementwiseKernel`, or JAX | one kernel replaces many |
# | a kernel in CUDA C++ from a paper or a colleague | CuPy's `RawKernel`, or PyCUDA | you can run it unchanged |
# | elements that take different paths, as in loops, searches and histograms | Numba CUDA | you decide what each thread does, in Python |
# | a model with many parameters that you fit | JAX | it gives you derivatives, batches and fusion without a kernel |
# | a program that must also run without a GPU | JAX | the same code is compiled for the CPU |

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - The same formula gives the same result in PyCUDA, CuPy, Numba CUDA and JAX. The tools differ in who writes the loop
#   and who copies the arrays.
# - CuPy arrays launch one kernel for each operation. An `ElementwiseKernel`, a `RawKernel`, a Numba kernel or JAX's
#   `jit` needs one kernel for the whole formula.
# - For such a formula, the time depends on the number of bytes that are read and written, and not on the language.
# - Choose a tool by what you already have and what you must write, such as NumPy code, C++ code, loops for each
#   element, or derivatives.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - The lessons on the four tools are [PyCUDA](04_pycuda.ipynb), [CuPy](05_cupy.ipynb), [Numba
#   CUDA](06_numba_cuda.ipynb) and [JAX](09_jax.ipynb). [One problem, every tool](18_one_problem_every_tool.ipynb)
#   compares eight programs for a harder problem.
# - The manuals of the four tools are those of [PyCUDA](https://documen.tician.de/pycuda/),
#   [CuPy](https://docs.cupy.dev/en/stable/user_guide/index.html), [Numba-CUDA](https://nvidia.github.io/numba-cuda/)
#   and [JAX](https://docs.jax.dev/en/latest/).

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 30 minutes
#
# | minutes | what |
# |---|---|
# | 0-3 | the question; ask who has used which of the four tools |
# | 3-11 | section 1; everybody writes `entered`, in pairs if there is little C++ in the room |
# | 11-17 | section 2; collect guesses for the number of kernels on the board |
# | 17-23 | section 3; `wall-or-miss` |
# | 23-30 | sections 4 and 5; ask which row of the last table is whose |
#
# *Ten minutes late:* skip the `RawKernel`, and show the derivative without running it.
#
# *Where people get stuck.* In `entered` they forget a semicolon, and the error message then names the following line.
# In `wall-or-miss` they write `<= 0`, although a line that just touches the pipe has a valid time.
#
# *Frequent questions.* "Which one is the fastest?" For one formula the four tools are equally fast, as the recorded
# timings show. If threads need each other's results, the algorithm decides. "Do I need C++?" You don't need C++ for
# this course's projects, but you should be able to read it, because most examples on the web are in C++. "Why not
# PyTorch?" You can do all of this with PyTorch's tensors. The last lesson of the course combines your own kernels with
# PyTorch.
