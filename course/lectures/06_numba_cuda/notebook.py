# %% [markdown] id="the-question-asked"
# ## How much of Python can a GPU run?
#
# Here is a Python function: the mass of a particle that fell apart into two muons. `pt` is a muon's momentum across the
# beam in GeV, `phi` its angle around it; `eta`, the *pseudorapidity*, is 0 straight across the beam and ±2.4 at 10° from it.
#
# Run the cell: it runs *this function* on a GPU, once for each of 13,114 pairs. (The events are simulated by
# `gpucourse.data`, because then nothing has to be downloaded and the true masses are known. The real ones:
# [record 12341 of CMS Open Data](https://opendata.cern.ch/record/12341), 2.2 GB, which `gpucourse data fetch` brings.)

# %% id="the-question"
# %load_ext gpucourse
import math

import awkward as ak
import numpy as np
import virtualgpu
from gpucourse import lesson
from gpucourse.data import dimuons
from gpucourse.views.picture import Picture, canvas
from numba import cuda, float32

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
    i = cuda.grid(1)  # which thread am I?
    if i < mass.size:
        mass[i] = pair_mass_on_gpu(pt1[i], eta1[i], phi1[i], pt2[i], eta2[i], phi2[i])


d_columns = [cuda.to_device(column) for column in columns]  # d_: in the memory of the device
d_mass = cuda.device_array(len(pairs), np.float32)
masses_of_pairs[103, 128](*d_columns, d_mass)  # 103 blocks of 128 threads: enough for all
mass = d_mass.copy_to_host()
print(f"{mass.size:,} masses; the first is {mass[0]:.4f} GeV")

# %% [markdown] id="the-spectrum-text"
# One number for each pair. And in ordinary Python:

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
# The peak at 91 GeV is the Z boson. The GPU has no Python interpreter, no `math` module, no objects; and
# yet it ran your function, unchanged. **How? And how much of Python would it have run?**

# %% [markdown] id="launch-text"
# ## 1. From a loop to a kernel
#
# Two decorators did it. `@cuda.jit` makes a **kernel**: what the host (your Python) may launch.
# `cuda.jit(device=True)` makes a **device function**: what kernels may call.
#
# A kernel is the body of a loop. `kernel[blocks, threads](…)` starts `blocks` **blocks** of `threads`
# **threads** each, and each thread runs the body once:
#
# ![A launch with three blocks of 64 threads. Each block consists of two warps of 32 lanes. Threads are
# numbered from 0 in each block; the position in the grid is blockIdx times blockDim plus threadIdx: thread
# 40 of block 2 is number 168. Blocks run in any order on the multiprocessors of the
# GPU.](../img/grid_of_blocks.svg)
#
# `cuda.grid(1)` is the thread's number in the whole grid. 103 × 128 is 13,184, so 70 threads have no
# pair: for them `i < mass.size` is false. That `if` is the **bounds guard**.

# %% [markdown] id="loop-to-kernel-task"
# ### Exercise: from a loop to a kernel
#
# This loop works out the momenta along the beam:
#
# ```python
# def along_the_beam(pt, eta, pz):
#     for i in range(pt.size):
#         pz[i] = pt[i] * math.sinh(eta[i])
# ```
#
# Write it as a kernel. The check tries many lengths, with more threads than elements.
# `hint("loop-to-kernel")` gives a first hint, and called again, a second one.

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
# From here on you will meet what cannot be compiled, and write kernels in one and two dimensions, up to a matrix product
# that reads its data sixteen times less often.

# %% [markdown] id="launch-predict" tags=["predict"]
# Both decorators compile the first time they are needed.
#
# *Predict:* a kernel that ends in `return mass[0]`: does its caller get a number, an array, or an error?

# %% id="kernel-returns-guess"
predict("kernel-returns", "a number", "an array, a number for each thread", "an error")

