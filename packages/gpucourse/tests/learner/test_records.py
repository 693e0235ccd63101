"""A learner's records and the map that they are shown on: nothing is lost, nothing breaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jupyter_client
import pytest

from gpucourse.course import checkout
from gpucourse.exercises.checks import read_exercises
from gpucourse.learner import course_map, records
from gpucourse.publish import commands
from gpucourse.publish.notebooks import welcome
from gpucourse.publish.notebooks.derive import cell_id
from small_course import LECTURE, PROJECT, write_course

DONE = {"lesson": LECTURE, "done": "half"}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the records of this test lie."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "gpucourse" / "progress.jsonl"


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: Path) -> Path:
    """A small course that has been built; the working directory is its folder."""
    root = write_course(tmp_path / "course folder")
    monkeypatch.chdir(root)
    commands.build()
    return root


@pytest.fixture
def whole(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The course itself, with records of this test's own; the working directory is its folder."""
    monkeypatch.chdir(repository)
    monkeypatch.setattr(records, "place", lambda: tmp_path / "progress.jsonl")
    return repository


def shown(course: Path) -> list[str]:
    return str(course_map.progress()).split("\n")


# --- the file ---------------------------------------------------------------------------------


def test_what_is_noted_is_read_and_noted_once(file: Path):
    assert records.place() == file
    assert records.read() == records.Records()
    for _ in range(3):
        records.note(**DONE)
        records.note(cell="a" * 16)
    records.note(lesson=PROJECT, points=3, of=5)
    records.note(lesson=PROJECT, points=5, of=5)
    records.note(lesson=PROJECT, points=4, of=5)
    known = records.read()
    assert known.exercises == {LECTURE: {"half"}}
    assert known.cells == {"a" * 16}
    assert known.points == {PROJECT: (4, 5)}  # the latest
    assert len(records.lines()) == 5
    assert file.stat().st_mode & 0o777 == 0o600


def test_lines_that_are_no_records_count_for_nothing(file: Path):
    file.parent.mkdir(parents=True)
    file.write_bytes(
        b'{"lesson": "01", "done": "a"}\n{"lesson": "01", "do\xff\n[1]\nnull\n'
        b'{"lesson": 3, "done": "a"}\n{"cell": ""}\n{"lesson": "p", "points": true, "of": 3}\n'
        b'{"lesson": "p", "points": NaN, "of": 1}\n'
        + b"[" * 100_000
        + b'\n{"lesson": "01", "done": "b"}'
    )
    assert records.read().exercises == {"01": {"a", "b"}}
    assert records.read().points == {}
    records.note(**DONE)  # behind a line without its end
    assert records.read().exercises == {"01": {"a", "b"}, LECTURE: {"half"}}


NOTE_MANY = """
import sys
from gpucourse.learner import records

for i in range(50):
    records.note(lesson=sys.argv[1], done=f"{i}")
"""


def test_two_kernels_at_once_lose_nothing(file: Path):
    kernels = [
        subprocess.Popen([sys.executable, "-c", NOTE_MANY, str(number)]) for number in range(4)
    ]
    assert [kernel.wait() for kernel in kernels] == [0] * 4
    assert {id: len(names) for id, names in records.read().exercises.items()} == {
        str(number): 50 for number in range(4)
    }


@pytest.fixture
def full_disk() -> Path:
    if not os.path.exists("/dev/full"):
        pytest.fail("this system has no /dev/full")
    return Path("/dev/full")


def test_a_disk_that_refuses_breaks_nothing_and_is_told(
    course: Path, file: Path, monkeypatch: pytest.MonkeyPatch, full_disk: Path
):
    assert records.trouble() is None
    monkeypatch.setattr(records, "place", lambda: full_disk)
    records.note(**DONE)
    assert shown(course)[-1] == (
        "! your progress cannot be recorded in /dev/full: No space left on device"
    )
    in_the_way = file.parent.with_name("a file")
    in_the_way.touch()
    monkeypatch.setattr(records, "place", lambda: in_the_way / "progress.jsonl")
    records.note(**DONE)
    assert records.read() == records.Records()
    assert "Not a directory" in records.trouble() or "File exists" in records.trouble()
    monkeypatch.setattr(records, "place", homeless)
    records.note(**DONE)
    assert records.lines() == []
    assert records.trouble().startswith("your progress cannot be recorded in your home directory")


def homeless() -> Path:
    raise RuntimeError("Could not determine home directory.")


# --- who writes it ----------------------------------------------------------------------------

CELLS = [
    "%load_ext gpucourse\n"
    f"from gpucourse.exercises.checks import lecture\ncheck, hint = lecture({LECTURE!r})",
    'check("half", 0.25)',
    'check("half", 0.5)',
    "from gpucourse import expect\nexpect(True, 'x')",
]


