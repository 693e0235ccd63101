"""An oracle that runs any code whatever can do nothing with it.

The code is that of a test cell: it runs in the oracle, as what took the oracle over would.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from gpucourse.grading.classes import batch
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle import confined, fork_server
from gpucourse.grading.sandbox import confinement, landlock
from gpucourse.grading.sandbox.file_system import coverable, needed_paths
from gpucourse.grading.sandbox.levels import BUBBLEWRAP, NAMESPACES, SandboxError
from gpucourse.grading.verdict import GRADED, INFRASTRUCTURE_FAULT, TestOutcome, Verdict
from grading_toy import (
    DOUBLE,
    SETUP,
    TEST_DOUBLE,
    notebook_of,
    setup,
    solution,
    submitted,
    test_cell,
)
from threats import SCALE, START, TEST_SCALE

pytestmark = pytest.mark.slow

# Each writes down what it could do; run outside of the grader, all of them can.
ATTEMPTS = """
import ctypes, fcntl, json, os, resource, signal, socket, subprocess
course, home, parent = {course!r}, {home!r}, {parent}
libc = ctypes.CDLL(None, use_errno=True)

def succeeds(result):
    if result != 0:
        raise OSError

def written(path):
    with open(path, "w") as file:
        file.write("x")
    return os.path.exists(path)

attempts = {{
    "internet socket": lambda: socket.socket(socket.AF_INET),
    "local socket": lambda: socket.socket(socket.AF_UNIX),
    "gradebook": lambda: open(course + "/gradebook.db").read(),
    "another's work": lambda: open(course + "/submitted/other/ps1/toy.ipynb").read(),
    "who else": lambda: os.listdir(course + "/submitted"),
    "the parent's files": lambda: os.listdir(f"/proc/{{parent}}/root{{course}}/submitted"),
    "the parent's variables": lambda: open(f"/proc/{{parent}}/environ").read(),
    "the parent's memory": lambda: open(f"/proc/{{parent}}/mem", "r+b"),
    "write beside": lambda: written(course + "/written"),
    "write at home": lambda: written(home + "/written"),
    "change the gradebook": lambda: open(course + "/gradebook.db", "a"),
    "remove": lambda: os.remove(course + "/to remove"),
    "rights": lambda: os.chmod(course + "/gradebook.db", 0o600),
    "times": lambda: os.utime(course + "/gradebook.db"),
    "signal the parent": lambda: os.kill(parent, 0),
    "signal by another call": lambda: succeeds(libc.syscall(62 if os.uname().machine == "x86_64"
                                                            else 129, parent, 0)),
    "signal by a file": lambda: fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, parent),
    "which signal": lambda: fcntl.fcntl(os.pipe()[0], 10, signal.SIGKILL),
    "signal by a socket": lambda: fcntl.ioctl(socket.socketpair()[0], 0x8902,
                                              parent.to_bytes(4, "little")),
    "processors of the parent": lambda: os.sched_setaffinity(parent, os.sched_getaffinity(parent)),
    "limits of the parent": lambda: resource.prlimit(parent, resource.RLIMIT_CORE),
    "priority of the parent": lambda: os.setpriority(os.PRIO_PROCESS, parent, os.getpriority(
        os.PRIO_PROCESS, parent)),
    "program": lambda: subprocess.run(["/bin/true"], check=True),
    "process": lambda: os.fork() or os._exit(0),
    "namespace": lambda: succeeds(libc.unshare(0x10000000)),
    "memory file": lambda: os.memfd_create("kept"),
    "this user's key": lambda: os.environ["HUB_KEY"],
}}
done = []
for name, attempt in attempts.items():
    try:
        attempt()
        done.append(name)
    except (OSError, KeyError, PermissionError, subprocess.SubprocessError):
        pass
