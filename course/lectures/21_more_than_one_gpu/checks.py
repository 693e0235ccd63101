"""Checks and hints of "More than one GPU"."""

from __future__ import annotations

import math
import re

import numpy as np

from gpucourse.exercises.checks import exercise, require
from gpucourse.wording import a_or_an, is_not, seconds
from gpucourse.wording import many

#: Sizes of the meshes that answers are tried on.
DEVICES = (8, 1, 2, 4)


@exercise(
    "cut",
    hints=(
        "The idea: a spec has one entry for each axis of the array, which names the axis of the mesh along "
        "which it is cut. The entry is `None` for an axis that is not cut.",
        "The shape: `P(*[None] * axis, mesh.axis_names[0])`, and `jax.device_put(array, "
        "NamedSharding(mesh, …))`.",
    ),
)
def cut(function):
    """Every device holds its own part, along any axis."""
    import jax
    from jax.sharding import AxisType, NamedSharding
    from jax.sharding import PartitionSpec as P

    random = np.random.default_rng(120)
    for count, name in zip(DEVICES, ("rows", "x", "strips", "parts"), strict=True):
        mesh = jax.make_mesh((count,), (name,), axis_types=(AxisType.Auto,),
                             devices=_devices(count))
        for shape in ((16,), (8, 24), (24, 8, 16)):
            for axis in range(len(shape)):
                dtype = (np.float32, np.int32)[(len(shape) + axis) % 2]
                array = random.normal(0, 1000, shape).astype(dtype)
                got = function(array, mesh, axis)
                case = f"with an array of {shape} and {many(count, 'device')}, axis {axis}"
                require(
                    isinstance(got, jax.Array),
                    f"{case}: the function returns {a_or_an(type(got).__name__)}, not a JAX array",
                    look="return the array that `jax.device_put(array, …)` makes",
                )
                require(
                    got.shape == shape and got.dtype == dtype and np.array_equal(np.asarray(got), array),
                    f"{case}: the array has changed",
                    look="change only the placement of the array, not its values",
                )
                wanted = NamedSharding(mesh, P(*[None] * axis, name))
                parts = {one.device: one.data.shape for one in got.addressable_shards}
                require(
                    len(parts) == count,
                    f"{case}: the array is on {len(parts)} device{'s' * (len(parts) > 1)}",
                    look="pass the function's mesh to NamedSharding",
                )
                require(
                    got.sharding.is_equivalent_to(wanted, len(shape)),
                    f"{case}: each device has {next(iter(parts.values()))}, not "
                    f"{wanted.shard_shape(shape)}",
                    look="at which position of the spec should the name of the mesh's axis be?",
                )


def _devices(count):
    """So many devices of JAX."""
    import jax

    devices = jax.devices()
    if len(devices) < count:
        devices = jax.devices("cpu")
    require(
        len(devices) >= count,
        f"JAX has started with {len(devices)} device{'s' * (len(devices) > 1)}",
        look="restart the kernel and run the first cell before anything else",
    )
    return devices[:count]


