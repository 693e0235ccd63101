"""Two ocean model programs for jaxpile and jax.jit: isoneutral mixing and turbulent energy.

They are written from the papers. The pyhpc benchmarks measure the same two schemes in the version
of the Veros model; the constants are the same, but the code is not. Arrays are (x, y, z), z
upwards, with two cells of margin on each side in x and y. A function computes with NumPy for NumPy
arrays (also long double) and with JAX for JAX arrays, and tests compare the two.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

INSIDE = (slice(2, -2), slice(2, -2))


# --- the same operations for NumPy and JAX -----------------------------------------------------


def library(array):
    return np if isinstance(array, np.ndarray) else jnp


def put(array, where, value, add: bool = False):
    """Return a copy of the array in which a part is replaced or increased."""
    if not isinstance(array, np.ndarray):
        return array.at[where].add(value) if add else array.at[where].set(value)
    array = array.copy()
    array[where] = array[where] + value if add else value
    return array


def scan(step, carry, rows, reverse: bool = False):
    """Scan over a tuple of arrays with a step whose carry is also its row."""
    if not isinstance(rows[0], np.ndarray):
        return jax.lax.scan(step, carry, rows, reverse=reverse)[1]
    order = range(len(rows[0]))[:: -1 if reverse else 1]
    made = {}
    for k in order:
        carry, made[k] = step(carry, tuple(row[k] for row in rows))
    made = [made[k] for k in range(len(rows[0]))]
    if isinstance(carry, tuple):
        return tuple(map(np.stack, zip(*made, strict=True)))
    return np.stack(made)


def sideways(array):
    """Exchange x and y, so that code for x works on y."""
    return array.swapaxes(0, 1)


# --- isoneutral mixing -------------------------------------------------------------------------


def gradients(field, water, distance):
    """Return differences at the cells' far faces along x; zero at land and at the last face."""
    change = water[1:] * water[:-1] * (field[1:] - field[:-1]) / distance[:-1, None, None]
    return put(library(field).zeros_like(field), slice(None, -1), change)


def slopes(derivatives, across, upwards):
    """Return the isopycnal slope and the taper of Danabasoglu and McWilliams (1995)."""
    xp = library(across[0])
    horizontal = derivatives[0] * across[0] + derivatives[1] * across[1]
    vertical = derivatives[0] * upwards[0] + derivatives[1] * upwards[1]
    slope = -horizontal / (xp.minimum(0.0, vertical) - 1e-20)
    return slope, 0.5 * (1 + xp.tanh((1e-3 - xp.abs(slope)) / 1e-3))


def parts(arrays, *where):
    return [array[where] for array in arrays]


def at_faces(derivatives, across, upwards, mixing, water, dz):
    """Return the tensor's diagonal and the tapered slopes at faces along x: (x, y, z, 2, 2)."""
    xp = library(water)
    face, rows = slice(1, -2), slice(2, -2)
    wet = water[1:-2, rows] * water[2:-1, rows]
    level = 0.5 * (mixing[1:-2, rows] + mixing[2:-1, rows])
    local = put(
        level,
        (slice(None), slice(None), slice(1, None)),
        0.5 * (level[:, :, 1:] + level[:, :, :-1]),
    )
    total, found = xp.zeros_like(wet), xp.zeros((*water.shape, 2, 2), water.dtype)
    for side in (0, 1):  # the cell before the face, and the one behind it
        cell = slice(1 + side, -2 + side)
        for top in (0, 1):  # the gradient below the cell's centre, and the one above
            z, w = slice(1 - top, None), slice(None, None if top else -1)
            slope, taper = slopes(
                parts(derivatives, cell, rows, z),
                parts(across, face, rows, z),
                parts(upwards, cell, rows, w),
            )
            total = put(
                total,
                (slice(None), slice(None), z),
                dz[w] * wet[:, :, z] * xp.maximum(50.0, local[:, :, z] * taper),
                add=True,
            )
            found = put(found, (face, rows, z, side, top), taper * slope * wet[:, :, z])
    return put(xp.zeros_like(water), (face, rows), total / (4 * dz)), found


def at_tops(derivatives, across, upwards, mixing, water, dx):
    """Return the slopes at the cells' tops along x, and their share of vertical diffusivity."""
    xp = library(water)
    below = slice(None, -1)
    wet = water[INSIDE][:, :, :-1] * water[INSIDE][:, :, 1:]
    total, found = xp.zeros_like(wet), xp.zeros((*water.shape, 2, 2), water.dtype)
    for up in (0, 1):  # the cell below the face, and the one above
        z = slice(up, -1 + up or None)
        for side in (0, 1):
            face = slice(1 + side, -3 + side)
            slope, taper = slopes(
                parts(derivatives, *INSIDE, z),
                parts(across, face, INSIDE[1], z),
                parts(upwards, *INSIDE, below),
            )
            total = total + (
                dx[face, None, None] * mixing[INSIDE][:, :, :-1] * taper * slope**2 * wet
            )
            found = put(found, (*INSIDE, below, side, up), taper * slope * wet)
    return total / (4 * dx[2:-2, None, None]), found


