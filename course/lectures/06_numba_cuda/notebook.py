# %% [markdown] id="the-question-asked"
# ## How much of Python can a GPU run?
#
# The Python function below computes the mass of a particle that decayed into two muons. `pt` is a muon's momentum
# across the beam in GeV, and `phi` is its angle around the beam. `eta`, the *pseudorapidity*, measures its direction
# relative to the beam. It is 0 at right angles to the beam and ±2.4 at 10° from it.
#
# Run the next cell. It runs *this function* on a GPU, once for each of 13,114 pairs. The events are simulated, so you
# need no download, and we know the true masses. `gpucourse data fetch` downloads real events, 2.2 GB, from [record
# 12341 of CMS Open Data](https://opendata.cern.ch/record/12341).

# %% id="the-question"
# %load_ext gpucourse
import math

import awkward as ak
import numpy as np
import virtualgpu
from gpucourse import lesson
from gpucourse.data import dimuons
from gpucourse.views.picture import Picture, canvas
from numba import cuda

check, hint, predict = lesson("06_numba_cuda")


def pair_mass(pt1, eta1, phi1, pt2, eta2, phi2):
    return math.sqrt(2 * pt1 * pt2 * (math.cosh(eta1 - eta2) - math.cos(phi1 - phi2)))


muons = dimuons().muons
two = muons[ak.num(muons.pt) == 2]
pairs = two[two.charge[:, 0] != two.charge[:, 1]]
columns = [ak.to_numpy(pairs[name][:, k]) for k in (0, 1) for name in ("pt", "eta", "phi")]

pair_mass_on_gpu = cuda.jit(device=True)(pair_mass)


@cuda.jit
def masses_of_pairs(pt1, eta1, phi1, pt2, eta2, phi2, mass):
    i = cuda.grid(1)
    if i < mass.size:
        mass[i] = pair_mass_on_gpu(pt1[i], eta1[i], phi1[i], pt2[i], eta2[i], phi2[i])


d_columns = [cuda.to_device(column) for column in columns]
d_mass = cuda.device_array(len(pairs), np.float32)
masses_of_pairs[103, 128](*d_columns, d_mass)  # 103 blocks of 128 threads: enough for all
mass = d_mass.copy_to_host()
print(f"{mass.size:,} masses; the first is {mass[0]:.4f} GeV")

# %% [markdown] id="the-spectrum-text"
# The kernel computed one mass for each pair. The next cell computes the same masses in ordinary Python.

# %% id="the-spectrum"
print(f"in Python, the first is {pair_mass(*(column[0] for column in columns)):.4f} GeV")
figure, axes = canvas(9, 2.8)
counts, edges = np.histogram(mass, 120, (0, 120))
axes.stairs(counts, edges, fill=True, color="#0072B2")
axes.set(xlabel="mass of the pair [GeV]", ylabel="pairs per GeV", xlim=(0, 120))
peaks = [low + int(counts[low:high].argmax()) for low, high in ((2, 6), (6, 20), (60, 120))]
Picture(figure, f"Histogram of the masses of {mass.size} muon pairs from 0 to 120 GeV: narrow peaks "
                f"of about {counts[peaks].min()} pairs per GeV or more at {peaks[0]}, {peaks[1]} and "
                f"{peaks[2]} GeV, few pairs below and hardly any between.")

# %% [markdown] id="the-question-stands"
# The peak at 91 GeV is the Z boson. The GPU has no Python interpreter, no `math` module and no objects, and yet it ran
# your function unchanged. **How did it do that, and how much of Python can it run?**

# %% [markdown] id="launch-text"
# ## 1. From a loop to a kernel
#
# Two decorators compile Python for the GPU. `@cuda.jit` compiles a kernel, and `cuda.jit(device=True)` compiles a
# **device function**, which kernels may call.
#
# As in [the puzzles](01_first_steps.ipynb), the launch `kernel[blocks, threads](…)` replaces the loop. Each thread runs
# the body once, for its own `i = cuda.grid(1)`. The guard, for example `if i < mass.size:`, stops the threads that have
# no element. For 13,114 masses, a launch of 103 blocks with 128 threads has 13,184 threads, so 70 of them have no mass
# to compute.
#
# ![A launch with three blocks of 64 threads. Each block consists of two warps of 32 lanes. Threads are
# numbered from 0 in each block; the position in the grid is blockIdx times blockDim plus threadIdx: thread
# 40 of block 2 is number 168. Blocks run in any order on the multiprocessors of the
# GPU.](../img/grid_of_blocks.svg)

