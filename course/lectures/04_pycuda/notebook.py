# %% [markdown] id="the-question-asked"
# ## How much C++ do you need?
#
# In [the walk](03_the_walk.ipynb#1-pycuda-the-kernel-in-cuda-c) you ran one line of **CUDA C++** from a string. Here is
# a kernel with a loop: forty charged particles fly through a magnetic field, which bends their paths, and each thread
# follows one particle for ten metres. Run it first, read it afterwards.

# %% id="the-question"
# %load_ext gpucourse
import numpy as np
import pycuda.autoinit  # picks the GPU
import pycuda.driver as drv
import virtualgpu
from gpucourse import lesson
from gpucourse.views.picture import Picture, canvas
from pycuda.compiler import SourceModule

check, hint, predict = lesson("04_pycuda")

follow_source = r"""
__global__ void follow(const float *pt, const float *phi, const int *charge,
                       float *x, float *y, int particles, int steps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < particles) {
        float angle = phi[i], here_x = 0, here_y = 0;
        float turn = -0.3f * charge[i] * 3.8f * 0.05f / pt[i];
        for (int k = 0; k < steps; k++) {
            x[k * particles + i] = here_x;
            y[k * particles + i] = here_y;
            here_x += 0.05f * cosf(angle);
            here_y += 0.05f * sinf(angle);
            angle += turn;
        }
    }
}
"""
follow = SourceModule(follow_source).get_function("follow")

random = np.random.default_rng(4)
pt = random.gamma(2, 8, 40).astype(np.float32) + 3  # momentum [GeV]
phi = random.uniform(-np.pi, np.pi, 40).astype(np.float32)  # direction at the start [rad]
charge = random.choice([-1, 1], 40).astype(np.int32)
x, y = np.empty((2, 201, 40), np.float32)
follow(drv.In(pt), drv.In(phi), drv.In(charge), drv.Out(x), drv.Out(y), np.int32(40), np.int32(201),
       block=(64, 1, 1), grid=(1, 1))
print(f"PyCUDA {pycuda.VERSION_TEXT}: the first particle ends at x = {x[-1, 0]:.1f} m, y = {y[-1, 0]:.1f} m")

# %% [markdown] id="the-question-stands"
# PyCUDA has done this since 2008, and newer tools accept the same strings (section 6). **So how much C++ is it,
# really?**

# %% [markdown] id="launch-then"
# ## 1. C++ for readers of Python
#
# You know the number `i`, the [guard](01_first_steps.ipynb#3-more-threads-than-elements), `SourceModule` and the launch
# with `block` and `grid` already. Four more things are enough for a first kernel:
#
# | C++ | meaning |
# |---|---|
# | `int i = 3;` | a variable has one type, for good; a statement ends with a semicolon |
# | `if (i < n) { … }` | the condition is in parentheses, and braces hold the statements; indentation means nothing |
# | `const float *x` | `x` is the address of `float` numbers, and the kernel promises not to write them; `x[2]` is the third. *It carries no length*, so a kernel needs `n` for its guard |
# | `0.3f`, `0.3` | a `float` (32 bits), a `double` (64 bits) |

# %% [markdown] id="first-kernel-task"
# ### Exercise: how strongly does it bend?
#
# In a field of B tesla, a particle of momentum pt (in GeV) flies on a circle with a radius of
#
# $$ R = \frac{p_T}{0.3\,B} \text{ metres.} $$
#
# Write the body of `radius_of`. The check tries it with many lengths, and with more threads than particles.

# %% id="first-kernel-exercise" tags=["exercise"]
radius_source = r"""
__global__ void radius_of(const float *pt, float field, float *radius, int n)
{
    ### BEGIN SOLUTION
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        radius[i] = pt[i] / (0.3f * field);
    }
    ### END SOLUTION
}
"""

# %% id="first-kernel-check"
check("first-kernel", radius_source)