# %% id="kernel-returns" raises="TypingError"
@cuda.jit
def first_mass(mass):
    return mass[0]


first_mass[1, 32](d_mass)

# %% [markdown] id="kernel-returns-why" tags=["why"]
# An error, and before anything ran: first the lines of the cell, the launch's and the kernel's, then the
# reason. `No conversion from float32 to none`: the function gives a `float32`, and a kernel must give
# *nothing*. (Outside of this course the reason stands among some hundred lines from inside Numba; `%tb`
# shows them here. Read such messages from the end.)
#
# There are 32 threads here: whose number should the caller get? And the caller wouldn't be waiting for it: a
# launch returns at once, and the GPU does the work in its own time. So a kernel writes its results into
# arrays, and `copy_to_host` waits for it and fetches them.

# %% [markdown] id="launch-ways-predict" tags=["predict"]
# How many blocks? Enough to give each element a thread; or any number, if the kernel has a **grid-stride
# loop**: each thread starts at its own number and goes on by `cuda.gridsize(1)`, the number of all
# threads. And `kernel.forall(n)` chooses a launch by itself.
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
# None. With [10, 128] each thread takes ten or eleven pairs; with [1000, 128] nine of ten threads take
# none. A grid-stride loop is right for every launch, which leaves you free to choose a fast one. (Sections 8 to 13 look at
# who goes first, and at what happens when threads meet.)

# %% [markdown] id="copies-predict" tags=["predict"]
# ## 2. Where an array lives
#
# A kernel reaches only the memory of the device. `cuda.to_device` copies an array there,
# `cuda.device_array` makes room for one without filling it, `copy_to_host` copies one back.
#
# *Predict:* a NumPy array is handed to a kernel as it is. Error, or not? And does the NumPy array change?

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
# It works, and Numba warns: it copied the array to the device, launched, waited, and copied **every**
# array argument back, also those that the kernel only read. (Your array changes only because it is
# copied back; the kernel worked on a copy.) That's handy for a first try; in a loop over launches, it carries the same bytes back and
# forth each time. The path between host and device is the slowest on the whole machine, so:
# copy once, launch often, copy once.

# %% [markdown] id="types-predict" tags=["predict"]
# ## 3. Types decide
#
# In Python, `double` says nothing of types. Machine code must. So Numba waits for the first launch, looks
# at the types of the arguments, and works out the type of every variable from there.
#
# *Predict:* four launches: `float32`, `float64`, `float64` again (of another length), and every second
# element of a `float64` array. How often is `double` compiled?

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
# `float32` is new; `float64` was compiled in the section before; the length is no part of the type; the
# layout is: an array with gaps (`A` for any, where `C` is contiguous) needs other machine code. One
# compilation takes a good part of a second, so *the first launch is slow*. It is no measure of the kernel,
# and neither is a launch that you do not wait for: to time a kernel on a GPU, launch it once, then time
# later launches with `cuda.synchronize()` before you stop the clock.

# %% [markdown] id="what-does-not-compile-predict" tags=["predict"]
# The other side of it: what has no type cannot be compiled. *Predict:* a list of what a thread has found is
# a good idea in Python. Will Numba take it?

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
# No. `Unknown attribute 'append' of type list(undefined)`: a list grows, and for that it needs memory that some
# allocator hands out. Here ten thousand threads would all be asking at once. What a kernel may use, in short:
#
# | compiles | does not |
# |---|---|
# | numbers, tuples of fixed length, array elements and slices | lists, dicts, sets, growing anything |
# | `if`, `while`, `for … in range(…)`, `and`, `or`, `min`, `max`, `abs` | `try`, `with`, `yield`, lambdas in variables |
# | the functions of `math`, some of NumPy's on numbers | NumPy functions that make an array |
# | `print` of numbers and fixed strings | f-strings, opening files, calling any Python library |
# | device functions; `cuda.local.array` and `cuda.shared.array` of fixed size | classes of your own |
#
# What does not compile is refused, with the line; it does not become slow. The
# [full list](https://nvidia.github.io/numba-cuda/user/cudapysupported.html) is worth a look.