# %% [markdown] id="loop-to-kernel-task"
# ### Exercise: from a loop to a kernel
#
# This loop computes the momenta of the muons along the beam:
#
# ```python
# def along_the_beam(pt, eta, pz):
#     for i in range(pt.size):
#         pz[i] = pt[i] * math.sinh(eta[i])
# ```
#
# Write it as a kernel. The check tries arrays of many lengths, always with more threads than elements.

# %% id="loop-to-kernel-exercise" tags=["exercise"]
@cuda.jit
def along_the_beam(pt, eta, pz):
    ### BEGIN SOLUTION
    i = cuda.grid(1)
    if i < pt.size:
        pz[i] = pt[i] * math.sinh(eta[i])
    ### END SOLUTION


# %% id="loop-to-kernel-check"
check("loop-to-kernel", along_the_beam)

# %% [markdown] id="the-way" tags=["whole"]
# Next you will see which code cannot be compiled, write a kernel in two dimensions, and find out what happens if
# several threads write to the same element.

# %% [markdown] id="launch-predict" tags=["predict"]
# Both decorators compile a function when it is first needed.
#
# *Predict:* if a kernel ends with `return mass[0]`, does its caller get a number, an array, or an error?

# %% id="kernel-returns-guess"
predict("kernel-returns", "a number", "an array, a number for each thread", "an error")

# %% id="kernel-returns" raises="TypingError"
@cuda.jit
def first_mass(mass):
    return mass[0]


first_mass[1, 32](d_mass)

# %% [markdown] id="kernel-returns-why" tags=["why"]
# You get an error before anything runs. The message shows the launch and the kernel in your cell, and then the reason.
# `No conversion from float32 to none` means that the function returns a `float32`, although a kernel must return
# *nothing*. Outside this course, the reason appears within a hundred or so lines of Numba's own traceback, which `%tb`
# shows here. Read such a message from the end.
#
# The launch has 32 threads, so it would not be clear whose number the caller should get. The caller does not even wait
# for the threads, because a launch returns at once and the GPU does the work later. So a kernel writes its results into
# arrays, and `copy_to_host` waits for the kernel and copies them back.

# %% [markdown] id="launch-ways-predict" tags=["predict"]
# You can choose the size of a launch in three ways. The simplest is to launch enough blocks for one thread per element.
# If the kernel has a grid-stride loop, as in [puzzle 7](01_first_steps.ipynb#7-fewer-threads-than-elements) and in the
# next cell, you can launch any number of blocks. You can also let `kernel.forall(n)` choose the size for you.
#
# *Predict:* which of the three launches below gives wrong masses?

# %% id="launch-ways-guess"
predict("launch-ways",
        "[10, 128]: too few threads for all pairs",
        "[1000, 128]: too many threads",
        "none")

# %% id="launch-ways"
@cuda.jit
def masses_in_strides(pt1, eta1, phi1, pt2, eta2, phi2, mass):
    for i in range(cuda.grid(1), mass.size, cuda.gridsize(1)):
        mass[i] = pair_mass_on_gpu(pt1[i], eta1[i], phi1[i], pt2[i], eta2[i], phi2[i])


for name, launch in {
    "[10, 128]   ": masses_in_strides[10, 128],
    "[1000, 128] ": masses_in_strides[1000, 128],
    "forall(size)": masses_in_strides.forall(mass.size),
}.items():
    d_again = cuda.device_array_like(d_mass)
    launch(*d_columns, d_again)
    print(name, "the same masses:", np.array_equal(d_again.copy_to_host(), mass))

# %% [markdown] id="launch-ways-why" tags=["why"]
# All three give the right masses, because the loop continues until no pair is left. With [10, 128], each thread
# computes ten or eleven pairs. With [1000, 128], nine of ten threads compute none. A kernel with a grid-stride loop is
# right for every launch, so you can choose the fastest one.

# %% [markdown] id="copies-predict" tags=["predict"]
# ## 2. Where an array lives
#
# A kernel can access only the memory of the device. `cuda.to_device` copies an array to the device, `cuda.device_array`
# allocates one there without filling it, and `copy_to_host` copies an array back.
#
# *Predict:* what happens if you pass a NumPy array to a kernel directly? Do you get an error, and does the NumPy array
# change?

# %% id="copies-guess"
predict("copies",
        "an error",
        "it works, and the array stays as it was",
        "it works, and the array changes")

# %% id="copies"
import warnings


@cuda.jit
def double(values):
    i = cuda.grid(1)
    if i < values.size:
        values[i] *= 2


