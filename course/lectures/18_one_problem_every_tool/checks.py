"""Checks and hints of "One problem, every tool"."""

from __future__ import annotations

import dis
import math
import re
import sys
import tempfile
from collections import deque
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np

from gpucourse.exercises.checks import exercise, pair, require
from gpucourse.exercises.host_side import HOST, with_other_values
from gpucourse.exercises.methods import inner_codes, lines_run
from gpucourse.exercises.trials import require_shared
from gpucourse.exercises.waiting import launches_on_a_gpu
from gpucourse.wording import a_or_an
from gpucourse.wording import many

#: Few enough that an fma hardly shows: after 60, XLA's ship differs from NumPy's in 1 pixel of 100.
STEPS = 20


@exercise(
    "ship",
    hints=(
        "The idea: take the version from section 2 that you like best and change the one line that "
        "computes y. For `ElementwiseKernel` and `RawKernel` that line is in BODY.",
        'The shape: `BODY.replace("(x + x) * y + cy", "abs((x + x) * y) + cy")` in a new kernel, '
        "and a function such as `by_elementwise` around it. In Numba: `abs((x + x) * y) + cy`.",
    ),
)
def ship(burning_ship):
    """The picture is right, except for a few pixels at the edge, in one launch."""
    import virtualgpu

    launches_on_a_gpu()
    random = np.random.default_rng(181)
    for width, height, limit in ((97, 61, STEPS), (64, 32, 13), (33, 1, STEPS), (1, 33, 7), (1, 1, 4)):
        real, imag = _points(random, width, height)
        case = f"with {width} × {height} pixels and {many(limit, 'step')} at most"
        given = real.copy(), imag.copy()
        with virtualgpu.profile() as profile, virtualgpu.launches() as listed:
            steps = burning_ship(*given, limit)
        require(
            isinstance(steps, np.ndarray),
            f"{case}, the function returns {a_or_an(type(steps).__module__.split('.')[0])}."
            f"{type(steps).__name__}, not a NumPy array",
            look=("use .get() for a CuPy array, .copy_to_host() for a Numba array, np.asarray "
                "for a JAX array"),
        )
        require(
            steps.shape == (height, width),
            f"{case}, the picture has the shape {steps.shape}, not {(height, width)}",
            look="make imag.size rows and real.size columns",
        )
        require(steps.dtype == np.int32, f"{case}, the picture is an array of {steps.dtype}, not int32",
                look="use `.astype(np.int32)`, or make the output of that type from the beginning")
        require(np.array_equal(given[0], real) and np.array_equal(given[1], imag),
                f"{case}, the function changes its input arrays", look="make a new array")
        expected = _ship(real, imag, limit)
        wrong = np.argwhere(np.asarray(steps) != expected)
        plain = _ship(real, imag, limit, sign_lost=False)
        require(
            not np.array_equal(steps, plain) or np.array_equal(plain, expected),
            f"{case}, this is the Mandelbrot set",
            look="where does the formula drop the signs of x and y?",
        )
        if len(wrong) > max(3, 0.01 * steps.size):
            row, column = (int(k) for k in wrong[0])
            require(
                False,
                f"{case}, {len(wrong)} pixels differ from NumPy's: pixel [{row}, {column}] stays "
                f"{steps[row, column]} steps, not {expected[row, column]}",
                look=("put abs around the product, before you add cy, and count the steps as the "
                "loop of section 1 does")
                if np.any(steps)
                else "every pixel is 0: was a kernel launched, and its result copied back?",
            )
        unseen = [one for one in listed if "grid" not in one.details]
        launches = len(profile.launches) + len(unseen)
        require(
            launches <= 1,
            f"the picture is right, but it took {many(launches, 'launch', 'launches')}",
            look="launch one kernel, with the loop inside it",
        )
        needed = 5 * int(expected.sum())  # two squares, their sum, a product, a sum: at the least
        require(
            launches == 0 or _on_a_gpu() or profile.counters.flops >= needed,
            f"{case}, the picture is right, but the launch did {profile.counters.flops:,} "
            f"operations, and these steps need at least {needed:,}, so the CPU computed it",
            look="let the kernel that you launch compute the picture",
        )
        for one in profile.launches if height > 1 else ():  # a thread for each row is fair too
            require_shared(one.counters, one.grid, one.block, steps.size,
                           "let each thread compute one pixel, or a few", instructions=4000, even=4)
    if launches == 1 and not _on_a_gpu():
        _require_by_the_device(burning_ship, *_points(random, 97, 61))
    require(
        launches == 1
        or _on_a_gpu()
        or (_asks_jax(burning_ship) and _numpy_operations(burning_ship, real, imag) < STEPS
            and lines_run(burning_ship, *_LARGE, STEPS) < _LARGE[0].size * _LARGE[1].size),
        "the picture is right, but nothing was launched, so the CPU computed it",
        look="compute the picture with Numba CUDA, ElementwiseKernel, RawKernel, PyCUDA or JAX",
    )
    if launches == 0 and not _on_a_gpu():
        _require_one_program(burning_ship)