"""


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Path:
    """A course directory with the work of somebody else, in a folder that is no temporary one."""
    root = tmp_path_factory.mktemp("class")
    (root / "submitted" / "other" / "ps1").mkdir(parents=True)
    for name in ("gradebook.db", "submitted/other/ps1/toy.ipynb", "to remove"):
        (root / name).write_text("kept")
    (root / "home").mkdir()
    return root


def attempts(course: Path) -> str:
    return ATTEMPTS.format(course=str(course), home=str(course / "home"), parent=os.getpid())


def graded(course: Path, test: str, level: str | None = None, **limits):
    """A right answer to a notebook with this test, by the class grader."""
    source = course / "source" / "ps1" / "toy.ipynb"
    source.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(
        notebook_of(
            [
                setup("setup", SETUP),
                solution("double", DOUBLE),
                test_cell("test-double", TEST_DOUBLE, 3),
                test_cell("attempts", test, 2),
            ]
        ),
        source,
    )
    job = batch.Job("alice", source, submitted(batch.Assignment.load(source)))
    try:
        with batch.Grader(
            hidden=[course], workers=1, level=level, limits=Limits(request_seconds=60.0, **limits)
        ) as grader:
            return grader.grade([job])[0]
    except SandboxError as error:
        pytest.skip(f"UNTESTED HERE: isolation level {level}: {error}")


def test_outside_of_an_oracle_all_of_it_is_possible(course):
    """Or the tests below would show nothing."""
    ran = subprocess.run(
        [sys.executable, "-c", attempts(course) + "print(json.dumps([*attempts, '/', *done]))"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"HUB_KEY": "key-7f3a"},
    )
    told = json.loads(ran.stdout)
    assert told[: told.index("/")] == told[told.index("/") + 1 :]
    for name in ("written", "home/written"):
        (course / name).unlink()
    (course / "to remove").write_text("kept")


@pytest.mark.parametrize("level", [BUBBLEWRAP, NAMESPACES])
def test_threat_85_code_in_an_oracle_reaches_nothing(course, level, monkeypatch):
    monkeypatch.setenv("HUB_KEY", "key-7f3a")
    before = sorted(map(str, course.rglob("*")))
    verdict = graded(
        course, attempts(course) + "assert not done, 'could: ' + ', '.join(done)\n", level
    )
    assert verdict.kind == GRADED, verdict.reason
    assert verdict.tests[1].passed, verdict.tests[1].reason
    assert verdict.tests[0].passed  # and honest work is graded there
    assert confined.missing(verdict.oracle) == []
    here = {str(course / "source"), *(map(str, (course / "source").rglob("*")))}
    assert set(map(str, course.rglob("*"))) - here == set(before) - here
    assert (course / "gradebook.db").read_text() == "kept"


def test_threat_85_an_oracle_without_landlock_sees_nothing_of_the_course(course, monkeypatch):
    """In a child of this process, which finds no such thing in the kernel."""
    monkeypatch.setattr(landlock, "version", lambda: 0)
    covered = tuple(coverable(str(course), needed_paths()))
    told = in_confinement(covered, attempts(course) + "result = done\n")
    if confined.HIDDEN not in told["had"]:
        pytest.skip("UNTESTED HERE: the kernel refuses user namespaces")
    assert told["result"] == []


def test_threat_85_without_namespaces_and_landlock_the_verdict_says_so(course, monkeypatch):
    monkeypatch.setattr(landlock, "version", lambda: 0)
    monkeypatch.setattr(confinement, "own_namespaces", lambda *_, **__: False)
    told = in_confinement((), attempts(course) + "result = done\n")
    assert confined.missing(told["had"]) == [confined.FILES]
    assert "gradebook" in told["result"]
    assert not set(told["result"]) & {
        "internet socket",
        "signal the parent",
        "program",
        "process",
        "rights",
        "limits of the parent",
        "signal by a file",
        "signal by a socket",
    }
    (course / "to remove").write_text("kept")


def test_libraries_are_found_where_the_loader_is_told_of_them(tmp_path, monkeypatch):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libown.so").write_text("kept")
    (tmp_path / "other").write_text("kept")
    monkeypatch.setenv("LD_LIBRARY_PATH", f":/:.:{tmp_path / 'lib'}")
    monkeypatch.setattr(confinement, "own_namespaces", lambda *_, **__: False)
    told = in_confinement(
        (),
        f"""result = []
