"""A puzzle's file: read strictly, made into cells, and handed out without its answers."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpucourse.course.puzzles import PuzzleError, cells, expanded, read_puzzle, read_puzzles

HOOK = Path(__file__).parents[2] / "hatch_build.py"
TEXT = """title = "Add ten"
text = "One line."
spec = "out = a + 10"
kernel = \'\'\'
@cuda.jit
def add_ten(a, out):
    i = cuda.grid(1)
    ### BEGIN SOLUTION
    out[i] = a[i] + 10
    ### END SOLUTION
\'\'\'
hints = ["The idea: …", "The shape: …"]

[inputs]
a = "whole(n)"

[predict]
question = "how many?"
choices = ["one", "two"]
right = "one"
why = "Because."

[predict.wrong]
"two" = "It isn't, since there is one."

[[wrong]]
edit = ["+ 10", "+ 1"]
says = "out"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "01_add_ten.toml"
    path.write_text(TEXT)
    return path


def test_a_puzzle_is_what_its_file_says(file: Path):
    puzzle = read_puzzle(file)
    assert (puzzle.name, puzzle.function, puzzle.parameters) == ("add-ten", "add_ten", ("a", "out"))
    assert puzzle.outputs == ("out",) and puzzle.solved
    assert "+ 1\n" in puzzle.wrong[0].text(puzzle.solution) + "\n"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('title = "Add ten"\n', "", "missing: title"),
        ("hints =", "hint =", "unknown: hint"),
        ("says = ", "say = ", "say"),
        ('question = "how many?"\n', "", "question"),
    ],
)
def test_a_mistake_is_told_with_its_file(file: Path, old: str, new: str, said: str):
    file.write_text(TEXT.replace(old, new))
    with pytest.raises(PuzzleError, match=said) as caught:
        read_puzzle(file)
    assert "01_add_ten.toml" in str(caught.value)


def test_an_edit_that_changes_nothing_is_told(file: Path):
    puzzle = read_puzzle(file)
    with pytest.raises(PuzzleError, match="nothing reads"):
        puzzle.wrong[0].text(puzzle.solution.replace("+ 10", "+ 11 - 1").replace("10", "x"))


def test_cells_are_asked_written_checked_and_explained(file: Path):
    text = cells(read_puzzle(file), 3)
    order = [
        'id="add-ten-task" tags=["predict"]',
        "## 3. Add ten",
        'picture("add-ten")',
        'predict("add-ten", "one", "two")',
        'tags=["exercise"]',
        'check("add-ten", add_ten)',
        'tags=["why"]',
    ]
    places = [text.index(one) for one in order]
    assert places == sorted(places)


def test_every_puzzle_stands_once_in_its_lesson(file: Path):
    known = read_puzzles(file.parent)
    lines, origins = expanded('# %% id="x"\n\n# %% puzzle="add-ten"\nend', known)
    assert lines[0] == '# %% id="x"' and origins[-1] == 4 and set(origins[2:-1]) == {3}
    for text in ("", '# %% puzzle="add-ten"\n# %% puzzle="add-ten"', '# %% puzzle="other"'):
        with pytest.raises(PuzzleError):
            expanded(text, known)


def test_what_a_wheel_brings_holds_no_answer(file: Path, monkeypatch: pytest.MonkeyPatch):
    # The build's own library, of which the hook takes a base class, is not installed here.
    interface = SimpleNamespace(BuildHookInterface=object)
    monkeypatch.setitem(sys.modules, "hatchling.builders.hooks.plugin.interface", interface)
    spec = importlib.util.spec_from_file_location("hatch_build", HOOK)
    assert spec is not None and spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    catalogue = 'msgctxt "test"\nmsgid "wrong"\n\nmsgctxt "hidden test"\nmsgid "for 33"\n\n'
    assert hook.without_hidden_tests(catalogue) == 'msgctxt "test"\nmsgid "wrong"\n\n'
    text = hook.without_answers(TEXT)
    assert "a[i] + 10" not in text and "[[wrong]]" not in text and "[predict.wrong]" in text
    file.write_text(text)
    assert not read_puzzle(file).solved and read_puzzle(file).parameters == ("a", "out")