on_host = np.arange(1.0, 5.0)
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    double[1, 32](on_host)
print(on_host)
print(*(warning.message for warning in heard), sep="\n")

# %% [markdown] id="copies-why" tags=["why"]
# It works, but Numba prints a warning. It copied the array to the device, launched the kernel, waited, and copied
# **every** array argument back, including those that the kernel only read. The kernel worked on a copy, so your array
# changes only because Numba copies the result back. This is convenient for a first try, but in a loop over launches it
# transfers the same bytes back and forth each time, so copy once, launch often, and copy back once.

# %% [markdown] id="types-predict" tags=["predict"]
# ## 3. Types decide
#
# In Python, `double` is written without types, but machine code needs them. So Numba waits for the first launch, looks
# at the types of the arguments, and derives the type of every variable from them.
#
# The next cell makes four launches. Their arguments are a `float32` array, a `float64` array, a `float64` array of a
# different length, and every second element of a `float64` array. *Predict:* how often is `double` compiled?

# %% id="types-guess"
predict("types",
        "once: the function is the same",
        "twice more: float32, and every second element",
        "four times")

# %% id="types"
numbers = np.ones(500)
d_numbers = cuda.to_device(numbers)
for values in (cuda.to_device(numbers.astype(np.float32)), d_numbers, d_numbers[:5], d_numbers[::2]):
    before = len(double.overloads)
    double[4, 128](values)
    compiled = "compiled" if len(double.overloads) > before else "known already"
    kind = f"{values.dtype}, {values.strides[0]} bytes apart"
    print(f"{kind:26}{values.size:4} values: {compiled}")
print(*double.signatures, sep="\n")

# %% [markdown] id="types-why" tags=["why"]
# It is compiled twice more, once for `float32` and once for the array with gaps. It was already compiled for `float64`
# in the previous section, and the length is not part of the type. The layout is part of the type, `C` for contiguous
# and `A` for any layout, because an array with gaps needs different machine code. One compilation takes a good part of
# a second, so *the first launch is slow*. To time a kernel on a GPU, launch it once, then time later launches, and call
# `cuda.synchronize()` before you stop the clock.

# %% [markdown] id="what-does-not-compile-predict" tags=["predict"]
# The reverse is also true, because Numba cannot compile code if it cannot find its types.
#
# *Predict:* in Python you might collect results in a list. Will Numba compile a kernel that appends to a list?

# %% id="what-does-not-compile-guess"
predict("what-does-not-compile", "yes", "yes, but slowly", "no")

# %% id="what-does-not-compile" raises="TypingError"
@cuda.jit
def heaviest_of_three(mass, out):
    i = cuda.grid(1)
    if 3 * i + 2 < mass.size:
        found = []
        for k in range(3):
            found.append(mass[3 * i + k])
        out[i] = max(found)


heaviest_of_three[35, 128](d_mass, d_mass)

# %% [markdown] id="what-does-not-compile-why" tags=["why"]
# No, Numba refuses it with `Unknown attribute 'append' of type list(undefined)`. A list grows, so it needs an allocator
# to provide memory, and in this kernel ten thousand threads would call the allocator at the same time. The table shows
# what a kernel may use.
#
# | compiles | does not |
# |---|---|
# | numbers, tuples of fixed length, array elements and slices | lists, dicts, sets and everything else that grows |
# | `if`, `while`, `for … in range(…)`, `and`, `or`, `min`, `max`, `abs` | `try`, `with`, `yield`, lambdas in variables |
# | the functions of `math`, and some NumPy functions of numbers | NumPy functions that create an array |
# | `print` of numbers and fixed strings | f-strings, opening files, calling any Python library |
# | device functions; `cuda.local.array` and `cuda.shared.array` of fixed size | your own classes |
#
# If Numba cannot compile a line of code, it names the line. It never falls back to running the code slowly. Numba's
# documentation has the [full list](https://nvidia.github.io/numba-cuda/user/cudapysupported.html).

# %% [markdown] id="device-function-task"
# ### Exercise: an angle that wraps
#
# The angle between two muons around the beam is `phi1 - phi2`, but angles wrap around. For example, 3.1 and -3.1 are
# only 0.08 apart, not 6.2. Write the device function `delta_phi`, which returns the difference in the range from -π to
# π by adding or subtracting 2π where needed. The values of `phi` in our data are between -π and π. The check calls your
# function from its own kernel.

