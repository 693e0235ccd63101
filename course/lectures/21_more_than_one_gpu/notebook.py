# %% [markdown] id="the-question-asked"
# ## Are eight GPUs eight times as fast?
#
# A cold plate, stored as 512 × 512 temperatures, has a hot spot, and heat flows from each cell to its four neighbours.
# We cut the plate into eight strips of rows, and give each strip to a different device.
#
# You don't need eight GPUs for this lesson, because JAX can present one CPU as **eight devices**. You have to ask for
# them *before JAX starts*, as the first lines do, so if JAX is already imported, restart the kernel. These devices
# exchange the same messages as eight GPUs would, but take different times, so this lecture counts bytes.

# %% id="the-question"
# %load_ext gpucourse
import os

flags = os.environ.get("XLA_FLAGS", "")
os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count=8"  # JAX reads it once

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
from gpucourse import lesson
from gpucourse.views.picture import COLOURS, Picture, canvas
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

check, hint, predict = lesson("21_more_than_one_gpu")

devices = (jax.devices() if len(jax.devices()) >= 8 else jax.devices("cpu"))[:8]
mesh = jax.make_mesh((8,), ("rows",), axis_types=(AxisType.Auto,), devices=devices)
n = 512
row, column = np.mgrid[:n, :n]
spot = 100 * np.exp(-((row - 200) ** 2 + (column - 300) ** 2) / 5000)
plate = jax.device_put(spot.astype(np.float32), NamedSharding(mesh, P("rows")))

print(f"{plate.nbytes:,} bytes on {len(plate.addressable_shards)} devices")
print(f"each has {plate.addressable_shards[0].data.shape}: {plate.addressable_shards[0].data.nbytes:,} bytes")
print(f"mean temperature {jnp.mean(plate):.3f}, of all eight")

# %% [markdown] id="the-question-stands"
# Here `jnp.mean(plate)` treated eight pieces as one array. **What do the devices have to send each other, how many
# bytes is that, and when does it cancel the gain?**

# %% [markdown] id="mesh-predict" tags=["predict"]
# ## 1. One array, eight devices
#
# A **mesh**, made by `jax.make_mesh`, arranges the devices in rows and columns and names its axes. A **partition spec**
# says, for each axis of the *array*, along which axis of the mesh it is cut. `P("rows")` cuts axis 0, `P(None, "rows")`
# cuts axis 1, and `P()` cuts no axis, so that every device has the whole array. A `NamedSharding` combines a mesh and a
# partition spec.
#
# *Predict:* the plate has 1,048,576 bytes. How many bytes does it occupy on all devices together, for each of the three
# specs?

# %% id="mesh-guess"
predict("mesh",
        "an eighth of it, each time",
        "1,048,576 each time",
        "1,048,576 twice, then eight times as much")

# %% id="mesh"
def where(name, array):
    shards = array.addressable_shards
    total = sum(shard.data.nbytes for shard in shards)
    print(f"{name:22}{shards[0].data.shape!s:>12} on each, {total:>9,} bytes in all")


for spec in (P("rows"), P(None, "rows"), P()):
    where(str(spec), jax.device_put(plate, NamedSharding(mesh, spec)))
grid = jax.make_mesh((4, 2), ("y", "x"), axis_types=(AxisType.Auto,) * 2, devices=devices)
where("P('y', 'x') on 4 × 2", jax.device_put(plate, NamedSharding(grid, P("y", "x"))))

# %% [markdown] id="mesh-why" tags=["why"]
# If the array is cut along either axis, the pieces together have as many bytes as the array. `P()` *replicates* the
# array, which is fine for a few constants, but not for an array that fills a GPU's memory.

# %% [markdown] id="cut-task"
# ### Exercise: cut an array
#
# Write `cut(array, mesh, axis)`, which cuts the array along axis number `axis` and returns it with one piece on each
# device of the mesh. The mesh has only one axis, whose name is `mesh.axis_names[0]`. If you are stuck, call
# `hint("cut")`.

# %% id="cut-exercise" tags=["exercise"]
def cut(array, mesh, axis):
    ### BEGIN SOLUTION
    spec = P(*[None] * axis, mesh.axis_names[0])
    array = jax.device_put(array, NamedSharding(mesh, spec))
    ### END SOLUTION
    return array

