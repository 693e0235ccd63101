# %% [markdown] id="the-question-asked"
# ## Do you have to think in threads?
#
# 1,000 tracks have crossed a detector, with 64 readings each. (The readings are random numbers with a fixed seed.) The
# first step is to subtract from every reading its pedestal, the value that the detector shows when no particle is
# there. Run the cell. It subtracts the pedestals in two ways.

# %% id="the-question"
# %load_ext gpucourse
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from gpucourse import lesson
from gpucourse.views.picture import COLOURS, PALE, Picture, canvas
from jax.experimental import pallas as pl
from numba import cuda

check, hint, predict = lesson("22_blocks")

READINGS, KINDS = 64, 10
random = np.random.default_rng(16)
readings = random.normal(5, 2, (1000, READINGS)).astype(np.float32)
pedestals = np.tile(random.normal(1, 0.2, READINGS).astype(np.float32), 1000)
weights = random.normal(0, 1, (READINGS, KINDS)).astype(np.float32)


@cuda.jit
def subtract_thread(x, pedestal, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] - pedestal[i]


def subtract_block(x_ref, pedestal_ref, out_ref):
    out_ref[...] = x_ref[...] - pedestal_ref[...]


raw = readings.ravel()
d_result = cuda.device_array(raw.size, np.float32)
subtract_thread[250, 256](cuda.to_device(raw), cuda.to_device(pedestals), d_result)
by_threads = d_result.copy_to_host()

block = pl.BlockSpec((256,), lambda i: (i,))  # 256 elements; program i has block i
subtract = pl.pallas_call(
    subtract_block, grid=(250,), in_specs=[block, block], out_specs=block,
    out_shape=jax.ShapeDtypeStruct(raw.shape, jnp.float32),
    interpret=True,  # as JAX operations, on any device
)
print("the same to the bit:", np.array_equal(subtract(raw, pedestals), by_threads))

# %% [markdown] id="the-question-stands"
# The second way is **Pallas**, JAX's language for kernels, which has no thread index and no guard. You write its kernel
# for a whole *block* of 256 elements, and a separate line says which block that is. **Can you write a sum or a matrix
# product without threads, and why would that help on a GPU?**

# %% [markdown] id="programs-text"
# ## 1. A block for each program
#
# `grid=(250,)` asks for 250 **programs**. A `BlockSpec` has the shape of a block and an *index map*, which is a
# function from the number of a program to the number of its block, counted in blocks and not in elements. The kernel
# receives **references** to its blocks: `x_ref[...]` reads a block, and `out_ref[...] = …` writes one.

# %% [markdown] id="edge-predict" tags=["predict"]
# 64,000 is a multiple of 256, but most sizes aren't. In the next cell, four programs add up 1,000 values in blocks of
# 256, of which the last has only 232 values. *Predict:* what sum does the last program compute?

# %% id="edge-guess"
predict("edge",
        "the sum of 232 values: Pallas cuts the block",
        "nan: it also reads what is beyond the end",
        "an error: the block doesn't fit")

# %% id="edge"
def careless_sum(x_ref, sum_ref):
    sum_ref[...] = x_ref[...].sum(keepdims=True)


def block_sums(kernel, values, block=256):
    """The sum of each block, by a kernel for one block."""
    return pl.pallas_call(
        kernel, grid=(pl.cdiv(values.size, block),),
        in_specs=[pl.BlockSpec((block,), lambda i: (i,))], out_specs=pl.BlockSpec((1,), lambda i: (i,)),
        out_shape=jax.ShapeDtypeStruct((pl.cdiv(values.size, block),), jnp.float32), interpret=True)(values)


print(block_sums(careless_sum, raw[:1000]))

# %% [markdown] id="edge-why" tags=["why"]
# The sum is `nan`, because all blocks have the same shape, so the last one extends beyond the end. Writes beyond the
# end are dropped, so the subtraction needs no guard. But reads there return unspecified values, which are `nan` here,
# and on a GPU whatever is in memory. As soon as you combine the elements of a block, you need a **mask**.