# %% id="device-function-exercise" tags=["exercise"]
@cuda.jit(device=True)
def delta_phi(phi1, phi2):
    difference = phi1 - phi2
    ### BEGIN SOLUTION
    if difference > math.pi:
        difference -= 2 * math.pi
    elif difference < -math.pi:
        difference += 2 * math.pi
    ### END SOLUTION
    return difference


# %% id="device-function-check"
check("device-function", delta_phi)

# %% [markdown] id="pipeline-text"
# ## 4. From Python to machine code
#
# The GPU cannot run Python, so your function is translated several times. Python's compiler makes *bytecode*. Numba
# reads the bytecode, finds the types, and writes *LLVM IR*, a language that many compilers share. NVIDIA's NVVM turns
# LLVM IR into **PTX**, an assembly language for all NVIDIA GPUs, and the driver translates the PTX into the machine
# code of your GPU. The virtual GPU of this course runs the PTX. You can look at all of these stages except the machine
# code.
#
# The next kernel converts energies from MeV, which some detectors use, to GeV.

# %% [markdown] id="pipeline-predict" tags=["predict"]
# *Predict:* `energy` is `float32`, but with how many bits is it multiplied? In the output, the line with `mul.f` shows
# it.

# %% id="pipeline-guess"
predict("pipeline", "32: energy is float32", "64", "16")

# %% id="pipeline"
import dis


@cuda.jit
def mev_to_gev(energy):
    i = cuda.grid(1)
    if i < energy.size:
        energy[i] = energy[i] * 0.001


def ptx_of(kernel):
    """The PTX of a kernel that has been launched with one set of types."""
    (ptx,) = kernel.inspect_asm().values()
    return ptx


mev_to_gev[1, 32](cuda.to_device(np.array([91_187.6], np.float32)))
llvm = next(iter(mev_to_gev.inspect_llvm().values()))
bytecode = list(dis.get_instructions(mev_to_gev.py_func))
print(f"{len(bytecode)} instructions of bytecode, {len(llvm.splitlines())} lines of LLVM IR,",
      f"{len(ptx_of(mev_to_gev).splitlines())} lines of PTX, which end with:\n")
print(ptx_of(mev_to_gev).split("@%p1 bra")[1].split("}")[0])

# %% [markdown] id="pipeline-why" tags=["why"]
# It is multiplied with 64 bits, as `mul.f64` shows. Most of the other lines compute an address, which is the start of
# the array plus four bytes times the thread's number. Then comes the body, where `ld.global` loads from global memory
# and `st.global` stores to it. The first line of the output, `@%p1 bra`, is your guard. It is a branch to the end for
# the threads whose condition `%p1` is true.
#
# On either side of `mul.f64`, `cvt.f64.f32` converts to 64 bits and `cvt.rn.f32.f64` converts back to 32. In Numba, a
# `float` constant is a `float64`, and `float32 * float64` is `float64`, as it was for NumPy scalars *before* NumPy 2.
# So one constant made the kernel compute in double precision. Most GPUs compute in double precision at a fraction of
# the speed of single precision. The fraction is 1/64 on desktop GPUs and 1/2 on those built for science, according to
# NVIDIA's [table of throughputs](https://docs.nvidia.com/cuda/cuda-c-programming-guide/#arithmetic-instructions).
#
# If you multiply by `2.0`, the PTX contains no `f64`, because `float32` represents 2.0 exactly and the compiler knows
# that the result is the same.

# %% [markdown] id="single-precision-task"
# ### Exercise: single precision
#
# Write `calibrate`, which computes `out[i] = 0.983 * energy[i] + 0.12` for `float32` arrays, without a single
# instruction in double precision. You can call `np.float32(…)` in a kernel. The check reads the PTX of your kernel.

# %% id="single-precision-exercise" tags=["exercise"]
@cuda.jit
def calibrate(energy, out):
    i = cuda.grid(1)
    if i < energy.size:
        ### BEGIN SOLUTION
        out[i] = np.float32(0.983) * energy[i] + np.float32(0.12)
        ### END SOLUTION


# %% id="single-precision-check"
check("single-precision", calibrate)

# %% [markdown] id="two-dimensions-text"
# ## 5. Two dimensions
#
# The next cell makes a map of the momentum of all 71,009 muons by direction, with 40 rows for `eta` and 64 columns for
# `phi`.

# %% id="momentum-map"
flat = ak.flatten(muons)
eta, phi, pt = (ak.to_numpy(flat[name]) for name in ("eta", "phi", "pt"))
seen = ((-2.5, 2.5), (-math.pi, math.pi))
momentum = np.ascontiguousarray(np.histogram2d(eta, phi, (40, 64), seen, weights=pt)[0])


