"""What the text of "One problem, every tool" says is what its cells show."""

from __future__ import annotations

import re

import numpy as np
import pytest

from gpucourse.exercises.checks import load_lesson
from wrong_answers import answers_of

pytestmark = pytest.mark.rehearsal

ID = "18_one_problem_every_tool"
#: Pixels of 98,304 that may differ by an fma or by double precision: "a few in ten thousand".
A_FEW = range(1, 60)


@pytest.fixture(scope="module")
def names(shown):
    """All names as the last cell left them."""
    return list(shown.values())[-1].names


def differing(text: str) -> dict[str, int]:
    found = re.findall(r"(\d+) differ: (.+)", text)
    return {name.strip(): int(number) for number, name in found}


def test_cupy_gives_the_same_picture_in_a_thousand_launches(shown):
    cell = shown["cupy-arrays"]
    assert "the same picture: True" in cell.text
    assert "1,000 launches" in cell.text
    launched = cell.names["launched"]
    assert launched.exact
    assert [one.name for one in launched[:10]] == [one.name for one in launched[10:20]]


def test_the_table_of_a_turn_is_what_cupy_would_launch(shown):
    """The lecture counts by hand; the names of the launches tell types, and so bytes, again."""
    launched = shown["cupy-arrays"].names["launched"]
    flops = nbytes = 0
    for one in launched:
        operation, kinds = one.name.removeprefix("cupy_").split("__")
        types = [np.dtype(kind) for kind in kinds.split("_") if kind != "float"]  # a constant
        nbytes += one.size * sum(kind.itemsize for kind in types)
        if types[-1].kind == "f":
            assert operation in ("add", "subtract", "multiply")
            flops += one.size
    assert shown["cost"].names["work"]["CuPy, arrays"] == (len(launched), flops, nbytes)


def test_the_naive_port_to_numba_differs_and_jax_refuses(shown):
    assert "the same picture: False" in shown["numba"].text
    assert "Attempted boolean conversion of traced array" in str(shown["jax-refuses"].error)
    assert "PyCUDA give the same picture: True" in shown["pycuda"].text


def test_they_agree_but_for_a_few_pixels(shown):
    pixels = differing(shown["agree"].text)
    assert len(pixels) == 8
    assert pixels["NumPy"] == pixels["CuPy, arrays"] == 0
    kernels = ("CuPy, ElementwiseKernel", "CuPy, RawKernel", "PyCUDA", "Numba CUDA")
    assert {pixels[name] for name in kernels} == {pixels["PyCUDA"]}
    assert pixels["PyCUDA"] in A_FEW
    assert pixels["Numba, CPU"] in A_FEW  # double precision by accident
    assert pixels["JAX"] in range(60)  # none on a processor without fma


def test_what_differs_lies_at_the_edge(shown):
    names = shown["agree-where"].names
    picture, different = names["picture"], names["different"]
    assert different.sum() == differing(shown["agree"].text)["CuPy, RawKernel"]
    for row, column in np.argwhere(different):
        around = picture[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2]
        assert around.min() < around.max()


def test_rounded_alike_they_agree_to_the_pixel(shown):
    assert differing(shown["agree-exactly"].text) == {
        "Numba, CPU, in float32": 0,
        "Numba CUDA, products by fmul_rn": 0,
        "CuPy, RawKernel, --fmad=false": 0,
        "JAX, each operation by itself": 0,
    }


def test_without_contraction_the_other_two_of_nvrtc_agree_too(names):
    """The text says so of ElementwiseKernel and PyCUDA, and shows the RawKernel."""
    import cupy as cp
    from pycuda.compiler import SourceModule

    real, imag, limit = names["real"], names["imag"], names["LIMIT"]
    kernel = cp.ElementwiseKernel(
        "float32 cx, float32 cy, int32 limit",
        "int32 steps",
        names["BODY"],
        "unfused",
        options=("--fmad=false",),
    )
    steps = kernel(cp.asarray(real)[None, :], cp.asarray(imag)[:, None], limit).get()
    assert np.array_equal(steps, names["picture"])
    module = SourceModule(names["SOURCE"], no_extern_c=True, options=["--fmad=false"])
    scope = names["by_pycuda"].__globals__
    before = scope["stays_pycuda"]
    scope["stays_pycuda"] = module.get_function("stays")
    try:
        assert np.array_equal(names["by_pycuda"](real, imag, limit), names["picture"])
    finally:
        scope["stays_pycuda"] = before


def test_numba_computes_in_double_by_accident_and_only_there(names):
    from numba import cuda

    signature = names["signature"]
    doubles = {}
    for name in ("stays", "stays_single"):
        kernel = names["picture_kernel"](names[name])
        ptx, _ = cuda.compile_ptx(kernel.py_func, signature, cc=(9, 0))
        doubles[name] = ".f64" in ptx
    assert doubles == {"stays": True, "stays_single": False}