# %% id="cut-check"
check("cut", cut)

# %% [markdown] id="indivisible-predict" tags=["predict"]
# `AxisType.Auto` above lets the compiler choose how results are cut. The default is now `Explicit`, which makes the
# sharding part of every array's type.
#
# *Predict:* what happens if the plate has 500 rows instead of 512, on eight devices?

# %% id="indivisible-guess"
predict("indivisible", "seven strips of 63 rows and one of 59", "it pads to 504", "an error")

# %% id="indivisible" raises=["IndivisibleError", "ValueError"]
jax.device_put(plate[:500], NamedSharding(mesh, P("rows")))

# %% [markdown] id="indivisible-why" tags=["why"]
# It is an error, `partitioned 8 times, but the dimension size is 500`, because JAX cuts evenly or not at all. Pad the
# array to a multiple of eight and exclude the padding from sums, or choose a mesh that fits.

# %% [markdown] id="indivisible-then"
# The *number* of devices is fixed when JAX starts. If you try to change it later, JAX raises this error.

# %% id="too-late" raises="RuntimeError"
jax.config.update("jax_num_cpu_devices", 4)  # another way to say it, as late

# %% [markdown] id="messages-text"
# ## 2. What the compiler adds
#
# JAX traces your function for the whole array. XLA then cuts the program as well, and inserts the messages that it
# needs. To read them, compile the function for sharded arrays, and look for **collectives**.

# %% id="messages"
WIDTH = {"pred": 1, "s32": 4, "u32": 4, "f32": 4, "f64": 8, "s64": 8}  # bytes of XLA's types
COLLECTIVE = re.compile(
    r"= (.+?) (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(-start)?\("
)


def messages(function, *arrays):
    """(kind, bytes that each device holds of its result) of each collective in what XLA compiled."""
    found = []
    compiled = jax.jit(function).lower(*arrays).compile().as_text()
    for shapes, kind, start in COLLECTIVE.findall(compiled):
        parts = [WIDTH[dtype] * math.prod(int(k) for k in sides.split(",") if k)
                 for dtype, sides in re.findall(r"(\w+)\[([\d,]*)\]", shapes)]
        found.append((kind, (max if start else sum)(parts)))
    return found


(line,) = [line.strip() for line in jax.jit(jnp.mean).lower(plate).compile().as_text().splitlines()
           if COLLECTIVE.search(line)]
print(line[:96], "...")
print(messages(jnp.mean, plate))

# %% [markdown] id="messages-predict" tags=["predict"]
# Each device adds up its own strip, and then an **all-reduce** adds up these sums and gives every device the total. It
# sends one number, which is written `f32[]` and has 4 bytes. Here and below we count the bytes of the result on each
# device. The actual traffic depends on the algorithm: in a ring, for example, each device sends nearly twice as much
# for an all-reduce.
#
# The plate is still cut along axis 0. *Predict:* which of the operations in the next cell need no message at all, and
# which need *the whole array* on every device?

# %% id="operations-guess"
predict("operations",
        "only 2 * plate + 1 needs none; sort needs everything",
        "operations within a row need none; cumsum needs everything",
        "sums need everything")

# %% id="operations"
operations = {
    "2 * plate + 1": lambda t: 2 * t + 1,
    "t.sum(axis=1)": lambda t: t.sum(axis=1),
    "t.sum(axis=0)": lambda t: t.sum(axis=0),
    "jnp.roll(t, 1, axis=1)": lambda t: jnp.roll(t, 1, axis=1),
    "jnp.roll(t, 1, axis=0)": lambda t: jnp.roll(t, 1, axis=0),
    "t.T": lambda t: t.T,
    "t + t.T": lambda t: t + t.T,
    "jnp.sort(t, axis=0)": lambda t: jnp.sort(t, axis=0),
    "jnp.cumsum(t, axis=0)": lambda t: jnp.cumsum(t, axis=0),
}
for name, operation in operations.items():
    sent = messages(operation, plate)
    print(f"{name:24}", ", ".join(f"{kind} of {size:,} bytes" for kind, size in sent) or "nothing")