def _points(random, width, height):
    """Points in order, unevenly spaced."""
    return [np.sort(random.uniform(low, high, size)).astype(np.float32)
            for low, high, size in ((-1.87, 1.23, width), (-1.57, 0.61, height))]


def _require_by_the_device(burning_ship, real, imag):
    """Require a picture of the points that the device gets, in place of those on the host."""
    others = _points(np.random.default_rng(182), real.size, imag.size)
    look = "return the picture that the kernel leaves on the device"
    steps = with_other_values(lambda: burning_ship(real.copy(), imag.copy(), STEPS),
                              [(np.concatenate([real, imag]), np.concatenate(others))],
                              "with 97 × 61 pixels", look, by_any_way=True)
    require(steps is None or np.mean(np.asarray(steps) != _ship(real, imag, STEPS)) > 0.01,
            f"with 97 × 61 pixels, the picture is right, but {HOST}", look=look)


def _require_one_program(burning_ship):
    """Require that a program of JAX makes the steps of many pixels at a time, all by itself."""
    import jax

    real, imag = _LARGE
    with tempfile.TemporaryDirectory() as folder:
        jax.clear_caches()  # what was compiled before would not be written down
        jax.config.update("jax_dump_ir_to", folder)
        try:
            burning_ship(real.copy(), imag.copy(), STEPS)
        finally:
            jax.config.update("jax_dump_ir_to", None)
        programs = [path.read_text() for path in Path(folder).iterdir()]
    products = [[math.prod(map(int, re.findall(r"\d+(?=x)", shape))) for shape in
                 re.findall(r"stablehlo\.multiply .*?: tensor<([\dx]*)f32>", text)] for text in programs]
    several = [sizes for sizes in products if len(sizes) >= 3]  # two squares and a product
    require(several, "the picture is right, but JAX compiles each operation as a separate program: "
            f"{many(len(programs), 'program')}, and hundreds of launches", look=("apply jax.jit to the whole function"))
    require(max(map(max, several)) >= imag.size, "the picture is right, but it computes one pixel after the other, in "
            "a loop, so on a GPU only one thread would work", look=("use real[None, :] and imag[:, None], which make each operation work on the "
                "whole picture, or use jax.vmap"))


#: Points whose loop in Python would run more lines than any program of JAX has.
_LARGE = np.linspace(-1.87, 1.23, 97, dtype=np.float32), np.linspace(-1.57, 0.61, 61, dtype=np.float32)


def _on_a_gpu() -> bool:
    """Where there is a GPU, CuPy and PyCUDA launch on it unseen."""
    from gpucourse.system.device import device

    return not device().virtual


class _Watched(np.ndarray):
    """Counts what NumPy computes with it, and with what comes of it. JAX takes it as any array."""

    operations = 0

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        _Watched.operations += 1
        plain = [one.view(np.ndarray) if isinstance(one, _Watched) else one for one in inputs]
        result = getattr(ufunc, method)(*plain, **options)
        return result.view(_Watched) if isinstance(result, np.ndarray) else result