# %% [markdown] id="edge-task"
# ### Exercise: sum with a mask
#
# Write `masked_sum(x_ref, sum_ref, *, n)`, which stores the sum of the elements of a block that exist. Only the first
# `n` values of all blocks together exist. `pl.program_id(0)` is the program's number, and `x_ref.shape` is the block's
# shape.

# %% id="edge-exercise" tags=["exercise"]
def masked_sum(x_ref, sum_ref, *, n):
    ### BEGIN SOLUTION
    size = x_ref.shape[0]
    place = pl.program_id(0) * size + jnp.arange(size)
    ### END SOLUTION
    values = x_ref[...]
    ### BEGIN SOLUTION
    values = jnp.where(place < n, values, 0.0)
    ### END SOLUTION
    sum_ref[...] = values.sum(keepdims=True)


print(block_sums(partial(masked_sum, n=1000), raw[:1000]))

# %% id="edge-check"
check("masked-sum", masked_sum)

# %% [markdown] id="edge-then"
# Your sum needs no tree, no shared memory and no barrier. `.sum()` of a block is *one* operation, and the compiler
# decides how the threads share it.
#
# Interpret mode hides one kind of mistake, because it runs the programs one after the other. So a kernel in which all
# programs add to *the same* output block gives the right result. It would do so on a TPU as well, where the grid also
# runs in order. But on a GPU programs run at the same time, and this is a race. So **give each program its own output
# block.**

# %% [markdown] id="traced-predict" tags=["predict"]
# The cells above had 250 programs of 256 elements. *Predict:* how often does the Python code of a kernel run?

# %% id="traced-guess"
predict("traced", "250 times, once for each program", "64,000 times", "once")

# %% id="traced"
times_run = 0


def counting_block(x_ref, out_ref):
    global times_run
    times_run += 1
    out_ref[...] = x_ref[...] + 1


pl.pallas_call(counting_block, grid=(250,), in_specs=[block], out_specs=block,
               out_shape=jax.ShapeDtypeStruct(raw.shape, jnp.float32), interpret=True)(raw)
print("the text ran", times_run, "time(s)")

# %% [markdown] id="traced-why" tags=["why"]
# It runs once, because JAX traces it, as it traces every function, and then runs the traced operations 250 times. With
# `interpret=True` they become an ordinary JAX program, which is slow but right on any machine. So you can develop and
# test without a GPU. On a GPU you leave that argument out.

# %% [markdown] id="softmax-text"
# ## 2. Softmax: one row for each program, or eight
#
# A small classifier gives each track ten scores, one for each kind of particle. Softmax turns them into ten
# probabilities, which are the exponentials of the scores divided by their sum. The exponential of 100 is too large for
# `float32`, so one first subtracts the largest score, which cancels in the quotient. With threads, softmax takes two
# trees with barriers, one for the maximum and one for the sum. With blocks, it is arithmetic on a table.
#
# Block compilers for GPUs work best if the sides of a block are powers of two. We have ten kinds, so we use blocks of 8
# rows and 16 columns, in a first attempt that is wrong.

# %% id="index-map" raises="ValueError"
def unchanged(scores_ref, out_ref):
    out_ref[...] = scores_ref[...]


rows = pl.BlockSpec((8, 16), lambda i: (i,))
pl.pallas_call(unchanged, grid=(125,), in_specs=[rows], out_specs=rows,
               out_shape=jax.ShapeDtypeStruct((1000, KINDS), jnp.float32), interpret=True)(readings[:, :KINDS])

# %% [markdown] id="index-map-why"
# The message counts axes: the block has two, but the index map returned one number. A block of a table needs two
# numbers, and each row has only one block, so write `lambda i: (i, 0)`. In thread programs many mistakes are in guards,
# and in block programs many are in index maps. Index maps are plain functions, so you can call them and print what they
# return.

# %% [markdown] id="softmax-task"
# ### Exercise: softmax
#
# Write `softmax_block(scores_ref, out_ref, *, kinds)`. Only the first `kinds` columns of the block exist, and each row
# of the result must sum to 1.

