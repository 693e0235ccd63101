"""The text of "PyTorch as a neighbour" against the output of its cells."""

from __future__ import annotations

import re

import numpy as np
import pytest

from conftest import REPOSITORY
from gpucourse.course.registry import load_course
from gpucourse.publish.source.reader import read_source
from gpucourse.system.libraries import absent
from lecture_cells import outcome

ID = "25_pytorch_as_a_neighbour"


def source() -> dict[str, str]:
    course = load_course(REPOSITORY)
    return {cell.name: cell.source for cell in read_source(course, course.lesson(ID)).cells}


@pytest.mark.rehearsal
@pytest.mark.skipif(not absent("torch"), reason="PyTorch is installed")
def test_where_pytorch_is_missing_its_cells_say_so_in_one_sentence(shown):
    needing = [name for name, text in source().items() if text.startswith("%%needs torch\n")]
    assert len(needing) >= 7
    for name in needing:
        assert shown[name].text == f"{absent('torch')}\n"
        assert shown[name].error is None
    using = [name for name, text in source().items() if re.search(r"^(?!#).*\btorch\.", text, re.M)]
    code = [name for name in using if name in shown]
    assert code and set(code) <= set(needing), (
        "a cell uses PyTorch and does not say that it needs it"
    )


@pytest.mark.rehearsal
def test_the_check_of_the_rule_says_what_was_not_asked(shown):
    assert "PyTorch is not installed here. The check called your rule as PyTorch would" in (
        shown["rule-check"].text
    )
    assert "✓ rule" in shown["rule-check"].text


@pytest.mark.rehearsal
def test_a_descent_by_hand_finds_the_hits(shown):
    first, last = map(float, re.findall(r"([\d.]+)(?: strips| in)", shown["by-hand"].text))
    assert first > 0.2 and last < 0.01


@pytest.mark.rehearsal
def test_from_between_other_strips_a_hit_gets_stuck(shown):
    names = shown["by-hand"].names
    true, charge, strips = names["true"], names["charge"], names["STRIPS"]
    x = true + np.random.default_rng(24).uniform(-0.7, 0.7, true.size)
    for _ in range(200):
        off = names["deposit_arrays"](x, charge, strips) - names["measured"]
        x -= 0.1 * names["collect_arrays"](x, charge, 2 * off)[0]
    stuck = abs(x - true) > 0.1
    assert 0 < stuck.sum() < true.size
    assert np.all(np.floor(x[stuck]) != np.floor(true[stuck])) or np.all(
        abs(x[stuck] - np.round(x[stuck])) < 0.1
    )


@pytest.mark.rehearsal
def test_views_reach_all_and_copies_nothing(shown):
    told = str(shown["reach"].names["reach"]({"view": shown["reach"].names["table"].T}))
    assert "view 12" in told
    assert shown["borrowed"].text == "one memory: True\n"
    assert "read-only" in str(shown["borrowed"].error)


@pytest.mark.rehearsal
@pytest.mark.skipif(bool(absent("torch")), reason="needs PyTorch and a C++ compiler")
def test_what_the_text_quotes_of_pytorch_is_printed(shown):
    cells = {name: cell.text for name, cell in shown.items()}
    text = source()
    assert "now [7. 1. 2. 3.]" in cells["jax-changed"]
    said = re.search(r"`(element 0.*?)`", text["plain-why"])[1]
    assert said in cells["plain"]
    assert cells["opcheck"].count("SUCCESS") == 4
    assert cells["opcheck"].strip().splitlines()[1:] == ["gradcheck: False", "gradcheck: True"]
    assert re.findall(r"(\d) graphs", cells["breaks"]) == ["2", "1"]
    assert "Unsupported" in cells["breaks"]
    kernels = re.search(r"besides ours: (\d+) operations, (\d+) kernels", cells["fused"]).groups()
    assert kernels == ("6", "2")
    off = list(map(float, re.findall(r"(?:position|charge) ([\d.]+)", cells["fit"])))
    assert len(off) == 2 and max(off) < 0.01


def test_a_check_without_an_operator_says_what_to_run():
    """The rule's check takes a plain `collect` where PyTorch is not there, and nothing else."""
    heard = outcome(ID, "rule", (lambda ctx, inputs, output: None, lambda ctx, g: None))
    assert not heard.passed and "backward returns 1 derivative for 3 inputs" in heard.message