def _numpy_operations(function, real, imag) -> int:
    """How many operations NumPy does for a picture: some before a loop, or several for each step."""
    _Watched.operations = 0
    function(real.view(_Watched), imag.view(_Watched), STEPS)
    return _Watched.operations


def _asks_jax(function) -> bool:
    """Whether the function, or one that it calls by name, asks JAX, and none asks Numba's compiler
    for the processor, or has JAX call Python back."""
    seen, waiting, asked = set(), deque([function]), False
    while waiting:
        one = waiting.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        of = {type(one).__module__, str(getattr(one, "__module__", "")), getattr(one, "__name__", "")
              if isinstance(one, ModuleType) else ""}
        if _of(of, "numba") and not _of(of, "numba.cuda") and not hasattr(one, "forall"):
            return False  # compiled for the processor: nothing says that JAX does the work
        asked |= _of(of, "jax") or _of(of, "jaxlib")
        if _of(of, "jax"):
            continue  # its own functions need not be looked through
        one = getattr(one, "__wrapped__", one)  # compiled by JAX
        for code in inner_codes(getattr(one, "__code__", None)):
            steps = list(dis.get_instructions(code))
            if any(str(step.argval).endswith("_callback") for step in steps):
                return False
            waiting.extend(sys.modules[step.argval] for step in steps
                           if step.opname == "IMPORT_NAME" and step.argval in sys.modules)
            scope = getattr(one, "__globals__", {})
            waiting.extend(scope[step.argval] for step in steps
                           if step.opname == "LOAD_GLOBAL" and step.argval in scope)
        waiting.extend(cell.cell_contents for cell in getattr(one, "__closure__", None) or ())
        waiting.extend(one.func for _ in range(isinstance(one, partial)))
    return asked


def _of(modules: set[str], package: str) -> bool:
    return any(f"{name}.".startswith(f"{package}.") for name in modules)


def _ship(real, imag, limit, sign_lost=True):
    """Steps by NumPy, operation by operation in float32."""
    cx, cy = real[None, :], imag[:, None]
    x = y = np.zeros((imag.size, real.size), np.float32)
    steps = np.zeros(x.shape, np.int32)
    with np.errstate(all="ignore"):
        for _ in range(limit):
            xx, yy = x * x, y * y
            steps += xx + yy <= 4
            product = (x + x) * y
            x, y = xx - yy + cx, (np.abs(product) if sign_lost else product) + cy
    return steps


@exercise(
    "roofline",
    hints=(
        "The idea: memory delivers `bandwidth` bytes a second, and the program makes `intensity` "
        "operations for each byte. The answer is the product of the two, or the peak if that is less.",
        'The shape: `if intensity * bandwidth < peak:` then that product and `"memory"`; '
        "otherwise the values of the starter.",
    ),
)
def roofline(attainable):
    """The answer is the lesser of the memory's limit and the peak, with its reason."""
    for intensity, peak, bandwidth in (
        (0.07, 67e12, 3350e9),
        (1000.0, 67e12, 3350e9),
        (20.0, 8.1e12, 320e9),
        (30.0, 8.1e12, 320e9),
        (0.0, 1e12, 1e9),
        (0.5, 10.0, 2.0),
        *np.random.default_rng().uniform(1, 9, (9, 3)),
    ):
        best, limit = pair(attainable(intensity, peak, bandwidth),
                           "two things: the flops per second, and the limit")
        case = f"{intensity:g} flops per byte, a peak of {peak:g} and {bandwidth:g} bytes a second"
        slope = intensity * bandwidth
        expected, why = (slope, "memory") if slope < peak else (peak, "arithmetic")
        require(
            math.isclose(best, expected, rel_tol=1e-9),
            f"for {case}, {expected:g} flops a second are possible; your function returns {best:g}",
            look=("how many operations per second does the memory bandwidth allow, and how "
                "many does the peak allow?"),
        )
        require(
            limit == why,
            f"for {case}, the limit is {why}, not {limit!r}",
            look="which of the two limits is lower?",
        )
