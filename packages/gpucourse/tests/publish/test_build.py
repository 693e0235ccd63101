"""The build: strict sources in, the same notebooks out every time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from gpucourse.course.problems import CourseError
from gpucourse.course.regions import find_regions
from gpucourse.course.registry import load_course
from gpucourse.publish import commands
from gpucourse.publish.notebooks import derive as notebooks
from gpucourse.publish.notebooks import outputs
from gpucourse.publish.source.reader import read_course
from released_by_nbgrader import nbgrader_release
from small_course import LECTURE, PROJECT, edit, write_course

LECTURE_FILE = f"course/lectures/{LECTURE}/notebook.py"
PROJECT_FILE = f"course/projects/{PROJECT}/notebook.py"
REGISTRY = "course/course.toml"


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small course; the working directory is inside it."""
    root = write_course(tmp_path)
    monkeypatch.chdir(root / "course")
    return root


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def sources_of(notebook: nbformat.NotebookNode) -> str:
    return "\n".join(cell.source for cell in notebook.cells)


def test_a_second_build_changes_nothing(course: Path, capsys: pytest.CaptureFixture[str]):
    assert commands.build() == 0
    first = contents(course)
    capsys.readouterr()
    assert commands.build() == 0
    assert contents(course) == first
    assert capsys.readouterr().out == "6 notebooks in step with the source.\n"
    names = {str(path.relative_to(course)) for path in first if path.suffix == ".ipynb"}
    assert names == {
        f"lectures/{LECTURE}.ipynb",
        f"solutions/{LECTURE}.ipynb",
        f"solutions/{PROJECT}.ipynb",
        f"projects/{PROJECT}/{PROJECT}.ipynb",
        f"grading/source/{PROJECT}/{PROJECT}.ipynb",
        "welcome.ipynb",
    }


def test_check_lists_what_is_stale_and_fails(course: Path, capsys: pytest.CaptureFixture[str]):
    assert commands.check_current() == 1
    assert f"lectures/{LECTURE}.ipynb: missing" in capsys.readouterr().out
    commands.build()
    capsys.readouterr()
    assert commands.check_current() == 0
    edit(course / LECTURE_FILE, "not* enough", "not* quite enough")
    before = contents(course)
    capsys.readouterr()
    assert commands.check_current() == 1
    said = capsys.readouterr().out
    assert f"lectures/{LECTURE}.ipynb: differs from its source" in said
    assert f"solutions/{LECTURE}.ipynb: differs from its source" in said
    assert PROJECT not in said
    assert "make build" in said
    assert contents(course) == before


def test_the_command_line_gives_the_exit_code(course: Path):
    command = [sys.executable, "-m", "gpucourse", "build", "--check"]
    ran = subprocess.run(command, cwd=course, capture_output=True, text=True)
    assert ran.returncode == 1
    assert f"projects/{PROJECT}/{PROJECT}.ipynb: missing" in ran.stdout