def isoneutral_mixing(salinity, temperature, water, mixing, depth, dx, dy, dz):
    """Return the mixing tensor's diagonal (three arrays) and four arrays of triad slopes.

    Griffies, Gnanadesikan, Pacanowski and others (1998), "Isoneutral diffusion in a z-coordinate
    ocean model": each face has four triads of one cell and two gradients. ``water`` is 1 in water
    and 0 on land, ``mixing`` is a diffusivity [m²/s], and the other arguments are in metres; the
    density follows Vallis (2006).
    """
    xp = library(water)
    by_temperature = (
        -1024.0
        * water
        * (1e-5 * (temperature - 9.85) + 1.67e-4 * (1 + 1.1e-8 * 9.81 * 1024.0 * depth))
    )
    derivatives = by_temperature, 0.78e-3 * 1024.0 * water
    fields = temperature, salinity
    along_x = [gradients(field, water, dx) for field in fields]
    along_y = [gradients(sideways(field), sideways(water), dy) for field in fields]
    upwards = [
        xp.moveaxis(gradients(xp.moveaxis(field, 2, 0), xp.moveaxis(water, 2, 0), dz), 0, 2)
        for field in fields
    ]
    first, east = at_faces(derivatives, along_x, upwards, mixing, water, dz)
    turned = [[sideways(array) for array in arrays] for arrays in (derivatives, upwards)]
    second, north = at_faces(turned[0], along_y, turned[1], sideways(mixing), sideways(water), dz)
    by_x, top_x = at_tops(derivatives, along_x, upwards, mixing, water, dx)
    by_y, top_y = at_tops(turned[0], along_y, turned[1], sideways(mixing), sideways(water), dy)
    third = put(xp.zeros_like(water), (*INSIDE, slice(None, -1)), by_x + sideways(by_y))
    return first, sideways(second), third, east, sideways(north), top_x, sideways(top_y)


# --- turbulent kinetic energy ------------------------------------------------------------------


def solved(lower, middle, upper, right):
    """Solve tridiagonal systems along z with Thomas' algorithm: two scans over rows (x, y)."""
    xp = library(right)
    rows = [xp.moveaxis(array, 2, 0) for array in (lower, middle, upper, right)]
    zero = xp.zeros_like(rows[0][0])

    def forward(carry, row):
        a, b, c, d = row
        pivot = b - a * carry[0]
        new = c / pivot, (d - a * carry[1]) / pivot
        return new, new

    def backward(above, row):
        new = row[1] - row[0] * above
        return new, new

    return xp.moveaxis(scan(backward, zero, scan(forward, (zero, zero), tuple(rows)), True), 0, 2)


def superbee(velocity, field, water, distance, step):
    """Return the fluxes through far faces along x, limited as in Roe (1985); 0 in the margins."""
    xp = library(field)
    difference = (field[1:] - field[:-1]) * water[1:] * water[:-1]
    before, here, behind = difference[:-2], difference[1:-1], difference[2:]
    speed, length = velocity[1:-2], distance[1:-2, None, None]
    ratio = xp.where(speed > 0, before, behind) / xp.where(xp.abs(here) < 1e-20, 1e-20, here)
    limit = xp.maximum(0.0, xp.maximum(xp.minimum(1.0, 2 * ratio), xp.minimum(2.0, ratio)))
    courant = xp.abs(speed * step / length)
    flux = (
        0.5 * speed * (field[2:-1] + field[1:-2])
        - 0.5 * xp.abs(speed) * (1 - limit + courant * limit) * here
    )
    return put(xp.zeros_like(field), slice(1, -2), flux)


def divergence(fluxes, distance):
    """Return the loss of inner cells through the faces along x."""
    return (fluxes[2:-2] - fluxes[1:-3]) / distance[2:-2, None, None]


