"""Lessons executed for the site: judged, kept, run again when something has changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from gpucourse.course.problems import CourseError
from gpucourse.publish.notebooks.execution import CACHE, KernelLost, execute, fingerprint
from gpucourse.publish.site.showcase import Shown, show_course
from gpucourse.publish.source.reader import read_course
from small_course import LECTURE, PROJECT, edit, write_course

pytestmark = pytest.mark.slow


def shown(root: Path, **options) -> tuple[list[Shown], list[str]]:
    """The lessons, and the ids of those that were run."""
    ran: list[str] = []
    return show_course(root, notice=ran.append, jobs=1, **options)[1], ran


def outputs(one: Shown) -> str:
    return str([cell.get("outputs") for cell in one.notebook.cells])


@pytest.mark.rehearsal
def test_a_second_time_runs_nothing_until_something_changes(tmp_path: Path):
    write_course(tmp_path)
    first, ran = shown(tmp_path)
    assert ran == [LECTURE, PROJECT]
    assert "Every number doubled" in outputs(first[0])
    assert "try things out here" in outputs(first[1])
    again, ran = shown(tmp_path)
    assert ran == []
    assert outputs(again[0]) == outputs(first[0])
    edit(tmp_path / "course" / "lectures" / LECTURE / "checks.py", "Every number", "Each number")
    third, ran = shown(tmp_path)
    assert ran == [LECTURE]
    assert "Each number doubled" in outputs(third[0])
    assert len(list((tmp_path / CACHE).iterdir())) == 2, "the old one is gone"


def test_a_cell_that_fails_is_named_and_nothing_is_kept(tmp_path: Path):
    write_course(tmp_path)
    edit(tmp_path / "course" / "lectures" / LECTURE / "notebook.py", "return 2 * x", "return 3 * x")
    edit(tmp_path / "course" / "projects" / PROJECT / "notebook.py", 'print("try', 'prnt("try')
    with pytest.raises(CourseError) as caught:
        shown(tmp_path)
    lecture, project = map(str, caught.value.problems)
    assert "course/lectures/01_small_steps/notebook.py:29: the check 'double' refuses" in lecture
    assert "cell 'play' raises NameError: name 'prnt' is not defined" in project
    assert not (tmp_path / CACHE).exists()


@pytest.mark.rehearsal
def test_an_error_does_not_tell_where_this_machine_keeps_things(tmp_path: Path):
    write_course(
        tmp_path,
        {
            f"course/lectures/{LECTURE}/notebook.py": (
                "1 / 0",
                "import json\nfrom pathlib import Path\nprint(Path.cwd().name)\n"
                "raise OSError(f'{json.__file__}, {Path.cwd()}/a')",
            ),
        },
    )
    edit(tmp_path / "course" / "lectures" / LECTURE / "notebook.py", "ZeroDivisionError", "OSError")
    first, _ = shown(tmp_path)
    error = next(
        output
        for cell in first[0].notebook.cells
        for output in cell.get("outputs", ())
        if output.output_type == "error"
    )
    text = "\n".join(error.traceback)
    assert "json/__init__.py" in text
    assert str(tmp_path) not in text and "/lib/python" in text
    assert sys.base_prefix not in text


def test_the_fingerprint_knows_the_library_and_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_course(tmp_path)
    course, (source, _) = read_course(tmp_path)
    before = fingerprint(course, source)
    assert fingerprint(course, source) == before
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "base.txt").write_text("numba==0.64.0\n")
    locked = fingerprint(course, source)
    assert locked != before
    measured = tmp_path / "lab" / "results" / "gpu_bench.json"
    measured.parent.mkdir(parents=True)
    measured.write_text("{}")
    assert fingerprint(course, source) != locked, "lessons draw from what was measured on a GPU"
    measured.unlink()
    package = tmp_path / "src" / "gpucourse"
    (package / "publish").mkdir(parents=True)
    (package / "device.py").write_text("a = 1\n")
    (package / "publish" / "execution.py").write_text("")
    monkeypatch.setattr("gpucourse.publish.notebooks.execution.PACKAGE", package)
    small = fingerprint(course, source)
    (package / "publish" / "execution.py").write_text("b = 1\n")
    assert fingerprint(course, source) == small, "no lesson uses the build"
    (package / "device.py").write_text("a = 2\n")
    assert fingerprint(course, source) != small


def test_without_running_there_are_no_outputs(tmp_path: Path):
    write_course(tmp_path)
    lessons, ran = shown(tmp_path, run=False)
    assert ran == []
    assert [cell for one in lessons for cell in one.notebook.cells if cell.get("outputs")] == []


def kernels_from(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the kernel ``python3`` started by a line of shell, with its connection file as $1."""
    spec = {"argv": ["sh", "-c", script, "sh", "{connection_file}"], "language": "python"}
    place = folder / "kernels" / "python3"
    place.mkdir(parents=True)
    (place / "kernel.json").write_text(json.dumps({**spec, "display_name": "Python 3"}))
    monkeypatch.setenv("JUPYTER_PATH", str(folder))


def test_a_kernel_that_does_not_start_is_started_again(tmp_path: Path, monkeypatch):
    """As where another process has taken its port."""
    kernels_from(
        f"test -e {tmp_path}/tried || {{ touch {tmp_path}/tried; exit 1; }}; "
        f'exec {sys.executable} -m ipykernel_launcher -f "$1"',
        tmp_path / "share",
        monkeypatch,
    )
    done = execute(new_notebook(cells=[new_code_cell("print(6 * 7)")]), tmp_path)
    assert (tmp_path / "tried").exists()
    assert done.cells[0].outputs[0].text == "42\n"


@pytest.mark.rehearsal
def test_where_no_kernel_starts_the_command_says_so(tmp_path: Path, monkeypatch):
    write_course(tmp_path)
    kernels_from("exit 1", tmp_path / "share", monkeypatch)
    done = subprocess.run(
        [sys.executable, "-m", "gpucourse", "check", LECTURE],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert "No kernel started in 3 attempts: Kernel died before replying" in said
    assert "Traceback" not in said and "AssertionError" not in said


def test_a_kernel_that_ends_is_told_with_its_cell(tmp_path: Path):
    cells = [new_code_cell("import os, signal"), new_code_cell("os.kill(os.getpid(), 9)")]
    with pytest.raises(KernelLost, match=r"ended in code cell 2.*memory"):
        execute(new_notebook(cells=cells), tmp_path)
