"""Checks and hints of "PyCUDA: CUDA C++ in a string"."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np

import virtualgpu
from gpucourse.exercises.checks import exercise, pair, require
from gpucourse.exercises.cpp_trials import counted_cpp, launched_cpp
from gpucourse.exercises.host_side import HOST, with_other_values
from gpucourse.exercises.trials import LEFTOVER, LENGTHS, require_close, require_shared
from gpucourse.exercises.waiting import launches_on_a_gpu
from gpucourse.wording import a_or_an
from gpucourse.wording import many


@exercise(
    "first-kernel",
    hints=(
        "The idea: write the same three parts as in `follow`, without its loop. Compute this thread's "
        "particle `i`, test whether it exists, and write the formula with `[i]` after each array.",
        "The shape: `int i = blockIdx.x * blockDim.x + threadIdx.x;`, then "
        "`if (i < n) { radius[i] = …; }`. The field is a single number, so it has no `[i]`.",
    ),
)
def first_kernel(source):
    """Each thread computed the radius of its own particle, for all lengths that were tried."""
    random = np.random.default_rng(21)
    for k, n in enumerate((*LENGTHS, int(random.integers(1025, 3000)))):
        pt, field = random.uniform(3, 60, n).astype(np.float32), np.float32(random.uniform(0.5, 6))
        start, threads = np.full(n, LEFTOVER, np.float32), (64, 96, 256)[k % 3]
        _, _, radius, _ = launched_cpp(
            source, "radius_of", n // threads + 1, threads, pt, field, start, np.int32(n), reads=1
        )
        require_close(radius, pt / (0.3 * float(field)),
                      f"with {many(n, 'particle')} in a field of {field:.2f} T",
                      "divide pt by 0.3 times the parameter `field`", rtol=1e-6)
    pt = np.ones(129, np.float32)
    work = counted_cpp(source, "radius_of", 3, 64, pt, np.float32(2), pt, np.int32(129))
    require(
        work.global_stores <= 129,
        f"the answer is right, but 129 elements were stored {many(work.global_stores, 'time')}",
        look="does every thread loop over all particles? Let each thread compute one radius",
    )
    require_shared(work, (3,), (64,), 129, "let each thread compute one radius", rounds=0)


@exercise(
    "mend",
    hints=(
        "The idea: the compiler stops at an `if` without parentheses, at a variable without "
        "a type, and after a statement without a semicolon. The fourth mistake is a division of integers.",
        "The shape: write `if (i < n) {`, `float scale = …;` and the missing semicolon. In `1 / 3`, both "
        "numbers are of type `int`, so make one of them a `float`.",
    ),
)
def mend(source):
    """The kernel compiles, and 1 / 3 is a third."""
    random = np.random.default_rng(22)
    for n in (*LENGTHS, int(random.integers(1025, 3000))):
        radius = random.uniform(0.2, 3, n).astype(np.float32)
        start = np.full(n, LEFTOVER, np.float32)
        _, fraction, _ = launched_cpp(
            source, "reach", n // 64 + 1, 64, radius, start, np.int32(n), reads=1
        )
        require(
            n == 0 or fraction.any(),
            f"it compiles, but with {many(n, 'particle')} all fractions are 0",
            look="what is `1 / 3` in C++? Both numbers are integers",
        )
        expected = np.minimum(2 * radius / 3, 1)
        require_close(fraction, expected, f"with {many(n, 'particle')}",
                      "divide twice the radius by 3, and return at most 1", rtol=1e-6)
    some = np.ones(1009, np.float32)
    work = counted_cpp(source, "reach", 16, 64, some, some, np.int32(1009))
    require_shared(work, (16,), (64,), 1009, "let each thread compute one fraction, as in the kernel that you were given",
                   rounds=0)


@exercise(
    "fitting-types",
    hints=(
        "The idea: first make a new contiguous array of the kernel's type from `values`. Then launch "
        "`scale` on it with numbers of the kernel's types, and with enough blocks.",
        'The shape: `result = np.array(values, dtype=np.float32, order="C")`; '
        "`scale(drv.InOut(result), np.float32(by), np.int32(result.size), block=(128, 1, 1), "
        "grid=(…, 1))` with `(result.size + 127) // 128` blocks.",
    ),
)
def fitting_types(scaled):
    """The result is right for every kind of input, and the inputs are unchanged."""
    random = np.random.default_rng(23)
    _callable(scaled)
    launches_on_a_gpu()
    wide, long = random.uniform(1, 90, 258), int(random.integers(2049, 4000))
    cases = {
        "129 values of float64": (random.uniform(1, 90, 129), 2.5),
        "33 values of int64": (random.integers(1, 90, 33), 3),
        "a list": ([1, 2.5, 4], 0.5),
        "128 values of float32": (wide[:128].astype(np.float32), 3.0),
        "every second of 258 values of float32": (wide.astype(np.float32)[::2], 1.5),
        "one value of float16": (np.ones(1, np.float16), 7),
        "2003 values of float64": (random.uniform(-90, 90, 2003), np.float64(1.25)),
        f"{long} values of int32": (random.integers(-90, 90, long, np.int32), -0.75),
    }
    for case, (values, by) in cases.items():
        before = np.array(values)
        with _found(f"with {case}"), virtualgpu.profile() as profile:
            result = scaled(values, by)
        require(
            isinstance(result, np.ndarray) and result.dtype == np.float32,
            f"with {case}, the result is {_kind(result)}, not an array of float32",
            look="look at the array that you return",
        )
        require(
            np.array_equal(before, values),
            f"with {case}, the array that was passed to `scaled` has changed",
            look="`astype(…, copy=False)` and `ascontiguousarray` copy only when they have to, so make a new array",
        )
        expected = before.astype(np.float32) * np.float32(by)
        require(
            result.size == 0 or result.any(),
            f"with {case}, the result is all zeros",
            look="are the values copied into the array that the kernel scales?",
        )
        require_close(result, expected, f"with {case}",
                      "launch enough threads for all elements", rtol=1e-6)
        require(
            profile.launches or not virtualgpu.answers(),
            "the numbers are right, but no kernel was launched",
            look="let `scale` do the multiplication",
        )
    values, others = random.uniform(1, 90, (2, 1009))
    look = "`scale` changes the array that you pass to it, so return that array"
    pair = values.astype(np.float32), others.astype(np.float32)
    got = with_other_values(lambda: scaled(values.copy(), 1.75), [pair], "with 1,009 values", look)
    _require_of_others(got, pair[1] * np.float32(1.75), "with 1,009 values", look)


def _require_of_others(got, expected, case, look):
    """Require the results of the values that the device was given in place of the known ones."""
    require(
        got is None or np.allclose(got, expected, rtol=1e-6, atol=0),
        f"{case}, the answer is right, but {HOST}: the device was given different values, and the "
        "answer did not change with them",
        look=look,
    )


@exercise(
    "copy-once",
    hints=(
        "The idea: as in the cell above, allocate memory, copy the array to it once, make all launches, and "
        "copy the result back once. Do not use `InOut`.",
        "The shape: `d_pt = drv.mem_alloc(pt.nbytes)`, `drv.memcpy_htod(d_pt, pt)`, "
        "`for factor in factors: scale(d_pt, np.float32(factor), …)`, "
        "`drv.memcpy_dtoh(result, d_pt)`.",
    ),
)
def copy_once(after_layers):
    """The array was copied to the device once and back once, for any number of layers."""
    random = np.random.default_rng(24)
    _callable(after_layers)
    launches_on_a_gpu()
    for n, layers in ((129, 3), (1, 1), (128, 0), (2003, int(random.integers(9, 14)))):
        pt = random.uniform(3, 60, n).astype(np.float32)
        factors = [float(factor) for factor in random.uniform(0.9, 1, layers)]
        before, expected = pt.copy(), pt.copy()
        for factor in factors:
            expected *= np.float32(factor)
        case = f"with {many(n, 'particle')} and {many(layers, 'layer')}"
        with _copies() as copies, _found(case), virtualgpu.profile() as profile:
            result = after_layers(pt, factors)
        require(
            np.array_equal(pt, before),
            f"{case}, the array `pt` that was passed has changed",
            look="copy back into a new array `result`",
        )
        require(
            isinstance(result, np.ndarray) and result.dtype == np.float32,
            f"{case}, the result is {_kind(result)}, not an array of float32",
            look="look at the array that you return",
        )
        require(
            result.size == 0 or result.any(),
            f"{case}, the result is all zeros",
            look="copy the array back into `result` after the last launch",
        )
        require_close(result, expected, case,
                      "apply every factor once to every element", rtol=1e-6)
        for way, count in copies.items():
            require(
                count <= 1,
                f"{case}, {many(count, 'array')} were copied {way} the device, but one is enough",
                look="move the copies out of the loop",
            )
        require(
            len(profile.launches) == layers or not virtualgpu.answers(),
            f"{case}, it took {many(len(profile.launches), 'launch', 'launches')}",
            look="launch `scale` once for each factor",
        )
    pt, others = random.uniform(3, 60, (2, 1009)).astype(np.float32)
    look = "copy `pt` to the device, launch `scale` on that memory, and copy the result back"
    case = "with 1,009 particles and 3 layers"
    got = with_other_values(lambda: after_layers(pt.copy(), [0.9, 0.95, 0.97]), [(pt, others)],
                            case, look)
    _require_of_others(got, others * np.float32(0.9) * np.float32(0.95) * np.float32(0.97), case,
                       look)


@exercise(
    "field-table",
    hints=(
        "The idea: repeat three steps of the cell above. Get the address of the table, copy seven `float`s "
        "to it, and launch `follow` with `Out` arrays.",
        'The shape: `address, _ = in_iron.get_global("field")`; '
        "`drv.memcpy_htod(address, np.array(field_map, np.float32))`; then the launch from the cell "
        "above, unchanged.",
    ),
)
def field_table(paths_through, pt, phi, charge):
    """The paths are right for each map of the field."""
    _callable(paths_through)
    launches_on_a_gpu()
    maps = ([4] * 7, [0.0] * 7, [1, 2, 3, 4, -3, -2, -1], [3.8, 3.8, 3.8, -2, -2, -2, -2])
    kept = []
    for field in maps:
        given = list(field)
        answer = pair(paths_through(given), "`x, y`", "return both arrays")
        require(given == field, f"with {field}, the list that was passed has changed to {given}",
                look="read `field_map`, but do not change it")
        paths = [np.asarray(one) for one in answer]
        require(
            all(one.shape == (201, len(pt)) for one in paths),
            f"with {field}, the shapes are {paths[0].shape} and {paths[1].shape}",
            look=f"both shapes should be (201, {len(pt)}), with one row for each step",
        )
        expected = _paths(pt, phi, charge, np.array(field, np.float32))
        kept.append((paths, [one.copy() for one in paths]))
        away = np.hypot(paths[0] - expected[0], paths[1] - expected[1]).max(axis=0)
        # At the edge of a ring, rounding decides which field applies, so a few paths may differ.
        require(
            np.mean(away < 0.01) > 0.9,
            f"with the map {field}, the paths are up to {away.max():.3g} m away from the right ones",
            look=("write the table before each launch, as seven `float`s, and let `follow` take all "
                "201 steps of all 40 particles"),
        )
    require(
        all(np.array_equal(paths, copies) for paths, copies in kept),
        "the arrays that one call returned have changed in the next call",
        look="make new arrays in each call",
    )
    known, others = np.random.default_rng(26).uniform(0.5, 4, (2, 7)).astype(np.float32)
    case, look = "with a map of 7 fields", "write the map into `field`, and compute the paths with `follow`"
    got = with_other_values(lambda: paths_through(known.tolist()), [(known, others)], case, look)
    if got is not None:
        expected = _paths(pt, phi, charge, others)
        away = np.hypot(got[0] - expected[0], got[1] - expected[1]).max(axis=0)
        require(np.mean(away < 0.01) > 0.9,
                f"{case}, the paths are right, but {HOST}: the device was given a different map, and "
                "the paths did not change with it", look=look)


def _paths(pt, phi, charge, field):
    """Return the kernel's steps, computed with NumPy in float32."""
    step, angle = np.float32(0.05), phi.copy()
    x, y = np.zeros((2, 201, len(pt)), np.float32)
    for k in range(1, 201):
        x[k], y[k] = x[k - 1] + step * np.cos(angle), y[k - 1] + step * np.sin(angle)
        ring = np.hypot(x[k], y[k]).astype(int)
        here = np.where(ring < len(field), field[np.minimum(ring, len(field) - 1)], 0)
        angle = (angle - np.float32(0.3) * charge * here * step / pt).astype(np.float32)
    return x, y