for name in ("lib/libown.so", "other"):
    try:
        result.append(open({str(tmp_path)!r} + "/" + name).read())
    except PermissionError:
        result.append("refused")
""",
    )
    if confined.FILES not in told["had"]:
        pytest.skip("UNTESTED HERE: the kernel has no Landlock")
    assert told["result"] == ["kept", "refused"]


def may_be_nobody() -> bool:
    """Whether this process may become user 65534: root of a namespace of one user may not."""
    maps = Path("/proc/self/uid_map").read_text().splitlines()
    return os.getuid() == 0 and any(
        int(first) <= 65534 < int(first) + int(length) for first, _, length in map(str.split, maps)
    )


@pytest.mark.skipif(not may_be_nobody(), reason="UNTESTED HERE: root may not be another user")
def test_threat_85_where_root_grades_an_oracle_is_another_user(course, monkeypatch):
    """If all may read the installation, as in an image; here that is only said."""
    monkeypatch.setattr(confinement, "open_to_all", lambda path: True)
    told = in_confinement((), "import os\nresult = os.getresuid(), os.getgroups()\n")
    assert told["result"] == [[65534] * 3, []]
    assert told["had"].endswith(confined.USER) and confined.missing(told["had"]) == []
    told = in_confinement((), attempts(course) + "result = done\n")
    assert told["result"] == []


def in_confinement(covered: tuple[str, ...], code: str) -> dict:
    """What `code` makes of `result` in a fork of this process that is confined as an oracle is."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            had = confined.confine(Limits(), covered, (write,))
            names: dict = {}
            exec(code, names)
            os.write(write, json.dumps({"had": had, "result": names["result"]}).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as told:
        text = told.read()
    os.waitpid(child, 0)
    return json.loads(text)


def test_threat_85_an_oracle_has_two_open_files_of_others(course):
    """The way to its workers, and the one for its verdict."""
    verdict = graded(
        course,
        """import os
kinds = [os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in os.listdir("/proc/self/fd")
         if os.path.lexists(f"/proc/self/fd/{n}")]
# Two of its own lead to the worker that it talks to.
assert kinds.count("socket") <= 3 and kinds.count("pipe") == 1, str(sorted(kinds))
""",
    )
    assert verdict.tests[1].passed, verdict.tests[1].reason


def test_threat_85_an_oracle_cannot_ask_for_workers_that_are_less_confined(course):
    """It may say what it likes over its channel: the first order was the grader's."""
    verdict = graded(
        course,
        """from dataclasses import replace
from gpucourse.grading.testing import verbs
student = verbs.current_judge().student
student.close()
student.server = student._talk.server = replace(student.server, level="limits", covered=())
call("double", np.arange(3.0), where="host")
assert student._talk.worker.namespaces, "a worker without namespaces"
""",
        NAMESPACES,
    )
    assert verdict.kind == GRADED and verdict.tests[1].passed, verdict.to_json()


def test_threat_85_a_verdict_is_on_the_work_that_was_handed_out(course):
    graded(course, "pass\n")
    source = course / "source" / "ps1" / "toy.ipynb"
    job = batch.Job("alice", source, submitted(batch.Assignment.load(source)))
    tests = [TestOutcome("test-double", 3.0, 3.0), TestOutcome("attempts", 2.0, 1e9)]
    forged = Verdict(GRADED, "other", "mallory", tests=tests, seed="00", isolation="none")
    verdict = batch.vouched(forged, job, "5eed", BUBBLEWRAP)
    assert (verdict.student, verdict.notebook, verdict.seed) == ("alice", "toy", "5eed")
    assert verdict.earned == 5.0 and verdict.submission_digest == job.digest
    for wrong in ([], tests[:1], [tests[0], TestOutcome("attempts", 200.0, 200.0)]):
        with pytest.raises(ValueError, match="other tests"):
            batch.vouched(Verdict(GRADED, "toy", tests=wrong), job, "5eed", BUBBLEWRAP)
    fault = batch.vouched(Verdict(INFRASTRUCTURE_FAULT, "toy", tests=tests), job, "5eed", "")
    assert fault.tests == [] and fault.earned is None


def test_threat_85_an_oracle_that_holds_too_much_is_stopped_from_outside(course):
    """Whatever it does with the alarm that it has set itself."""
    verdict = graded(
        course,
        """import signal, time
signal.setitimer(signal.ITIMER_REAL, 0)
held = np.ones(75_000_000)  # 600 MB
time.sleep(30)
""",
        oracle_bytes=300 << 20,
    )
    assert verdict.kind == INFRASTRUCTURE_FAULT
    assert "more memory than allowed" in verdict.reason


def test_threat_85_the_server_of_the_oracles_inherits_no_keys(monkeypatch):
    for name in ("JUPYTERHUB_API_TOKEN", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, "key-7f3a")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with fork_server._needed_variables():
        assert "key-7f3a" not in os.environ.values()
        assert os.environ["OMP_NUM_THREADS"] == "1" and os.environ["PATH"]
    assert os.environ["SSH_AUTH_SOCK"] == "key-7f3a"


def test_what_all_may_read_is_known_by_modes(tmp_path):
    inner = tmp_path / "closed" / "file"
    inner.parent.mkdir()
    inner.write_text("x")
    inner.parent.chmod(0o700)
    assert not confinement.open_to_all(str(inner))
    assert confinement.open_to_all("/usr")
    assert confinement.open_to_all(str(tmp_path / "missing"))


def test_what_an_oracle_lacks_is_said():
    whole = "files by list, no network, system calls"
    assert confined.lacking([whole, whole, ""]) == ""
    assert confined.lacking([whole, "the course's files hidden, no network, system calls"]) == (
        " (oracles without: files by list)"
    )
    assert confined.missing("nothing") == ["files by list", "no network", "system calls"]


ON_A_GPU = """
import os, sys
sys.path[:0] = [{support!r}, {threats!r}]
from pathlib import Path
from gpucourse.grading.classes import batch
from gpucourse.grading.limits import Limits
from gpucourse.grading.submission.assignment import Assignment
from grading_toy import submitted
if __name__ == "__main__":
    source = Path({source!r})
    job = batch.Job("alice", source, submitted(Assignment.load(source)))
    with batch.Grader(workers=1, limits=Limits(gpu=True)) as grader:
        (verdict,) = grader.grade([job])
    print(verdict.to_json())
"""


def test_a_gpu_is_reached_by_a_process_that_was_started_before(course, repository):
    """A second virtual GPU in its part; what agreed is written down where it was asked for."""
    source, record = course / "gpu" / "scale.ipynb", course / "record"
    source.parent.mkdir()
    record.mkdir()
    nbformat.write(
        notebook_of(
            [
                setup("setup", START),
                solution("scale", SCALE),
                test_cell("test-scale", TEST_SCALE, 3),
            ]
        ),
        source,
    )
    script = course / "on_a_gpu.py"
    script.write_text(
        ON_A_GPU.format(
            source=str(source),
            support=str(repository / "packages/gpucourse/tests/support"),
            threats=str(repository / "tests/support"),
        )
    )
    told = {"GPUCOURSE_GPU_KIND": "virtual", "GPUCOURSE_GPU_RECORD": str(record)}
    ran = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=os.environ | told
    )
    verdict = Verdict.from_json(ran.stdout)
    assert verdict.earned == 3.0, ran.stdout + ran.stderr
    assert "checked on" in verdict.device and confined.missing(verdict.oracle) == []
    assert [path.suffix for path in record.iterdir()] == [".jsonl"]