# %% [markdown] id="device-function-task"
# ### Exercise: an angle that wraps
#
# The angle between two muons around the beam is `phi1 - phi2`, but angles wrap: 3.1 and -3.1 lie 0.08
# apart, not 6.2. Write the device function `delta_phi` that brings the difference into the range from -π to
# π by adding or subtracting 2π. The `phi` of our data lie between -π and π. The check calls it from a
# kernel of its own.

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
# ## 4. The way down
#
# What did the GPU run, then? Python's compiler makes *bytecode*; Numba reads that, finds the types, and
# writes *LLVM IR*, the language of a compiler that many languages share; NVIDIA's NVVM turns it into
# **PTX**, an assembly language for any NVIDIA GPU; and the driver assembles that into the machine code of
# the GPU at hand. (The virtual GPU of this course runs the PTX.) All but the last can be looked at.
#
# Energies come in MeV from some detectors. This kernel makes GeV of them.

# %% [markdown] id="pipeline-predict" tags=["predict"]
# *Predict:* `energy` is `float32`. With how many bits is it multiplied? (The line with `mul.f` will tell.)

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
# Most lines work out an address: the start of the array, plus the thread's number, times four bytes. Then
# comes the body: `ld.global` loads from global memory, `st.global` stores. And `@%p1 bra`, where this print
# begins, is your guard: a branch to the end, for the threads whose condition `%p1` holds.
#
# And the line with `mul.f`: `cvt.f64.f32`, `mul.f64`, `cvt.rn.f32.f64`: to 64 bits, times 0.001, and back. In Numba a `float`
# constant is a `float64`, and `float32 * float64` is `float64`, as for NumPy's scalars *before* NumPy 2.
# One constant has made the kernel compute in double precision, which most GPUs do at a fraction of the
# speed: 1/64 of it on those for desktops, 1/2 on those built for science, by NVIDIA's
# [table of throughputs](https://docs.nvidia.com/cuda/cuda-c-programming-guide/#arithmetic-instructions).
#
# (With `* 2.0` you would see no `f64`: the compiler knows that 2.0 fits, and that the result is the same.)

# %% [markdown] id="single-precision-task"
# ### Exercise: single precision
#
# Write `calibrate`: `out[i] = 0.983 * energy[i] + 0.12` for `float32` arrays, without a single
# instruction in double precision. `np.float32(…)` works in a kernel. The check reads your PTX.

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
# Here is the momentum of all 71,009 muons by where they went: a map of 40 rows in `eta` and 64 columns in
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
# Blocks and grids may have two dimensions: `kernel[(blocks_x, blocks_y), (threads_x, threads_y)]`, and
# `cuda.grid(2)` gives a thread's two numbers, **x first**. Threads whose x are neighbours are neighbours in
# the hardware: 32 of them in a row are a **warp**, which loads and stores together.
#
# A matrix is indexed `[row, column]`, and neighbours in a *row* are neighbours in memory. *Predict:* which of
# these two kernels is right, and do they cost the same?

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
    print(f"{kernel.py_func.__name__:20} right: {right}; pieces of memory moved:",
          profile.counters.global_load_sectors + profile.counters.global_store_sectors)

# %% [markdown] id="x-is-the-column-why" tags=["why"]
# Both are right, and the second moves four times as much. Memory moves in pieces of 32 bytes, called *sectors*.

# %% [markdown] id="x-is-the-column-then"
# Here are the first two warps of each, as they write:

# %% id="x-is-the-column-picture"
from gpucourse import beside, memory

beside(
    memory(scale_map, (2, 10), (32, 4), momentum, 0.5, np.zeros_like(momentum), array="out",
           title="x is the column"),
    memory(scale_map_crosswise, (2, 16), (32, 4), momentum, 0.5, np.zeros_like(momentum),
           array="out", title="x is the row"),
)