def test_help_answers_at_once():
    """Nothing heavy is imported for it; the time itself would depend on the machine."""
    code = (
        "import sys, typer.testing, gpucourse.cli\n"
        "typer.testing.CliRunner().invoke(gpucourse.cli.app, ['--help'])\n"
        "heavy = {'numba', 'numpy', 'nbformat', 'jupytext', 'jax', 'nbgrader', 'awkward'}\n"
        "sys.exit(' '.join(heavy & set(sys.modules)) or None)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_a_notebook_whose_lesson_is_gone_is_removed_and_a_copy_is_kept(course: Path):
    commands.build()
    released = course / "projects" / PROJECT / f"{PROJECT}.ipynb"
    copy = course / "lectures" / "my_copy.ipynb"
    copy.write_bytes((course / "lectures" / f"{LECTURE}.ipynb").read_bytes())
    toml = (course / REGISTRY).read_text().split("[[project]]")[0]
    (course / REGISTRY).write_text(toml)
    shutil.rmtree(course / "course" / "projects" / PROJECT)
    assert commands.check_current() == 1
    assert commands.build() == 0
    assert not released.parent.exists()
    assert not (course / "grading" / "source" / PROJECT).exists()
    assert copy.exists()


def test_a_notebook_that_somebody_ran_is_not_overwritten(
    course: Path, capsys: pytest.CaptureFixture[str]
):
    commands.build()
    path = course / "projects" / PROJECT / f"{PROJECT}.ipynb"
    notebook = read(path)
    notebook.cells[1].execution_count = 3
    path.write_text(nbformat.writes(notebook))
    mine = path.read_bytes()
    assert commands.build() == 1
    assert path.read_bytes() == mine
    assert "may contain somebody's work" in capsys.readouterr().out
    assert commands.build(force=True) == 0
    assert path.read_bytes() != mine


def test_an_interrupted_write_leaves_the_old_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    target = tmp_path / "a.ipynb"
    outputs.write_atomically(target, "old\n")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        outputs.write_atomically(target, "new\n")
    assert target.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [target]


def test_generated_notebooks_are_valid_without_outputs_and_with_their_own_ids(course: Path):
    commands.build()
    for path in course.rglob("*.ipynb"):
        notebook = read(path)
        nbformat.validate(notebook)
        ids = [cell.id for cell in notebook.cells]
        assert len(set(ids)) == len(ids)
        assert all(0 < len(id) <= 64 for id in ids)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                assert cell.outputs == []
                assert cell.execution_count is None
        assert notebook.metadata.kernelspec.name == "python3"
        # As Jupyter saves it: to open and to save changes no line, and git merges new releases.
        assert path.read_text() == nbformat.writes(notebook) + "\n"


def test_an_inserted_cell_shifts_no_other_id(course: Path):
    commands.build()
    path = course / "lectures" / f"{LECTURE}.ipynb"
    before = [cell.id for cell in read(path).cells]
    edit(course / LECTURE_FILE, '# %% id="too-far"', '# %% id="new"\nx = 1\n\n# %% id="too-far"')
    commands.build()
    after = [cell.id for cell in read(path).cells]
    assert [id for id in after if id in before] == before
    assert len(after) == len(before) + 1


def test_the_released_lecture_has_starters_and_no_answers(course: Path):
    commands.build()
    released = read(course / "lectures" / f"{LECTURE}.ipynb")
    text = sources_of(released)
    assert "def double(x):\n    pass  # your code here" in text
    assert "half = None\n# your code here\ncheck" in text
    assert "2 * x" not in text
    assert "0.5" not in text
    assert "People stall" not in text
    assert "SOLUTION" not in text
    failing = [c for c in released.cells if "raises-exception" in c.metadata.get("tags", [])]
    assert [cell.source for cell in failing] == ["1 / 0"]
    assert released.cells[1].source.startswith("%load_ext gpucourse")


def test_the_lecture_solution_has_answers_and_the_notes_for_the_room(course: Path):
    commands.build()
    text = sources_of(read(course / "solutions" / f"{LECTURE}.ipynb"))
    assert "def double(x):\n    return 2 * x" in text
    assert "People stall" in text
    assert "SOLUTION" not in text


def test_the_title_cell_comes_from_the_registry(course: Path):
    commands.build()
    title = read(course / "projects" / PROJECT / f"{PROJECT}.ipynb").cells[0].source
    assert title == (
        "# Count them\n\n**20 minutes** · **5 points** · needs: the lecture “First steps”; "
        "a pencil\n\n← [First steps](../../lectures/01_small_steps.ipynb) · **2 of 2** · the last "
        "one\n\nAfter this you can\n\n- count to ten"
    )


WAY = [
    (
        "lectures/01_small_steps.ipynb",
        "**1 of 2** · next: project [Count them](../projects/02_count_them/02_count_them.ipynb), "
        "20 min: counting is where sums begin",
    ),
    (
        "solutions/01_small_steps.ipynb",
        "**1 of 2** · next: project [Count them](02_count_them.ipynb), "
        "20 min: counting is where sums begin",
    ),
    (
        "projects/02_count_them/02_count_them.ipynb",
        "← [First steps](../../lectures/01_small_steps.ipynb) · **2 of 2** · the last one",
    ),
    (
        "solutions/02_count_them.ipynb",
        "← [First steps](01_small_steps.ipynb) · **2 of 2** · the last one",
    ),
]


def test_each_notebook_says_at_both_ends_where_it_stands(course: Path):
    edit(
        course / REGISTRY,
        'title = "Count them"\n',
        'title = "Count them"\nwhy = "counting is where sums begin"\n',
    )
    commands.build()
    for path, strip in WAY:
        cells = read(course / path).cells
        assert strip in cells[0].source.split("\n")
        assert cells[-1].source == strip


def test_core_and_deeper_list_each_lesson_once_in_order(course: Path):
    registry = (course / REGISTRY).read_text()
    for core, fault in (
        (f'["{LECTURE}"]', "core and deeper must list each lesson once; look at 02_count_them"),
        (
            '["09_none"]',
            "must list each lesson once; look at 01_small_steps, 02_count_them, 09_none",
        ),
        (
            f'["{PROJECT}", "{LECTURE}"]',
            "02_count_them needs '01_small_steps', which comes after it",
        ),
    ):
        (course / REGISTRY).write_text(
            registry.replace('title = "A small course"', f'title = "A small course"\ncore = {core}')
        )
        with pytest.raises(CourseError, match=fault):
            read_course(course)


def test_numbers_follow_the_order(course: Path):
    registry = (course / REGISTRY).read_text()
    entry = registry[registry.index("[[lecture]]") : registry.index("[[project]]")]
    later = entry.replace(LECTURE, "03_later")
    (course / REGISTRY).write_text(
        registry.replace(
            "[[project]]", later + entry.replace(LECTURE, "02_between") + "[[project]]"
        )
    )
    with pytest.raises(CourseError, match="02_between is taken after 03_later: numbers follow"):
        load_course(course)
    (course / REGISTRY).write_text(registry.replace("[[project]]", later + "[[project]]"))
    assert len(load_course(course).lectures) == 2


def test_hidden_tests_stand_in_the_grading_source_alone(course: Path):
    commands.build()
    holders = [p for p in course.rglob("*.ipynb") if "count([]) == 0" in p.read_text()]
    assert [p.relative_to(course).parts[0] for p in holders] == ["grading"]


def test_the_project_solution_is_the_release_with_the_answers_in(course: Path):
    commands.build()
    released = read(course / "projects" / PROJECT / f"{PROJECT}.ipynb")
    solved = read(course / "solutions" / f"{PROJECT}.ipynb")
    assert [cell.id for cell in solved.cells] == [cell.id for cell in released.cells]
    different = []
    for before, after in zip(released.cells, solved.cells, strict=True):
        assert before.metadata.get("nbgrader") == after.metadata.get("nbgrader")
        assert "tags" not in after.metadata
        if before.source != after.source and "2 of 2" not in before.source:  # links differ
            different.append(after.metadata.nbgrader.grade_id)
    assert different == ["count"]
    assert "            return 2 * count(things)" in sources_of(solved)


@pytest.mark.rehearsal
@pytest.mark.slow
def test_the_released_project_is_what_nbgrader_releases(course: Path, tmp_path: Path):
    commands.build()
    released = nbgrader_release(course / "grading" / "source", PROJECT, tmp_path / "class")
    ours = course / "projects" / PROJECT / f"{PROJECT}.ipynb"
    assert notebooks.notebook_text(read(released)) == ours.read_text()


# Every rule of the source, broken once: file, old text, new text, a text on the line that the
# message must name (None: the whole file) and what it must say.
BROKEN = [
    (LECTURE_FILE, "    ### END SOLUTION\n", "", "### BEGIN", "never closed"),
    (LECTURE_FILE, "    ### BEGIN SOLUTION\n", "", "### END", "without a 'BEGIN SOLUTION'"),
    (LECTURE_FILE, "return 2", "### BEGIN SOLUTION\n    return 2", "### BEGIN", "close that one"),
    (LECTURE_FILE, "    ### END SOL", "    ### END HIDDEN TESTS # SOL", "### END", "alone on its"),
    (LECTURE_FILE, "  ### END SOLUTION", "  ### END HIDDEN TESTS", "### END", "make the two agree"),
    (LECTURE_FILE, "  ### BEGIN SOLUTION", "  # BEGIN SOLUTION", "# BEGIN", "alone on its line"),
    (LECTURE_FILE, "### END SOLUTION\nc", "### END SOLUTION x\nc", "END", "alone on its line"),
    (LECTURE_FILE, ' tags=["exercise"]\ndef', "\ndef", "double-e", 'needs tags=["exercise"]'),
    (LECTURE_FILE, '"too-far"', '"too-far" tags=["exercise"]', "too-far", "no solution region"),
    (LECTURE_FILE, '"too-far"', '"start"', 'raises="Zero', "taken by the cell on line 1"),
    (LECTURE_FILE, ' id="too-far"', "", 'raises="Zero', "has no id"),
    (LECTURE_FILE, '"too-far"', '"Too far"', "Too far", "kebab-case"),
    (LECTURE_FILE, '"too-far"', '"title"', "title", "generated from course.toml"),
    (LECTURE_FILE, '"too-far"', '"too-far" tag="x"', "too-far", "unknown metadata 'tag'"),
    (LECTURE_FILE, '"too-far"', '"too-far" tags=["raise"]', "too-far", "unknown tag 'raise'"),
    (LECTURE_FILE, '"too-far"', '"t" tags=["raises-exception"]', 'id="t"', "say which error"),
    (LECTURE_FILE, 'raises="Zero', 'raises="Zero ', "too-far", "not the name of an error"),
    (LECTURE_FILE, '["predict"]', '["predict"] raises="E"', "why", "only a code cell can raise"),
    (LECTURE_FILE, "1 / 0", "# copy the answer\n1 / 0", "# copy", "for a magic: reword"),
    (LECTURE_FILE, "1 / 0", "# Really?\n1 / 0", "# Really?", "for a magic: reword"),
    (LECTURE_FILE, "1 / 0", "x = 1\n" * 46, "too-far", "do not fit on a screen"),
    (LECTURE_FILE, "1 / 0", "", "too-far", "is empty"),
    (LECTURE_FILE, "1 / 0", "1 / 0  # AUTOTEST", "too-far", "leave it out"),
    (LECTURE_FILE, "# %load_ext gpucourse\n", "", "start", "must begin with '# %load_ext"),
    (LECTURE_FILE, '# %% id="start"\n', "", "%load_ext", "must begin with a cell marker"),
    (LECTURE_FILE, '"double-check"', '"double-check" role="test"', "double-check", "to projects"),
    (PROJECT_FILE, 'role="solution"', 'role="solution" points=2', "count", "points belongs to"),
    (PROJECT_FILE, 'role="solution"', "", "count", 'needs role="solution"'),
    (PROJECT_FILE, 'role="solution"', 'role="answer"', "count", "unknown role 'answer'"),
    (PROJECT_FILE, '"count"', '"count" tags=["exercise"]', "count", 'role="solution" instead'),
    (PROJECT_FILE, 'role="test" points=3', 'role="test"', "test-count", "needs points="),
    (
        PROJECT_FILE,
        "points=2 starter=",
        "points=2 raises=",
        "test-twice",
        "which error the unsolved",
    ),
    (PROJECT_FILE, "assert count([1, 2]) == 2\n", "", "test-count", "an empty test cell"),
    (PROJECT_FILE, "points=3", "points=4", "start", "give 6 points, course.toml says 5"),
    (PROJECT_FILE, ' role="setup"', ' role="test"', "start", "needs points="),
    (PROJECT_FILE, "print(", "### BEGIN HIDDEN TESTS\n### END HIDDEN TESTS\n(", "play", "released"),
    (PROJECT_FILE, '"task"', '"task" role="setup"', "task", "only a code cell can be set-up"),
    (PROJECT_FILE, '"task"', '"task" role="written"', "task", "a written answer needs points="),
    (PROJECT_FILE, '"task"', '"task" role="written" points=1', "task", "no solution region"),
    (PROJECT_FILE, '="solution"', '="written" points=1', "count", "is a markdown cell"),
    (REGISTRY, "minutes = 10", "minuets = 10", None, "unknown key 'minuets'"),
    (REGISTRY, "minutes = 10", "", None, "key 'minutes' is missing"),
    (REGISTRY, "minutes = 10", 'minutes = "10"', None, "wrong type"),
    (REGISTRY, "minutes = 10", "minutes = 0", None, "must be positive"),
    (REGISTRY, '"double a number"', '"understand numbers"', None, "cannot be checked"),
    (REGISTRY, '["double a number"]', "[]", None, "objectives is empty"),
    (REGISTRY, '["double a number"]', "[1]", None, "list of strings"),
    (REGISTRY, "[[lecture]]", "[[lectures]]", None, "unknown table [lectures]"),
    (REGISTRY, "[[lecture]]", "[lecture]", None, "write [[lecture]]"),
    (REGISTRY, 'title = "A small course"', "", None, "must hold a title"),
    (REGISTRY, "[[lecture]]", "[[lecture", None, "not valid TOML"),
    (REGISTRY, f'id = "{PROJECT}"', f'id = "{LECTURE}"', None, "is listed twice"),
    (REGISTRY, f'id = "{LECTURE}"', 'id = "first"', None, "must look like 04_"),
    (REGISTRY, "prerequisites = []", f'prerequisites = ["{PROJECT}"]', None, "comes after it"),
    (REGISTRY, "prerequisites = []", 'prerequisites = ["09_none"]', None, "which is not listed"),
    (REGISTRY, f'id = "{PROJECT}"', 'id = "02_others"', None, "notebook.py is missing: write it"),
    (REGISTRY, f'id = "{PROJECT}"', 'id = "02_others"', None, "not listed in course/course.toml"),
]


@pytest.mark.parametrize(("file", "old", "new", "at", "says"), BROKEN)
def test_a_broken_rule_is_named_with_its_place(tmp_path: Path, file, old, new, at, says):
    write_course(tmp_path, {file: (old, new)})
    with pytest.raises(CourseError) as caught:
        read_course(tmp_path)
    told = [problem for problem in caught.value.problems if says in problem.message]
    assert told, caught.value
    if at is not None:
        assert str(told[0].path) == file
        assert at in (tmp_path / file).read_text().split("\n")[told[0].line - 1]


def test_every_mistake_is_told_at_once_and_nothing_is_written(
    course: Path, capsys: pytest.CaptureFixture[str]
):
    edit(course / LECTURE_FILE, ' id="too-far"', "")
    edit(course / PROJECT_FILE, "points=3", "points=4")
    assert commands.build() == 1
    said = capsys.readouterr().out
    assert said.startswith("2 problems in the course's source:\n")
    assert f"{LECTURE_FILE}:17: the cell has no id" in said
    assert not list(course.rglob("*.ipynb"))


def test_outside_the_course_the_message_says_where_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert commands.build() == 1
    assert "run this in the course's repository" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("source", "starter"),
    [
        ("### BEGIN SOLUTION\nx = 1\n### END SOLUTION", "# your code here"),
        ("%time\n### BEGIN SOLUTION\nx\n### END SOLUTION", "%time\n# your code here"),
        (
            "def f():\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION",
            "def f():\n    pass  # your code here",
        ),
        (
            "def f():\n    ### BEGIN SOLUTION\n    a = 1\n    ### END SOLUTION\n    return a",
            "def f():\n    # your code here\n    return a",
        ),
        (
            "if a:\n    ### BEGIN SOLUTION\n    b\n    ### END SOLUTION\n"
            "### BEGIN SOLUTION\nc\n### END SOLUTION",
            "if a:\n    pass  # your code here\npass  # your code here",
        ),
        (
            'code = r"""\n__global__ void f() {\n    ### BEGIN SOLUTION\n    return;\n'
            '    ### END SOLUTION\n}\n"""\n### BEGIN SOLUTION\ng()\n### END SOLUTION',
            'code = r"""\n__global__ void f() {\n    // your code here\n}\n"""\n# your code here',
        ),
        (
            'text = """\n### BEGIN SOLUTION\na\n### END SOLUTION\n"""\nname = """__global__"""',
            'text = """\n# your code here\n"""\nname = """__global__"""',
        ),
    ],
)
def test_starters_keep_the_code_around_them_valid(source: str, starter: str):
    assert notebooks.starter_source(source) == starter


DRAWN = "figure, axes = canvas(7, 2)\n" + "axes.plot(x, y)\n" * 9


@pytest.mark.parametrize(
    ("source", "folded"),
    [
        (DRAWN, True),
        ("%matplotlib inline\nx = 3\n" + DRAWN, True),
        ("def draw(axes):\n" + "    pass\n" * 9, True),
        (DRAWN.replace("axes.plot(x, y)\n", "", 1), False),
        (DRAWN + "y = kernel(x)\n" * 4, False),
        ("y = kernel(x)\n" * 20, False),
        ("this is no Python\n" + DRAWN, False),
    ],
)
def test_long_code_that_only_draws_is_folded(source: str, folded: bool):
    assert notebooks.draws(source) is folded


def test_regions_know_their_place_and_indent():
    source = "a\n  ### BEGIN SOLUTION\n  b\n  ### END SOLUTION"
    (region,) = find_regions(source)
    assert (region.begin, region.end, region.indent) == (1, 3, "  ")