def draw_map(values, label):
    figure, axes = canvas(9, 2.6)
    drawn = axes.imshow(values, origin="lower", aspect="auto", cmap="viridis",
                        extent=(-math.pi, math.pi, -2.5, 2.5))
    axes.set(xlabel="phi [rad]", ylabel="eta")
    figure.colorbar(drawn, label=f"{label} [GeV]")
    place = np.unravel_index(np.argmax(values), values.shape)
    return Picture(figure, f"Map of {label} in {values.shape[0]} rows of eta and {values.shape[1]} "
                           f"columns of phi: from {values.min():.0f} to {values.max():.0f} GeV, "
                           f"with the most in row {place[0]}, column {place[1]}.")


draw_map(momentum, "momentum per cell")

# %% [markdown] id="x-is-the-column-predict" tags=["predict"]
# Blocks and grids may have two dimensions, and then the launch is
# `kernel[(blocks_x, blocks_y), (threads_x, threads_y)]`. As in [the puzzles](01_first_steps.ipynb#8-two-dimensions),
# `cuda.grid(2)` returns the two numbers of a thread, **x first**, and threads with neighbouring x are neighbours in a
# warp.
#
# A matrix is indexed `[row, column]`, and neighbouring elements of a *row* are neighbours in memory. *Predict:* which
# of these two kernels is right, and do they move the same number of bytes?

# %% id="x-is-the-column-guess"
predict("x-is-the-column",
        "only the first is right",
        "both are right, and cost the same",
        "both are right, and the second costs more")

# %% id="x-is-the-column"
@cuda.jit
def scale_map(values, factor, out):
    column, row = cuda.grid(2)
    if row < values.shape[0] and column < values.shape[1]:
        out[row, column] = factor * values[row, column]


@cuda.jit
def scale_map_crosswise(values, factor, out):
    row, column = cuda.grid(2)
    if row < values.shape[0] and column < values.shape[1]:
        out[row, column] = factor * values[row, column]


d_momentum = cuda.to_device(momentum)
for kernel, blocks in ((scale_map, (2, 10)), (scale_map_crosswise, (2, 16))):
    d_out = cuda.device_array_like(d_momentum)
    with virtualgpu.profile() as profile:
        kernel[blocks, (32, 4)](d_momentum, 0.5, d_out)
    right = np.array_equal(d_out.copy_to_host(), 0.5 * momentum)
    print(f"{kernel.py_func.__name__:20} right: {right}; sectors moved:",
          profile.counters.global_load_sectors + profile.counters.global_store_sectors)

# %% [markdown] id="x-is-the-column-why" tags=["why"]
# Both are right, but the second kernel moves four times as many sectors of 32 bytes.

# %% [markdown] id="x-is-the-column-then"
# The pictures show the writes of the first two warps of each kernel.

# %% id="x-is-the-column-picture"
from gpucourse import beside, memory

beside(
    memory(scale_map, (2, 10), (32, 4), momentum, 0.5, np.zeros_like(momentum), array="out",
           title="x is the column"),
    memory(scale_map_crosswise, (2, 16), (32, 4), momentum, 0.5, np.zeros_like(momentum),
           array="out", title="x is the row"),
)

# %% [markdown] id="x-is-the-column-lesson"
# If x is the column, a warp's 32 numbers of 8 bytes are next to each other in memory, in 8 sectors. If x is the row,
# each number is in a different sector, so 32 sectors are moved and three quarters of the bytes are wasted. You get no
# error and no warning, only a slow kernel. This is the most common mistake in two-dimensional kernels. Many published
# matrix products make it, because `i, j = cuda.grid(2)` looks so natural.

# %% [markdown] id="too-large-predict" tags=["predict"]
# You might think that blocks should be as large as possible. *Predict:* is a launch with blocks of 32 × 64 threads
# faster or slower, or is it an error?

# %% id="too-large-guess"
predict("too-large", "faster: more threads at once", "slower", "an error")

# %% id="too-large" raises=["LaunchError", "CUDAError", "CudaAPIError"]
scale_map[(2, 1), (32, 64)](d_momentum, 0.5, d_out)

# %% [markdown] id="too-large-why" tags=["why"]
# It is an error, because a block has at most 1024 threads, however they are arranged. A real GPU reports only
# `CUDA_ERROR_INVALID_VALUE`, without the reason. Start with 128 to 256 threads per block. In two dimensions, choose 32
# or 16 threads along x.

