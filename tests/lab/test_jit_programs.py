"""The three benchmarks of jaxpile: how many loops they become, and whether they come out right."""

from __future__ import annotations

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest

import jaxpile
import virtualgpu
from jaxpile.cuda.codegen import Kernel, generate
from jaxpile.cuda.launch import Launcher
from jaxpile.primitives import default_registry
from jaxpile.program import Nest, walk
from jaxpile.stages import program_of
from lab.benchmarks.jit_programs import CHECK, PROGRAMS, arguments, equation_of_state
from lab.benchmarks.jit_speed import too_wrong

#: Loop nests on the CPU, and launches of a call on a GPU: the two scans of the last are one each.
LOOPS = {"equation_of_state": 1, "isoneutral_mixing": 20, "turbulent_kinetic_energy": 26}
#: Kernels and copies that XLA makes of them for an H200, of 65,536 elements: JAX 0.10.1, compiled
#: for that GPU without one, counted in the HLO. Of the last without those in its two loops.
XLA = {"equation_of_state": 1, "isoneutral_mixing": 13, "turbulent_kinetic_energy": 13}
SIZE = 900


@pytest.fixture(autouse=True)
def wide():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def program(name: str, target: str):
    jaxpr = jaxpile.jit(PROGRAMS[name]).lower(*arguments(name, SIZE)).jaxpr
    return program_of(jaxpr, default_registry(), name, target)


@pytest.mark.parametrize("name", PROGRAMS)
def test_loops(name):
    steps = program(name, "cpu").steps
    assert sum(isinstance(item, Nest) for item in walk(steps)) == LOOPS[name]


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_and_launches(name):
    plan = generate(program(name, "gpu"))
    assert all(isinstance(step, Kernel) for step in plan.steps)
    assert len(plan.steps) <= min(LOOPS[name], 2 * XLA[name])


def test_the_equation_of_state_moves_the_fewest_bytes():
    args = arguments("equation_of_state", 1024)
    lowered = jaxpile.jit(equation_of_state).lower(*args)
    active = virtualgpu.is_active()
    virtualgpu.activate()
    try:
        import cupy

        run = Launcher(program_of(lowered.jaxpr, default_registry(), "density", "gpu"))
        given = [cupy.asarray(array) for array in args]
        with virtualgpu.profile() as profile:
            (found,) = run(given)
    finally:
        if not active:
            virtualgpu.deactivate()
    (launch,) = profile.launches
    fewest = sum(array.nbytes for array in (*given, found))
    assert 32 * launch.counters.global_sectors == fewest


@pytest.mark.parametrize("name", PROGRAMS)
def test_right_on_the_cpu(name):
    args = arguments(name, SIZE)
    assert too_wrong(PROGRAMS[name], args, jaxpile.jit(PROGRAMS[name])(*args)) == []


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.rehearsal] * (name == "isoneutral_mixing"))
        for name in PROGRAMS
    ],
)
def test_right_on_the_virtual_gpu_without_a_finding(name):
    args = arguments(name, SIZE)
    active = virtualgpu.is_active()
    virtualgpu.activate()
    try:
        with virtualgpu.check() as report:
            found = jaxpile.jit(PROGRAMS[name], backend="cuda")(*args)
    finally:
        if not active:
            virtualgpu.deactivate()
    assert report.findings == [], report
    assert too_wrong(PROGRAMS[name], args, found) == []


def test_a_wrong_result_is_found():
    args = arguments("equation_of_state", SIZE)
    right = equation_of_state(*args)
    assert too_wrong(equation_of_state, args, right) == []
    assert too_wrong(equation_of_state, args, right * (1 + 1e-14)) != []


def test_the_equation_of_state_has_its_published_values():
    for *water, density in CHECK:
        assert float(equation_of_state(*map(jax.numpy.asarray, water))) == pytest.approx(
            density, abs=1e-5
        )
