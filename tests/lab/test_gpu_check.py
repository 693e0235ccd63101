"""``make gpu-check``: lessons on two devices, and what becomes of errors and of wrong numbers.

What the command makes of its parts: ``test_gpu_check_command.py``.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from gpucourse.publish.notebooks.outputs import plan, write
from lab.gpu_check import jobs, lesson_pair, lesson_run, parts
from lab.gpu_check.lesson_run import Ran
from lab.gpu_check.parts import Check
from small_course import LECTURE, PROJECT, edit, write_course

pytestmark = pytest.mark.rehearsal

#: Far more than is needed: a machine may have others to serve.
SECONDS = 900.0
KERNEL = """
# %% id="kernel"
import numpy as np
from gpucourse.system.device import pick
from numba import cuda

@cuda.jit
def scale(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = 2 * x[i]

x = np.arange(pick(gpu=2000.0, virtual=100.0))
out = cuda.to_device(np.zeros_like(x))
scale[16, 128](x, out)

"""


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Path:
    """A lecture with a kernel, and its solutions."""
    root = tmp_path_factory.mktemp("course")
    mark = '# %% id="double-exercise"'
    write_course(root, {f"course/lectures/{LECTURE}/notebook.py": (mark, KERNEL + mark)})
    write(plan(root))
    return root


@pytest.fixture(scope="module")
def run(course, tmp_path_factory) -> Check:
    """Both lessons, run on the virtual GPU and on the virtual GPU in the part of the real one."""
    check = new_check(tmp_path_factory.mktemp("check"), course)
    parts.run_lessons(check, SECONDS)
    return check


def new_check(folder: Path, root: Path) -> Check:
    return Check(
        folder / "work",
        folder / "result.json",
        "virtual",
        workers=2,
        root=root,
        tell=lambda text: None,
    )


def rows(check: Check, part: str) -> dict[str, object]:
    return {row.what: row for row in parts.rows_of(check.result["parts"][part])}


def verdicts(check: Check, part: str) -> set[str]:
    return {row.verdict for row in rows(check, part).values()}


def test_a_lesson_and_its_launches_agree(run):
    lessons = rows(run, "lessons")
    assert verdicts(run, "lessons") == {"agrees"}, lessons
    assert list(lessons) == [
        f"{id}, {what}"
        for id in (LECTURE, PROJECT)
        for what in ("as a learner runs it", "at the virtual GPU's sizes", "arrays of both devices")
    ]
    own = lessons[f"{LECTURE}, as a learner runs it"].figures
    assert own["cells"] == 7 and own["checks"] == 2 and "Virtual GPU" in own["device"]
    assert lessons[f"{LECTURE}, arrays of both devices"].figures["equal"] == 2  # x and out
    (launch,) = rows(run, "launches").values()
    assert launch.what == f"scale[16, 128] ({LECTURE}: kernel)" and launch.verdict == "agrees"
    assert run.result["parts"]["lessons"]["complete"]
    assert json.loads(run.out.read_text()) == run.result


def test_one_wrong_number_is_named(run, tmp_path):
    """In the arrays of a lesson; launches: test_gpu_recorded.py, grading: test_gpu_grading.py."""
    folder = run.folder / "lessons" / LECTURE
    document = json.loads((folder / "small" / "run.json").read_text())
    for cell in document["cells"]:
        if "out" in cell["arrays"]:
            dtype, shape, _, file = cell["arrays"]["out"]
            wrong = np.load(folder / "small" / file)
            wrong[7] += 1
            np.save(tmp_path / file, wrong)
            cell["arrays"]["out"] = dtype, shape, "another digest", file
    (tmp_path / "run.json").write_text(json.dumps(document))
    row = lesson_pair.compare(LECTURE, tmp_path, folder / "virtual")
    assert row.verdict == "differs"
    assert row.detail == (
        "cell 'kernel', out: 1 of 100 elements, first at 7: 15.0 on the GPU, "
        "14.0 on the virtual GPU"
    )
    # What differs between two runs on the virtual GPU as well is not compared.
    row = lesson_pair.compare(LECTURE, tmp_path, folder / "virtual", tmp_path)
    assert row.verdict == "agrees" and row.figures["repeatable in part"] == 1


def test_what_nobody_wrote_is_left_out_and_nothing_else(tmp_path):
    """A second run has other bytes there; what differs between both is not compared."""
    first, second, gpu = np.arange(8.0), np.arange(8.0), np.arange(8.0)
    first[6:], second[6:], gpu[6:] = -5.3e303, 1.1e-9, 4.0

    def run_with(name: str, values: np.ndarray) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        np.save(folder / "sums.npy", values)
        digest = hashlib.sha256(values.tobytes()).hexdigest()
        cell = Ran("sum", arrays={"sums": ("float64", (8,), digest, "sums.npy")})
        return cells_as(folder, cell)

    here, again = run_with("here", first), run_with("again", second)
    assert lesson_pair.compare(LECTURE, run_with("there", gpu), here).verdict == "differs"
    assert lesson_pair.compare(LECTURE, tmp_path / "there", here, again).verdict == "agrees"
    gpu[2] = 7
    wrong = lesson_pair.compare(LECTURE, run_with("wrong", gpu), here, again)
    assert wrong.verdict == "differs" and "7.0 on the GPU, 2.0 on the virtual GPU" in wrong.detail


def test_the_second_run_on_the_virtual_gpu_has_other_bytes_where_nobody_wrote(course, tmp_path):
    program = f"""
import sys
from lab.gpu_check import lesson_run
from virtualgpu.devices import VirtualDevice
sys.argv[1:] = [{LECTURE!r}, {str(tmp_path)!r}, "--poison", "62"]
lesson_run.run = lambda *given, **more: None
lesson_run.main()
device = VirtualDevice()
print(bytes(device.read(device.allocate(4), 4)))
"""
    done = jobs.run([sys.executable, "-c", program], SECONDS, environment=jobs.HIDDEN)
    assert "b'>>>>'" in done.output, done.output


def cells_as(tmp_path, *ran: Ran) -> Path:
    lesson_run.write(tmp_path, LECTURE, list(ran))
    return tmp_path


def test_errors_refused_checks_and_missing_packages_are_told_apart(tmp_path):
    def judge(*ran, total=None, last=""):
        folder = cells_as(tmp_path, *ran)
        return lesson_pair.judge(LECTURE, folder, total or len(ran), last)

    good = Ran("one", outcomes=[("double", True, "")])
    assert (
        judge(
            good,
            Ran("two", "ZeroDivisionError", "…", expected=["ZeroDivisionError"]),
        ).verdict
        == "agrees"
    )
    row = judge(good, Ran("two", "CudaAPIError", "an illegal address\nmore", "a.py:3 f"))
    assert (row.verdict, row.detail) == (
        "fails",
        "cell 'two' raises CudaAPIError: an illegal address (a.py:3 f)",
    )
    row = judge(Ran("one", outcomes=[("double", False, "is 3")]))
    assert row.detail == "check 'double' refuses the solution: is 3"
    row = judge(
        good,
        Ran("two", "ModuleNotFoundError", "No module named 'cupy'"),
        Ran("three", "NameError", "cp"),
    )
    assert (row.verdict, row.detail) == ("not run", "No module named 'cupy' (cell 'two')")
    row = judge(good, total=4, last="Segmentation fault")
    assert row.verdict == "fails" and "cell after 'one' (cell 1 of 4): Seg" in row.detail
    assert "did not start: killed" in lesson_pair.judge("x", tmp_path / "no", 3, "killed").detail


def test_every_cell_of_the_course_has_its_name_and_its_errors(repository):
    for id in lesson_run.lessons(repository):
        if (repository / "course/lectures" / id / "puzzles").is_dir():
            continue  # the cells of a puzzle are made from its own file: they have numbers
        found = lesson_run.cells(repository, id)
        assert not [name for name, _, _ in found if name.startswith("cell ")], id
    raising = {
        name: raises for name, raises, _ in lesson_run.cells(repository, "06_numba_cuda") if raises
    }
    assert raising["kernel-returns"] == ["TypingError"]
    # cuda.core's error, which a GPU gives, is among them.
    assert raising["too-large"] == ["LaunchError", "CUDAError", "CudaAPIError"]


def test_a_lesson_runs_without_ipython(course, tmp_path):
    program = (
        "import sys; sys.modules['IPython'] = None; sys.argv[1:] = sys.argv[1:]; "
        "from lab.gpu_check import lesson_run; lesson_run.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, LECTURE, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=course,
        env=os.environ | jobs.source_path() | jobs.HIDDEN,
    )
    assert done.returncode == 0, done.stderr
    _, cells = lesson_run.read(tmp_path)
    assert [cell.error for cell in cells] == ["", "", "ZeroDivisionError", "", "", "", ""]
    assert [name for cell in cells for name, passed, _ in cell.outcomes if passed] == [
        "double",
        "half",
    ]
    assert cells[3].arrays["out"][:2] == ["float64", [100]]


def test_a_broken_answer_and_a_lesson_that_crashes_are_told(course, tmp_path):
    root = tmp_path / "course"
    shutil.copytree(course, root)
    edit(root / "solutions" / f"{LECTURE}.ipynb", "return 2 * x", "return 3 * x")
    edit(
        root / "solutions" / f"{PROJECT}.ipynb",
        "try things out here",
        '\\"); import os; os._exit(3); (\\"',
    )
    check = new_check(tmp_path, root)
    said = {
        ("own", id): parts._run_lesson(check, jobs.Clock(SECONDS), "own", id)
        for id in (LECTURE, PROJECT)
    }
    broken, _, crashed, _ = parts._lesson_rows(check, said)
    assert broken.verdict == "fails" and "double(1) is 3" in broken.detail
    assert crashed.verdict == "fails" and "it ended in the cell after 'count'" in crashed.detail


# -- going on -----------------------------------------------------------------------------------


def test_what_is_there_is_not_done_again_and_what_is_missing_is(run, monkeypatch):
    """As after a run that was interrupted while it played the launches."""
    asked = []

    def started(command, seconds, **options):
        asked.append(" ".join(map(str, command[2:])))
        return known(command, seconds, **options)

    known = jobs.run
    monkeypatch.setattr(jobs, "run", started)
    before = run.result
    check = new_check(run.folder.parent, run.root)
    parts.run_lessons(check, SECONDS)
    assert not asked and check.result == before
    played = run.folder / "lessons" / LECTURE / "virtual" / "launches.jsonl"
    played.write_text(played.read_text()[:50])  # cut off in the middle of a line
    (run.folder / "lessons" / PROJECT / "own" / parts.ENDED).unlink()
    parts.run_lessons(check, SECONDS)
    assert sorted(command.split()[0] for command in asked) == [
        "lab.gpu_check.lesson_run",
        "lab.gpu_check.replay",
    ]
    assert verdicts(check, "launches") == verdicts(check, "lessons") == {"agrees"}


def test_what_had_no_time_is_no_failure(course, tmp_path, monkeypatch):
    check = new_check(tmp_path, course)
    parts.run_lessons(check, 4)
    assert verdicts(check, "lessons") == {"not run"}
    assert not check.result["parts"]["lessons"]["complete"]
    # One that was begun and had to be ended is done again, from its start.
    clock = jobs.Clock(SECONDS)
    monkeypatch.setattr(jobs, "run", lambda *_, **__: jobs.Done(None, "01", 3.0))
    assert parts._run_lesson(check, clock, "own", LECTURE) == parts.NO_TIME
    monkeypatch.setattr(jobs, "run", lambda *_, **__: jobs.Done(0, "", 3.0))
    assert parts._run_lesson(check, clock, "own", LECTURE) == ""
    # One that never ends has had all that a lesson gets.
    monkeypatch.setattr(jobs, "run", lambda *_, **__: jobs.Done(None, "01", 900.0))
    assert parts._run_lesson(check, clock, "own", PROJECT) == "its time was up"
    monkeypatch.setattr(jobs, "run", None)
    assert parts._run_lesson(check, clock, "own", PROJECT) == "its time was up"


# -- programs -----------------------------------------------------------------------------------


def test_programs_end_with_their_time_and_take_what_they_started_along(tmp_path):
    done = jobs.run(["sh", "-c", f"sleep 60 & echo $! > {tmp_path}/pid; echo begun; sleep 60"], 1.0)
    assert done.code is None and done.last == "begun" and done.seconds < 50
    left = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 60  # an orphan's end is its new parent's to notice
    while alive(left) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(left)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_an_interruption_ends_what_runs_and_starts_nothing_more(tmp_path):
    def work(number):
        if number == 1:
            raise KeyboardInterrupt
        first = jobs.run(["sh", "-c", f"echo $$ > {tmp_path}/{number}; sleep 90"], 90)
        return first, jobs.run(["touch", tmp_path / f"{number}-second"], 60)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        jobs.side_by_side(work, range(6), 2)
    assert time.monotonic() - began < 50
    assert not list(tmp_path.glob("*-second")) and len(list(tmp_path.iterdir())) <= 2
    assert jobs.run(["true"], 20).code == 0  # the next one may start programs again


def test_a_program_ends_when_its_parent_is_gone(tmp_path):
    child = (
        "import os, pathlib, time; from lab.gpu_check import jobs; "
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid())); "
        "jobs.end_with_parent(); time.sleep(60)"
    )
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            (
                "import sys; from lab.gpu_check import jobs; "
                f"jobs.run([sys.executable, '-c', {child!r}], 60)"
            ),
        ],
        env=os.environ | jobs.source_path(),
    )
    pid = wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    parent.kill()
    parent.wait()
    wait_for(lambda: not alive(int(pid)))


def wait_for(done):
    end = time.monotonic() + 60
    while not (found := done()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found
