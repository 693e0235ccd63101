"""What the text of "PyCUDA" says is what its cells show."""

from __future__ import annotations

import sys
import tomllib

import numpy as np
import pytest

import virtualgpu
from gpucourse.course.regions import SOLUTION, unwrap_regions
from gpucourse.course.registry import load_course
from gpucourse.publish.source.reader import read_source

pytestmark = pytest.mark.rehearsal


def test_paths_are_circles_of_the_radius_that_the_text_gives(shown):
    names = shown["the-question"].names
    x, y, pt, charge = (names[name].astype(float) for name in ("x", "y", "pt", "charge"))
    assert x.shape == (201, 40)
    assert 200 * 0.05 == 10  # metres
    # Three points of each path, not too near: the circle through them, and on which side it is.
    a, b, c = (x[k] + 1j * y[k] for k in (0, 100, 200))
    sides = np.abs(a - b) * np.abs(b - c) * np.abs(c - a)
    turned = ((b - a).conjugate() * (c - a)).imag
    assert np.allclose(sides / (2 * np.abs(turned)), pt / (0.3 * 3.8), rtol=0.02)
    assert (np.sign(turned) == -charge).all()


def test_the_line_after_the_missing_semicolon_is_blamed(shown):
    said = str(shown["error"].error)
    assert 'line 5: expected a ";"' in said
    assert "if (i < n)\n    ^" in said


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("y = 1;", 'identifier "y" is undefined'),
        ("if (x[0] > 0 { }", r'expected a ")"'),
        (
            "float y = x;",
            'a value of type "float *" cannot be used to initialize an entity of type "float"',
        ),
        ("x[0] = x[0]**2;", 'operand of "*" must be a pointer'),
    ],
)
def test_the_compiler_says_what_the_text_says_it_says(body, says, shown):
    compile = shown["the-question"].names["SourceModule"]
    with pytest.raises(Exception, match="does not compile") as raised:
        compile(f"__global__ void f(float *x) {{ {body} }}")
    assert says in str(raised.value)


def test_false_friends(shown):
    here, there = shown["false-friends"].text.splitlines()
    assert here.split()[1:] == ["0.0", "-3.0", "-1.0", "1.0"]
    assert there.split()[1:] == ["0.5", "-4", "2", "8"]


def test_a_number_without_a_size_is_refused_and_a_wrong_array_is_not(shown):
    assert "invalid type on parameter #2 (0-based)" in str(shown["python-int"].error)
    wrong = np.array([1.0, 2.0, 3.0, 91.1876])
    wrong.view(np.float32)[:4] *= np.float32(3)
    assert str(wrong) == shown["silence"].text.strip()
    assert wrong[2:].tolist() == [3.0, 91.1876]
    assert "[5120. 8192.]" in shown["silence-bytes"].text
    (finding,) = shown["silence-check"].names["report"].findings
    assert finding.message.startswith("argument 0 of scale is an array of float64")
    assert np.arange(8).view(np.int32)[:8].tolist() == [0, 0, 1, 0, 2, 0, 3, 0]


def test_a_wrong_scalar_moves_those_after_it(shown):
    """What the report of section 3 is for: nothing raises."""
    names = shown["python-int"].names
    values = np.ones(4, np.float32)
    names["scale"](names["drv"].InOut(values), np.float64(3), np.int32(4), block=(4, 1, 1))
    assert values.tolist() != [3, 3, 3, 3]


def test_in_out_and_inout(shown):
    both, there, back = shown["in-out"].text.splitlines()
    assert both == "InOut  [2. 4. 6.]"
    assert there == "In     [1. 2. 3.]"
    assert back not in ("Out    [2. 4. 6.]", "Out    [0. 0. 0.]")


def test_memory_is_counted_in_bytes(shown):
    assert shown["by-hand"].text.startswith("804 bytes for 201 numbers")
    assert shown["by-hand"].text.strip().endswith("True")


def test_operators_and_one_kernel_agree_but_not_in_type(shown):
    names = shown["arrays"].names
    assert (names["by_operators"].dtype, names["d_turn"].dtype) == (np.float64, np.float32)
    assert np.allclose(names["by_operators"].get(), names["d_turn"].get(), rtol=1e-5)


def test_paths_bend_back_in_the_iron_and_not_without_a_table(shown):
    names = dict(shown["constant-memory"].names)
    path = names["x_iron"] + 1j * names["y_iron"].astype(float)
    turns = np.diff(np.unwrap(np.angle(np.diff(path, axis=0)), axis=0), axis=0)
    along = turns * -names["charge"]
    away = np.abs(path[1:-1])
    inside, outside = away < 2.9, (away > 3.1) & (away < 6.9)
    assert (along[inside] > 0).all() and (along[outside] < 0).all()
    fresh = names["SourceModule"](
        "__constant__ float field[7];__global__ void show(float *out) { out[0] = field[3]; }"
    )
    out = np.ones(1, np.float32)
    fresh.get_function("show")(names["drv"].Out(out), block=(1, 1, 1))
    assert out[0] == 0


def test_cupy_runs_the_same_string(shown):
    assert shown["raw-kernel"].text == "the same paths: True\n"


def test_the_names_of_cuda_core_in_the_text_exist():
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

    assert all(hasattr(Device, name) for name in ("set_current", "create_stream", "arch"))
    assert hasattr(Program, "compile") and callable(launch)
    assert ProgramOptions(arch="sm_90").arch == "sm_90"
    assert LaunchConfig(grid=1, block=64).block == (64, 1, 1)


def test_pycuda_is_the_release_that_the_text_names(shown, repository):
    import pycuda

    assert pycuda.VERSION == (2026, 1)
    with open(repository / "pyproject.toml", "rb") as file:
        assert tomllib.load(file)["dependency-groups"]["pycuda"] == ["pycuda>=2026.1"]


def test_every_cell_runs_without_pycuda_too(repository, monkeypatch: pytest.MonkeyPatch, capsys):
    """As on a GPU machine without PyCUDA, with CuPy's stand-in in the part of CuPy: every check
    accepts the solution there too."""
    virtualgpu.activate(force=True)
    for name in [name for name in sys.modules if name.split(".")[0] == "pycuda"]:
        monkeypatch.delitem(sys.modules, name)
    import cupy

    monkeypatch.setattr(cupy, "__version__", "14.2.0")  # as on a GPU
    course = load_course(repository)
    names: dict = {"__name__": "lecture"}
    cells = [
        one for one in read_source(course, course.lesson("04_pycuda")).cells if one.kind == "code"
    ]
    for cell in cells:
        source = unwrap_regions(cell.source, SOLUTION).removeprefix("%load_ext gpucourse\n")
        try:
            exec(compile(source, cell.name, "exec"), names)
        except Exception:
            assert cell.raises, cell.name
    assert not names["pycuda"].VIRTUAL
    printed = capsys.readouterr().out
    assert printed.count("✓") >= 5 and "✗" not in printed, printed
    assert np.array_equal(names["d_x"].get(), names["x"])
    for name in [name for name in sys.modules if name.split(".")[0] == "pycuda"]:
        del sys.modules[name]
