# %% [markdown] id="the-question-asked"
# ## How much C++ do you need?
#
# In [the walk](03_the_walk.ipynb#1-pycuda-the-kernel-in-cuda-c) you ran one line of **CUDA C++** from a string. The
# next kernel also has a loop. In it, forty charged particles fly through a magnetic field, which bends their paths, and
# each thread follows one particle for ten metres. Run the kernel first and read it afterwards.

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
# PyCUDA has run such strings since 2008, and newer tools accept them unchanged (section 6). **So how much C++ do you
# really need?**

# %% [markdown] id="launch-then"
# ## 1. C++ for readers of Python
#
# From the walk you already know the number `i`, the [guard](01_first_steps.ipynb#3-more-threads-than-elements),
# `SourceModule` and the launch with `block` and `grid`. You need only four more things for a first kernel:
#
# | C++ | meaning |
# |---|---|
# | `int i = 3;` | a variable has one type, which never changes; a statement ends with a semicolon |
# | `if (i < n) { … }` | the condition is in parentheses, and braces enclose the statements; indentation means nothing |
# | `const float *x` | `x` is the address of an array of `float` numbers, which the kernel promises not to change; `x[2]` is the third number. *The address carries no length*, so a kernel needs `n` for its guard |
# | `0.3f`, `0.3` | a `float` (32 bits), a `double` (64 bits) |

# %% [markdown] id="first-kernel-task"
# ### Exercise: how strongly does it bend?
#
# In a field of B tesla, a particle of momentum pt (in GeV) flies on a circle with a radius of
#
# $$ R = \frac{p_T}{0.3\,B} \text{ metres.} $$
#
# Write the body of `radius_of`. The check tries the kernel with arrays of many lengths, and with more threads than
# particles.

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
# The table lists the rest of the C++ that you need to read that kernel:
#
# | C++ | meaning |
# |---|---|
# | `void`, `__global__` | the function returns nothing; it is a kernel, which the host launches |
# | `__device__ float f(float a)` | a function that kernels can call |
# | `float *x` | like `const float *x`, but the kernel may change the numbers |
# | `for (int k = 0; k < n; k++) { … }` | `for k in range(n)`; `k++` adds 1 |
# | `if (i < n) { … } else { … }` | `if` and `else` |
# | `&&`, `\|\|`, `!`, `true` | `and`, `or`, `not`, `True` |
# | `a ? b : c` | `b if a else c` |
# | `sqrtf(x)`, `cosf(x)`, `fabsf(x)` | `math.sqrt`, `math.cos` and `abs` for `float` |
# | `// why`, `/* why */` | comments |
#
# `x[k * particles + i]` is the element that NumPy calls `x[k, i]`, because the rows follow each other in memory, with
# `particles` numbers in each. A step is 0.05 metres long, and `turn` is the angle by which the path bends in one step.
# In the launch, `block` always has three numbers, because blocks may have three dimensions, and without `grid` there is
# one block. The next cell draws the forty paths.

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
# The code below lacks one character. *Predict:* do you get an error at `SourceModule`, at `get_function` or at the
# launch, and which line does the error name?

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
# You get the error at `SourceModule`, before any kernel runs. The error names line 5, although the semicolon is missing
# in line 4, because the compiler noticed the mistake only at the next word, `if`. The empty line after the opening
# quotes counts as line 1.