# %% [markdown] id="reading-text"
# ### Reading the kernel at the top
#
# This table is the rest of the C++ that you need to read it:
#
# | C++ | meaning |
# |---|---|
# | `void`, `__global__` | returns nothing; is a kernel, to be launched from the host |
# | `__device__ float f(float a)` | a function that kernels can call |
# | `float *x` | like `const float *x`, but the kernel may write |
# | `for (int k = 0; k < n; k++) { … }` | `for k in range(n)`; `k++` adds 1 |
# | `if (i < n) { … } else { … }` | `if` and `else` |
# | `&&`, `\|\|`, `!`, `true` | `and`, `or`, `not`, `True` |
# | `a ? b : c` | `b if a else c` |
# | `sqrtf(x)`, `cosf(x)`, `fabsf(x)` | `math.sqrt` and so on, for `float` |
# | `// why`, `/* why */` | comments |
#
# `x[k * particles + i]` is what NumPy calls `x[k, i]`: the rows follow each other in memory, with `particles` numbers
# in each. A step is 0.05 metres long, and `turn` is the angle by which the path bends in one step. (In the launch,
# `block` always has three numbers, because blocks may have three dimensions. Without `grid`, there is one block.) Here
# are the forty paths:

# %% id="the-tracks"
def draw_tracks(x, y, title):
    figure, axes = canvas(5.6, 5)
    for sign, colour, style in ((1, "#D55E00", "-"), (-1, "#0072B2", "--")):
        axes.plot(x[:, charge == sign], y[:, charge == sign], style, color=colour, linewidth=1)
        axes.plot([], [], style, color=colour, label=f"charge {sign:+}")
    axes.set(xlabel="x [m]", ylabel="y [m]", aspect="equal", title=title)
    axes.legend(loc="upper right", fontsize=8)
    farthest = np.hypot(x, y).max(axis=0)
    return Picture(figure, f"{title}. Paths of {x.shape[1]} particles from the origin: the straightest gets "
                           f"{farthest.max():.1f} m away, the most bent one {farthest.min():.1f} m. "
                           "Positive and negative charges bend to opposite sides.")


draw_tracks(x, y, "Particles in a field of 3.8 T")

# %% [markdown] id="error-predict" tags=["predict"]
# ## 2. When the compiler says no
#
# One character is missing below. *Predict:* do you get an error at `SourceModule`, at `get_function` or at the launch,
# and which line will it name?

# %% id="error-guess"
predict("error",
        "at SourceModule, and the line after the mistake",
        "at SourceModule, and the line with the mistake",
        "at the launch")

# %% id="error" raises="CompileError"
module = SourceModule(r"""
__global__ void shift(float *phi, float by, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x
    if (i < n)
        phi[i] += by;
}
""")

# %% [markdown] id="error-why" tags=["why"]
# You get it at `SourceModule`, before anything ran. It names line 5, although line 4 lacks its semicolon, counting the
# empty line after the quotes as line 1. The compiler noticed only when the next word was `if`.

# %% [markdown] id="false-friends-predict" tags=["predict"]
# This is how to read a compiler error.
#
# - Begin **at the top**, because the first error is real, and later ones often follow from it.
# - **The caret** `^` is where the compiler gave up, so look there, *and just before*.
# - `identifier "…" is undefined` means that it is misspelt, or never declared with its type.
# - `expected a ";"` and `expected a ")"` mean that something is missing before the caret.
# - `a value of type "…" cannot be used to initialize an entity of type "…"` means that the types do not fit.
#
# This message comes from NVRTC, NVIDIA's compiler as a library. An installed PyCUDA calls the program `nvcc` instead,
# which uses the same words. PyCUDA puts a line above your code, so `nvcc`'s line numbers are one higher.
#
# Some Python is also valid C++, but means something else. *Predict* the four numbers.

# %% id="false-friends-guess"
predict("false-friends", "0.5 -3.5 -1.0 8.0", "0 -3 -1 1", "0 -4 2 8")