# %% [markdown] id="stencil-task"
# ### Exercise: smooth the map
#
# A *stencil* computes each cell of a map from its neighbours. Write `smooth`, where `out[row, column]` is the mean of
# five cells, namely the cell itself, those to the left and right, and those above and below. In `phi` the map is a
# ring, so the last column and the first are neighbours. In `eta` the map ends. A neighbour beyond the end counts as 0,
# but the sum is still divided by 5. The check tests whether the values are right, whether warps lie along the rows, and
# whether each thread computes one cell.

# %% id="stencil-exercise" tags=["exercise"]
@cuda.jit
def smooth(values, out):
    rows, columns = values.shape
    ### BEGIN SOLUTION
    column, row = cuda.grid(2)
    if row < rows and column < columns:
        total = values[row, column]
        total += values[row, (column + 1) % columns]
        total += values[row, (column - 1) % columns]
        if row > 0:
            total += values[row - 1, column]
        if row + 1 < rows:
            total += values[row + 1, column]
        out[row, column] = total / 5
    ### END SOLUTION


d_smooth = cuda.to_device(np.zeros_like(momentum))
smooth[(2, 10), (32, 4)](d_momentum, d_smooth)
draw_map(d_smooth.copy_to_host(), "smoothed momentum")

# %% id="stencil-check"
check("stencil", smooth)

# %% [markdown] id="whole-text"
# ## 6. Is it worth it?
#
# Write a kernel if no library has the function that you need, if a chain of array operations would read and write its
# data again and again, or if each element needs a different computation, as in a Monte Carlo simulation. With Numba you
# write the kernel in Python and pass CuPy arrays to it without a copy. You can test it in ordinary Python, by calling
# `kernel.py_func` for a kernel, or by calling a device function directly. If a library has the function, use the
# library. For example, "Thinking in warps" shows how much slower our kernel for matrix products is than the library's.

# %% [markdown] id="ufunc-text"
# If each result depends on only one element of each array, Numba can also write the kernel for you. `@vectorize` with
# `target="cuda"` and explicit types makes a *ufunc*, for which Numba generates the kernel, the grid and the guard.
# `@guvectorize` does the same for a function of a row, where `"(n)->()"` means that a row is reduced to one number.

# %% id="ufunc"
from numba import guvectorize, vectorize


@vectorize(["float32(float32, float32)"], target="cuda")
def transverse(px, py):
    return math.sqrt(px * px + py * py)


@guvectorize(["void(float32[:], float32[:])"], "(n)->()", target="cuda")
def largest(row, out):
    out[0] = row[0]
    for value in row:
        out[0] = max(out[0], value)


random = np.random.default_rng(5)
# 1,024 made-up events of 8 particles [GeV]
px, py = random.normal(0, 10, (2, 1024, 8)).astype(np.float32)
d_pt = transverse(cuda.to_device(px), cuda.to_device(py))  # stays on the device
d_largest = largest(d_pt, out=cuda.device_array(1024, np.float32))
print("as NumPy:", np.allclose(d_largest.copy_to_host(), np.hypot(px, py).max(axis=1)), "  both on the device:",
      cuda.is_cuda_array(d_pt) and cuda.is_cuda_array(d_largest))

# %% [markdown] id="names-text"
# Numba's CUDA target is the package `numba-cuda`, which is maintained but gets no new features. Its successor is
# NVIDIA's `numba-cuda-mlir`, for which you write kernels in the same way.

# %% [markdown] id="momentum-asked"
# ## 7. Where did the momentum go?
#
# So far each thread wrote to its own element. Now all threads write to the same element. The events of this lesson have
# 71,009 muons, and for each muon a thread adds the muon's momentum to one total. Run the cell and compare the two
# totals.

# %% id="momentum"
muon_pt = ak.to_numpy(ak.flatten(muons.pt))
d_muon_pt = cuda.to_device(muon_pt)


@cuda.jit
def add_all(values, total):
    i = cuda.grid(1)
    if i < values.size:
        total[0] += values[i]


d_total = cuda.to_device(np.zeros(1))
add_all[555, 128](d_muon_pt, d_total)  # 555 × 128 threads: enough for every muon

print(f"NumPy:   {muon_pt.sum(dtype=np.float64):12,.1f} GeV from {muon_pt.size:,} muons")
print(f"threads: {d_total.copy_to_host()[0]:12,.1f} GeV")