def run_in_kernel(course: Path, ids: list[str | None], notebook: str = "lectures/a.ipynb") -> str:
    """The cells' outputs, sent as JupyterLab sends them, each with its id."""
    manager = jupyter_client.KernelManager(kernel_name="python3")
    environment = {**os.environ, "JPY_SESSION_NAME": str(course / notebook)}
    manager.start_kernel(env=environment, cwd=str(course), extra_arguments=["--log-level=ERROR"])
    client = manager.client()
    client.start_channels()
    texts = []

    def hook(message: dict) -> None:
        content = message["content"]
        texts.append(content.get("data", {}).get("text/plain") or content.get("text", ""))
        assert message["msg_type"] != "error", content

    try:
        client.wait_for_ready(timeout=60)
        for source, id in zip(CELLS, ids, strict=True):
            message = client.session.msg(
                "execute_request",
                {
                    "code": source,
                    "silent": False,
                    "store_history": True,
                    "allow_stdin": False,
                    "stop_on_error": True,
                    "user_expressions": {},
                },
                metadata={"cellId": id} if id else {},
            )
            client.shell_channel.send(message)
            while True:
                reply = client.get_iopub_msg(timeout=60)
                if reply["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                    continue
                hook(reply)
                if reply["content"].get("execution_state") == "idle":
                    break
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.context.destroy(linger=0)
    return "\n".join(texts)


@pytest.mark.rehearsal
def test_a_learners_passes_are_recorded_and_nobody_elses(course: Path, file: Path):
    cell = cell_id(PROJECT, "test-count")
    assert "✓ half" in run_in_kernel(course, [None] * 4)  # a script's, or a test's
    assert not file.exists()
    told = run_in_kernel(course, ["a", "b", "c", cell])
    assert "✗ half" in told and "✓ half" in told and "✓ passed" in told
    assert records.lines()[0].items() >= DONE.items()
    assert len(records.lines()) == 2
    assert records.read().cells == {cell}
    text = shown(course)
    assert text[0].endswith("  1 of 2 exercises")
    assert text[1].endswith("  1 of 2 tests")
    file.unlink()
    told = run_in_kernel(course, ["a", "b", "c", cell], "solutions/a.ipynb")
    assert "✓ half" in told
    assert not file.exists()


def test_a_check_passes_where_nothing_can_be_recorded(course: Path, file: Path):
    file.mkdir(parents=True)  # a folder in the way of the file
    assert "✓ half" in run_in_kernel(course, ["a", "b", "c", "d"])


def test_a_script_is_no_learner():
    assert not records.asked_by_a_learner()


# --- the map ----------------------------------------------------------------------------------


def test_the_map_shows_signs_counts_and_what_comes_next(course: Path):
    assert shown(course) == [
        "○ First steps  0 of 2 exercises",
        "○ Count them   0 of 2 tests",
        f"Go on with: First steps (lectures/{LECTURE}.ipynb), next: Why two?",
        "In all: 0 of 2 exercises, 0 of 2 tests",
    ]
    records.note(lesson=PROJECT, points=3, of=5)
    assert shown(course)[1:] == [
        "◐ Count them   0 of 2 tests, 3 of 5 points from `gpucourse grade`",
        f"Go on with: First steps (lectures/{LECTURE}.ipynb) (“Count them” needs it), "
        "next: Why two?",
        "In all: 0 of 2 exercises, 0 of 2 tests",
    ]
    records.note(lesson=PROJECT, points=5, of=5)
    records.note(**DONE)
    records.note(lesson=LECTURE, done="double")
    records.note(lesson=LECTURE, done="an exercise of long ago")
    assert shown(course) == [
        "✓ First steps  2 of 2 exercises",
        "✓ Count them   0 of 2 tests, 5 of 5 points from `gpucourse grade`",
        "You have finished every lesson.",
        "In all: 2 of 2 exercises, 0 of 2 tests",
    ]


def test_to_a_newcomer_the_map_shows_where_to_begin_and_folds_the_rest(course: Path):
    new = course_map.progress().html()
    assert new.index("Go on with:") < new.index(
        "<summary>All 2 lessons; you have not begun any yet</summary>"
    )
    records.note(**DONE)
    begun = course_map.progress().html()
    assert begun.index("Go on with:") < begun.index("<table>") and "<details>" not in begun


def test_map_goes_on_with_the_core_in_order(whole: Path):
    course = checkout.registry(whole)
    for number, id in enumerate(course.core):
        assert Path(course_map.progress().next.path).stem == id, number
        for exercise in course_map._exercises(id):
            records.note(lesson=id, done=exercise)
        records.note(lesson=id, points=1, of=1)
    assert Path(course_map.progress().next.path).stem == "11_memory_and_sharing"
    records.note(lesson="15_cudf", done=next(iter(course_map._exercises("15_cudf"))))
    assert Path(course_map.progress().next.path).stem == "15_cudf", "what is begun comes before all"


def test_the_map_opens_at_the_next_open_exercise(whole: Path):
    puzzles = course_map.progress().lessons[0]
    assert puzzles.next.heading == "1. Add ten"
    for done in ("add-ten", "guard"):
        records.note(lesson="01_first_steps", done=done)
    found = course_map.progress()
    assert "Puzzles 1: first steps</a>, next: 2. Two arrays<br>In all: 2 of" in found.html()
    assert 'href="lectures/01_first_steps.ipynb#2-two-arrays"' in found.html()


def test_a_lesson_is_finished_without_its_optional_part(whole: Path):
    puzzles = course_map.progress().lessons[0]
    every = set(course_map._exercises("01_first_steps"))
    assert puzzles.optional and puzzles.parts + puzzles.optional == len(every)
    records.note(lesson="01_first_steps", done="roll")  # below "More puzzles"
    begun = course_map.progress().lessons[0]
    assert (begun.sign, begun.done) == ("◐", 0)
    assert f", 1 of {puzzles.optional} optional" in str(begun)
    for name in every - course_map._named(
        course_map._further(course_map._cells(whole / puzzles.path)), every
    ):
        records.note(lesson="01_first_steps", done=name)
    found = course_map.progress()
    assert found.lessons[0].sign == "✓" and found.next.id == "02_why_gpus"
    assert "optional" in found.html()


def test_a_lesson_begun_without_its_needs_waits_for_them(whole: Path):
    records.note(lesson="01_first_steps", done="add-ten")
    records.note(lesson="01_first_steps", points=1, of=1)
    records.note(lesson="01_fill_a_histogram", points=2, of=33)
    found = course_map.progress()
    assert found.next.id == "06_numba_cuda"
    project = next(one for one in found.lessons if one.id == "01_fill_a_histogram")
    assert f"(“{project.title}” needs it)" in str(found)
    records.note(lesson="06_numba_cuda", done=next(iter(course_map._exercises("06_numba_cuda"))))
    assert course_map.progress().next.id == "06_numba_cuda"


def test_lessons_beyond_the_core_are_folded(whole: Path):
    records.note(lesson="15_cudf", done=next(iter(course_map._exercises("15_cudf"))))
    core, fold = course_map.progress().html().split("<details>")
    assert "06_numba_cuda.ipynb" in core and "15_cudf.ipynb" in fold
    assert "more lessons, 1 begun</summary>" in fold


def test_core_and_goals_need_nothing_outside_of_them(repository: Path):
    course = checkout.registry(repository)
    ids = {lesson.id for lesson in course.lessons}
    for goal, taken in {"the core": (), **welcome.GOALS}.items():
        order = [*course.core, *taken]
        for number, id in enumerate(order):
            needs = ids.intersection(course.lesson(id).prerequisites)
            assert needs <= set(order[:number]), f"{goal}: {id}"


def test_links_start_where_the_notebook_runs(course: Path, monkeypatch: pytest.MonkeyPatch):
    assert f'href="lectures/{LECTURE}.ipynb"' in course_map.progress().html()
    monkeypatch.chdir(course / "projects" / PROJECT)
    found = course_map.progress()._repr_mimebundle_()["text/html"]
    assert f'href="../../lectures/{LECTURE}.ipynb"' in found
    assert f'href="{PROJECT}.ipynb"' in found


def test_outside_the_course_it_says_where_to_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(checkout.NotInTheCourse, match=r"where lectures/ and welcome\.ipynb are"):
        course_map.progress()
    command = [sys.executable, "-m", "gpucourse", "progress"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 1 and "lectures/" in ran.stderr and not ran.stdout


def test_notebooks_that_are_gone_or_damaged_leave_the_map(course: Path):
    (course / "projects" / PROJECT / f"{PROJECT}.ipynb").write_text('{"cells": [3]}')
    assert shown(course)[1] == "○ Count them   "
    (course / "projects" / PROJECT / f"{PROJECT}.ipynb").unlink()
    assert shown(course)[1] == "○ Count them   "


def test_exercises_are_those_that_the_checks_have(repository: Path):
    lectures = checkout.registry(repository).lectures
    assert len(lectures) > 10
    for lecture in lectures:
        exercises = read_exercises(repository / "course" / "lectures" / lecture.id / "checks.py")
        assert set(course_map._exercises(lecture.id)) == set(exercises), lecture.id


def test_the_welcome_page_links_every_lesson_and_runs(course: Path, repository: Path):
    notebook = json.loads((repository / "welcome.ipynb").read_text())
    text = "\n".join("".join(cell["source"]) for cell in notebook["cells"])
    for lesson in checkout.registry(repository).lessons:
        assert f"[{lesson.title}]({checkout.notebook_path(lesson).as_posix()})" in text
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert "".join(code[0]["source"]).startswith("%load_ext gpucourse\n")