# %% id="softmax-exercise" tags=["exercise"]
def softmax_block(scores_ref, out_ref, *, kinds):
    result = jnp.zeros(scores_ref.shape, jnp.float32)
    ### BEGIN SOLUTION
    exists = jnp.arange(scores_ref.shape[1]) < kinds
    scores = jnp.where(exists, scores_ref[...], -jnp.inf)
    powers = jnp.exp(scores - scores.max(axis=1, keepdims=True))
    result = powers / powers.sum(axis=1, keepdims=True)
    ### END SOLUTION
    out_ref[...] = result


rows = pl.BlockSpec((8, 16), lambda i: (i, 0))
softmax = pl.pallas_call(
    partial(softmax_block, kinds=KINDS), grid=(125,), in_specs=[rows], out_specs=rows,
    out_shape=jax.ShapeDtypeStruct((1000, KINDS), jnp.float32), interpret=True)

# %% id="softmax-check"
check("softmax", softmax_block)

# %% [markdown] id="traffic-predict" tags=["predict"]
# ## 3. A product by tiles
#
# The scores are the matrix product of readings and weights. In "Numba CUDA" you multiplied matrices through tiles in
# shared memory, with two barriers for each pair of tiles. Here a program computes one *tile* of the result. It needs a
# strip of rows of A and a strip of columns of B, and proceeds along both.
#
# *Predict:* A and B have 1,024 rows and columns. If the tiles grow from 16 × 16 to 64 × 64, how does the total number
# of bytes change that all programs read?

# %% id="traffic-guess"
predict("traffic", "they stay the same: each program reads more", "a quarter", "a sixteenth")

# %% id="traffic"
def product_specs(n, k, m, tile):
    """(grid, the blocks of A, B and the result) for tiles of one size."""
    grid = (pl.cdiv(n, tile), pl.cdiv(m, tile))
    return grid, [pl.BlockSpec((tile, k), lambda i, j: (i, 0)),
                  pl.BlockSpec((k, tile), lambda i, j: (0, j)),
                  pl.BlockSpec((tile, tile), lambda i, j: (i, j))]


for tile in (1, 16, 64):
    (down, across), (a, b, _) = product_specs(1024, 1024, 1024, tile)
    read = 4 * sum(int(np.prod(spec.block_shape)) for spec in (a, b))  # bytes of float32
    print(f"tiles of {tile:2}: {down * across:9,} programs read {read:9,} bytes each, "
          f"{down * across * read / 1e6:7,.0f} MB in all")

# %% id="strips"
grid, specs = product_specs(96, 64, 80, 16)
figure, axes = canvas(8.5, 2.8, columns=3)
here = (2, 3)
for one, spec, name, shape in zip(axes, specs, "ABC", ((96, 64), (64, 80), (96, 80)), strict=True):
    side = spec.block_shape
    y, x = (k * s for k, s in zip(spec.index_map(*here), side, strict=True))
    one.imshow(np.ones(shape), cmap="Greys", vmin=0, vmax=9, extent=(0, shape[1], shape[0], 0))
    one.fill_between([x, x + side[1]], y, y + side[0], color=COLOURS[1 if name == "C" else 0])
    one.set(xticks=range(0, shape[1] + 1, 16), yticks=range(0, shape[0] + 1, 16), title=name,
            xlim=(0, 80), ylim=(96, 0), xlabel="column", ylabel="row")  # one scale for all three
    one.grid(color=PALE)
Picture(figure, f"Three matrices, and what program {here} of the grid {grid} has of them by its index maps: of A "
                "rows 32 to 48 in full width, of B columns 48 to 64 in full height, of C the one tile where they cross.")

# %% [markdown] id="traffic-why" tags=["why"]
# It falls to a quarter, because a tile with four times the side computes 16 times as many results from 4 times as much
# input. This is the whole benefit of tiling, with threads and with blocks: each element is fetched once and used `tile`
# times. You can't use one tile of 1,024, because it has to fit on the chip. A multiprocessor of an H100 has up to 227
# KB of shared memory, but a strip of 64 × 1,024 takes 262 KB. So a program doesn't read whole strips at once either,
# but reads them one tile at a time.

