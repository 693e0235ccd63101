"""Right answers to the exercises of "More than one GPU" in other styles than the lecture's.

Those that need eight devices are tried in a process that has them (see ``lecture_cells``).
"""

from __future__ import annotations

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from wrong_answers import other_styles

RIGHT, right = other_styles("21_more_than_one_gpu")

# --- cut ----------------------------------------------------------------------------------------


@right("cut")
def with_a_name_for_each_axis(array, mesh, axis):
    (name,) = mesh.axis_names
    spec = P(*(name if k == axis else None for k in range(array.ndim)))
    return jax.device_put(array, NamedSharding(mesh, spec))


@right("cut")
def by_the_parts(array, mesh, axis):
    parts = np.split(np.asarray(array), mesh.size, axis)
    sharding = NamedSharding(mesh, P(*(None,) * axis, *mesh.axis_names))
    return jax.make_array_from_single_device_arrays(
        array.shape, sharding, [*map(jax.device_put, parts, mesh.devices.flat)])


@right("cut")
def compiled(array, mesh, axis):
    sharding = NamedSharding(mesh, P(*[None] * axis, *mesh.axis_names))
    return jax.jit(lambda x: x + 0, out_shardings=sharding)(array)


# --- spread -------------------------------------------------------------------------------------


@right("spread")
def by_means_of_means(mine):
    mean = jax.lax.pmean(jnp.mean(mine), axis_name="rows")
    return mean, jax.lax.pmean(jnp.mean(jnp.square(mine - mean)), axis_name="rows") ** 0.5


@right("spread")
def within_the_strips_and_between(mine):
    own = mine.mean()
    # Every strip has as many numbers, so means of means will do.
    mean, within = jax.lax.pmean((own, mine.var()), "rows")
    return mean, jnp.sqrt(within + jax.lax.pmean((own - mean) ** 2, "rows"))


@right("spread")
def by_squares(mine):
    first = jax.lax.pmean(mine.mean(), "rows")  # near the mean, so that squares stay small
    count, total, squares = jax.lax.psum(
        jnp.stack([jnp.float32(mine.size), (mine - first).sum(), ((mine - first) ** 2).sum()]),
        "rows")
    return first + total / count, jnp.sqrt(squares / count - (total / count) ** 2)


# --- halo ---------------------------------------------------------------------------------------


@right("halo")
def a_ring_with_cold_ends(mine):
    count, me = jax.lax.axis_size("rows"), jax.lax.axis_index("rows")
    ring = [(k, (k + 1) % count) for k in range(count)]
    above = jax.lax.ppermute(mine[-1:], "rows", ring)
    below = jax.lax.ppermute(mine[:1], "rows", [(to, source) for source, to in ring])
    above = jnp.where(me == 0, 0.0, above)
    below = jnp.where(me == count - 1, 0.0, below)
    t = jnp.pad(jnp.vstack([above, mine, below]), ((0, 0), (1, 1)))
    return 0.2 * (t[1:-1, 1:-1] + t[:-2, 1:-1] + t[2:, 1:-1] + t[1:-1, :-2] + t[1:-1, 2:])


@right("halo")
def into_a_larger_array(mine):
    devices = range(jax.lax.axis_size("rows"))
    down = list(pairwise(devices))
    up = list(pairwise(reversed(devices)))
    t = jnp.pad(mine, 1)
    t = t.at[0, 1:-1].set(jax.lax.ppermute(mine[-1], "rows", down))
    t = t.at[-1, 1:-1].set(jax.lax.ppermute(mine[0], "rows", up))
    flows = jnp.diff(t[:, 1:-1], 2, axis=0) + jnp.diff(t[1:-1], 2, axis=1)
    return mine + 0.2 * flows


@right("halo")
def what_comes_is_added(mine):
    def shifted(rows, step):
        pairs = [(k, k + step) for k in range(count) if 0 <= k + step < count]
        return jax.lax.ppermute(rows, "rows", pairs)

    count = jax.lax.axis_size("rows")
    alone = jnp.pad(mine, 1)
    around = alone[:-2, 1:-1] + alone[2:, 1:-1] + alone[1:-1, :-2] + alone[1:-1, 2:]
    around = around.at[0].add(shifted(mine[-1], 1)).at[-1].add(shifted(mine[0], -1))
    return mine + (around - 4 * mine) / 5


# --- step-time ----------------------------------------------------------------------------------


@right("step-time")
def by_cases(n, devices, memory, link, latency):
    rows = -(-n // devices)
    work = rows * n * 8 / memory
    match devices:
        case 1:
            return work
        case 2:
            return work + latency + n * 4 / link
        case _:
            return work + 2 * (latency + n * 4 / link)


@right("step-time")
def the_slowest_of_all(n, devices, memory, link, latency):
    def takes(device, rows):
        neighbours = (device > 0) + (device < devices - 1)
        return 2 * 4 * n * rows / memory + neighbours * (latency + 4 * n / link)

    # The longest strip lies in the middle, if there is a middle.
    strips = sorted(map(len, np.array_split(np.arange(n), devices)))
    strips = strips[::2] + strips[1::2][::-1]
    return np.max([takes(device, rows) for device, rows in enumerate(strips)])
