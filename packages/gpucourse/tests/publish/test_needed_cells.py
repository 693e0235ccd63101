"""Set-up of a part: the names that it reads from earlier cells, no others, and nothing shown."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gpucourse.publish.notebooks.needed_cells import names, quiet, set_up
from gpucourse.publish.source.reader import Cell


def code(name: str, text: str, **more) -> Cell:
    return Cell(name, "code", text, 1, **more)


@pytest.mark.parametrize(
    ("text", "surely", "used"),
    [
        ("b = a\na = 1", {"a", "b"}, {"a"}),
        ("a += 1", {"a"}, {"a"}),
        ("a = 1\na += b", {"a"}, {"b"}),
        ("for k, v in d.items():\n    s = k + v\nt = s", {"k", "v", "s", "t"}, {"d"}),
        ("if a:\n    b = c = 1\nelse:\n    b = 2\nd = b + c", {"b", "d"}, {"a", "c"}),
        ("while n > 1:\n    n = half\n    m = n", {"n", "m"}, {"n", "half"}),
        ("with f() as g:\n    h = g", {"g", "h"}, {"f"}),
        (
            "try:\n    a = f()\nexcept KeyError:\n    b = 1\nelse:\n    c = a",
            {"a", "c"},
            {"f", "KeyError"},
        ),
        ("def f(x):\n    y = x\n    return f(y) + z\nz = 1", {"f", "z"}, {"z"}),
        ("from a import b as c\nd = [c(e) for e in range(3)]", {"c", "d"}, {"range"}),
        ("%load_ext gpucourse\na = 1", {"a"}, set()),
    ],
)
def test_a_cell_reads_what_it_has_not_bound_before(text: str, surely: set, used: set):
    assert names(code("x", text))[1:] == (surely, used)


def test_a_cell_that_fails_surely_binds_nothing():
    bound, surely, used = names(code("x", "a = f()\nb = a[9]", raises=("IndexError",)))
    assert (bound, surely, used) == ({"a", "b"}, set(), {"f"})


def test_a_cell_that_only_shares_a_name_with_the_part_is_no_set_up():
    cells = [
        code("first", "import numpy as np"),
        code("kernel", "def double(x): return 2 * x"),
        code("quiz", "figure = draw(np.ones(3))\nanswer = 'told'"),
        code("part", "figure = np.zeros(double(2))\nprint(figure)"),
    ]
    source = SimpleNamespace(cells=cells)
    assert [cell.name for cell in set_up(source, cells[3:])] == ["first", "kernel"]
    assert set_up(source, []) == []


def test_set_up_shows_nothing():
    text = (
        "%load_ext gpucourse\nimport numpy as np\nx = np.ones(3)\nfor y in x:\n    print(y)\n"
        'def show(x):\n    print(x)\n\nprint(\n    x)\naxes = canvas()\naxes.set(xlabel="x")'
    )
    assert quiet(text) == (
        "%load_ext gpucourse\nimport numpy as np\nx = np.ones(3)\n"
        'def show(x):\n    print(x)\n\naxes = canvas()\naxes.set(xlabel="x");'
    )