# %% [markdown] id="momentum-stands"
# There is no error and no warning, yet nearly all of the momentum is missing. Every muon had its own thread, and every
# thread executed the addition. **So where did the momentum go?**

# %% [markdown] id="order-predict" tags=["predict"]
# ## 8. Races
#
# To explain the missing momentum, we first ask in which order the threads run.
#
# In this kernel each thread draws a ticket from a machine that never gives out a number twice, because it adds 1 in a
# single step. *Predict:* which thread draws the first ticket?
#
# `virtualgpu.schedule(seed)` runs the warps, and the threads of each warp, in a random order. A real GPU could run them
# in the same order.

# %% id="order-guess"
predict("order", "thread 0, always", "often thread 0, but not always", "each thread equally often")

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
# It is often thread 0, but not always. CUDA promises no order between threads or between blocks. It promises only that
# *within one thread*, lines are executed one after the other.

# %% [markdown] id="order-then"
# A line is not even the smallest step. `total[0] += value` takes three steps, which **load** the total, **add** the
# value, and **store** the result. Other threads can take their own steps in between.
#
# Now execute the steps of two threads by hand. Thread A adds 1, thread B adds 2, and the total starts at 10. Each
# letter of `order` lets the thread of this name take its next step.

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
# In the second order, A's 1 was lost, because B had loaded the total before A stored. Find an `order` that loses B's 2
# instead, so that the total is 11. Then assign to `possible` the set of the totals that can occur in any order.

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
# Now let the virtual GPU try it. The next cell runs the same two threads, each in its own block, in 40 orders.

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
# The same program gives different answers. Your set contains every answer that a real GPU may give, and each of them
# occurred in the forty orders. In a **race**, as in [the last of the first
# puzzles](01_first_steps.ipynb#10-broken-two-threads-one-place), two threads access the same address, at least one of
# them writes, and nothing determines which access comes first. A rare race is the worst kind, because the program may
# pass every test for years and then fail.
#
# So do not wait for a wrong answer. `virtualgpu.check()` records which threads access which address, and reports a race
# even if the answer happens to be right. The next cell tries it on the kernel from section 7.

# %% id="race-found"
d_total = cuda.to_device(np.zeros(1))
with virtualgpu.check() as report:
    add_all[555, 128](d_muon_pt, d_total)
print(report)

# %% [markdown] id="race-replayed-text"
# The next picture shows the same kernel with two muons and two threads. Go through it step by step with the buttons
# above the picture. Before the last step, predict the value of `total[0]`.

# %% id="race-replayed"
import gpucourse

gpucourse.race(add_all, 2, 1, np.array([30.0, 12.0]), np.zeros(1))

# %% [markdown] id="race-found-why"
# The report names the line of the race and two of the threads that collide there. This is where the momentum went.
# Thousands of threads loaded the same total, each of them added the momentum of its one muon, and each store overwrote
# the earlier ones.
#
# There are two solutions. Each thread can add up its own share in a separate element, which gives one partial sum per
# thread, or you can use an **atomic**. `cuda.atomic.add(total, 0, values[i])` loads, adds and stores in one step, so no
# other thread can come in between.

# %% [markdown] id="atomic-predict" tags=["predict"]
# ## 9. Atomics: one step instead of three
#
# `cuda.atomic.add(array, index, value)` also returns the value before the addition. In section 8, each thread got a
# different value because the ticket machine was an atomic addition of 1.
#
# *Predict:* will the sum be right, and will it be the same for every order of the threads?