@contextmanager
def _copies() -> Iterator[dict[str, int]]:
    """Count the copies that a function asks ``pycuda.driver`` for, to the device and back."""
    import pycuda.driver as drv

    counts = {"to": 0, "from": 0}
    ways = {
        "memcpy_htod": ("to",), "to_device": ("to",), "In": ("to",), "InOut": ("to", "from"),
        "Out": ("from",), "memcpy_dtoh": ("from",), "from_device": ("from",),
        "from_device_like": ("from",), "memcpy_htod_async": ("to",),
        "memcpy_dtoh_async": ("from",), "set": ("to",), "get": ("from",),
    }
    owners = [drv, *(one.GPUArray for one in (sys.modules.get("pycuda.gpuarray"),) if one)]
    inside = False

    def counting(name, original):
        def call(*arguments, **options):
            nonlocal inside
            outermost, inside = not inside, True  # an array's copy may call the driver's
            try:
                for way in ways[name] if outermost else ():
                    counts[way] += 1
                return original(*arguments, **options)
            finally:
                inside = not outermost

        return call

    with ExitStack() as patches:
        for owner in owners:
            for name in ways:
                if original := getattr(owner, name, None):
                    patches.enter_context(
                        mock.patch.object(owner, name, counting(name, original)))
        yield counts


@contextmanager
def _found(case: str) -> Iterator[None]:
    """Fail if the virtual GPU's checkers report something, with mismatched arguments first."""
    error = None
    with virtualgpu.check() as report:
        try:
            yield
        except Exception as raised:
            error = raised
    for finding in sorted(report.findings, key=lambda one: one.kind != "arguments"):
        if finding.kind == "arguments" or error is None:
            require(False, f"{case}: {finding.message}", look=_LOOK.get(finding.kind))
    if error is not None:
        raise error


_LOOK = {
    "arguments": "compare the type that the kernel declares with the type of the argument",
    "uninitialised": "copy the array to the device before the first launch",
}


def _callable(answer) -> None:
    require(
        callable(answer),
        f"this is {_kind(answer)}, not a function",
        look="pass its name without parentheses",
    )


def _kind(value) -> str:
    dtype = getattr(value, "dtype", None)
    if isinstance(value, np.ndarray):
        return f"an array of {dtype}"
    return a_or_an(type(value).__name__)