# %% [markdown] id="x-is-the-column-lesson"
# When x is the column, a warp's 32 numbers of 8 bytes lie side by side, in 8 sectors. When x is the row,
# each lies in a sector of its own: 32 sectors, and three quarters of what moves is thrown away. No error, no
# warning, only a slow kernel. It is the most common mistake in kernels of two dimensions, and many
# published matrix products make it, for `i, j = cuda.grid(2)` reads so naturally.

# %% [markdown] id="too-large-predict" tags=["predict"]
# Blocks as large as possible, then? *Predict:* 32 × 64 threads in a block: faster, slower, or an error?

# %% id="too-large-guess"
predict("too-large", "faster: more threads at once", "slower", "an error")

# %% id="too-large" raises=["LaunchError", "CUDAError", "CudaAPIError"]
scale_map[(2, 1), (32, 64)](d_momentum, 0.5, d_out)

# %% [markdown] id="too-large-why" tags=["why"]
# An error: a block has at most 1024 threads, however they are arranged. (A real GPU says
# `CUDA_ERROR_INVALID_VALUE` and leaves the reason to you.) 128 to 256 threads are a good first choice, and
# in two dimensions an x of 32 or 16.

# %% [markdown] id="stencil-task"
# ### Exercise: smooth the map
#
# A *stencil* makes each cell from its neighbours. Write `smooth`: `out[row, column]` is the mean of five
# cells: the cell itself, those left and right of it, and those above and below. In `phi` the map is a ring:
# the last column and the first are neighbours. In `eta` it ends: a neighbour that does not exist counts
# as 0 (still divide by 5). The check tests the map, that warps lie along the rows, and that each thread has
# one cell.

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

# %% [markdown] id="matmul-text"
# ## 6. A matrix product, from naive to tiled
#
# How similar are two events? Which variables are correlated? How does light travel through glass? To answer any of
# these you multiply matrices, and deep learning does little else. Here is one thread for each element of the result:

# %% id="matmul-naive"
@cuda.jit
def matmul(a, b, product):
    column, row = cuda.grid(2)
    if row < product.shape[0] and column < product.shape[1]:
        total = float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        product[row, column] = total


rng = np.random.default_rng(5)
a, b = (rng.normal(size=(96, 96)).astype(np.float32) for _ in range(2))
d_a, d_b, d_product = cuda.to_device(a), cuda.to_device(b), cuda.device_array((96, 96), np.float32)
with virtualgpu.profile() as naive:
    matmul[(6, 6), (16, 16)](d_a, d_b, d_product)
print("NumPy agrees:", np.allclose(d_product.copy_to_host(), a @ b, atol=1e-4))
print(f"loads from global memory: {naive.counters.global_loads:,} numbers, {a.size + b.size:,} exist")

# %% [markdown] id="tile-predict" tags=["predict"]
# It's right, but wasteful: each of the 18,432 numbers is fetched 96 times, by 96 threads. The threads of a block
# could share what they fetch: **shared memory** is small, fast, and common to the threads of one block.
#
# Cut the matrices into tiles of 16 × 16. For each pair of tiles, the 256 threads of a block load one number
# of each tile, wait for each other (`cuda.syncthreads()`, a **barrier**), and take 16 products each from shared memory.
# *Predict:* by what factor do the loads from global memory fall?

# %% id="matmul-tiled-guess"
predict("matmul-tiled", "2", "16", "256")

# %% id="matmul-tiled"
TILE = 16


@cuda.jit
def matmul_tiled(a, b, product):
    """For matrices whose sides are multiples of TILE; blocks of TILE × TILE threads."""
    tile_a = cuda.shared.array((TILE, TILE), float32)
    tile_b = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], TILE):
        tile_a[y, x] = a[row, start + x]
        tile_b[y, x] = b[start + y, column]
        cuda.syncthreads()  # now both tiles are filled
        for k in range(TILE):
            total += tile_a[y, k] * tile_b[k, x]
        cuda.syncthreads()  # now nobody reads them any more
    product[row, column] = total