# %% [markdown] id="false-friends-predict" tags=["predict"]
# Read a compiler error as follows.
#
# - Begin **at the top**, because the first error is real, and later ones often follow from it.
# - **The caret** `^` marks the place where the compiler gave up, so look there *and just before it*.
# - `identifier "…" is undefined` means that the name is misspelt, or was never declared with a type.
# - `expected a ";"` and `expected a ")"` mean that something is missing before the caret.
# - `a value of type "…" cannot be used to initialize an entity of type "…"` means that the two types do not match.
#
# This message comes from NVRTC, which is NVIDIA's compiler in the form of a library. An installed PyCUDA calls the
# program `nvcc` instead, which uses the same wording. PyCUDA puts a line above your code, so the line numbers from
# `nvcc` are one higher.
#
# Some expressions are valid in both Python and C++ but have different meanings. *Predict* the four numbers that the C++
# kernel computes.

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
# An `int` divided by an `int` is an `int`, rounded towards 0, whereas Python's `//` rounds down. The operator `%`
# follows the same rounding in each language. To get a fraction, write `1.0f / 2` or `0.5f`, but not `1f`, because a
# `float` needs a decimal point before its `f`. The operator `^` is a bitwise "exclusive or". C++ has no `**`, so write
# `x * x`, or `powf(x, 3.0f)`.

# %% [markdown] id="mend-task"
# ### Exercise: four mistakes
#
# This kernel should return how far from the beam each particle gets, as a fraction of 3 metres. That is the diameter of
# the particle's circle divided by 3, but at most 1. The kernel contains three mistakes that the compiler finds, and one
# that it doesn't. Correct it in place. If it does not compile, `check` shows you the compiler's message.

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
# NumPy knows the type of each array, and C++ knows the type of each parameter. But a launch passes only bytes from one
# to the other, 8 for an address, 4 for an `int` and 4 for a `float`. Neither side compares its types with those of the
# other.
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
# *Predict:* what happens in this launch, which passes the Python number `10` for the parameter `int n`?

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
# You get the error `invalid type on parameter #2 (0-based)`, because a Python `int` has no fixed size, so PyCUDA does
# not know how many bytes to send. Pass `np.int32(10)` instead. This is the only thing about the types that PyCUDA
# checks.

# %% [markdown] id="silence-predict" tags=["predict"]
# The next launch passes `np.int32` correctly, but `masses` is created as `float64`, which is NumPy's default.
# *Predict:* do you get an error, the right numbers, or wrong numbers?

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
# You get wrong numbers and no message. The kernel read each `double` as two `float`s, first its four low bytes and then
# its four high bytes. It multiplied four of these halves by 3 and left the other four unchanged.

# %% [markdown] id="silence-then"
# The next cell shows the `float`s that the kernel read, and the one after it plots the results for 41 masses.

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
# Half of the results are wrong by thousands, because the second half of a `double` holds its exponent. The other half
# are unchanged. In the small example above, 5,120 is easy to notice, but the last two numbers look plausible, and in
# the mean of a million masses you would notice nothing. Integers have the same problem, because `np.arange(8)` is
# `int64`, and a kernel with an `int *` parameter reads 0, 0, 1, 0, 2, 0, 3 and 0 from it. A number that is too wide,
# such as `np.float64(3)` for `float by`, shifts all arguments that follow it.
#
# **Sooner or later this happens to everyone who launches kernels from strings.** The virtual GPU accepts such a launch,
# as PyCUDA does, but it reports the mismatch if you run the launch under `virtualgpu.check()`. A real GPU cannot detect
# it, and the report stays empty there.

# %% id="silence-check"
with virtualgpu.check() as report:
    scale(drv.InOut(masses), np.float32(3), np.int32(4), block=(32, 1, 1))
print(report)

# %% [markdown] id="small-index"
# **The type of an index can also be too small for its array.** An `int` counts only to 2³¹ - 1. Beyond that, the
# product in `int at = column * rows + row` wraps around and becomes negative, and C++ reports nothing. The kernel is
# right in every test with a million elements and wrong for a table of 2³² bytes. Write
# `long long at = (long long)column * rows + row;`, with the cast *before* the product. [This
# page](../docs/large_arrays.md) shows how to test such a kernel without that much memory.

