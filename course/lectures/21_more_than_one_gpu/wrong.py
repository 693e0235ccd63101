"""Wrong answers to the exercises of "More than one GPU", with what the check must say of each.

Those that need eight devices are tried in a process that has them (see ``lecture_cells``).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from wrong_answers import collection, swap

WRONG, wrong = collection("21_more_than_one_gpu")

# --- cut ----------------------------------------------------------------------------------------

wrong("cut", "each device has .*at which position of the spec", "always along the rows")(
    swap("P(*[None] * axis, mesh.axis_names[0])", "P(mesh.axis_names[0])"))
wrong("cut", "is not found in mesh", "the name of the example")(
    swap("P(*[None] * axis, mesh.axis_names[0])", 'P(*[None] * axis, "rows")'))
wrong("cut", "each device has", "all of it on each")(
    swap("P(*[None] * axis, mesh.axis_names[0])", "P()"))
wrong("cut", "the array is on 8 devices", "the mesh of the example")(
    swap("NamedSharding(mesh, spec)",
         "NamedSharding(jax.make_mesh((8,), (spec[-1],), axis_types=(AxisType.Auto,)), spec)"))


@wrong("cut", "returns an ndarray, not a JAX array")
def on_the_host(array, mesh, axis):
    return np.concatenate(np.array_split(array, mesh.size, axis), axis)


@wrong("cut", "the array is on 1 device")
def on_one_device(array, mesh, axis):
    return jnp.asarray(array)


@wrong("cut", "the array has changed")
def turned_over(array, mesh, axis):
    rows = jax.device_put(np.moveaxis(array, axis, 0), NamedSharding(mesh, P(*mesh.axis_names)))
    return rows if axis else rows[::-1]


@wrong("cut", "the array has changed")
def as_float32(array, mesh, axis):
    spec = P(*[None] * axis, mesh.axis_names[0])
    return jax.device_put(array.astype(np.float32), NamedSharding(mesh, spec))


# --- spread -------------------------------------------------------------------------------------


@wrong("spread", "ignores the differences between the strips' means")
def mean_of_spreads(mine):
    return jax.lax.pmean(mine.mean(), "rows"), jax.lax.pmean(mine.std(), "rows")


@wrong("spread", "which require replication.*makes it the same on every device")
def own_strip_only(mine):
    return mine.mean(), mine.std()


@wrong("spread", "how many there are on .all. devices")
def divides_by_its_own_count(mine):
    mean = jax.lax.psum(mine.sum(), "rows") / mine.size
    return mean, jnp.sqrt(jax.lax.psum(((mine - mean) ** 2).sum(), "rows") / mine.size)


@wrong("spread", "take the square root")
def variance(mine):
    mean = jax.lax.pmean(mine.mean(), "rows")
    return mean, jax.lax.pmean(((mine - mean) ** 2).mean(), "rows")


@wrong("spread", "send only sums")
def gathers_all(mine):
    everything = jax.lax.all_gather(mine, "rows")
    return (
        jax.lax.pmean(everything.mean(), "rows"),
        jax.lax.pmean(everything.std(), "rows"),
    )


@wrong("spread", 'the name "rows"')
def wrong_axis(mine):
    mean = jax.lax.pmean(mine.mean(), "x")
    return mean, jnp.sqrt(jax.lax.pmean(((mine - mean) ** 2).mean(), "x"))


@wrong("spread", "how many there are on .all. devices")
def thirty_numbers_on_each(mine):
    count = jax.lax.psum(30.0, "rows")
    mean = jax.lax.psum(mine.sum(), "rows") / count
    return mean, jnp.sqrt(jax.lax.psum(((mine - mean) ** 2).sum(), "rows") / count)


@wrong("spread", "sends in every iteration of a loop")
def number_by_number(mine):
    def total(values):
        start = jax.lax.psum(0.0 * values.sum(), "rows")
        return jax.lax.fori_loop(
            0, values.size, lambda k, known: known + jax.lax.psum(values.ravel()[k], "rows"), start)

    count = jax.lax.psum(mine.size, "rows")
    mean = total(mine) / count
    return mean, jnp.sqrt(total((mine - mean) ** 2) / count)


# --- halo ---------------------------------------------------------------------------------------


def stepper(down, up, last=slice(-1, None), first=slice(None, 1)):
    """A step whose rows travel along these pairs, functions of the number of devices."""

    def step(mine):
        count = jax.lax.axis_size("rows")
        above = jax.lax.ppermute(mine[last], "rows", down(count))
        below = jax.lax.ppermute(mine[first], "rows", up(count))
        return flow(jnp.pad(jnp.concatenate([above, mine, below]), ((0, 0), (1, 1))))

    return step


def flow(padded):
    middle = padded[1:-1, 1:-1]
    around = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
    return middle + 0.2 * (around - 4 * middle)


def forward(count):
    return [(k, k + 1) for k in range(count - 1)]


def backward(count):
    return [(k + 1, k) for k in range(count - 1)]


def ring(count):
    return [(k, (k + 1) % count) for k in range(count)]


def ring_back(count):
    return [((k + 1) % count, k) for k in range(count)]


wrong("halo", "the first and the last strip are not neighbours", "a ring")(stepper(ring, ring_back))
wrong("halo", "from which device|did not arrive", "to and from swapped")(stepper(backward, forward))
wrong("halo", "which row of that device|did not arrive", "first and last row swapped")(
    stepper(forward, backward, slice(None, 1), slice(-1, None))
)
wrong("halo", "neighbouring row from the other device did not arrive", "downwards only")(
    stepper(forward, lambda count: [])
)


@wrong("halo", "neighbouring row from the other device did not arrive")
def no_halo(mine):
    return flow(jnp.pad(mine, 1))


@wrong("halo", "send one row to a neighbour, not the whole strip")
def sends_strips(mine):
    count = jax.lax.axis_size("rows")
    above = jax.lax.ppermute(mine, "rows", forward(count))[-1:]
    below = jax.lax.ppermute(mine, "rows", backward(count))[:1]
    # What keeps XLA from sending only the rows that are used.
    above = above + 0 * jax.lax.ppermute(mine, "rows", forward(count)).sum()
    return flow(jnp.pad(jnp.concatenate([above, mine, below]), ((0, 0), (1, 1))))


@wrong("halo", "send one row to a neighbour, not the whole strip")
def gathers_the_plate(mine):
    count, k = jax.lax.axis_size("rows"), jax.lax.axis_index("rows")
    everything = jax.lax.all_gather(mine, "rows", tiled=True)
    tall = jnp.pad(everything, 1)
    return jax.lax.dynamic_slice_in_dim(flow(tall), k * mine.shape[0], mine.shape[0]) + 0 * count


@wrong("halo", "has the shape")
def keeps_the_halo(mine):
    count = jax.lax.axis_size("rows")
    above = jax.lax.ppermute(mine[-1:], "rows", forward(count))
    below = jax.lax.ppermute(mine[:1], "rows", backward(count))
    return flow(jnp.pad(jnp.concatenate([above, mine, below]), 1))


wrong("halo", "is wrong: row|incompatible|shape", "strips of four rows")(
    stepper(forward, backward, slice(3, 4)))


@wrong("halo", "is wrong: row")
def no_frost(mine):
    count = jax.lax.axis_size("rows")
    above = jax.lax.ppermute(mine[-1:], "rows", forward(count))
    below = jax.lax.ppermute(mine[:1], "rows", backward(count))
    warm = jnp.maximum(jnp.concatenate([above, mine, below]), 0).at[1:-1].set(mine)
    return flow(jnp.pad(warm, ((0, 0), (1, 1))))


@wrong("halo", "sends in every iteration of a loop.*not the whole strip")
def sends_strips_row_by_row(mine):
    count = jax.lax.axis_size("rows")

    def send(k, come):
        above, below = come
        return (above.at[k].set(jax.lax.ppermute(mine[k], "rows", forward(count))),
                below.at[k].set(jax.lax.ppermute(mine[k], "rows", backward(count))))

    above, below = jax.lax.fori_loop(0, mine.shape[0], send, (0 * mine, 0 * mine))
    return flow(jnp.pad(jnp.concatenate([above[-1:], mine, below[:1]]), ((0, 0), (1, 1))))


# --- step-time ----------------------------------------------------------------------------------


@wrong("step-time", "a single device sends nothing")
def one_device_talks(n, devices, memory, link, latency):
    return 8 * n * math.ceil(n / devices) / memory + 2 * (latency + 4 * n / link)


@wrong("step-time", "the longest strip")
def parts_of_rows(n, devices, memory, link, latency):
    return 8 * n * n / devices / memory + min(devices - 1, 2) * (latency + 4 * n / link)


@wrong("step-time", "there are 2 neighbours; each costs the latency")
def one_message(n, devices, memory, link, latency):
    return 8 * n * math.ceil(n / devices) / memory + (devices > 1) * (latency + 4 * n / link)


@wrong("step-time", "all pairs of neighbours exchange their rows at the same time")
def one_seam_after_the_other(n, devices, memory, link, latency):
    return 8 * n * math.ceil(n / devices) / memory + (devices - 1) * (latency + 4 * n / link)


@wrong("step-time", "each costs the latency")
def no_latency(n, devices, memory, link, latency):
    return 8 * n * math.ceil(n / devices) / memory + min(devices - 1, 2) * 4 * n / link


@wrong("step-time", "each costs the latency|longest strip")
def rounds_down(n, devices, memory, link, latency):
    return 8 * n * (n // devices) / memory + min(devices - 1, 2) * (latency + 4 * n / link)


@wrong("step-time", "the step takes .*it should be")
def few_devices_alone(n, devices, memory, link, latency):
    rows = {1: n, 2: n / 2, 3: math.ceil(n / 3), 4: n / 4, 64: math.ceil(n / 64)}.get(devices, n)
    return 8 * n * rows / memory + min(devices - 1, 2) * (latency + 4 * n / link)
