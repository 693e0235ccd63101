"""What the text of "Write your own JIT" says is what its cells show."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpucourse.course.regions import SOLUTION, unwrap_regions
from gpucourse.course.registry import load_course
from gpucourse.publish.source.reader import read_source
from lab.benchmarks import jit_programs

pytestmark = pytest.mark.rehearsal

LECTURE = "24_write_your_own_jit"


@pytest.fixture(scope="module")
def names(shown):
    return shown["hlo"].names


def test_the_formulas_give_the_values_that_were_published(names):
    for salinity, temperature, pressure, density in jit_programs.CHECK:
        water = {"salinity": salinity, "temperature": temperature, "pressure": pressure}
        assert float(names["density"](water)) == pytest.approx(density, abs=2e-4)
    assert float(names["freezing"](40.0, 50.0)) == pytest.approx(-2.588567, abs=2e-6)
    assert 3.9 < names["densest"] < 4.05


def test_one_kernel_is_as_near_to_the_truth_as_jax(names):
    """Both against the same formula in float64, by NumPy."""
    dive = {name: values.astype(np.float64) for name, values in names["dive"].items()}
    truth = jit_programs.equation_of_state(dive["salinity"], dive["temperature"], dive["pressure"])
    assert truth.dtype == np.float64
    ours, theirs = (
        np.abs(np.asarray(values) - truth).max() for values in (names["at_once"], names["by_jax"])
    )
    assert ours < 2 * theirs and theirs < 1e-3


def test_freezing_has_eight_equations_and_reads_salinity_three_times(names):
    traced = names["traced"]
    assert len(traced.eqns) == 8
    salinity = traced.jaxpr.invars[0]
    assert sum(any(atom is salinity for atom in one.invars) for one in traced.eqns) == 3


def test_its_kernel_has_eight_lines_and_two_loads(shown):
    text = shown["build"].text
    assert text.count("__global__") == 1
    assert len(re.findall(r"const float v\d+ = .*[-+*/(]", text.replace("= x", "= "))) == 8
    assert len(re.findall(r"= x\d\[i\]", text)) == 2
    assert text.endswith("as JAX: True\n")


def test_what_it_lacks_is_refused_by_name(shown):
    assert "no template for `integer_pow`" in str(shown["no-template"].error)


def test_views_cost_the_sectors_that_the_text_names(shown):
    rows = re.findall(
        r"(\d+) loads by each thread, +([\d.]+) sectors.*as JAX: (\w+)", shown["loads"].text
    )
    assert rows == [("2", "4.50", "True"), ("2", "2.50", "True"), ("2", "18.00", "True")]
    # An average of two loads: 5 and 4; 4 and 1; 4 and 32.


def test_a_function_called_twice_is_one_jaxpr(shown):
    assert shown["nested"].text.endswith("one and the same jaxpr: True\n")


def test_select_n_read_backwards_is_quietly_wrong_everywhere(shown):
    ours, theirs = re.findall(r"\[(.*?)\]", shown["select-wrong"].text.splitlines()[-1])
    assert ours.split()[0].strip("-") == theirs.split()[0].strip("-")
    assert np.allclose(np.array(ours.split(), float), -np.array(theirs.split(), float))
    assert "a c b" in shown["select-wrong"].text  # JAX has exchanged the two
    assert shown["select-right"].text == "as NumPy: True\n"


def test_shapes_and_structures_trace_and_a_global_does_not(shown):
    lines = shown["traces"].text.splitlines()
    assert [line.endswith("traced") for line in lines[:5]] == [True, False, True, True, False]
    got, wanted = map(float, re.findall(r"[\d.]+", lines[5].partition(": ")[2]))
    assert got * 35 == pytest.approx(wanted * 34, rel=1e-6)
    then, now, kernel = shown["stale-jaxpr"].text.splitlines()
    assert "35.0:f32[]" in then and "34.0:f32[]" in now and "/ (35.0f)" in kernel


def test_the_cache_key_is_all_that_its_types_need(names):
    """Through ``my_jit``: a weak type changes what a kernel computes, so it has to be another."""
    doubled = names["my_jit"](lambda x, y: x * y)
    x = np.arange(4, dtype=np.int32)
    for y in (2, np.int32(3), 2.5, np.float32(3)):
        expected = jax.jit(lambda x, y: x * y)(x, y)
        got = doubled(x, y)
        assert got.dtype == expected.dtype and np.allclose(got, expected)
    assert len(doubled.known) == 4


def test_what_is_traced_is_what_the_key_decides(names):
    """Not JAX's own cache, which would hide a key that is never the same, and a stale global."""
    calls = []
    for key, traces in ((names["key_of"], 1), (lambda tree, leaves: object(), 3)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(names["my_jit"].__globals__, "key_of", key)
            doubled = names["my_jit"](lambda x: calls.append(x) or 2 * x)
            for _ in range(3):
                doubled(1.0)
        assert len(calls) == traces
        calls.clear()


def test_density_and_its_derivatives_are_one_kernel_each(shown, names):
    text = shown["density"].text
    assert float(re.search(r"from jax.jit (\S+)", text)[1]) < 5e-4
    assert all(float(one) < 1e-4 for one in re.findall(r"relative difference (\S+)", text))
    assert re.findall(r"(\d) kernel,", text) == ["1", "1"]
    equations = [int(one) for one in re.findall(r"(\d+) equations", text)]
    assert equations[0] == 82 < equations[1]


def test_one_kernel_loads_each_number_once(shown, names):
    many, one = shown["plans"].text.splitlines()[:2]
    assert "launches: 82, load requests: 15,488, bytes a measurement: 812 (100% coalesced)" in many
    assert "launches: 1, load requests: 384, bytes a measurement: 16 (100% coalesced)" in one
    assert shown["plans"].text.endswith("the same densities: True\n")
    assert 3 * names["n"] // 32 == 384


def test_xla_makes_one_fusion_too(shown):
    assert "kind=kLoop" in shown["hlo"].text and "\n1 fusion; inside of it" in shown["hlo"].text
    (constants,), (broadcasts,) = (
        re.findall(rf"(\d+) {word}", shown["hlo"].text) for word in ("constant", "broadcast")
    )
    assert constants == broadcasts


def test_the_derivatives_load_each_input_once_and_write_three_results(names):
    closed = jax.make_jaxpr(names["slopes_of"])(names["dive"])
    source = names["build"](closed).source
    assert len(re.findall(r"= x\d\[i\]", source)) == 3
    assert len(re.findall(r"y\d\[i\] =", source)) == 3


def test_pow_takes_some_sixty_instructions(names):
    x = names["dive"]["salinity"]
    closed = jax.make_jaxpr(lambda x: x**16)(x)
    counts = {}
    with pytest.MonkeyPatch.context() as patch:
        for power in (names["power"], lambda name, x, y: f"pow({x}, {y})"):
            patch.setitem(names["TEMPLATES"], "integer_pow", power)
            profile, _ = names["counted"](names["build"](closed), x)
            counts[power] = profile.counters.thread_instructions
    products, pow = (count / x.size for count in counts.values())
    assert 55 < pow - (products - 4) < 70


def test_the_parts_of_jaxpile_that_it_points_at_exist(repository: Path):
    text = (repository / "course/lectures" / LECTURE / "notebook.py").read_text(encoding="utf-8")
    table = text[text.index("| here | in jaxpile") :]
    rows = re.findall(r"^# \| [^|]+ \| (.*?) \|", table, re.MULTILINE)
    files = [name for row in rows for name in re.findall(r"`([\w/]+(?:\.py|/))`", row)]
    assert len(files) >= 9
    for name in files:
        assert (repository / "packages/jaxpile/src/jaxpile" / name).exists(), name


def test_the_compiler_passes_over_what_jax_passes_over(names):
    """Inputs as results, literals as results, arrays of no element, calls on tracers."""
    my_jit = names["my_jit"]
    x = np.arange(3, dtype=np.float32)
    same, seven = my_jit(lambda x: (x, 0 * x + 7.0))(x)
    assert np.array_equal(same, x) and np.array_equal(seven, [7, 7, 7])
    assert my_jit(lambda x: x + 1)(x[:0]).shape == (0,)
    assert float(my_jit(lambda a, b: a * b)(3.0, jnp.inf)) == np.inf
    assert np.isnan(my_jit(lambda x: jnp.maximum(x, np.nan))(x)).all()
    assert float(jax.grad(my_jit(lambda x: x**3))(2.0)) == 12.0
    with pytest.raises(NotImplementedError, match="several shapes"):
        my_jit(lambda x: (x, x[:2]))(x)


COMPILER = (
    "templates",
    "kernel",
    "write",
    "translate",
    "build",
    "power-exercise",
    "broadcast-exercise",
    "nested-exercise",
    "key-exercise",
    "my-jit",
)


def test_it_has_the_lines_that_the_text_promises(repository: Path):
    """As ast.unparse writes them: without comments, and here without what only shows something."""
    course = load_course(repository)
    cells = {cell.name: cell.source for cell in read_source(course, course.lesson(LECTURE)).cells}
    lines = 0
    for name in COMPILER:
        text = unwrap_regions(cells[name], SOLUTION)
        for node in ast.parse(text).body:
            code = ast.unparse(_without_docstrings(node))
            if not (isinstance(node, ast.Expr) or code.startswith(("built =", "(ours"))):
                lines += len(re.findall(r".+", code))
    (promised,) = re.findall(r"in about\s+(\d+)\s+lines of Python", cells["the-parts"])
    assert int(promised) == pytest.approx(lines, abs=3)


def _without_docstrings(tree: ast.AST) -> ast.AST:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and len(body) > 1 and _is_text(body[0]):
            del body[0]
    return tree


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
