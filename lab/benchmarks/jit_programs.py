"""Programs on which jaxpile and jax.jit are compared, written from published formulas.

The equation of state is UNESCO's EOS-80 as given by Fofonoff and Millard (1983, UNESCO technical
papers in marine science 44); ``CHECK`` has their check values. The other two programs are in
jit_ocean.
"""

from __future__ import annotations

import numpy as np

from lab.benchmarks.jit_ocean import (
    isoneutral_arguments,
    isoneutral_mixing,
    library,
    turbulence_arguments,
    turbulent_kinetic_energy,
)

#: Practical salinity, degrees Celsius (IPTS-68), pressure in bar, and the density in kg/m³.
CHECK = ((0.0, 5.0, 0.0, 999.96675), (35.0, 5.0, 0.0, 1027.67547), (35.0, 25.0, 1000.0, 1062.53817))


def horner(x, *coefficients):
    """Evaluate a polynomial whose coefficients begin with the constant term."""
    total = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


def equation_of_state(salinity, temperature, pressure):
    """Return the in-situ density (kg/m³) of sea water from EOS-80; pressure in bar. Any shape."""
    s, t, p = salinity, temperature, pressure
    root = library(s).sqrt(s)
    surface = horner(
        t, 999.842594, 6.793952e-2, -9.095290e-3, 1.001685e-4, -1.120083e-6, 6.536332e-9
    ) + s * (
        horner(t, 8.24493e-1, -4.0899e-3, 7.6438e-5, -8.2467e-7, 5.3875e-9)
        + root * horner(t, -5.72466e-3, 1.0227e-4, -1.6546e-6)
        + s * 4.8314e-4
    )
    bulk = horner(t, 19652.21, 148.4206, -2.327105, 1.360477e-2, -5.155288e-5) + s * (
        horner(t, 54.6746, -0.603459, 1.09987e-2, -6.1670e-5)
        + root * horner(t, 7.944e-2, 1.6483e-2, -5.3009e-4)
    )
    linear = horner(t, 3.239908, 1.43713e-3, 1.16092e-4, -5.77905e-7) + s * (
        horner(t, 2.2838e-3, -1.0981e-5, -1.6078e-6) + root * 1.91075e-4
    )
    quadratic = horner(t, 8.50935e-5, -6.12293e-6, 5.2787e-8) + s * horner(
        t, -9.9348e-7, 2.0816e-8, 9.1697e-10
    )
    return surface / (1 - p / (bulk + p * (linear + p * quadratic)))


def arguments(name: str, size: int) -> tuple[np.ndarray, ...]:
    """Return float64 arrays of about ``size`` elements for a program."""
    if name == "isoneutral_mixing":
        return isoneutral_arguments(size)
    if name == "turbulent_kinetic_energy":
        return turbulence_arguments(size)
    random = np.random.default_rng(17)
    return (
        random.uniform(0.1, 40, size),
        random.uniform(-2, 35, size),
        random.uniform(0, 1000, size),
    )


PROGRAMS = {
    function.__name__: function
    for function in (equation_of_state, isoneutral_mixing, turbulent_kinetic_energy)
}