# %% [markdown] id="operations-why" tags=["why"]
# Operations within a row need no message, because each device has its rows complete. The table shows what the other
# operations send.
#
# | collective | what happens | here |
# |---|---|---|
# | all-reduce | the arrays of all devices are added (or combined in another way), and every device gets the result | `sum(axis=0)`: 512 numbers |
# | collective-permute | each device sends to one other device | `roll`: one row goes to the neighbour |
# | all-to-all | each device sends a different part to every other device | `t + t.T`, `sort` |
# | all-gather | every device gets the whole array | `cumsum`: a megabyte on each device |
#
# `t.T` sends nothing, because its parts can stay on their devices, and the result is then cut along axis 1. A running
# sum needs only the *totals* of the strips before it, but XLA gathers the whole array. The compiler's messages are
# correct, but there may be more of them than necessary. **Read the compiled program**, and look for an all-gather
# first.

# %% [markdown] id="matmul-predict" tags=["predict"]
# In a matrix product `a @ b`, let `a` be cut by rows. *Predict:* how should `b` be sharded so that nothing needs to be
# sent, and what is the cost?

# %% id="matmul-guess"
predict("matmul",
        "by rows, like a; nothing more",
        "by columns; nothing more",
        "all of it on every device; that costs memory")

# %% id="matmul"
by_rows, by_columns, everywhere = (
    jax.device_put(plate, NamedSharding(mesh, spec)) for spec in (P("rows"), P(None, "rows"), P())
)
for name, a, b in (("rows @ everywhere", by_rows, everywhere), ("rows @ rows", by_rows, by_rows),
                   ("columns @ rows", by_columns, by_rows)):
    held = (a.addressable_shards[0].data.nbytes + b.addressable_shards[0].data.nbytes) / 1e6
    print(f"{name:18} {held:.2f} MB of inputs on each device; sends {messages(jnp.matmul, a, b)}")

# %% [markdown] id="matmul-why" tags=["why"]
# If every device has all of `b`, nothing is sent, but every device needs the memory. If `b` is cut by rows, XLA gathers
# it for the product. If `a` is cut by columns, each device computes a part of *every* element, and an all-reduce adds
# the parts. So with the layout you choose between less memory and fewer messages. Large neural networks are cut in
# exactly these ways.

# %% [markdown] id="shard-map-text" tags=["predict"]
# ## 3. Your own messages: `shard_map`
#
# Until now the compiler chose the messages, but you can also write what *one* device does with its part, and what it
# sends. `jax.shard_map` cuts the arguments by `in_specs`, passes each device its part, and combines the results by
# `out_specs`. Inside your function, the name of a mesh axis means "all devices along this axis".
#
# - `jax.lax.psum(x, "rows")` returns the sum over the devices, on each of them.
# - `jax.lax.ppermute(x, "rows", [(0, 1), (1, 2)])` sends from 0 to 1 and from 1 to 2. A device that receives nothing
#   gets zeros.
# - `jax.lax.axis_index("rows")` is the number of this device, and `jax.lax.axis_size("rows")` is the number of devices.
#
# Below, each device returns the sum of its own part, and `out_specs=P()` says that the result is the same on all
# devices. *Predict:* is it the same?

# %% id="not-the-same-guess"
predict("not-the-same",
        "yes: JAX adds them up",
        "no, and JAX raises an error",
        "no, and JAX returns one of the sums")

# %% id="not-the-same" raises="ValueError"
def total_of(mine):
    return mine.sum()


jax.shard_map(total_of, mesh=mesh, in_specs=P("rows"), out_specs=P())(plate)

# %% [markdown] id="not-the-same-why" tags=["why"]
# It is not, and JAX raises an error, `out_specs which require replication which can't be statically inferred`, because
# eight devices have eight different sums and you promised one. JAX tracks which values are the same on every device. Do
# not follow its suggestion, `check_vma=False`, because then you get the sum of one device as if it were the total,
# without any message.

# %% [markdown] id="not-the-same-then"
# With a `psum` the result is the same on all devices.

# %% id="psum"
def total_of(mine):
    return jax.lax.psum(mine.sum(), "rows")