def test_arrays_move_nearly_a_thousand_times_the_bytes(shown):
    work = shown["cost"].names["work"]
    (launches, flops, nbytes), (one, fewer, least) = work.values()
    assert (launches, one) == (1000, 1)
    assert 800 < nbytes / least < 1000
    assert flops > 2 * fewer
    assert least == 12 * shown["cost"].names["picture"].size  # two numbers in, one out
    assert round(flops / nbytes, 2) == 0.07
    assert 15 < fewer / least < 30  # near the corner of both roofs: 20 and 25


def test_a_quarter_of_a_teraflops(shown):
    names = shown["roofline"].names
    gpu = names["GPUS"]["H100"]
    best, limit = names["attainable"](
        names["intensity"]["CuPy, arrays"], gpu["peak"], gpu["bandwidth"]
    )
    assert limit == "memory"
    assert 0.24e12 < best < 0.26e12
    corners = [gpu["peak"] / gpu["bandwidth"] for gpu in names["GPUS"].values()]
    assert np.allclose(corners, [25.3, 20], atol=0.1)


def test_lanes_of_the_kernel_part(shown):
    names = shown["cost-card"].names
    told = str(
        names["gpucourse"].report(
            names["stays_raw"],
            (2, 4),
            (32, 8),
            names["real"][:64],
            names["imag"][:32],
            np.int32(100),
            np.zeros((32, 64), np.int32),
            np.int32(64),
            np.int32(32),
        )
    )
    assert re.search(r"[1-9]\d? % of the executed lanes did nothing", told)


def test_compiling_takes_time_and_lines_are_counted(shown):
    assert all(took > 0.001 for took in shown["compile"].names["compiling"].values())
    written = shown["lines"].names["written"]
    assert written["NumPy, CuPy arrays"] == 9  # the docstring and the loop's head are no work
    assert written["PyCUDA"] > written["Numba CUDA"] > written["JAX"]


def test_one_kernel_stores_in_every_turn(shown):
    lines = [line for line in shown["outlier"].text.splitlines() if "stores" in line]
    stores, _ = zip(
        *(
            (int(a.replace(",", "")), float(b.replace(",", "")))
            for a, b in (
                re.search(r"([\d,]+) stores +([\d,.]+) kB", line).groups() for line in lines
            )
        ),
        strict=True,
    )
    small = shown["outlier"].names["small"]
    assert stores[1] == small[0].size * small[1].size
    assert stores[0] > 20 * stores[1]
    assert "the same picture: True" in shown["outlier"].text
    names = shown["compare"].names
    results = {
        result.name: result.counters
        for result in names["gpucourse"].compare(names["tools"], *small, names["LIMIT"]).results
    }
    sectors = {name: counts.global_sectors for name, counts in results.items() if counts}
    assert 35 < sectors["CuPy, ElementwiseKernel"] / sectors["CuPy, RawKernel"] < 50


def test_the_crossover_comes_in_the_order_that_the_text_says(shown):
    arrays, kernel, compiled = shown["crossover-here"].names["wins"].values()
    assert kernel < compiled
    assert arrays is None or kernel < arrays  # None: this processor is faster than that program
    assert [line.split()[-1] for line in shown["crossover-here"].text.splitlines()[2:]] == [
        str(n) for n in (arrays, kernel, compiled)
    ]


def test_more_steps_move_the_kernel_to_the_right(names):
    """With a larger LIMIT it does more operations for the same bytes."""
    import virtualgpu

    intensity = []
    for limit in (100, 300):
        with virtualgpu.profile() as profile:
            names["by_numba_cuda"](*names["small"], limit)
        counts = profile.counters
        moved = counts.global_bytes_read + counts.global_bytes_written
        intensity.append(counts.flops / moved)
    assert intensity[1] > 2 * intensity[0]


@pytest.mark.parametrize("name", ["right_elementwise", "right_numba_cuda", "right_jax"])
def test_the_ship_may_be_built_with_any_tool(name):
    outcome = load_lesson(ID).outcome("ship", getattr(answers_of(ID), name))
    assert outcome.passed, outcome.message


def test_beside_a_gpu_its_own_times_are_in_the_picture(repository, names):
    """The cell's other branch, with the virtual GPU in the part of the real one."""
    from types import SimpleNamespace

    from gpucourse.course.registry import load_course
    from gpucourse.publish.source.reader import read_source

    course = load_course(repository)
    cells = {cell.name: cell for cell in read_source(course, course.lesson(ID)).cells}
    scope = dict(names) | {"device": lambda: SimpleNamespace(virtual=False), "seconds": lambda f: 1}
    exec(cells["crossover-picture"].source, scope)
    (axes,) = scope["figure"].axes
    assert len(axes.lines) == 4 + 4
