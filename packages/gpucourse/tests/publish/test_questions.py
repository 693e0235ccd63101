"""Predictions in a source: asked with choices, run, explained out of sight; all else is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucourse.publish.notebooks.derive import lecture_notebook
from gpucourse.publish.source.questions import asked, mistakes
from gpucourse.publish.source.reader import Cell, read_course
from small_course import LECTURE, edit, write_course

SOURCE = f"course/lectures/{LECTURE}/notebook.py"
REASONS = f"course/lectures/{LECTURE}/predictions.toml"


def found(root: Path) -> list[str]:
    course, (lecture, _) = read_course(root)
    return [f"{cell.name}: {text}" for cell, text in mistakes(course, lecture)]


def test_four_cells_in_order_are_right(tmp_path: Path):
    assert found(write_course(tmp_path)) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        (
            SOURCE,
            'predict("too-far", "1", "an error")',
            "predict = 1",
            'why: the next cell must be predict("name", ',
        ),
        (SOURCE, ' tags=["predict"]', "\n# *Predict:* how many?", "why: asks for a prediction"),
        (SOURCE, ' tags=["predict"]', "\n# ### Predict, then run", "why: asks for a prediction"),
        (
            SOURCE,
            'id="too-far" raises',
            'id="farther" raises',
            "too-far-guess: predicts 'too-far', so the cell of that name",
        ),
        (SOURCE, ' tags=["why"]', "", "too-far-why: follows the cells that 'too-far' predicts"),
        (SOURCE, ' tags=["why"]', ' tags=["predict", "why"]', "too-far-why: asks inside a fold"),
        (
            SOURCE,
            "# An error: nothing",
            "# ### An error\n# nothing",
            "too-far-why: is folded, so nobody",
        ),
        (
            SOURCE,
            '"in-the-room" tags=["room"]',
            '"in-the-room" tags=["room", "why"]',
            "in-the-room: explains no prediction",
        ),
        (
            SOURCE,
            '"1", "an error")',
            '"2", "an error")',
            "the prediction 'too-far' offers '2', 'an er",
        ),
        (SOURCE, 'predict("too-far"', 'predict("nearer"', "too-far-guess: 'nearer' has no reasons"),
        (
            REASONS,
            "[too-far]",
            '[nearer]\nright = "a"\nwrong = {b = "' + "x" * 40 + '"}\n[too-far]',
            "no cell calls predict('nearer', …)",
        ),
        (
            REASONS,
            "Nought goes into one as often as you like, which is no number.",
            "No.",
            "must say why '1' tempts",
        ),
        (REASONS, "right =", "write =", "[too-far] needs right"),
        (
            SOURCE,
            '# %% [markdown] id="too-far-why"',
            '# %% id="twice"\npredict("too-far", "1", "an error")\n\n# %% [markdown] '
            'id="too-far-why"',
            "twice: asks the same prediction as another cell",
        ),
    ],
)
def test_what_is_missing_or_gives_the_answer_away_is_named(tmp_path, file, old, new, says):
    edit(write_course(tmp_path) / file, old, new)
    assert any(says in text for text in found(tmp_path)), found(tmp_path)


def test_the_explanation_is_folded_in_the_notebook(tmp_path: Path):
    course, (lecture, _) = read_course(write_course(tmp_path))
    (why,) = [
        cell
        for cell in lecture_notebook(course, lecture).cells
        if "nothing is shared out" in cell.source
    ]
    assert why.source.startswith(
        "<details>\n<summary>What came out, and why</summary>\n\nAn error:"
    )
    assert why.source.endswith("nobody.\n\n</details>")


@pytest.mark.parametrize(
    "source",
    [
        "predict('a', *choices)",
        "x = predict('a', 'b')",
        "predict(",
        "predict('a', 'b', guess='b')",
        "forecast('a', 'b')",
        "predict('a', 1)",
    ],
)
def test_a_call_whose_choices_cannot_be_read_is_no_question(source: str):
    assert asked(Cell("guess", "code", source, 1)) is None