@exercise(
    "spread",
    hints=(
        "The idea: which sums over all devices does the mean need? Once every device has the mean, each "
        "device can add up the squared distances of its own numbers from it.",
        "The shape: `jax.lax.psum(…, \"rows\")` of `mine.size`, of `mine.sum()`, and then of "
        "`((mine - mean) ** 2).sum()`.",
    ),
)
def spread(function):
    """Mean and spread of all, on every device, with a few numbers sent."""
    from jax.sharding import PartitionSpec as P

    random = np.random.default_rng(121)
    for count, rows, columns in zip(DEVICES, (6, 9, 1, 7), (5, 3, 11, 8), strict=True):
        # Each strip around a mean of its own: the spread between strips counts too.
        strips = random.normal(size=(count, rows, columns)) + 10.0 * np.arange(count)[:, None, None]
        values = strips.reshape(rows * count, columns).astype(np.float32)
        mapped, put = _mapped(function, count, P("rows"), (P(), P()))
        got = [float(one) for one in mapped(put(values))]
        require(len(got) == 2, f"the function returns {many(len(got), 'number')}; it should return two, the mean and the spread")
        true = (float(values.mean()), float(values.std()))
        for name, one, right in zip(("mean", "spread"), got, true, strict=True):
            if abs(one - right) <= 1e-3:
                continue
            clue = ("the mean of the standard deviations ignores the differences between the "
                "strips' means")
            if name == "mean":
                clue = "divide the sum of all numbers by how many there are on *all* devices"
            elif abs(one - right**2) <= 1e-2:
                clue = "did you take the square root?"
            require(False, f"on {many(count, 'device')}, the {name} {is_not(one, right)}",
                    look=clue)
    _demand_little(mapped, put(values), 256, "send only sums, not the numbers themselves")


@exercise(
    "halo",
    hints=(
        "The idea: the row that device k needs from above is the last one of device k - 1. So "
        "each device sends its last row to the next, and its first row to the one before.",
        "The shape: `above = jax.lax.ppermute(mine[-1:], \"rows\", [(k, k + 1) for k in "
        "range(count - 1)])`. For `below`, send the first row in the opposite direction.",
    ),
)
def halo(function):
    """As on one device, whatever the number of strips; two rows in flight."""
    from jax.sharding import PartitionSpec as P

    random = np.random.default_rng(122)
    for count, height in zip(DEVICES, (4, 3, 1, 5), strict=True):
        plate = random.uniform(-100, 100, (height * count, 7)).astype(np.float32)
        mapped, put = _mapped(function, count, P("rows"), P("rows"))
        got = np.asarray(mapped(put(plate)))
        require(got.shape == plate.shape, f"the result has the shape {got.shape}, but the plate has the shape "
                                          f"{plate.shape}")
        cold = np.pad(plate, 1)
        around = cold[:-2, 1:-1] + cold[2:, 1:-1] + cold[1:-1, :-2] + cold[1:-1, 2:]
        expected = plate + 0.2 * (around - 4 * plate)
        rows = np.flatnonzero(~np.isclose(got, expected, atol=1e-3).all(axis=1))
        if not rows.size:
            continue
        row = rows[0]
        mine, place = divmod(int(row), height)
        too_much = 5 * (got - expected)[row]
        case = f"on {many(count, 'device')}, row {row} is wrong: row {place} of device {mine}"
        across = plate[(row - 1 if place == 0 else row + 1) % len(plate)]
        if row in (0, len(plate) - 1) and np.allclose(too_much, across, atol=0.1):
            clue = "the plate is cold outside: the first and the last strip are not neighbours"
        elif np.allclose(-too_much, across, atol=0.1):
            clue = "the neighbouring row from the other device did not arrive"
        else:
            clue = ("from which device does the received row come, and which row of that device "
                "is it?")
        require(False, case, look=clue)
    wide = np.zeros((32, 500), np.float32)
    mapped, put = _mapped(function, 8, P("rows"), P("rows"))
    _demand_little(mapped, put(wide), 2 * 4 * 500, "send one row to a neighbour, not the whole strip")