# %% [markdown] id="fitting-types-task"
# ### Exercise: types that fit
#
# Write `scaled(values, by)`, which returns a *new* array of `float32` with every value multiplied by `by`. Multiply
# with the kernel `scale`, not with NumPy. `values` has one axis, and may be an array of `float64` or integers, a list,
# or every second element of an array. PyCUDA copies only contiguous arrays, and `np.ascontiguousarray` makes an array
# contiguous. `values` is never empty, may be longer than a block, and must not change.

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
# In the walk, `drv.In` copied an array to the GPU before the launch, and `drv.Out` copied an array back after it.
# `drv.InOut` does both, and the array on the GPU exists only during this one launch.
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
# With `In`, the result is never copied back. With `Out`, the kernel doubles the contents of uninitialised memory, which
# may happen to be zeros. The virtual GPU fills new memory with a pattern, so that lucky zeros don't hide the mistake.
# Neither case gives an error. Use `In` for arrays that the kernel only reads, and `Out` for arrays that it writes
# *entirely*.

# %% [markdown] id="by-hand-predict" tags=["predict"]
# Each launch with `In`, `Out` or `InOut` makes its own copies. If you launch ten kernels on the same array, make the
# copies yourself, as in [the lower of these timelines](02_why_gpus.ipynb#4-where-the-numbers-live).
#
# The cell copies 201 `float32` numbers to the GPU. *Predict*, before you read the cell, which number you must pass to
# `mem_alloc`.

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
# `mem_alloc` needs the number of bytes and not the number of elements, so pass `.nbytes` and not `.size`. `d_x` is only
# an address, without a type, a length or a shape, and you pass it to the kernel unchanged. The memory is freed when
# Python deletes `d_x`.
#
# A launch returns at once, and the GPU executes its launches in order. `memcpy_dtoh` waits until they have finished,
# but a clock does not. So to time a kernel, call `drv.Context.synchronize()` before you read the clock.

# %% [markdown] id="copy-once-task"
# ### Exercise: there and back once
#
# A particle loses energy when it passes through matter. Write `after_layers(pt, factors)`, where `pt` is an array of
# `float32` momenta, and each element of `factors` belongs to a layer of iron that multiplies every momentum by this
# factor. Launch `scale` once for each layer, but copy the array to the GPU only once and back only once. Return the
# result as a new array, and leave `pt` unchanged.

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
# PyCUDA also has arrays that know their type and shape, in `gpuarray`. Each operator on them launches a kernel, and
# `ElementwiseKernel` makes a single kernel from a whole line, as CuPy's does in [the
# walk](03_the_walk.ipynb#2-cupy-numpys-names-arrays-on-the-device). When you run the cell, look at the types of the two
# results. The inputs are `d_pt`, which is `float32`, and `d_charge`, which is `int32`.

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
# The operators follow NumPy's rules, so `float32` times `int32` is `float64`. In C++, *you* choose the types.

# %% [markdown] id="constant-memory-predict" tags=["predict"]
# Now you will use more C++ rather than less. Outside the magnet's coil, at 3 metres, the field of such a detector
# returns through the iron in the opposite direction, with roughly -2 T. The kernel needs a small table with the field
# at each metre from the beam, which all threads read and none changes. CUDA has a special memory for such tables,
# **constant memory**. It has 64 kilobytes in all, and its cache serves the 32 threads of a warp at once if they read
# the same element. `__constant__` declares the table, and `get_global` gives Python its address. Python can also set
# values in the source before it is compiled, here the number of rings, with the compiler's option `-D`.
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
# It is easy to forget the `memcpy_htod`. Then the table holds zeros, all paths are straight lines, and you get no
# error. Global variables in C++ start at zero, but memory from `mem_alloc` does not.