# %% id="atomic-guess"
predict("atomic",
        "right, but different in each order",
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
# The sum is right, and the same in all three orders.

# %% [markdown] id="atomic-broken-predict" tags=["predict"]
# Now use a `float32` for the total, which holds about seven digits. *Predict:* what changes in the result?

# %% id="atomic-float32-guess"
predict("atomic-float32", "nothing", "updates get lost again", "a different sum in each order")

# %% id="atomic-float32"
for seed in (1, 2, 3):
    d_total = cuda.to_device(np.zeros(1, np.float32))
    with virtualgpu.schedule(seed):
        add_all_atomic[555, 128](d_muon_pt, d_total)
    print(f"order {seed}: {d_total.copy_to_host()[0]:,.3f} GeV")

# %% [markdown] id="atomic-float32-why" tags=["why"]
# No update is lost, and yet each order gives a different sum, which differs from the right one by up to several GeV.
# Each addition rounds its result, and the rounding depends on the total so far. With floats, (a + b) + c need not equal
# a + (b + c). An atomic makes each addition a single step, but it does not determine the order. The `float64` total was
# exact, because each of these values has 24 bits and their sum still fits into 53 bits.

# %% [markdown] id="atomic-float32-then"
# So compare sums of floats with a tolerance, and use a wider type for the total where you can.

# %% [markdown] id="check-then-act-task"
# ### Exercise: the hardest muon
#
# A race needs no `+=`. In the search for the *hardest* muon, the one with the largest momentum, two threads may both
# read `best[0]` and both find that their muon is harder. Then the thread with the smaller value may store last:
#
# ```python
# if i < values.size and values[i] > best[0]:
#     best[0] = values[i]
# ```
#
# Write `hardest` so that it is right in every order. `best[0]` starts at minus infinity, and one of Numba's
# [atomics](https://nvidia.github.io/numba-cuda/user/intrinsics.html) does exactly what you need here.

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
# - A kernel returns nothing, and its launch returns at once. A kernel writes its results to arrays, and copying them
#   back waits for the kernel.
# - Numba compiles a kernel at its first launch, once for each set of argument types. It refuses code without fixed
#   types or sizes, and names the line.
# - Copy to the device once, launch often, and copy back once. If you pass a NumPy array, Numba copies it in both
#   directions at each launch.
# - A Python `float` in a kernel has 64 bits, and so does every calculation with it. If the precision matters, read the
#   PTX.
# - In two dimensions, x is the column, so that the threads of a warp read neighbours.
# - Threads run in no fixed order. If two threads access the same address, at least one of them writes, and nothing
#   orders the accesses, that is a race. The program is then wrong even if its answer is right. `virtualgpu.check()`
#   names the line and the threads.
# - An atomic combines load, change and store in one step. It does not determine the order, so compare sums of floats
#   with a tolerance.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - The Numba-CUDA manual on [kernels](https://nvidia.github.io/numba-cuda/user/kernels.html), [device
#   functions](https://nvidia.github.io/numba-cuda/user/device-functions.html),
#   [memory](https://nvidia.github.io/numba-cuda/user/memory.html), [supported
#   Python](https://nvidia.github.io/numba-cuda/user/cudapysupported.html), and
#   [atomics](https://nvidia.github.io/numba-cuda/user/intrinsics.html)
# - NVIDIA's programming guide on
#   [kernels](https://docs.nvidia.com/cuda/cuda-programming-guide/02-basics/writing-cuda-kernels.html), and the
#   [PTX manual](https://docs.nvidia.com/cuda/parallel-thread-execution/) for the instructions that you saw
# - The exact definition of a race on a GPU, in the
#   [memory consistency model](https://docs.nvidia.com/cuda/parallel-thread-execution/index.html#memory-consistency-model)
#   of PTX, which `virtualgpu.check()` follows
# - [LLVM's language reference](https://llvm.org/docs/LangRef.html), for the step between bytecode and PTX

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 75 minutes
#
# | minutes | what |
# |---|---|
# | 0-4 | the question; ask for things that surely cannot run on a GPU, and keep the list for section 3 |
# | 4-14 | section 1 and its exercise |
# | 14-32 | sections 2 to 4; `device-function` alone, `single-precision` in pairs |
# | 32-48 | sections 5 and 6; `stencil` |
# | 48-66 | sections 7 and 8; play the interleaving with two people and a number on the board |
# | 66-75 | section 9; `check-then-act` |
#
# *Ten minutes late:* leave out section 2 after its prediction, and leave out the exercise `single-precision`, but still
# show the PTX. *Ten minutes early:* ask for a kernel that finds both the minimum and the maximum.
#
# *Where people get stuck.* In `loop-to-kernel` they keep the loop, so every thread does all the work. In `stencil`,
# people who know C worry that `(column - 1) % columns` may be negative. In Python, and therefore in Numba, it never is.
#
# *Frequent questions.* "Why is the first cell so slow?" The first run compiles the kernel. If you run the cell again,
# it is quick. "Is it as fast as CUDA C++?" Often it is, as the quadratic formula of "The walk" shows. But a tree
# reduction takes 1.3 times as long as in C++, and a launch also takes longer. "Why is x the column?" The hardware
# numbers threads along x first, and a NumPy array is contiguous along its last index, which is the column. "Why does
# the race give the same wrong answer each time?" The virtual GPU runs the threads in the same order each time. With
# `virtualgpu.schedule(seed)` it uses a different order, and on a real GPU any order is possible.
#
# *What goes wrong.* If you edit a kernel, run the cell that defines it before you run the cell that launches it,
# because otherwise the launch uses the old kernel.
