"""Project 4: its claims about JAX and about the text; right and wrong answers."""

from __future__ import annotations

import re

import numpy as np
import pytest

from gpucourse.course.regions import SOLUTION, unwrap_regions
from gpucourse.grading.sandbox import cells

# What people get wrong: each kind has to be among the known-wrong answers.
KINDS = {
    "a cache that ignores dtype",
    "a cache that ignores the tree",
    "no cache",
    "a kernel per equation",
    "select reversed",
    "negative power",
    "float32 constants as doubles",
    "constvars forgotten",
    "inner variables that leak",
    "keywords as names",
    "an input returned as output",
    "scan reversed",
    "scan of length 0",
    "carries updated one after another",
    "do-while",
    "an unclamped switch",
    "scatter that overwrites its input",
    "scatter out of bounds",
    "lost repeated indices",
    "fmax",
    "fast-math isnan",
    "swallowed tracers (zero gradient)",
    "// on integers",
    "unsupported primitives swallowed",
    "jax.jit in place of a compiler",
    "one thread does everything",
    "one thread of each warp does everything",
    "a function of the tests is replaced",
}


@pytest.fixture(scope="module")
def solved(project) -> dict:
    """The set-up with the reference answers. Puts JAX back to the types that other tests expect."""
    import jax

    before = jax.config.jax_enable_x64
    namespace = project.setup()
    for cell in project.assignment.solutions:
        if cell.cell_type == "code":
            cells.run(unwrap_regions(cell.source, SOLUTION), cell.grade_id, namespace)
    yield namespace
    jax.config.update("jax_enable_x64", before)


def text_of(solved: dict, program: str, *args: np.ndarray) -> str | dict:
    return solved["compiled_text"](program, *args)[0]


def test_the_names_of_jaxprs_become_keywords_where_the_text_says():
    """`do`, `if` and `or` after `dn`, `ie` and `oq`; `do` among the 130 of the hidden test."""
    import jax

    names = re.findall(r"(\w+):f\d\d\[\]", str(jax.make_jaxpr(lambda *x: x)(*np.zeros(400))))
    for word, before in (("do", "dn"), ("if", "ie"), ("or", "oq")):
        assert names[names.index(word) - 1] == before
    assert names.index("do") < 130


def test_a_value_that_is_wanted_twice_is_written_once(solved):
    long = "def f(x):\n" + "  x = x + x\n" * 14 + "  return x"
    assert len(text_of(solved, long, np.ones(3))) < 2000


def test_what_is_not_translated_is_refused_by_name(solved):
    for program, name in (
        ("def f(x): return jnp.sort(x)", "sort"),
        ("def f(x): return x.at[0].set(1.0, mode='clip')", "scatter"),
        (
            "def f(x): return lax.fori_loop(0, 3, lambda i, c: c + c[::-1], x)",
            "a loop that mixes columns",
        ),
    ):
        assert text_of(solved, program, np.ones(3)) == {"refused": name}


def test_a_scan_repeats_its_loop_for_each_row(solved):
    """What step 9 and the second question say of its cost."""
    program = "def f(x): return lax.scan(lambda c, row: (c + row, c), 0.0, x)[1]"
    text = text_of(solved, program, np.ones(6))
    assert "< (thread + 1);" in text


# --- right and wrong answers ----------------------------------------------------------------------


def test_wrong_answers_cover_what_people_get_wrong(project):
    project.check_entries(KINDS)
    assert len(project.entries()) >= 20