with virtualgpu.profile() as tiled:
    matmul_tiled[(6, 6), (TILE, TILE)](d_a, d_b, d_product)
print("NumPy agrees:", np.allclose(d_product.copy_to_host(), a @ b, atol=1e-4))
print(f"{'':10}{'global loads':>14}{'shared loads':>14}{'sectors':>10}{'flops':>12}")
for name, counts in (("naive", naive.counters), ("tiled", tiled.counters)):
    print(f"{name:10}{counts.global_loads:14,}{counts.shared_loads:14,}"
          f"{counts.global_load_sectors:10,}{counts.flops:12,}")

# %% [markdown] id="tile-why" tags=["why"]
# By 16, the side of the tile: each number is now fetched by 6 blocks instead of 96 threads. The number of
# operations is the same; they find their data nearby. (In sectors it is a factor of 8: in the naive kernel,
# half a warp asks for the *same* element of `a`, and one sector serves it.)

# %% [markdown] id="barrier-missing-predict" tags=["predict"]
# *Predict:* leave out the second barrier. What can go wrong?

# %% id="barrier-missing-guess"
predict("barrier-missing",
        "nothing: the first barrier is enough",
        "a fast warp overwrites what a slow one still needs",
        "the threads hang")

# %% id="barrier-missing"
@cuda.jit
def matmul_hasty(a, b, product):
    tile_a = cuda.shared.array((TILE, TILE), float32)
    tile_b = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], TILE):
        tile_a[y, x] = a[row, start + x]
        tile_b[y, x] = b[start + y, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += tile_a[y, k] * tile_b[k, x]
    product[row, column] = total


small_a, small_b = a[:32, :32].copy(), b[:32, :32].copy()
small = *map(cuda.to_device, (small_a, small_b)), cuda.device_array((32, 32), np.float32)


def agrees():
    return np.allclose(small[2].copy_to_host(), small_a @ small_b, atol=1e-4)


matmul_hasty[(2, 2), (TILE, TILE)](*small)
print("as it comes, NumPy agrees:", agrees())
with virtualgpu.schedule(3):
    matmul_hasty[(2, 2), (TILE, TILE)](*small)
print("in another order:         ", agrees())
with virtualgpu.check() as report:
    matmul_hasty[(2, 2), (TILE, TILE)](*small)
print(report)

# %% [markdown] id="barrier-missing-why" tags=["why"]
# A fast warp goes on to the next tile and overwrites numbers that a slow warp still needs. That is a
# **race**: two threads, one address, at least one write, and nothing that orders them. As it comes, the
# answer is right, so a test would pass; `virtualgpu.check()` names both lines all the same, and
# `virtualgpu.schedule(seed)` plays an order in which it goes wrong.

# %% [markdown] id="tiled-matmul-task"
# ### Exercise: tiles for every size
#
# `matmul_tiled` reads out of bounds unless all sides are multiples of 16. Mend it: outside of a matrix, a
# tile holds zeros, which add nothing; and only threads that have an element write one. Every thread of
# the block must still come to both barriers, so no early `return`. The check counts what is loaded from global
# memory, and what the busiest thread does.

# %% id="tiled-matmul-exercise" tags=["exercise"]
@cuda.jit
def matmul_any(a, b, product):
    tile_a = cuda.shared.array((TILE, TILE), float32)
    tile_b = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    ### BEGIN SOLUTION
    for start in range(0, a.shape[1], TILE):
        tile_a[y, x] = tile_b[y, x] = 0
        if row < a.shape[0] and start + x < a.shape[1]:
            tile_a[y, x] = a[row, start + x]
        if start + y < b.shape[0] and column < b.shape[1]:
            tile_b[y, x] = b[start + y, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += tile_a[y, k] * tile_b[k, x]
        cuda.syncthreads()
    if row < product.shape[0] and column < product.shape[1]:
        product[row, column] = total
    ### END SOLUTION


# %% id="tiled-matmul-check"
check("tiled-matmul", matmul_any)

# %% [markdown] id="whole-text"
# ## 7. Is it worth it?
#
# For a matrix product: no. `cupy.matmul` and `jax.numpy.matmul` call cuBLAS, which people have tuned for
# years, for each GPU anew. Write a kernel when no library has what you need, when a chain of array
# operations would read and write its data again and again, or when each element goes its own way, as in a
# Monte Carlo or a Mandelbrot set. Numba then lets you write it in Python, test it in Python
# (`kernel.py_func`, device functions as they are), and mix it with CuPy and JAX arrays without a copy.
#
# What a real GPU took for a product of two matrices of 4,096 × 4,096 (rows `lesson.product`). The tiles load a 16th; say what you
# expect of the time before you look:

# %% id="recorded"
from gpucourse.views.measured import recorded_times

recorded_times("lesson.product")

# %% [markdown] id="recorded-why"
# By 5.5, not by 16 (100.6 ms and 18.2: rows `lesson.product`). The count is right, but a load that another thread has just made is mostly served by a cache, which our
# counts don't know: much of what the tiles save had been cheap. And cuBLAS is 6.8 times beyond the tiles: its threads keep not one
# result in registers but many, so that each number that comes out of shared memory is used again, too. That's the gap this section is about.

# %% [markdown] id="ufunc-text"
# And if all that happens to an element depends on that element alone, you needn't write the launch either. `@vectorize` ("Compiling Python") with
# `target="cuda"`, and with the types written down, makes a *ufunc*: kernel, grid and guard are Numba's. `@guvectorize` does the same for a function of a row;
# `"(n)->()"` says that a row becomes one number.

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
px, py = random.normal(0, 10, (2, 1024, 8)).astype(np.float32)  # GeV, made up: 1,024 events of 8 particles
d_pt = transverse(cuda.to_device(px), cuda.to_device(py))  # stays on the device
d_largest = largest(d_pt, out=cuda.device_array(1024, np.float32))
print("as NumPy:", np.allclose(d_largest.copy_to_host(), np.hypot(px, py).max(axis=1)), "  both on the device:",
      cuda.is_cuda_array(d_pt) and cuda.is_cuda_array(d_largest))

# %% [markdown] id="names-text"
# One word on names: Numba's CUDA target lives in the package `numba-cuda`, which is maintained but no longer
# grows; NVIDIA's `numba-cuda-mlir` is to follow it, with the same way of writing kernels.

# %% [markdown] id="momentum-asked"
# ## 8. Where did the momentum go?
#
# The course comes with 50,000 collision events, and in them about 71,000 muons, each with a transverse momentum `pt` in
# GeV. To add them all up, we start one GPU thread per muon and have each add its own number to one total. Run the cell.

# %% id="momentum"
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

# %% [markdown] id="momentum-stands"
# There's no error and no warning, yet nearly all of it is missing. Every muon had its thread, and every thread ran
# the line that adds. **So where did the momentum go?**

# %% [markdown] id="who-am-i-predict" tags=["predict"]
# ## 9. Who am I?
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
# ## 10. A kernel that reaches too far
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
# ## 11. More work than threads
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
# ## 12. Races
#
# Back to the missing momentum. One question first: *who goes first?*
#
# In this kernel each thread draws a ticket from a machine that never gives a number twice (section 13
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
# One way to mend it is a place of its own for every thread, as in `partial_sums` of section 11. The other is an
# **atomic**: `cuda.atomic.add(total, 0, values[i])` loads, adds and stores in one step, and no thread comes between.
# (Section 13 is about atomics.)

# %% [markdown] id="atomic-predict" tags=["predict"]
# ## 13. Atomics: one step instead of three
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
# - A kernel is the body of a loop, and the launch `kernel[blocks, threads](…)` is the loop. It returns
#   nothing, and returns at once: results go into arrays, and copying one back waits.
# - Numba compiles a kernel at its first launch, once for each set of argument types. What has no fixed type or
#   size is refused with the line, not made slow.
# - Copy to the device once, launch often, copy back once. A NumPy argument is copied both ways each time.
# - A Python `float` in a kernel is 64 bits wide, and makes the arithmetic around it so. Read the PTX if
#   it matters.
# - In two dimensions, x is the column: a warp then reads neighbours. Tiles in shared memory let a block
#   fetch each number once for all its threads, with one barrier after filling and one before refilling.
# - The launch is the loop: every thread runs the whole kernel, and finds its element by
#   `cuda.grid(1)`. Threads come in whole blocks, so guard the bounds, or stride over the data.
# - Threads run in no order. If two touch the same address, one of them writes, and nothing orders
#   them, that is a race: a wrong program, even on the days when its answer is right.
# - An atomic makes load, change and store one step. It makes no order: compare sums of floats with a tolerance.
# - `virtualgpu.check()` names the line and the threads of a race, also where the answer happens to be right.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - Numba-CUDA: [kernels](https://nvidia.github.io/numba-cuda/user/kernels.html),
#   [device functions](https://nvidia.github.io/numba-cuda/user/device-functions.html),
#   [memory](https://nvidia.github.io/numba-cuda/user/memory.html),
#   [what of Python is supported](https://nvidia.github.io/numba-cuda/user/cudapysupported.html), and
#   [examples](https://nvidia.github.io/numba-cuda/user/examples.html), a tiled matrix product among them.
# - NVIDIA's programming guide on
#   [kernels](https://docs.nvidia.com/cuda/cuda-programming-guide/02-basics/writing-cuda-kernels.html), and the
#   [PTX manual](https://docs.nvidia.com/cuda/parallel-thread-execution/) for the instructions you saw.
# - [LLVM's language reference](https://llvm.org/docs/LangRef.html), for what stands between.

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 125 minutes
#
# | minutes | what |
# |---|---|
# | 0-4 | the question; ask for things that surely cannot run on a GPU, and keep the list for section 3 |
# | 4-15 | section 1 and its exercise |
# | 15-37 | sections 2 to 4; `device-function` alone, `single-precision` in pairs |
# | 37-50 | section 5; `stencil` |
# | 50-65 | section 6; `tiled-matmul` is good homework, its race is not to be cut |
# | 65-99 | sections 8 to 11; exercises 1 and 2 alone, 3 in pairs |
# | 99-115 | section 12; play the interleaving with two people and a number on the board |
# | 115-125 | section 13 |
#
# *Ten minutes late:* leave out section 2 after its prediction, and the exercise `single-precision`; show
# the PTX all the same.
#
# *Where people get stuck.* In `loop-to-kernel`, the loop stays and every thread does all the work: right answer,
# and the check calls it a race. In `stencil`, `(column - 1) % columns` worries those who come from C: in Python,
# and so in Numba, it is never negative. In `tiled-matmul`, the guard of `tile_b` is about `start + y`.
#
# *Frequent questions.* "Why is the first cell so slow?" It compiles; run it twice. "Is it as fast as
# CUDA C++?" Often (rows `quadratic.float64/numba`, `quadratic.float64/cpp`), not always (`reduction/tree` takes 1.3 times as long as `reduction/cpp`); and a launch costs more (recorded: `launch/numba` and `launch/cupy-raw`). "Why is x the column?" Because
# the hardware numbers threads by x first, and NumPy's memory by the last index.
#
# *What goes wrong.* A kernel that is changed in place and run again keeps the compiled text of the cell that
# was last *run*: after an edit, run the cell that defines the kernel, then the one that launches it.