@exercise(
    "step-time",
    hints=(
        "The idea: add two times, the time of the memory for the longest strip, and the time of "
        "the messages for a device with the largest number of neighbours.",
        "The shape: `rows = math.ceil(n / devices)`, `8 * n * rows / memory`, and a number of "
        "neighbours (0, 1 or 2) times `latency + 4 * n / link`.",
    ),
)
def step_time(function):
    """The slowest device's memory and messages, for one device, two and many."""
    random = np.random.default_rng()
    for n, devices, memory, link, latency in (
        (1000, 1, 1e12, 1e10, 1e-5), (1000, 2, 1e12, 1e10, 1e-5), (1000, 4, 1e12, 1e10, 1e-5),
        (1000, 3, 1e12, 1e10, 0.0), (100, 64, 1e12, 1e10, 1e-5), (8192, 64, 2e12, 50e9, 10e-6),
        *((int(random.integers(8, most)), devices, 1e12 * random.uniform(0.5, 4),
           1e10 * random.uniform(0.5, 9), 1e-6 * random.uniform(1, 20))
          for most, devices in ((99, 4), (9000, 2), (9000, 5), (9000, 48))),
    ):
        got = function(n, devices, memory, link, latency)
        neighbours = min(devices - 1, 2)
        work = 8 * n * math.ceil(n / devices) / memory
        talk = neighbours * (latency + 4 * n / link)
        if got is not None and math.isclose(got, work + talk, rel_tol=1e-6):
            continue
        case = f"for n = {n} on {devices} device{'s' if devices > 1 else ''}"
        require(got is not None, f"{case}, the answer is None")
        told = f"{case}, the step takes {seconds(got, 4)}; it should be {seconds(work + talk, 4)}"
        if devices == 1:
            clue = "a single device sends nothing, so count only 8 bytes for each of the n × n cells"
        elif math.isclose(got, 8 * n * n / devices / memory + talk, rel_tol=1e-6):
            clue = "a row is never split, so the other devices wait for the longest strip"
        elif math.isclose(got - work, (devices - 1) * (latency + 4 * n / link), rel_tol=1e-6):
            clue = ("count one transfer time: all pairs of neighbours exchange their rows at the "
                "same time")
        else:
            clue = f"there {'are' if neighbours > 1 else 'is'} {neighbours} neighbour{'s' * (neighbours > 1)}; each costs the latency, plus " \
                   "the time of 4 * n bytes"
        require(False, told, look=clue)


def _mapped(function, count, in_specs, out_specs):
    """The function on a mesh of so many devices, and what puts an array there by rows."""
    import jax
    from jax.sharding import AxisType, NamedSharding
    from jax.sharding import PartitionSpec as P

    mesh = jax.make_mesh((count,), ("rows",), axis_types=(AxisType.Auto,), devices=_devices(count))
    mapped = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs))
    try:
        mapped.lower(jax.ShapeDtypeStruct((4 * count, 7), np.float32))
    except AssertionError as error:  # what JAX has to say of an axis that it does not know
        require(str(error), "psum or ppermute gets the name of an axis that the mesh does not have",
                look='use the name "rows", the only axis of this mesh')
        raise
    except ValueError as error:
        require("statically inferred" not in str(error),
                "JAX cannot tell that the result is the same on every device, as out_specs says: "
                "“which require replication”",
                look=("use psum (or pmean) for each result, which makes it the same on every "
                "device; JAX does not accept a gathered value, or one from a single device, "
                "as the same everywhere"))
        raise
    return mapped, lambda values: jax.device_put(values, NamedSharding(mesh, P("rows")))


def _demand_little(mapped, values, most: int, look: str) -> None:
    """Require that what each device gets in messages has at most so many bytes."""
    text = mapped.lower(values).compile().as_text()
    found = re.findall(
        r"= (.+?) (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)"
        r"(?:-start)?\(", text,
    )
    size = sum(
        4 * math.prod(int(k) for k in sides.split(",") if k)
        for shapes, _ in found
        for sides in re.findall(r"\w\d+\[([\d,]*)\]", shapes)
    )
    kinds = ", ".join(sorted({kind for _, kind in found}))
    # What a loop does stands before the entry, once for all of its turns.
    inner = re.search(rf"\b({'|'.join({kind for _, kind in found} or '-')})(-start)?\(",
                      text.partition("\nENTRY")[0])
    require(not inner, "the answer is right, but the function sends in every iteration of a loop",
            look=look)
    require(size <= most, f"the answer is right, but each device receives {many(size, 'byte')} ({kinds}); "
                          f"{most:,} are enough", look=look)