# %% id="false-friends"
module = SourceModule(r"""
__global__ void false_friends(float *out)
{
    out[0] = 1 / 2;
    out[1] = -7 / 2;
    out[2] = -7 % 3;
    out[3] = 2 ^ 3;
}
""")
out = np.empty(4, np.float32)
module.get_function("false_friends")(drv.Out(out), block=(1, 1, 1))
print("C++:   ", *out)
print("Python:", 1 / 2, -7 // 2, -7 % 3, 2**3)

# %% [markdown] id="false-friends-why" tags=["why"]
# An `int` divided by an `int` is an `int`, rounded towards 0, whereas Python's `//` rounds down, and its `%` is
# consistent with that. Write `1.0f / 2` or `0.5f`, but not `1f`, because there must be a point. The operator `^` is
# "exclusive or", bit by bit, and `**` does not compile, so write `x * x`, or `powf(x, 3.0f)`.

# %% [markdown] id="mend-task"
# ### Exercise: four mistakes
#
# This kernel should return how far out each particle gets, as a fraction of 3 metres, which is the diameter of its
# circle over 3, and 1 at most. It has three mistakes that the compiler finds, and one that it doesn't. Correct it in
# place, and `check` shows you what the compiler says.

# %% id="mend-exercise" tags=["exercise"]
reach_source = r"""
__global__ void reach(const float *radius, float *fraction, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if i < n {
        scale = 1 / 3;
        float reached = 2 * radius[i] * scale
        fraction[i] = fminf(reached, 1.0f);
    }
}
"""
### BEGIN SOLUTION
reach_source = r"""
__global__ void reach(const float *radius, float *fraction, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float scale = 1.0f / 3;
        float reached = 2 * radius[i] * scale;
        fraction[i] = fminf(reached, 1.0f);
    }
}
"""
### END SOLUTION

# %% id="mend-check"
check("mend", reach_source)

# %% [markdown] id="types-predict" tags=["predict"]
# ## 3. Two type systems, and no check between them
#
# NumPy knows the type of each array, and C++ that of each parameter. Between them, a launch is a row of bytes, 8 for an
# address, 4 for an `int` and 4 for a `float`. Neither side checks its types against those of the other.
#
# | C++ | bytes | NumPy | |
# |---|---|---|---|
# | `int` | 4 | `np.int32` | NumPy's default is `int64` |
# | `unsigned int` | 4 | `np.uint32` | |
# | `long long` | 8 | `np.int64` | |
# | `float` | 4 | `np.float32` | NumPy's default is `float64` |
# | `double` | 8 | `np.float64` | |
# | `bool`, `unsigned char` | 1 | `np.bool_`, `np.uint8` | |
# | `float *` | 8 | an array of `float32` on the GPU | |
#
# *Predict:* what happens in this launch, which passes a Python `10` to `int n`?

# %% id="python-int-guess"
predict("python-int",
        "it is converted: 10 fits into an int",
        "an error from PyCUDA",
        "the kernel sees a wrong number")

# %% id="python-int" raises="TypeError"
scale = SourceModule(r"""
__global__ void scale(float *values, float by, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] *= by;
}
""").get_function("scale")

values = np.arange(10, dtype=np.float32)
scale(drv.InOut(values), np.float32(3), 10, block=(32, 1, 1))

# %% [markdown] id="python-int-why" tags=["why"]
# You get the error `invalid type on parameter #2 (0-based)`, because a Python `int` has no size, so PyCUDA does not
# know how many bytes to send. It needs `np.int32(10)`, and this is all that PyCUDA checks.

# %% [markdown] id="silence-predict" tags=["predict"]
# The same launch is now correct except for one thing, which is that `masses` is created the way one usually creates
# arrays in NumPy, as `float64`. *Predict:* do you get an error, the right numbers, or wrong ones?

# %% id="silence-guess"
predict("silence",
        "an error: the types do not fit",
        "the right numbers, converted on the way",
        "wrong numbers, and no message")

# %% id="silence"
masses = np.array([1.0, 2.0, 3.0, 91.1876])
scale(drv.InOut(masses), np.float32(3), np.int32(4), block=(32, 1, 1))
print(masses)

# %% [markdown] id="silence-why" tags=["why"]
# You get wrong numbers and no message. The kernel read each `double` as two `float`s, the four lowest bytes first. It
# multiplied four of these halves by 3, and left the other four alone.

# %% [markdown] id="silence-then"
# The next cell shows the `float`s that it saw, and the one after it draws what became of 41 masses.

# %% id="silence-bytes"
print("float64:       ", np.array([1.0, 2.0]))
print("seen as float: ", np.array([1.0, 2.0]).view(np.float32))
print("times 3:       ", np.array([1.0, 2.0]).view(np.float32) * np.float32(3))
print("as float64:    ", (np.array([1.0, 2.0]).view(np.float32) * np.float32(3)).view(np.float64))

# %% id="silence-picture"
masses = np.linspace(80, 100, 41)
tripled = masses.copy()
scale(drv.InOut(tripled), np.float32(3), np.int32(41), block=(64, 1, 1))
figure, axes = canvas(8, 2.2)
axes.plot(tripled / masses, "o")
axes.axhline(3, color="#D55E00", label="meant")
axes.set(xlabel="element", ylabel="times what it was", yscale="log")
axes.legend()
first = np.count_nonzero(tripled != masses)
Picture(figure, f"By what 41 masses of float64 were multiplied where 3 was meant: the first {first} by {(tripled / masses)[:first].min():,.0f} "
                f"to {(tripled / masses)[:first].max():,.0f}, the other {41 - first} by 1.")

# %% [markdown] id="silence-check-text"
# Half of them are off by thousands, because the second half of a `double` holds its exponent, and the others are
# unchanged. Above, 5,120 is easy to see. In the mean of a million masses it would not be, and the last two numbers look
# plausible. Integers are no better, because `np.arange(8)` is `int64`, and an `int *` kernel sees 0, 0, 1, 0, 2, 0, 3,
# 0. A number that is too wide, such as `np.float64(3)` for `float by`, shifts all arguments after it.
#
# **Sooner or later it happens to everyone who launches kernels from strings.** The virtual GPU accepts it, as the
# library does, and reports it if you ask. A real GPU can't know, and the report stays empty there.

# %% id="silence-check"
with virtualgpu.check() as report:
    scale(drv.InOut(masses), np.float32(3), np.int32(4), block=(32, 1, 1))
print(report)

# %% [markdown] id="small-index"
# **When an index is too small for its array:** an `int` counts to 2³¹ - 1. In `int at = column * rows + row` the
# product wraps around beyond that, becomes negative, and C++ says nothing. The kernel is right in every test with a
# million elements and wrong for a table of 2³² bytes. Write `long long at = (long long)column * rows + row;`, with the
# cast *before* the product. [This page](../docs/large_arrays.md) shows how to test it without the memory.

# %% [markdown] id="fitting-types-task"
# ### Exercise: types that fit
#
# Write `scaled(values, by)`, which returns a *new* array of `float32` with every value times `by`, computed by the
# kernel `scale`. `values` has one axis, and may be `float64`, integers, a list, or every second element of an array.
# PyCUDA copies only contiguous arrays, which `np.ascontiguousarray` makes. `values` is never empty, may be longer than
# a block, and must not change.

# %% id="fitting-types-exercise" tags=["exercise"]
def scaled(values, by):
    result = np.zeros(len(values), np.float32)
    ### BEGIN SOLUTION
    result = np.array(values, dtype=np.float32, order="C")
    blocks = (result.size + 127) // 128
    scale(drv.InOut(result), np.float32(by), np.int32(result.size), block=(128, 1, 1), grid=(blocks, 1))
    ### END SOLUTION
    return result

# %% id="fitting-types-check"
check("fitting-types", scaled)

# %% [markdown] id="in-out-predict" tags=["predict"]
# ## 4. Who copies, and when
#
# In the walk, `drv.In` copied an array to the GPU before the launch, and `drv.Out` copied one back after it.
# `drv.InOut` does both. The array on the GPU exists for this one launch only.
#
# Each of these three launches doubles the numbers 1, 2, 3. *Predict:* what is in the array after each of them?

# %% id="in-out-guess"
predict("in-out", "2, 4, 6 each time", "2, 4, 6 with InOut only", "2, 4, 6 with InOut and Out")

# %% id="in-out"
for wrap in (drv.InOut, drv.In, drv.Out):
    numbers = np.array([1, 2, 3], np.float32)
    scale(wrap(numbers), np.float32(2), np.int32(3), block=(32, 1, 1))
    print(f"{wrap.__name__:6}", numbers)

# %% [markdown] id="in-out-why" tags=["why"]
# With `In`, the result never comes back. With `Out`, the kernel doubles whatever is in fresh memory, which is zeros if
# you are lucky. The virtual GPU fills fresh memory with a pattern, so that luck doesn't hide the mistake. Neither case
# gives an error. Use `In` for arrays that the kernel only reads, and `Out` for arrays that it writes *entirely*.

# %% [markdown] id="by-hand-predict" tags=["predict"]
# Each launch pays for its copies, so for ten launches on the same array, make the copies yourself, as in [the lower of
# these time lines](02_why_gpus.ipynb#4-where-the-numbers-live).
#
# The cell copies 201 `float32` numbers to the GPU. *Predict*, before you read it, which number `mem_alloc` needs.

# %% id="by-hand-guess"
predict("by-hand", "201", "804", "1608")

# %% id="by-hand"
x_half = np.ascontiguousarray(x[:, 0])  # the path of the first particle, 201 numbers
d_x = drv.mem_alloc(x_half.nbytes)
drv.memcpy_htod(d_x, x_half)  # host to device: first where to, then where from
for _ in range(10):
    scale(d_x, np.float32(0.5), np.int32(x_half.size), block=(256, 1, 1))
drv.memcpy_dtoh(x_half, d_x)  # device to host, and wait for the launches
print(f"{x_half.nbytes} bytes for {x_half.size} numbers; ten halvings right:",
      np.allclose(x_half, x[:, 0] / 1024))

# %% [markdown] id="by-hand-why" tags=["why"]
# It needs the number of bytes and not of elements, so `.nbytes` and not `.size`. `d_x` is an address and nothing else,
# without type, length or shape, and you pass it to the kernel as it is. The memory is freed when Python deletes `d_x`.
#
# A launch returns at once, and the GPU works through its launches in order, for which `memcpy_dtoh` waits. So to time a
# kernel, call `drv.Context.synchronize()` before you read the clock.

# %% [markdown] id="copy-once-task"
# ### Exercise: there and back once
#
# A particle loses energy when it crosses matter. Write `after_layers(pt, factors)`, where `pt` is an array of
# `float32`, and each of the `factors` is one layer of iron that scales every momentum. Launch `scale` once for each
# layer, and copy the array to the GPU once and back once. Return the result as a new array, and leave `pt` unchanged.

# %% id="copy-once-exercise" tags=["exercise"]
def after_layers(pt, factors):
    result = np.zeros_like(pt)
    ### BEGIN SOLUTION
    d_pt = drv.mem_alloc(pt.nbytes)
    drv.memcpy_htod(d_pt, pt)
    blocks = (pt.size + 127) // 128
    for factor in factors:
        scale(d_pt, np.float32(factor), np.int32(pt.size), block=(128, 1, 1), grid=(blocks, 1))
    drv.memcpy_dtoh(result, d_pt)
    ### END SOLUTION
    return result

# %% id="copy-once-check"
check("copy-once", after_layers)

# %% [markdown] id="arrays-text"
# ## 5. Less C++, and more
#
# PyCUDA also has arrays that know their type and shape, in `gpuarray`. Each operator is a kernel, and
# `ElementwiseKernel` makes one kernel of a whole line, as in [the
# walk](03_the_walk.ipynb#2-cupy-numpys-names-arrays-on-the-device). Look at the types of the two results: `d_pt` is
# `float32`, and `d_charge` is `int32`.

# %% id="arrays"
from pycuda import gpuarray
from pycuda.elementwise import ElementwiseKernel

d_pt, d_charge = gpuarray.to_gpu(pt), gpuarray.to_gpu(charge)
by_operators = -0.3 * 3.8 * 0.05 / d_pt * d_charge

turn_of = ElementwiseKernel(
    "float *pt, int *charge, float field, float *turn",
    "turn[i] = -0.3f * charge[i] * field * 0.05f / pt[i]",
    "turn_of",
)
d_turn = gpuarray.empty_like(d_pt)
turn_of(d_pt, d_charge, np.float32(3.8), d_turn)
print("operators:        ", by_operators.dtype, by_operators.get()[:3])
print("ElementwiseKernel:", d_turn.dtype, d_turn.get()[:3])

# %% [markdown] id="arrays-then"
# The operators follow NumPy's rules, by which `float32` times `int32` is `float64`, whereas in C++ *you* choose the
# types.

# %% [markdown] id="constant-memory-predict" tags=["predict"]
# Now you will use more C++ rather than less. Outside the magnet's coil, at 3 metres, the field of such a detector
# returns through the iron in the opposite direction, with roughly -2 T. The kernel needs a small table of the field at
# each metre from the beam, which all threads read and none changes. CUDA has a place for such tables, **constant
# memory**, of 64 kilobytes in all, with a cache that serves the 32 threads of a warp at once when they read the same
# element. `__constant__` declares it, and `get_global` gives Python its address. Because the source is a string, Python
# may fill in what it knows, here the number of rings, by the compiler's option `-D`.
#
# *Predict:* what will the paths of the particles look like?

# %% id="constant-memory-guess"
predict("constant-memory",
        "circles, as before",
        "they bend one way, then the other",
        "they bend, then go straight")

# %% id="constant-memory"
field = np.array([3.8, 3.8, 3.8, -2, -2, -2, -2], np.float32)  # tesla, ring by ring

in_iron = SourceModule(r"""
__constant__ float field[RINGS];

__device__ float field_at(float x, float y)
{
    int ring = (int) sqrtf(x * x + y * y);
    return ring < RINGS ? field[ring] : 0.0f;
}

__global__ void follow(const float *pt, const float *phi, const int *charge,
                       float *x, float *y, int particles, int steps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < particles) {
        float angle = phi[i], here_x = 0, here_y = 0;
        for (int k = 0; k < steps; k++) {
            x[k * particles + i] = here_x;
            y[k * particles + i] = here_y;
            here_x += 0.05f * cosf(angle);
            here_y += 0.05f * sinf(angle);
            angle -= 0.3f * charge[i] * field_at(here_x, here_y) * 0.05f / pt[i];
        }
    }
}
""", options=[f"-DRINGS={field.size}"])
address, _ = in_iron.get_global("field")
drv.memcpy_htod(address, field)
x_iron, y_iron = np.empty((2, 201, 40), np.float32)
in_iron.get_function("follow")(
    drv.In(pt), drv.In(phi), drv.In(charge), drv.Out(x_iron), drv.Out(y_iron),
    np.int32(40), np.int32(201), block=(64, 1, 1), grid=(1, 1))
draw_tracks(x_iron, y_iron, "Particles through magnet and iron")

# %% [markdown] id="constant-memory-why" tags=["why"]
# The paths bend one way and then the other, so each has the shape of an S. You may know this shape from pictures of the
# CMS detector, whose field also returns through iron. Constant memory is constant for the *kernel*, but between launches
# the host may write a different table.

# %% [markdown] id="constant-memory-then"
# One mistake is easily made. If you leave out the `memcpy_htod`, the table holds zeros, all paths are straight lines,
# and nothing complains. Global variables of C++ start at zero, but memory from `mem_alloc` does not.

# %% [markdown] id="field-table-task"
# ### Exercise: one table, many maps
#
# Write `paths_through(field_map)`, which writes `field_map`, a list of seven numbers in tesla, into the constant memory
# of `in_iron`, launches its `follow` for our forty particles with 201 steps, and returns `x` and `y`, two new arrays of
# shape (201, 40). Remember to check the types.

# %% id="field-table-exercise" tags=["exercise"]
def paths_through(field_map):
    x, y = np.zeros((2, 201, 40), np.float32)
    ### BEGIN SOLUTION
    address, _ = in_iron.get_global("field")
    drv.memcpy_htod(address, np.array(field_map, np.float32))
    in_iron.get_function("follow")(
        drv.In(pt), drv.In(phi), drv.In(charge), drv.Out(x), drv.Out(y),
        np.int32(40), np.int32(201), block=(64, 1, 1), grid=(1, 1))
    ### END SOLUTION
    return x, y

# %% id="field-table-check"
check("field-table", paths_through, pt, phi, charge)

# %% [markdown] id="today-text"
# ## 6. Its place today
#
# PyCUDA was among the first to bring CUDA to Python, with the aim of offering the whole driver API. Its latest release
# is 2026.1, of January 2026. It is released as source, so installing it takes a C++ compiler and the CUDA toolkit, and
# running it takes `nvcc`. Two newer tools accept the same strings.
#
# | | PyCUDA | CuPy's `RawKernel` | `cuda.core` |
# |---|---|---|---|
# | by | its community | its community | NVIDIA |
# | installs as | source, to be compiled | wheels | wheels |
# | compiles with | `nvcc` | NVRTC | NVRTC |
# | arrays | `gpuarray`, with some of NumPy's functions | most of NumPy's, and some of SciPy's | none: accepts those of other libraries |
# | use it when | you have code in it | you want arrays and a kernel now and then | you build a library, or want all of CUDA |
#
# As in the walk, CuPy needs only an `extern "C"` in front, which keeps the kernel's name as you wrote it, and which
# PyCUDA adds for you.

# %% id="raw-kernel"
import cupy as cp

follow_in_cupy = cp.RawKernel('extern "C"' + follow_source, "follow")
d_pt, d_phi, d_charge = cp.asarray(pt), cp.asarray(phi), cp.asarray(charge)
d_x, d_y = cp.empty((2, 201, 40), cp.float32)
follow_in_cupy((1,), (64,), (d_pt, d_phi, d_charge, d_x, d_y, np.int32(40), np.int32(201)))
print("the same paths:", np.allclose(d_x.get(), x) and np.allclose(d_y.get(), y))

# %% [markdown] id="today-then"
# CuPy's arrays are on the device already, so there is no `In` and no `Out`. Everything in section 3 also holds here,
# because `RawKernel` does not look at types either. `cuda.core` accepts the same string, and also runs here, on the
# virtual GPU's driver. It looks like this, as in its [first
# example](https://nvidia.github.io/cuda-python/cuda-core/latest/getting-started.html).
#
# ```python
# from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
#
# device = Device()
# device.set_current()
# stream = device.create_stream()
# program = Program('extern "C"' + follow_source, "c++", ProgramOptions(arch=f"sm_{device.arch}"))
# kernel = program.compile("cubin").get_kernel("follow")
# launch(stream, LaunchConfig(grid=1, block=64), kernel, d_pt.data.ptr, …, np.int32(40), np.int32(201))
# ```
#
# If you would rather not write C++ at all, go on with "Numba CUDA: kernels in Python".

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - C++ adds types, semicolons and parentheses to the kernels that you know. A pointer carries no length, so the kernel
#   gets `n` and compares its index with it.
# - The compiler names the line at which it gave up. The mistake is there or just before, and the first error
#   is the one to read.
# - Nothing compares NumPy's types with the kernel's. `float *` needs `float32` and `int` needs `np.int32`, and anything
#   else gives wrong numbers without a message.
# - `In`, `Out` and `InOut` copy around one launch. For many launches, copy by hand, there once and back once.
# - The C++ outlives the tool, because the same string runs in PyCUDA, in CuPy and in `cuda.core`.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - PyCUDA: the [tutorial](https://documen.tician.de/pycuda/tutorial.html), the
#   [driver interface](https://documen.tician.de/pycuda/driver.html) with `In`, `Out` and `memcpy_htod`,
#   [arrays and `ElementwiseKernel`](https://documen.tician.de/pycuda/array.html), and
#   [writing programs that write kernels](https://documen.tician.de/pycuda/metaprog.html).
# - NVIDIA's programming guide on
#   [kernels](https://docs.nvidia.com/cuda/cuda-programming-guide/02-basics/writing-cuda-kernels.html), and
#   [NVRTC](https://docs.nvidia.com/cuda/nvrtc/), the compiler of these strings.
# - [CuPy's user-defined kernels](https://docs.cupy.dev/en/stable/user_guide/kernel.html), and
#   [`cuda.core`](https://nvidia.github.io/cuda-python/cuda-core/latest/).

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 55 minutes
#
# | minutes | what |
# |---|---|
# | 0-5 | the question; ask somebody who knows no C++ to read the kernel aloud |
# | 5-14 | section 1, with `first-kernel` |
# | 14-26 | section 2; `mend` in pairs |
# | 26-39 | section 3; `fitting-types` alone. Take time for the missing message |
# | 39-48 | section 4; `copy-once` |
# | 48-55 | sections 5 and 6; `field-table` is good homework |
#
# *Ten minutes late:* skip `mend`, and the operators and constant memory in section 5, of which you show the picture.
#
# *Where people get stuck.* In `first-kernel` they write `[i]` after `field`, which is a number and not an array. In
# `mend`, the three errors are gone and 1 / 3 is still 0. In `fitting-types`, `astype` with `copy=False` doesn't copy an
# array of the right type, and the kernel then changes the caller's. In `copy-once` they write `mem_alloc(pt.size)`.
#
# *Frequent questions.* "Why C++ at all?" CUDA's documentation, examples and libraries use it, and a kernel that you
# find there runs here unchanged. "Does it compile each time?" No, because PyCUDA and CuPy keep compiled code in the
# user's cache folder, and compile a string again only if it has changed. "Is C++ faster than Numba's Python?" It
# sometimes is, although both are compiled to PTX. The quadratic formula takes the same time in both. A tree reduction
# that is written in the same way takes 1.30 times as long in Numba, and a Mandelbrot picture takes 1.24 times as long.
# The recorded rows are `reduction/tree`, `reduction/cpp` and `mandelbrot.picture`. Numba uses 64-bit integers and tests
# the sign of every index, so its reduction needs 20 machine instructions per number, whereas the one in C++ needs 7.
#
# *What goes wrong.* On a GPU machine without PyCUDA, `import pycuda` says so and continues through CuPy. All cells of
# this lecture work, but other parts of PyCUDA do not. After a bad address on a real GPU, every call fails until the
# kernel is restarted. An empty first line counts, so line 1 of a message is the first of the string.