# %% [markdown] id="product-task"
# ### Exercise: multiply along the strips
#
# Write `product_block(a_ref, b_ref, c_ref)`, for strips whose length is a multiple of the tile's side. Use
# `jax.lax.fori_loop` over pairs of tiles, and carry the tile of sums from one iteration to the next.
# `a_ref[:, pl.ds(start, TILE)]` reads a part of a strip, and `jnp.dot(a, b)` multiplies. The check tests that no value
# in your kernel is larger than a tile.

# %% id="product-exercise" tags=["exercise"]
TILE = 16


def product_block(a_ref, b_ref, c_ref):
    sums = jnp.zeros((TILE, TILE), jnp.float32)
    ### BEGIN SOLUTION
    def step(turn, sums):
        part = pl.ds(turn * TILE, TILE)
        return sums + jnp.dot(a_ref[:, part], b_ref[part, :])

    sums = jax.lax.fori_loop(0, a_ref.shape[1] // TILE, step, sums)
    ### END SOLUTION
    c_ref[...] = sums


def product(kernel, a, b):
    """a @ b by a kernel that makes one tile; rows and columns may end within a tile."""
    grid, (of_a, of_b, of_c) = product_specs(a.shape[0], a.shape[1], b.shape[1], TILE)
    shape = jax.ShapeDtypeStruct((a.shape[0], b.shape[1]), jnp.float32)
    return pl.pallas_call(kernel, grid=grid, in_specs=[of_a, of_b], out_specs=of_c, out_shape=shape,
                          interpret=True)(a, b)


# %% id="product-check"
check("product", product_block)

# %% [markdown] id="tf32-text"
# Tensor cores also multiply `float32`, but they don't use all its bits. From Ampere on, JAX may round both factors of
# `jnp.dot` to **TF32**, which has the range of `float32` but only 11 of its 24 significant bits
# ([`Precision`](https://docs.jax.dev/en/latest/jax.lax.html#jax.lax.Precision)). An earlier version of the check above
# required 24 bits. On an H200 it rejected this lesson's own kernel, because element (1, 28) was 8.81895 and not
# 8.82851. The next cell computes both, and shows the result of your kernel on this machine.

# %% id="tf32"
def as_tf32(x):
    """float32 rounded to 11 significant bits: the last 13 of the 24 go."""
    return ((x.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32)


drawn = np.random.default_rng(163)
a, b = (drawn.normal(0, 1, shape).astype(np.float32) for shape in ((32, 48), (48, 32)))
for name, result in (("float32", a @ b), ("TF32", as_tf32(a) @ as_tf32(b)),
                     ("your kernel", np.asarray(product(product_block, a, b)))):
    off = np.abs(result - a.astype(np.float64) @ b).max()
    print(f"{name:12} element (1, 28) {result[1, 28]:.5f}   largest error {off:.0e}")

# %% [markdown] id="tf32-why"
# All three results have the dtype `float32`. TF32 gives you three digits fewer, which is not a mistake but a default,
# which you can change with `precision="highest"` in `jnp.dot`, or with `jax.default_matmul_precision("highest")` around
# it. A test that requires the digits of exact arithmetic fails on such a machine. Require as many digits as the *format
# of the multiplication* has.

# %% id="chain"
clean = subtract(raw, pedestals).reshape(readings.shape) - 4
probability = softmax(product(product_block, clean, weights))
print("rows sum to 1:", np.allclose(probability.sum(axis=1), 1, atol=1e-5),
      "  as XLA's:", np.allclose(probability, jax.nn.softmax(jnp.asarray(clean) @ weights), atol=2e-3))

# %% id="chain-picture"
figure, axes = canvas(8.5, 2.8, columns=2)
for one, table, name, colours in ((axes[0], clean[:30], "reading, less its pedestal", "Greys"),
                                  (axes[1], probability[:30], "kind: probability", "Blues")):
    one.imshow(table, aspect="auto", cmap=colours, interpolation="nearest")
    one.set(xlabel=name, ylabel="track")
sure = float(probability.max(axis=1).mean())
Picture(figure, "The first 30 tracks: on the left their 64 readings, as subtract leaves them; on the right the probabilities of ten "
                f"kinds that your kernels make of them. The likeliest kind of a track has {sure:.0%} on average.")

# %% [markdown] id="half-predict" tags=["predict"]
# ## 4. Half the bits
#
# Threads can do everything, so why did people invent block languages? They did it for one piece of hardware. A **tensor
# core** multiplies two small tiles and adds the result to a third, in one instruction of a whole warp, or of four. No
# single thread has a tile, so thread languages can hardly express it. In block languages it is `jnp.dot`, with tiles
# that have few bits, in `float16`, `bfloat16` or smaller types.
#
# `float16` has 11 significant bits and ends at 65,504. *Predict:* what are 2048 + 1 and 300 × 300 in it?

# %% id="half-guess"
predict("half", "2049 and 90,000", "2048 and inf", "2050 and 65,504")

# %% id="half"
half = jnp.float16
for what, value in {"2048 + 1": half(2048) + half(1), "300 * 300": half(300) * half(300), "1e-8": half(1e-8)}.items():
    print(f"{what} = {float(value):g}")
for kind in (jnp.float16, jnp.bfloat16, jnp.float32):
    about = jnp.finfo(kind)
    print(f"{about.dtype.name:9} {about.bits} bits, {about.nmant + 1:2} of them significant; "
          f"largest {float(about.max):.3g}, smallest normal {float(about.smallest_normal):.2g}")

# %% [markdown] id="half-why" tags=["why"]
# They are 2048 and `inf`, because from 2,048 on, `float16` has at most every second whole number, and beyond 65,504 it
# has none. Its smallest number above 0 is 6e-8. `bfloat16` has the range of `float32`, but only eight significant bits.
# It doesn't overflow here, but it cannot represent 257.

# %% [markdown] id="sums-predict" tags=["predict"]
# A matrix product adds up thousands of products. In the next cell, each sum has 16,384 products of numbers from 0 to 1.
# *Predict:* what makes the result most inaccurate?

# %% id="sums-guess"
predict("sums", "the inputs, rounded to 11 bits", "the sum, kept in float16", "both by about as much")

# %% id="sums"
@partial(jax.jit, static_argnums=(2, 3))
def running(x, y, kind, kept):
    """Running sums along axis 0 of x * y: factors rounded to `kind`, the sum kept as `kept`."""
    products = x.astype(kind).astype(jnp.float32) * y.astype(kind).astype(jnp.float32)
    return jax.lax.scan(lambda total, one: 2 * ((total.astype(jnp.float32) + one).astype(kept),),
                        jnp.zeros(x.shape[1], kept), products)[1]


x, y = jax.random.uniform(jax.random.key(16), (2, 16384, 32))
exact = np.cumsum(np.asarray(x, np.float64) * np.asarray(y, np.float64), axis=0)
lengths = 2 ** np.arange(4, 15)
figure, axes = canvas(8, 3.2)
errors = {}
for name, kind, kept, style in (("float16, sum in float16", half, half, "o-"),
                                ("bfloat16, sum in float32", jnp.bfloat16, jnp.float32, "^-"),
                                ("float16, sum in float32", half, jnp.float32, "s-"),
                                ("float32", jnp.float32, jnp.float32, "v-")):
    off = np.abs(np.asarray(running(x, y, kind, kept), np.float64) / exact - 1).mean(axis=1)[lengths - 1]
    axes.plot(lengths, off, style, label=name, color=COLOURS[(0, 1, 2, 5)[len(errors)]])
    errors[name] = off
axes.set(xscale="log", yscale="log", xlabel="products added up", ylabel="relative error, mean of 32")
axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
Picture(figure, "Relative error of a sum of products against their number. At 16,384: " +
        "; ".join(f"{name} {off[-1]:.1g}" for name, off in errors.items()) + ".")

# %% [markdown] id="sums-why" tags=["why"]
# The sum does, because in `float16` it stops growing at 2,048. The next number is 2,050, so a product below 1 is less
# than half a step and is rounded away. The relative error from rounded *inputs* gets smaller the longer the sum is,
# because their errors partly cancel. So tensor cores take tiles of 16 bits and **add in `float32`**. In JAX you ask for
# this with `preferred_element_type=jnp.float32`.

# %% [markdown] id="mixed-task"
# ### Exercise: 16-bit tiles, float32 sums
#
# Write `mixed_block(a_ref, b_ref, c_ref)` for strips of `float16`. Pass the tiles to `jnp.dot` in the 16 bits that they
# have, which is what a tensor core takes. Keep all sums in `float32`, with `jnp.dot(a, b, preferred_element_type=…)`.

# %% id="mixed-exercise" tags=["exercise"]
def mixed_block(a_ref, b_ref, c_ref):
    sums = jnp.zeros((TILE, TILE), jnp.float16)
    ### BEGIN SOLUTION
    sums = jnp.zeros((TILE, TILE), jnp.float32)

    def step(turn, sums):
        part = pl.ds(turn * TILE, TILE)
        return sums + jnp.dot(a_ref[:, part], b_ref[part, :], preferred_element_type=jnp.float32)

    sums = jax.lax.fori_loop(0, a_ref.shape[1] // TILE, step, sums)
    ### END SOLUTION
    c_ref[...] = sums.astype(c_ref.dtype)


# %% id="mixed-check"
check("mixed", mixed_block)

# %% [markdown] id="scale-task"
# ### Exercise: scale into range
#
# `astype(float16)` turns energies in eV, up to 10¹², into `inf`, and masses in kg into 0, so you have to scale them
# first. Write `to_half(values)`, which returns a `float16` array and a factor, with `values ≈ half * factor`. The
# factor must be a power of two, so that scaling does not round, and the largest absolute value must end up between
# 1,024 and 65,504. An array of zeros has the factor 1. `np.frexp(x)` gives the exponent of a number.

# %% id="scale-exercise" tags=["exercise"]
def to_half(values):
    """(float16 array, factor): NumPy, values of float64."""
    halves = factor = None
    ### BEGIN SOLUTION
    largest = np.abs(values).max(initial=0.0)
    factor = 2.0 ** (np.frexp(largest)[1] - 12) if largest else 1.0  # largest / factor: 2048 to 4096
    halves = (values / factor).astype(np.float16)
    ### END SOLUTION
    return halves, factor


# %% id="scale-check"
check("to-half", to_half)

# %% [markdown] id="tensor-cores"
# Four things are necessary to use a tensor core.
#
# - The **tiles** must have sides that are multiples of 16, because one product in 16 bits is 16 × 16 by 16 × 8, which
#   is PTX's `mma.m16n8k16`. Pad other sides, as with the ten kinds above.
# - The **types** must be `float16`, `bfloat16`, or types of 8 bits or fewer. `float32` is possible only if it is
#   rounded to the 11 significant bits of TF32. In JAX you ask for this with `precision="default"`, and for all 24 bits
#   with `"highest"`.
# - The **sums** should be in `float32`, and the inputs scaled.
# - There must be **enough products for each byte**, so tiles should be large. A softmax has no matrix product, so it
#   gains nothing.
#
# A profiler tells you whether the tensor cores were used. The virtual GPU runs the tensor core instructions of CUDA
# C++, but has no clock, so it can't tell you what they gain.

# %% [markdown] id="others-text"
# ## 5. The same in CUDA Tile
#
# [CUDA Tile](https://docs.nvidia.com/cuda/cutile-python) (`cuda.tile`, called *cuTile*) is NVIDIA's own block language.
# It calls a block of data a *tile*, and counts blocks as Pallas does. Its compiler generates Tile IR, which our virtual
# GPU runs one block after the other. The documentation says [what our virtual GPU leaves
# out](../docs/virtualgpu.md#tiles-cutile).

# %% id="cutile"
try:
    import cuda.tile as ct
except ImportError as missing:
    raise ImportError("cuda-tile is not installed here: pip install 'cuda-tile<1.8' (Linux alone has it). Without it, "
                      "read section 5; nothing else in this lecture needs it") from missing
import cupy as cp
import virtualgpu


def launch(kernel, grid, *arguments):
    ct.launch(cp.cuda.get_current_stream(), grid, kernel, arguments)


@ct.kernel
def subtract_tile(x, pedestal, out):
    i = ct.bid(0)
    value = ct.load(x, index=(i,), shape=(256,)) - ct.load(pedestal, index=(i,), shape=(256,))
    ct.store(out, index=(i,), tile=value)


@ct.kernel
def careless_sums(x, sums):
    i = ct.bid(0)
    ct.store(sums, (i,), ct.sum(ct.load(x, (i,), (256,))).reshape((1,)))


result = cp.zeros(raw.size, np.float32)
launch(subtract_tile, (250,), cp.asarray(raw), cp.asarray(pedestals), result)
print("the same to the bit:", np.array_equal(result.get(), by_threads))

with virtualgpu.check() as found:
    launch(careless_sums, (4,), cp.ones(1000, np.float32), cp.zeros(4, np.float32))
print(found)

# %% [markdown] id="cutile-check"
# These are the sums of section 1 again, without a mask. `ct.load` returns a whole tile, including 24 elements beyond
# the array's end, and `padding_mode=` sets their value. A store drops elements outside the array, so the subtraction
# needed no padding.
#
# Inside `check()` and in our exercises' checks, kernels run on the virtual GPU, even on a machine with a real one. To
# run them on a real GPU, you need Ampere or later, a driver for CUDA 13 and cuTile's assembler,
# `pip install 'cuda-tile[tileiras]'`. We have not run this section on a real GPU.
#
# ### Exercise: sums of tiles
#
# Write `tile_sums(x, sums, size)`, in which block i adds up tile i of `x`, which has `size` elements, and stores the
# sum in `sums[i]`. It must be right for any number of elements.

# %% id="tile-sums-exercise" tags=["exercise"]
@ct.kernel
def tile_sums(x, sums, size: ct.Constant[int]):
    i = ct.bid(0)
    ### BEGIN SOLUTION
    tile = ct.load(x, (i,), (size,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(sums, (i,), ct.sum(tile).reshape((1,)))
    ### END SOLUTION


# %% id="tile-sums-check"
check("tile-sums", tile_sums)

# %% [markdown] id="tile-product-task"
# ### Exercise: a product in cuTile
#
# Write `tile_product(a, b, c)`, in which block (i, j) computes one tile of `c`, `TILE` by `TILE`, with `float16` inputs
# and `float32` sums. `ct.mma(left, right, sums)` multiplies two tiles on a tensor core and adds the sums, and
# `range(ct.num_tiles(a, axis=1, shape=(TILE, TILE)))` counts the tiles of a strip. Sides need not be multiples of
# `TILE`.

# %% id="tile-product-exercise" tags=["exercise"]
@ct.kernel
def tile_product(a, b, c):
    i, j = ct.bid(0), ct.bid(1)
    sums = ct.zeros((TILE, TILE), ct.float32)
    ### BEGIN SOLUTION
    for k in range(ct.num_tiles(a, axis=1, shape=(TILE, TILE))):
        left = ct.load(a, (i, k), (TILE, TILE), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (k, j), (TILE, TILE), padding_mode=ct.PaddingMode.ZERO)
        sums = ct.mma(left, right, sums)
    ### END SOLUTION
    ct.store(c, (i, j), sums.astype(c.dtype))


# %% id="tile-product-check"
check("tile-product", tile_product)

# %% [markdown] id="tile-report-text"
# `report` also counts a launch over tiles, and draws which block reads or writes which tile. Of the nine blocks in the
# grid, the three in a row all read the same tiles of `a`, and the three in a column all read the same tiles of `b`.

# %% id="tile-report"
from gpucourse import report

report(tile_product, (3, 3), 1, cp.ones((40, 32), np.float16), cp.ones((32, 48), np.float16),
       cp.zeros((40, 48), np.float32))

# %% [markdown] id="triton-text"
# **Triton** is another block language. The course doesn't install it, because it takes 285 MB, but it [runs on our
# virtual GPU](../docs/virtualgpu.md#triton). In [Triton](https://triton-lang.org), you work with pointers and write the
# mask yourself, as in this kernel, which is close to that of its first tutorial.
#
# ```python
# @triton.jit
# def subtract(x, pedestal, out, n, BLOCK: tl.constexpr):
#     place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
#     exists = place < n
#     value = tl.load(x + place, mask=exists) - tl.load(pedestal + place, mask=exists)
#     tl.store(out + place, value, mask=exists)
# ```
#
# | | threads (Numba, CUDA C++) | Pallas | Triton | CUDA Tile |
# |---|---|---|---|---|
# | you write for | one thread | a block | a block | a block (a *tile*) |
# | which elements are mine? | `cuda.grid(1)` | the index map | pointer arithmetic | `ct.bid`, `index=` |
# | beyond the end | your guard | reads unspecified, writes dropped | your mask | reads undetermined, unless `padding_mode=` gives a value |
# | a sum of a block | a tree and barriers | `.sum()` | `tl.sum` | `ct.sum` |
# | shared memory, barriers | written by you | left to the compiler (in Mosaic GPU also by you) | left to the compiler | left to the compiler |
# | runs on | any GPU; our virtual one | NVIDIA's from Hopper on (by Triton from Ampere on, as far as it goes), TPUs; interpreted anywhere | NVIDIA, AMD; our virtual one | NVIDIA, with a recent driver; our virtual one |
#
# But blocks don't replace threads. Irregular work, such as a histogram's atomics, a loop over a jagged event, or a
# lock, is still easiest to write for one thread. And because you know how a tree computes a `.sum()`, you can find out
# why a block program is slow. The reasons are again sectors, banks and occupancy.

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - A block program says what happens to a block, and an index map says which block that is. You write no threads and no
#   barriers, because the compiler shares the work.
# - The last block reaches beyond the end. Writes there are dropped, and reads there must not be used, so mask before
#   you combine elements.
# - A larger tile uses each element more often. With four times the side, a quarter of the bytes are read. But the tile
#   must fit on the chip.
# - `float16` has 11 significant bits, and its largest number is 65,504, so scale the inputs, and add up in `float32`.
# - Tensor cores multiply tiles whose elements have 16 bits or fewer and whose sides are multiples of 16, and add up in
#   `float32`.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - Pallas: [quickstart](https://docs.jax.dev/en/latest/pallas/quickstart.html), [grids and
#   BlockSpecs](https://docs.jax.dev/en/latest/pallas/grid_blockspec.html), and what is [special to
#   GPUs](https://docs.jax.dev/en/latest/pallas/gpu/reference.html). Pallas is experimental and still changes.
# - [Triton's tutorials](https://triton-lang.org/main/getting-started/tutorials/index.html) have the vector, the softmax
#   and the product of this lecture, in that order.
# - [cuTile Python](https://docs.nvidia.com/cuda/cutile-python), and [tile kernels](https://docs.nvidia.com/cuda/cuda-programming-guide/02-basics/writing-tile-kernels.html)
#   in NVIDIA's programming guide.
# - P. Micikevicius and others, [Mixed precision training](https://arxiv.org/abs/1710.03740), 2017, which explains why
#   sums are in `float32`, and why values are scaled.

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 65 minutes
#
# | minutes | what |
# |---|---|
# | 0-4 | the question; ask which lines of the first kernel are missing in the second |
# | 4-16 | section 1; `masked-sum` |
# | 16-23 | section 2; `softmax` in pairs, one of whom wrote the tree in "Trees and barriers" |
# | 23-33 | section 3; draw the strips on the board |
# | 33-46 | section 4; `mixed`; `to-half` can be homework |
# | 46-62 | section 5; `tile-sums` together, `tile-product` in pairs |
# | 62-65 | the table; read the three kernels side by side, aloud |
#
# *Ten minutes late:* leave out `to-half` and `tile-product`. *Ten minutes early:* have people write the softmax of rows
# that are longer than a block, one part after the other, as the product does. This needs a running maximum, and sums
# that are rescaled when the maximum grows. FlashAttention is based on this.
#
# *Where people get stuck.* In `masked-sum`, they multiply by the mask, but `nan` times 0 is `nan`. In `softmax` they
# take the maximum over the whole block, not along axis 1. In `product` they read `pl.ds(start, size)` as `start:stop`.
#
# *Frequent questions.* "Is it as fast as threads?" We haven't measured that. The compiler makes the decisions that you
# would make with threads, and they may be better or worse than yours. "Does `interpret=True` check for races?" No, it
# runs one program after the other. "Which of the three should I learn?" Learn the one that fits your arrays: Pallas for
# JAX, and Triton for PyTorch.
