"""What is to be seen of a lesson without running it: each mistake is found, with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import REPOSITORY
from gpucourse.publish import commands
from gpucourse.publish.notebooks.inspection import inspect
from gpucourse.publish.notebooks.rehearsal import _is_wordless
from gpucourse.publish.source.gallery import read_gallery
from gpucourse.publish.source.reader import read_course
from small_course import LECTURE, PROJECT, edit, write_course

SOURCE = Path("course") / "lectures" / LECTURE / "notebook.py"


def found(root: Path) -> list[str]:
    course, sources = read_course(root)
    problems = [problem for source in sources for problem in inspect(course, source)]
    return [str(problem).removeprefix("course/") for problem in problems]


def with_text(root: Path, text: str) -> list[str]:
    """What is found when this Markdown stands in the lecture's first text cell."""
    write_course(root)
    (root / "img").mkdir()
    (root / "img" / "there.svg").write_text("<svg/>")
    (root / "docs").mkdir()
    (root / "docs" / "page.md").write_text("# A page\n\n## With a place\n")
    edit(root / SOURCE, "# Because one is *not* enough.", f"# {text}")
    return found(root)


def with_code(root: Path, code: str, marker: str = '# %% id="extra"') -> list[str]:
    """What is found when this cell is put before the lecture's end."""
    write_course(root)
    edit(
        root / SOURCE,
        '# %% [markdown] id="in-the-room"',
        f'{marker}\n{code}\n\n# %% [markdown] id="in-the-room"',
    )
    return found(root)


@pytest.mark.parametrize(
    "text",
    [
        "![Three blocks of 64 threads, side by side.](../img/there.svg)",
        '<img src="../img/there.svg" alt="Three blocks of 64 threads.">',
        "`![](none.svg)` is how a picture is written",
        f"[project](../projects/{PROJECT}/{PROJECT}.ipynb), [page](../docs/page.md#with-a-place), "
        "[up](#why-two), [out](https://example.org/none.md#none)",
    ],
)
def test_what_is_right_is_let_pass(tmp_path: Path, text: str):
    assert with_text(tmp_path, text) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("![](../img/there.svg)", "say in words what ../img/there.svg shows: ![words]"),
        ("![Figure 1](../img/there.svg)", "say in words what ../img/there.svg shows"),
        (
            "![Three blocks of 64 threads, side by side.](../img/none.svg)",
            "the picture ../img/none.svg does not exist",
        ),
        ('<img src="../img/there.svg">', "say in words what the picture shows: alt=… in <img src="),
        ('<img src="../img/there.svg" alt="a figure">', "say in words what the picture shows"),
        ("[next](02_none.ipynb)", "the link 02_none.ipynb leads nowhere"),
        ("[page](../docs/page.md#none)", "the link ../docs/page.md#none: no such heading there"),
        ("[up](#none)", "the link #none: no such heading here"),
    ],
)
def test_pictures_without_words_and_dead_links(tmp_path: Path, text: str, message: str):
    (problem,) = with_text(tmp_path, text)
    assert problem.startswith(f"lectures/{LECTURE}/notebook.py:7: {message}")


@pytest.mark.parametrize(
    "code",
    [
        "def f(a, *b, c=1, **d):\n    e = [g for g in (a, b, c, d)]\n    return e, len(e), later",
        "later = 1\nprint(__name__, later)",
        "import numpy as np\nfrom math import pi as circle\nprint(np, circle)",
        "for k in range(3):\n    pass\nprint(k)\nwith open('x') as file:\n    print(file)",
        "try:\n    pass\nexcept ValueError as error:\n    print(error)",
        "def set_it():\n    global brought\n    brought = 1\nprint(brought)",
        "class A:\n    size = 1\n    def f(self):\n        return self, A\nprint(A)",
        "# %%timeit\nanything = nothing_of_python is",
        "if (found := 3):\n    print(found)\nmatch found:\n    case [x, *y]:\n        print(x, y)",
    ],
)
def test_names_that_something_brings(tmp_path: Path, code: str):
    assert [text for text in with_code(tmp_path, code) if "later" not in text] == []


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("if False:\n    print(missing)", "missing"),
        ("def kernel(x):\n    x[i] = 1", "i"),
        ("def outer():\n    def inner():\n        return lost\n    return inner", "lost"),
        ("numbers = [n * factor for n in range(3)]", "factor"),
        ("class A:\n    size = width", "width"),
        ("def f():\n    inside = 1\nprint(inside)", "inside"),
    ],
)
def test_names_that_nothing_brings(tmp_path: Path, code: str, name: str):
    assert with_code(tmp_path, code) == [
        f"lectures/{LECTURE}/notebook.py:39: cell 'extra' uses the name {name!r}, which nothing "
        "defines"
    ]


