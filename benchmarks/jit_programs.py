"""Programs that jaxpile and jax.jit are compared on, written from published formulas.

The equation of state is UNESCO's EOS-80 as Fofonoff and Millard give it (1983, UNESCO technical
papers in marine science 44); ``CHECK`` holds their check values. The other two have the structure
of ocean models' mixing schemes, not their physics: a diffusion along slopes limited by a taper, and
an implicit vertical diffusion with sources, solved by Thomas' algorithm.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

#: Practical salinity, degrees Celsius (IPTS-68), pressure in bar, and the density in kg/m³.
CHECK = ((0.0, 5.0, 0.0, 999.96675), (35.0, 5.0, 0.0, 1027.67547), (35.0, 25.0, 1000.0, 1062.53817))


def horner(x, *coefficients):
    """A polynomial, the constant term first."""
    total = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


def equation_of_state(salinity, temperature, pressure):
    """In-situ density (kg/m³) of sea water by EOS-80; pressure in bar. Any shape."""
    s, t, p = salinity, temperature, pressure
    root = jnp.sqrt(s)
    surface = (horner(t, 999.842594, 6.793952e-2, -9.095290e-3, 1.001685e-4, -1.120083e-6,
                      6.536332e-9)
               + s * (horner(t, 8.24493e-1, -4.0899e-3, 7.6438e-5, -8.2467e-7, 5.3875e-9)
                      + root * horner(t, -5.72466e-3, 1.0227e-4, -1.6546e-6)
                      + s * 4.8314e-4))
    bulk = (horner(t, 19652.21, 148.4206, -2.327105, 1.360477e-2, -5.155288e-5)
            + s * (horner(t, 54.6746, -0.603459, 1.09987e-2, -6.1670e-5)
                   + root * horner(t, 7.944e-2, 1.6483e-2, -5.3009e-4)))
    linear = (horner(t, 3.239908, 1.43713e-3, 1.16092e-4, -5.77905e-7)
              + s * (horner(t, 2.2838e-3, -1.0981e-5, -1.6078e-6) + root * 1.91075e-4))
    quadratic = (horner(t, 8.50935e-5, -6.12293e-6, 5.2787e-8)
                 + s * horner(t, -9.9348e-7, 2.0816e-8, 9.1697e-10))
    return surface / (1 - p / (bulk + p * (linear + p * quadratic)))


def simplified_slope_mixing(tracer, density):
    """One step of diffusion along tapered slopes of a density field; arrays (x, y, z)."""
    dx = density[1:, :, :] - density[:-1, :, :]
    dz = density[:, :, 1:] - density[:, :, :-1]
    slope = dx[:, :, :-1] / jnp.minimum(dz[:-1], -1e-3)
    taper = 0.5 * (1 + jnp.tanh((0.02 - jnp.abs(slope)) / 0.002))
    gradient = tracer[1:, :, :-1] - tracer[:-1, :, :-1]
    vertical = tracer[:-1, :, 1:] - tracer[:-1, :, :-1]
    flux = taper * jnp.where(jnp.abs(slope) < 0.04, gradient + slope * vertical, 0.0)
    change = flux[1:] - flux[:-1]
    return tracer.at[1:-1, :, :-1].add(0.1 * change)


def simplified_turbulent_energy(energy, shear, stability):
    """Implicit vertical diffusion of an energy with sources and sinks; arrays (z, x)."""
    mixing = jnp.sqrt(jnp.maximum(energy, 1e-6)) / (1 + 5 * jnp.maximum(stability, 0.0))
    between = 0.5 * (mixing[1:] + mixing[:-1])
    zero = jnp.zeros_like(energy[:1])
    below, above = jnp.concatenate([zero, -between]), jnp.concatenate([-between, zero])
    middle = 1 - below - above + 0.1 * jnp.sqrt(jnp.maximum(energy, 1e-6))
    right = energy + 0.1 * mixing * (shear**2 - stability)

    def forward(carry, row):
        c, d = carry
        a, b, upper, r = row
        scale = 1 / (b - a * c)
        new = upper * scale, (r - a * d) * scale
        return new, new

    def backward(x, row):
        c, d = row
        x = d - c * x
        return x, x

    first = jnp.zeros_like(energy[0]), jnp.zeros_like(energy[0])
    _, rows = jax.lax.scan(forward, first, (below, middle, above, right))
    _, solved = jax.lax.scan(backward, jnp.zeros_like(energy[0]), rows, reverse=True)
    return solved


def arguments(name: str, size: int) -> tuple[np.ndarray, ...]:
    """Arrays of about ``size`` elements for a program, float64."""
    random = np.random.default_rng(17)
    if name == "equation_of_state":
        return (random.uniform(0.1, 40, size), random.uniform(-2, 35, size),
                random.uniform(0, 1000, size))
    depth = 16
    side = max(4, round((size / depth) ** 0.5))
    if name == "simplified_slope_mixing":
        density = -np.cumsum(random.uniform(0, 0.1, (side, side, depth)), 2)
        return random.normal(size=(side, side, depth)), density
    shape = depth, side * side
    return (random.uniform(0, 1, shape), random.normal(size=shape), random.normal(size=shape))


PROGRAMS = {function.__name__: function for function in (
    equation_of_state, simplified_slope_mixing, simplified_turbulent_energy)}