total = jax.shard_map(total_of, mesh=mesh, in_specs=P("rows"), out_specs=P())
print(f"{total(plate):,.0f} = {jnp.sum(plate):,.0f};", messages(total, plate))

# %% [markdown] id="spread-task"
# ### Exercise: mean and spread
#
# Write the function that each device runs to compute the mean and the standard deviation of *all* numbers.
# `spread(mine)` returns both, and they must be the same on every device. The standard deviation is the square root of
# the mean squared distance from the mean. The check tries 1, 2, 4 and 8 devices. It also counts bytes, because you may
# send single numbers but not strips.

# %% id="spread-exercise" tags=["exercise"]
def spread(mine):
    mean = deviation = jax.lax.pmean(0.0 * mine.sum(), "rows")
    ### BEGIN SOLUTION
    count = jax.lax.psum(mine.size, "rows")
    mean = jax.lax.psum(mine.sum(), "rows") / count
    deviation = jnp.sqrt(jax.lax.psum(((mine - mean) ** 2).sum(), "rows") / count)
    ### END SOLUTION
    return mean, deviation


both = jax.shard_map(spread, mesh=mesh, in_specs=P("rows"), out_specs=(P(), P()))
print(*(f"{value:.3f}" for value in both(plate)), "and NumPy:", f"{spot.mean():.3f} {spot.std():.3f}")

# %% id="spread-check"
check("spread", spread)

# %% [markdown] id="halo-text"
# ## 4. Neighbours: the halo
#
# Now we let the heat flow. In each step, the temperature of a cell moves a fifth of the way towards that of each of its
# four neighbours. Outside the plate it is cold, which is temperature 0. Here is the step on one device.

# %% id="one-device"
def flow(padded):
    """A step for the cells inside of an array that has one more row and column on each side."""
    middle = padded[1:-1, 1:-1]
    around = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
    return middle + 0.2 * (around - 4 * middle)


def step(temperature):
    return flow(jnp.pad(temperature, 1))


def repeat(step, plate, steps=200):
    return jax.jit(lambda t: jax.lax.fori_loop(0, steps, lambda _, t: step(t), t))(plate)


expected = repeat(step, jnp.asarray(spot, jnp.float32))
sent = messages(step, plate)
print(f"on the sharded plate, XLA adds {len(sent)} messages, {sum(size for _, size in sent):,} bytes to each device")

# %% [markdown] id="seams-predict" tags=["predict"]
# Across a seam, one row has to be sent each way, so each device receives at most 4,096 bytes. XLA sends far more,
# because it cuts the *padded* plate again, and its 514 rows are not divisible by eight. So we write the messages
# ourselves. Our first attempt is wrong, because each device pads only *its own strip*.
#
# *Predict:* where will the result be wrong, and how far does the error reach after 200 steps?

# %% id="seams-guess"
predict("seams",
        "nowhere: the strips are independent",
        "at the cuts; up to 200 rows",
        "at the cuts; one row")

# %% id="seams"
alone = jax.shard_map(step, mesh=mesh, in_specs=P("rows"), out_specs=P("rows"))
error = np.asarray(repeat(alone, plate) - expected)