def turbulent_kinetic_energy(
    energy, tendency, u, v, w, water, viscosity, length, source, wind, bottom, dx, dy, dz
):
    """Step 1 s; return energy [m²/s²] now and next, its tendency, and the surface's input.

    Gaspar, Grégoris and Lefevre (1990), "A simple eddy kinetic energy model": vertical mixing and
    dissipation are implicit, lateral diffusion is 2000 m²/s, advection uses the superbee limiter,
    and the time step is Adams and Bashforth's of second order. ``energy`` and ``tendency`` are (x,
    y, z, 3): now, next, before. ``bottom`` (x, y) is the lowest level in water, below 0 on land.
    """
    xp = library(energy)
    now, step, dissipation = energy[..., 0], 1.0, 0.7
    floor = bottom[INSIDE][:, :, None]
    level = xp.arange(energy.shape[2])
    wet, lowest = (floor >= 0) & (level >= floor), (floor >= 0) & (level == floor)
    thick = put(dz, -1, 0.5 * dz[-1])

    between = 0.5 * (viscosity[INSIDE][:, :, 1:] + viscosity[INSIDE][:, :, :-1])
    above = put(
        xp.zeros_like(viscosity[INSIDE]),
        (slice(None), slice(None), slice(None, -1)),
        step * between / dz[1:],
    )
    below = put(xp.zeros_like(above), (slice(None), slice(None), slice(1, None)), above[:, :, :-1])
    below = xp.where(lowest, 0.0, below)
    root = xp.sqrt(xp.maximum(0.0, now[INSIDE]))
    middle = 1 + (above + below) / thick + step * dissipation * root / length[INSIDE]
    right = put(
        now[INSIDE] + step * source[INSIDE],
        (slice(None), slice(None), -1),
        step * wind[INSIDE] / thick[-1],
        add=True,
    )
    after = solved(
        xp.where(wet, -below / thick, 0.0),
        xp.where(wet, middle, 1.0),
        xp.where(wet, -above / thick, 0.0),
        xp.where(wet, right, 0.0),
    )
    after = xp.where(wet, after, energy[INSIDE][..., 1])

    # More energy may be taken from the surface than it has; the deficit is restored and counted.
    given = xp.where(after[:, :, -1] < 0, -after[:, :, -1] * thick[-1] / step, 0.0)
    after = put(after, (slice(None), slice(None), -1), xp.maximum(0.0, after[:, :, -1]))

    diffusion = divergence(2000.0 * gradients(now, water, dx), dx)[:, 2:-2] + sideways(
        divergence(2000.0 * gradients(sideways(now), sideways(water), dy), dy)[:, 2:-2]
    )
    after = after + step * water[INSIDE] * diffusion

    flux_x = superbee(u, now, water, dx, step)
    flux_y = superbee(*map(sideways, (v, now, water)), dy, step)
    padded = [
        xp.pad(xp.moveaxis(array, 2, 0), ((1, 1), (0, 0), (0, 0))) for array in (w, now, water)
    ]
    flux_z = superbee(*padded, xp.pad(dz, (1, 1), mode="edge"), step)
    flux_z = xp.moveaxis(flux_z[1:-1], 0, 2)[INSIDE]
    upwards = put(flux_z, (slice(None), slice(None), slice(1, None)), -flux_z[:, :, :-1], add=True)
    change = -water[INSIDE] * (
        divergence(flux_x, dx)[:, 2:-2]
        + sideways(divergence(flux_y, dy)[:, 2:-2])
        + upwards / thick
    )
    after = after + step * (1.6 * change - 0.6 * tendency[INSIDE][..., 2])

    place = (*INSIDE, slice(None))
    return (
        put(energy, (*place, 1), after),
        put(tendency, (*place, 0), change),
        put(xp.zeros_like(wind), INSIDE, given),
    )


# --- arguments ---------------------------------------------------------------------------------


def ocean(size: int):
    """Return an ocean of about ``size`` cells.

    It has equally many cells in x and y, and a quarter of that in z (at least 4).
    """
    side = max(6, round((4 * size) ** (1 / 3)))
    shape = side, side, max(4, side // 4)
    random = np.random.default_rng(17)
    floor = random.integers(-1, shape[2] // 2, shape[:2])
    water = ((floor[:, :, None] >= 0) & (np.arange(shape[2]) >= floor[:, :, None])).astype(float)
    return shape, random, floor, water


def isoneutral_arguments(size: int) -> tuple[np.ndarray, ...]:
    shape, random, _, water = ocean(size)
    across = random.uniform(9e4, 1.1e5, shape[0])
    heights = random.uniform(20, 80, shape[2])
    depth = heights[::-1].cumsum()[::-1] - heights / 2
    temperature = 20 * np.exp(-depth / 300) + random.normal(0, 0.3, shape)
    salinity = 35 + random.normal(0, 0.1, shape)
    return (
        salinity,
        temperature,
        water,
        random.uniform(100, 1000, shape),
        depth,
        across,
        across[::-1].copy(),
        heights,
    )


def turbulence_arguments(size: int) -> tuple[np.ndarray, ...]:
    shape, random, floor, water = ocean(size)
    across = random.uniform(9e4, 1.1e5, shape[0])
    flow = [random.normal(0, scale, shape) * water for scale in (0.5, 0.5, 1e-2)]
    return (
        random.uniform(0, 1e-2, (*shape, 3)),
        random.normal(0, 1e-5, (*shape, 3)),
        *flow,
        water,
        random.uniform(1e-5, 1e-1, shape),
        random.uniform(0.5, 30, shape),
        random.normal(0, 1e-6, shape),
        random.normal(0, 1e-2, shape[:2]),
        floor,
        across,
        across[::-1].copy(),
        random.uniform(20, 80, shape[2]),
    )