def test_a_name_may_be_missing_on_purpose(tmp_path: Path):
    assert with_code(tmp_path, "missing", '# %% id="extra" raises="NameError"') == []


def test_a_name_that_only_the_answer_brings_is_missing_in_the_starter(tmp_path: Path):
    write_course(tmp_path)
    edit(tmp_path / SOURCE, "half = None\n", "")
    assert found(tmp_path) == [
        f"lectures/{LECTURE}/notebook.py:32: cell 'half-exercise' uses the name 'half', which "
        "nothing defines"
    ]


def test_names_of_hidden_tests_are_looked_at(tmp_path: Path):
    write_course(tmp_path)
    source = tmp_path / "course" / "projects" / PROJECT / "notebook.py"
    edit(source, "assert count([]) == 0", "assert count(emptiness) == 0")
    (problem,) = found(tmp_path)
    assert "cell 'test-count' uses the name 'emptiness'" in problem


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("| 0-4 | a |\n# | 4–10 | b |", None),
        ("| 0-4 | a |\n# | 5-10 | b |", "the timetable jumps from minute 4 to minute 5"),
        (
            "| 0-4 | a |\n# | 4-9 | b |",
            "the timetable goes from minute 0 to 9, the lesson takes 10",
        ),
        ("| 1-10 | a |", "the timetable goes from minute 1 to 10"),
    ],
)
def test_the_timetable_for_the_room_takes_the_lessons_minutes(
    tmp_path: Path, table: str, message: str | None
):
    write_course(tmp_path)
    edit(
        tmp_path / SOURCE,
        "# People stall",
        f"# | minutes | what |\n# |---|---|\n# {table}\n#\n# People stall",
    )
    problems = found(tmp_path)
    assert len(problems) == (message is not None)
    assert message is None or message in problems[0]


def test_pictures_that_cells_show():
    assert _is_wordless({"image/png": "AA==", "text/plain": "<Figure size 640x480>"})
    assert _is_wordless({"text/html": "<img src='data:,' alt=''>"})
    assert _is_wordless({"text/html": "<p>a</p><svg width='3'><rect/></svg>"})
    assert not _is_wordless({"text/html": "<img alt='Two peaks' src='data:,'>"})
    assert not _is_wordless({"text/html": "<svg role='img' aria-label='Two warps'></svg>"})
    assert not _is_wordless({"text/plain": "3"})


@pytest.mark.rehearsal
def test_the_course_itself_is_right():
    course, sources = read_course(REPOSITORY)
    for source in [*sources, read_gallery(course)]:
        assert list(map(str, inspect(course, source))) == []


@pytest.mark.rehearsal
@pytest.mark.slow
def test_the_command_tells_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    write_course(tmp_path)
    edit(tmp_path / SOURCE, "# Because one is *not* enough.", "# ![](../img/none.svg)")
    edit(
        tmp_path / SOURCE,
        '# %% [markdown] id="in-the-room"',
        '# %% id="plot"\nfrom IPython.display import Image, display\n'
        'display(Image(data=b"\\x89PNG\\r\\n\\x1a\\n" + bytes(20), format="png"))\n\n'
        '# %% [markdown] id="in-the-room"',
    )
    monkeypatch.chdir(tmp_path)
    assert commands.build() == 0
    notebook = tmp_path / "lectures" / f"{LECTURE}.ipynb"
    edit(
        notebook,
        '"outputs": []',
        '"outputs": [{"name": "stdout", "output_type": "stream", "text": ["mine"]}]',
    )
    capsys.readouterr()
    assert commands.check([]) == 1
    said = capsys.readouterr().out
    assert f"lectures/{LECTURE}.ipynb: has been run: outputs are not committed" in said
    assert f"{SOURCE}:7: say in words what ../img/none.svg shows" in said
    assert "the picture ../img/none.svg does not exist" in said
    assert said.count("cell 'plot' shows a picture without words") == 2, "starter and solution"