figure, axes = canvas(9, 2.8)
drawn = axes.imshow(np.abs(error), cmap="viridis", aspect="auto")
axes.set(xlabel="column", ylabel="row", yticks=range(0, n, n // 8), title="what is wrong after 200 steps")
figure.colorbar(drawn, label="degrees")
worst = np.abs(error).max(axis=1)
Picture(figure, f"Map of the error: bands along the seams between strips, brightest next to the hot spot, "
                f"with up to {worst.max():.0f} degrees; {np.count_nonzero(worst > 1)} of {n} rows are off "
                "by more than one degree.")

# %% [markdown] id="seams-why" tags=["why"]
# It is wrong at the seams, where each strip treated its neighbour as the cold outside. From there the error spreads by
# one row per step. So the number of devices changes the answer, and no message tells you.

# %% [markdown] id="seams-then"
# The solution is a **halo**: before each step, a device receives the outermost rows of its neighbours, and pads its
# strip with them instead of with zeros.

# %% [markdown] id="halo-task"
# ### Exercise: a step with a halo
#
# Write `step_with_halo(mine)`, which does one device's part of a step. With `ppermute`, it sends its last row down to
# the next device and its first row up to the previous device. There is no device above the first one or below the last
# one, and there it is cold. Columns are padded with zeros as before. The check expects the exact result for 1, 2, 4 and
# 8 devices, and each device may receive only two rows.

# %% id="halo-exercise" tags=["exercise"]
def step_with_halo(mine):
    count = jax.lax.axis_size("rows")
    above = below = jnp.zeros_like(mine[:1])
    ### BEGIN SOLUTION
    above = jax.lax.ppermute(mine[-1:], "rows", [(k, k + 1) for k in range(count - 1)])
    below = jax.lax.ppermute(mine[:1], "rows", [(k + 1, k) for k in range(count - 1)])
    ### END SOLUTION
    tall = jnp.concatenate([above, mine, below])
    return flow(jnp.pad(tall, ((0, 0), (1, 1))))


together = jax.shard_map(step_with_halo, mesh=mesh, in_specs=P("rows"), out_specs=P("rows"))
print("as on one device:", jnp.allclose(repeat(together, plate), expected, atol=1e-3))
print("sent in a step:", messages(together, plate))

# %% id="halo-check"
check("halo", step_with_halo)

# %% [markdown] id="halo-why"
# Of a strip of 131,072 bytes, two rows of 2,048 bytes are sent, which is 3%. If the plate is twice as wide and twice as
# high, the share is half of that, because **the inside grows faster than the edge**. For this reason, large problems
# can be cut into parts. A message also has a fixed cost, whatever its length, so some codes send ten rows every ten
# steps, and two devices both compute the rows in the halo.

# %% [markdown] id="scaling-text"
# ## 5. What it costs as work grows
#
# A model with stated assumptions tells you more about the gain than a stopwatch. Ours uses **round numbers, not those
# of a particular machine**. A device reads and writes its own memory at 2 TB/s, and a step moves 8 bytes for each cell.
# A message takes 10 µs, plus its bytes at 50 GB/s. A step is done when the slowest device is done.

# %% [markdown] id="model-task"
# ### Exercise: the time of a step
#
# Write `step_time(n, devices, memory, link, latency)`, which returns the time in seconds for a plate of `n` × `n`
# float32. Three things matter.
#
# 1. A device in the middle sends and receives two rows, a device at the end only one, and a single device none. Count
#    one message for each neighbour, because a device sends and receives at the same time.
# 2. The number of rows is not always a multiple of the number of devices, and the longest strip determines the time.
# 3. A row has `4 * n` bytes.

# %% id="model-exercise" tags=["exercise"]
def step_time(n, devices, memory=2e12, link=50e9, latency=10e-6):
    seconds = None
    ### BEGIN SOLUTION
    rows = math.ceil(n / devices)  # of the longest strip
    neighbours = min(devices - 1, 2)
    seconds = 8 * n * rows / memory + neighbours * (latency + 4 * n / link)
    ### END SOLUTION
    return seconds

# %% id="model-check"
check("step-time", step_time)

# %% [markdown] id="strong-predict" tags=["predict"]
# People often confuse two questions. **Strong scaling** asks how much faster the same plate gets on more devices.
# **Weak scaling** asks how much slower a step gets if the plate grows with the number of devices.
#
# *Predict:* on 64 devices, is a step for a plate of 8192 × 8192 cells 64, 30, or 10 times as fast?

# %% id="scaling-guess"
predict("scaling", "64 times", "30 times", "10 times")

# %% id="scaling"
def draw_scaling(step_time, side=8192):
    many = 2 ** np.arange(9)
    figure, axes = canvas(10, 3, columns=2)
    for size, colour in ((side, COLOURS[5]), (4 * side, COLOURS[6])):
        speed_up = [step_time(size, 1) / step_time(size, int(p)) for p in many]
        axes[0].plot(many, speed_up, "o-", color=colour, label=f"{size} × {size}")
    axes[0].plot(many, many, ":", color="0.5", label="as many as devices")
    grown = [round(side * math.sqrt(p)) for p in many]
    efficiency = [step_time(side, 1) / step_time(size, int(p)) for size, p in zip(grown, many, strict=True)]
    axes[1].plot(many, efficiency, "o-", color=COLOURS[5], label="as much plate for each device")
    axes[0].set(yscale="log", xlabel="devices", ylabel="times as fast", title="strong: the same plate")
    axes[1].set(ylim=(0, 1.05), xlabel="devices", ylabel="efficiency", title="weak: a plate that grows")
    for one in axes:
        one.set_xscale("log", base=2)
        one.legend()
    at_64 = [step_time(size, 1) / step_time(size, 64) for size in (side, 4 * side)]
    return Picture(figure, f"A model. Strong scaling on 64 devices: {at_64[0]:.0f} times as fast for "
                           f"{side} × {side}, {at_64[1]:.0f} times for {4 * side} × {4 * side}. Weak scaling: "
                           f"efficiency {efficiency[0]:.2f} on one device, {efficiency[-1]:.2f} on 256.")


draw_scaling(step_time) if step_time(1, 1) else print("This needs step_time.")

# %% [markdown] id="scaling-why" tags=["why"]
# It is ten and a half times as fast. The strips get thinner, but each device still sends two messages with rows of the
# same length. The messages take 21.3 of the 25.5 µs of a step, and 20 µs of that are latency. More devices don't reduce
# the latency, so in the end it dominates.

# %% [markdown] id="strips-or-squares-predict" tags=["predict"]
# Two laws describe this for work of which a share *s* does not get faster with more devices.
#
# - By **Amdahl's** law of 1967, the same work is at most 1 / (*s* + (1 − *s*) / *p*) times as fast on *p* devices. With
#   *s* = 5%, that is never more than 20 times.
# - By **Gustafson's** law of 1988, *p* devices do *p* − *s* (*p* − 1) times the work in the same time. With *s* = 5%
#   and 64 devices, they do 61 times the work.
#
# The laws don't contradict each other, because they answer the two questions. If you buy GPUs to finish the *same* job
# sooner, Amdahl's law applies. If you want a finer grid or more events, Gustafson's does. In the right half of the
# picture the efficiency hardly falls, because each device has as much work as before.
#
# On 64 devices you could also cut the plate into 8 × 8 squares. A square has four neighbours instead of two, but
# shorter edges. *Predict:* do devices send fewer bytes with strips or with squares?

# %% id="strips-or-squares-guess"
predict("strips-or-squares", "strips: two neighbours instead of four", "squares")

# %% id="strips-or-squares"
def edge_bytes(n, devices, squares):
    """Bytes that a device in the middle sends in a step."""
    side = math.isqrt(devices)
    return 4 * 4 * (n // side) if squares else 2 * 4 * n


print(f"{'devices':>8}{'strips':>18}{'squares':>18}")
for p in (4, 16, 64, 256):
    print(f"{p:8}{edge_bytes(8192, p, False):10,} bytes, 2{edge_bytes(8192, p, True):9,} bytes, 4")

# %% [markdown] id="squares-why" tags=["why"]
# On four devices both send the same number of bytes. On more devices squares send fewer, because their edges shrink
# with the square root of the number of devices, while those of strips stay the same. But squares need twice as many
# messages, and in this model 10 µs is enough time to send half a megabyte. So strips win for our plate. Count both
# bytes and messages before you choose.

# %% [markdown] id="further" tags=["further"]
# The lesson ends here. Sections 6 and 7 go **further**, from one program on several GPUs to many processes and many computers.

# %% [markdown] id="dask-text"
# ## 6. Workers and tasks: Dask
#
# Not all work fits into one array. For example, to read a thousand files and fill a histogram from each is a thousand
# **tasks**. [Dask](https://docs.dask.org) gives tasks to *workers*, which are processes. If there are several GPUs,
# `dask_cuda.LocalCUDACluster()` starts a worker for each. The next cell starts two workers on your CPU, which takes
# some seconds.

# %% id="dask"
from distributed import Client, LocalCluster

cluster = LocalCluster(n_workers=2, threads_per_worker=1, memory_limit="500 MiB",
                       dashboard_address=":0", silence_logs="CRITICAL")
client = Client(cluster)
print(f"{len(client.scheduler_info()['workers'])} workers, in processes of their own:",
      len({os.getpid(), *client.run(os.getpid).values()}) == 3)

# %% [markdown] id="dask-predict" tags=["predict"]
# The *workers* create eight parts of 250,000 masses each, and fill a histogram from each part. Then they add the
# histograms in pairs until one is left. *Predict:* how many bytes are sent to your process, and how many would be if
# you gathered the masses and filled the histogram yourself?

# %% id="dask-histogram-guess"
predict("dask-histogram", "16 MB, and 16 MB", "about a kB, and 16 MB", "about 8 kB, and 16 MB")

# %% id="dask-histogram"
def make_masses(seed):
    return np.random.default_rng(seed).normal(91.2, 3.0, 250_000)


def fill(masses):
    return np.histogram(masses, 120, (60, 120))[0]


def add(left, right):
    return left + right


def received(result):
    return sum(part.nbytes for part in result) if isinstance(result, list) else result.nbytes


parts = client.map(make_masses, range(8))  # futures: names of results that stay where they are
level = client.map(fill, parts)
while len(level) > 1:
    level = [client.submit(add, *pair) for pair in zip(level[::2], level[1::2], strict=True)]
counts, masses = level[0].result(), client.gather(parts)
print(f"the histogram: {received(counts):10,} bytes to you; the masses: {received(masses):,}")
print("the same:", np.array_equal(counts, fill(np.concatenate(masses))))

# %% [markdown] id="dask-why" tags=["why"]
# A thousand bytes reach your process instead of sixteen million. **Move the work to the data**, and copy back only
# small results. Dask's scheduler helps, because it runs `fill` on the worker that holds the part.

# %% [markdown] id="dask-closure-predict" tags=["predict"]
# Now we look at the other direction. A function needs a table of 16 MB, and uses it as a global variable. *Predict:*
# how does the table reach the workers?

# %% id="dask-closure-guess"
predict("dask-closure",
        "the workers know it: it's a global",
        "it is sent inside the task, each time",
        "it is sent once")

# %% id="dask-closure"
import warnings

table = np.random.default_rng(1).normal(size=2_000_000)
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    client.submit(lambda k: table[k], 7).result()
print(str(heard[0].message).split("\n")[0])
there = client.scatter(table, broadcast=True)  # once to each worker
print("from the scattered table:", client.submit(lambda table, k: table[k], there, 7).result() == table[7])
client.close()
cluster.close()

# %% [markdown] id="dask-closure-why" tags=["why"]
# The table was sent *inside the task*, and would be sent again with every other task. When you see this warning, look
# for the variable. `scatter` sends the table once, and tasks refer to it.

# %% [markdown] id="dask-closure-then"
# With GPUs the rules are the same, but transfers are more expensive compared with the computation. Between workers, a
# CuPy array goes through the host, unless the cluster uses UCX. You choose UCX with `protocol="ucx"` and the package
# `distributed-ucxx`, and it uses NVLink if there is one. Because *a worker is a process*, other processes have no
# direct access to the GPU memory that it allocates.

# %% [markdown] id="mpi-text"
# ## 7. Many computers: MPI
#
# Computing centres use MPI, which starts the same program *p* times, as *ranks* 0 to *p* − 1, which send each other
# messages. Usually there is one rank for each GPU. We don't run it here, because it needs an MPI library and the
# command `mpirun -n 8 python heat.py`.
#
# **mpi4py** sends CuPy arrays directly from GPU to GPU, if the MPI library is "CUDA-aware". MPI does not wait for CUDA
# streams, so wait for the GPU first:
#
# ```python
# from mpi4py import MPI
# import cupy
#
# ranks = MPI.COMM_WORLD
# mine = cupy.full((64, 512), float(ranks.rank))
# local, total = mine.sum(), cupy.empty(())
# above, below = cupy.zeros(512), cupy.zeros(512)
# cupy.cuda.get_current_stream().synchronize()   # MPI must not touch what the GPU has yet to write
# ranks.Allreduce(local, total, op=MPI.SUM)      # psum
# up, down = ranks.rank - 1 if ranks.rank else MPI.PROC_NULL, (ranks.rank + 1) % ranks.size or MPI.PROC_NULL
# ranks.Sendrecv(mine[-1], dest=down, recvbuf=above, source=up)    # ppermute, downwards
# ranks.Sendrecv(mine[0], dest=up, recvbuf=below, source=down)     # and upwards
# ```
#
# **mpi4jax** offers the same calls as functions that `jax.jit` can compile. `mpi4jax.allreduce(x, op=MPI.SUM)` and
# `mpi4jax.sendrecv(mine[-1], above, source=up, dest=down)` return the result, because JAX's arrays cannot be written
# to. Older programs pass a *token* from call to call to keep them in order, which JAX now does automatically. **JAX
# alone** can also use more than one computer. Each process calls `jax.distributed.initialize()`, and then
# `jax.devices()` lists the GPUs of all processes. Meshes, `shard_map` and everything else in this lecture stay the
# same, and NVIDIA's NCCL carries the messages.
#
# | | you write | who sends | for |
# |---|---|---|---|
# | sharded arrays and `jit` | code for the whole array | XLA | regular arrays, several GPUs; try this first |
# | `shard_map` | code for one device's part | you | programs in which XLA sends too much |
# | streams, one process, several GPUs | code for every GPU, `with cuda.gpus[k]:` | you | pipelines; two or three GPUs |
# | Dask | tasks | the scheduler | many files, tables, uneven work |
# | MPI | code for one rank | you | whole computing centres, existing MPI programs |

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - A mesh, a partition spec and an array make a sharded array. XLA adds the messages, and the compiled program shows
#   them, so look for an all-gather.
# - In `shard_map` you write the work of one device, which sends with `psum` and `ppermute`. A stencil needs the
#   outermost rows of its neighbours, the halo.
# - By Amdahl's law, the same work gets no faster when the part that does not shrink dominates. By Gustafson's law, work
#   that grows keeps the devices busy. Edges grow more slowly than the area inside.
# - Move the work to the data, and send only small results.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - JAX: [sharded arrays](https://docs.jax.dev/en/latest/201/sharding.html),
#   [shard_map](https://docs.jax.dev/en/latest/notebooks/shard_map.html), and [several
#   processes](https://docs.jax.dev/en/latest/multi_process.html).
# - Dask's documentation of [distributed](https://distributed.dask.org) workers, and of
#   [Dask-CUDA](https://docs.rapids.ai/api/dask-cuda/stable/).
# - [mpi4py](https://mpi4py.readthedocs.io) on GPU-aware MPI, [mpi4jax](https://mpi4jax.readthedocs.io).
# - G. M. Amdahl, *Validity of the single processor approach* of 1967, which has three pages, and J. L. Gustafson,
#   *Reevaluating Amdahl's law* of 1988, which has two.

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 50 minutes
#
# | minutes | what |
# |---|---|
# | 0-13 | the question and section 1, with `cut`; let people place a plate on a 2 × 4 mesh on the board |
# | 13-24 | section 2; vote on every operation before the cell runs |
# | 24-39 | sections 3 and 4; `spread` alone, `halo` in pairs |
# | 39-50 | section 5; `step-time`, and the plot |
#
# Sections 6 and 7, shown, take another 10 minutes.
#
# *Ten minutes late:* skip the matrix product.
#
# *Where people get stuck.* If JAX was imported before the flag was set, there is only one device and the mesh raises an
# error, so restart the kernel. In `spread`, the mean of eight standard deviations looks reasonable and is too small. In
# `halo`, people mix up the pairs of `ppermute`, which are (from, to), or send the first row *down* instead of the last.
#
# *Frequent questions.* "Is `pmap` gone?" It still exists for old programs, but sharding and `shard_map` have replaced
# it. `xmap` is gone. "Do eight CPU devices make it faster?" No, because all eight devices share the same cores. "How do
# I choose a GPU?" Use `with jax.default_device(…)`, `with cuda.gpus[1]:` or `with cupy.cuda.Device(1):`, or set
# `CUDA_VISIBLE_DEVICES=1` for the whole process. "Does PyTorch do this?" It does, under the names
# `DistributedDataParallel` and `DTensor`.
#
# *What goes wrong.* The workers of section 6 are processes, and an interrupted cell leaves them behind until the kernel
# ends.