# %% [markdown] id="field-table-task"
# ### Exercise: one table, many maps
#
# Write `paths_through(field_map)`, where `field_map` is a list of seven numbers in tesla. The function writes these
# numbers into the constant memory of `in_iron` and launches its kernel `follow` for our forty particles with 201 steps.
# It returns `x` and `y`, two new arrays of shape (201, 40). Remember to check the types.

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
# PyCUDA was among the first tools to bring CUDA to Python, and it aims to offer the whole driver API. Its latest
# release is 2026.1, from January 2026. It is released only as source, so you need a C++ compiler and the CUDA toolkit
# to install it, and `nvcc` to run it. Two newer tools accept the same strings.
#
# | | PyCUDA | CuPy's `RawKernel` | `cuda.core` |
# |---|---|---|---|
# | developed by | its community | its community | NVIDIA |
# | installed from | source, which pip compiles | wheels | wheels |
# | compiles with | `nvcc` | NVRTC | NVRTC |
# | arrays | `gpuarray`, with some of NumPy's functions | its own, with most of NumPy's functions and some of SciPy's | none, but it accepts those of other libraries |
# | use it when | you already have PyCUDA code | you want arrays and an occasional kernel | you build a library, or want all of CUDA |
#
# As in the walk, CuPy needs only an `extern "C"` in front of the kernel, which keeps the compiler from changing its
# name. PyCUDA adds it for you.

# %% id="raw-kernel"
import cupy as cp

follow_in_cupy = cp.RawKernel('extern "C"' + follow_source, "follow")
d_pt, d_phi, d_charge = cp.asarray(pt), cp.asarray(phi), cp.asarray(charge)
d_x, d_y = cp.empty((2, 201, 40), cp.float32)
follow_in_cupy((1,), (64,), (d_pt, d_phi, d_charge, d_x, d_y, np.int32(40), np.int32(201)))
print("the same paths:", np.allclose(d_x.get(), x) and np.allclose(d_y.get(), y))

# %% [markdown] id="today-then"
# CuPy's arrays are already on the device, so you need no `In` and no `Out`. Everything in section 3 also applies here,
# because `RawKernel` does not check types either. `cuda.core` accepts the same string, and it also runs here, on the
# virtual GPU's driver. The code follows its [first
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
# - C++ adds types, semicolons and parentheses to the kernels that you know. A pointer carries no length, so you pass
#   `n` to the kernel, which compares its index with `n`.
# - The compiler names the line at which it gave up, and the mistake is there or just before. Read the first error
#   first.
# - Nothing compares NumPy's types with those of the kernel. `float *` needs `float32` and `int` needs `np.int32`, and
#   any other NumPy type gives wrong numbers without a message.
# - `In`, `Out` and `InOut` copy for a single launch. If you launch many kernels on the same array, copy it yourself,
#   once to the device and once back.
# - Your C++ does not depend on the tool, because the same string runs in PyCUDA, in CuPy and in `cuda.core`.

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
# *Ten minutes late:* skip `mend`. From section 5, skip the operators and constant memory, but show the picture of the
# paths.
#
# *Where people get stuck.* In `first-kernel` they write `[i]` after `field`, which is a number and not an array. In
# `mend` they correct the three errors and overlook that 1 / 3 is still 0. In `fitting-types`, `astype` with
# `copy=False` doesn't copy an array that already has the right type, and the kernel then changes the caller's array. In
# `copy-once` they write `mem_alloc(pt.size)`.
#
# *Frequent questions.* "Why C++ at all?" CUDA's documentation, examples and libraries use it, and a kernel that you
# find there runs here unchanged. "Does it compile each time?" No, because PyCUDA and CuPy keep compiled code in a cache
# folder, and compile a string again only if it has changed. "Is C++ faster than Numba's Python?" Sometimes it is,
# although both are compiled to PTX. The quadratic formula takes the same time in both. A tree reduction that is written
# in the same way takes 1.30 times as long in Numba as in C++, and a Mandelbrot picture takes 1.24 times as long. The
# recorded rows are `reduction/tree`, `reduction/cpp` and `mandelbrot.picture`. Numba uses 64-bit integers and tests the
# sign of every index, so its reduction needs 20 machine instructions per number, whereas the C++ reduction needs 7.
#
# *What goes wrong.* On a GPU machine without PyCUDA, `import pycuda` prints a note and uses CuPy instead. All cells of
# this lecture work then, but other parts of PyCUDA do not. After an access to an invalid address on a real GPU, every
# call fails until you restart the kernel. If the string begins with an empty line, the compiler counts it as line 1.
