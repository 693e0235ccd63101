"""What a submission can try against the grader (rows of the list of threats), and what it gets.

Every test grades a hostile submission to the toy assignment (5 points; 2 of them for `total`, which
stays honest) in a real sandbox. The numbers are those of the list.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from pathlib import Path

import pytest
from grading_toy import DOUBLE, Limits, answers, submitted, toy

from gpucourse.grading.oracle import grade
from gpucourse.grading.sandbox import BUBBLEWRAP, NAMESPACES, Sandbox, SandboxError
from gpucourse.grading.verdict import GRADED, STUDENT_FAULT

SEED = "5eed" * 8
LIMITS = Limits(request_seconds=6.0, memory_bytes=512 << 20)


@pytest.fixture(scope="session")
def secret(tmp_path_factory) -> Path:
    """A folder of the instructor's that no submission may read or change."""
    folder = tmp_path_factory.mktemp("course")
    (folder / "grades-7f3a.db").write_text("grades")
    (folder / "source").mkdir()
    (folder / "source" / "tests-7f3a.ipynb").write_text("hidden_values")
    return folder


@pytest.fixture(scope="session")
def server(secret):
    """A fork server at the best level that this machine has."""
    with Sandbox([secret], LIMITS) as sandbox:
        yield sandbox.server


@pytest.fixture(scope="session", params=[BUBBLEWRAP, NAMESPACES])
def protecting(request, secret):
    """A fork server at each level that protects the instructor's files."""
    try:
        with Sandbox([secret], LIMITS, request.param) as sandbox:
            yield sandbox.server
    except SandboxError as error:
        pytest.skip(f"UNTESTED HERE: isolation level {request.param}: {error}")


@pytest.fixture
def verdict(server):
    """Grade the toy with some cells replaced."""
    return grading_on(server)


@pytest.fixture
def isolated_verdict(protecting):
    """The same, at each level."""
    return grading_on(protecting)


def grading_on(server):
    assignment = toy()

    def of(**changed: str):
        return grade(assignment, submitted(assignment, **changed), server, SEED)

    return of


def double_fails(verdict, *words: str) -> str:
    """The verdict has full points for `total` and none for `double`; the reason of the latter."""
    assert verdict.kind == GRADED
    assert [outcome.earned for outcome in verdict.tests] == [0.0, 2.0]
    reason = verdict.tests[0].reason
    for word in words:
        assert word in reason
    assert "hidden_values" not in verdict.to_json()
    return reason


def test_honest_control(isolated_verdict, protecting):
    honest = isolated_verdict()
    assert (honest.earned, honest.points, honest.first_reason()) == (5.0, 5.0, "")
    assert honest.isolation == protecting.level
    assert honest.seed == SEED


def test_starter_is_a_fault_with_advice(verdict):
    starter = verdict(**toy().starters)
    assert starter.kind == STUDENT_FAULT
    assert starter.earned == 0.0
    assert "no solution" in starter.reason


WRONG = "\ndef double(values):\n    return values\n"
# What earned full marks for wrong code from a grader that runs tests beside the student's code.
TAMPERING = {
    "01 strip assert": "import ast, builtins\nbuiltins.compile = lambda *a, **k: None\n",
    "02 blanking transformer": (
        "import IPython\nshell = IPython.get_ipython()\n"
        "if shell: shell.input_transformers_post.append(lambda lines: [])\n"),
    "03 run_cell": "import sys\nsys.modules['gpucourse.grading.cells'].run = lambda *a: None\n",
    "04 numpy.testing": (
        "import numpy\nnumpy.allclose = numpy.array_equal = numpy.isclose = lambda *a, **k: True\n"
        "numpy.testing.assert_allclose = lambda *a, **k: None\n"),
    "06 displayhook": "import sys\nsys.displayhook = lambda value: print(3.0)\nprint(3.0)\n",
    "12 frames and gc": "import gc\nfor thing in gc.get_objects():\n    pass\n",
    "30 magics": "!rm -rf /\n%timeit 1\n",
}


@pytest.mark.parametrize("kind", TAMPERING)
def test_threats_01_to_30_tampering_with_python_changes_no_verdict(kind, verdict):
    tampered = verdict(double=TAMPERING[kind] + WRONG)
    assert tampered.kind == GRADED
    assert tampered.tests[0].earned == 0.0
    # A submission that breaks Python for itself may lose more points, never win any.
    assert tampered.tests[1].earned in (0.0, 2.0)


def test_threat_05_objects_that_equal_everything_are_not_results(verdict):
    source = """
class Equal:
    def __eq__(self, other): return True
    def __array__(self, *a, **k): return np.arange(3.0) * 2
def double(values): return Equal()
"""
    double_fails(verdict(double=source), "TypeError")


def test_threat_08_warnings_and_output_cost_nothing(verdict):
    noisy = """
import sys, warnings
def double(values):
    warnings.warn("slow")
    print("3.0", file=sys.stderr)
    print("x" * 1000)
    return 2 * values
"""
    assert verdict(double=noisy).earned == 5.0


@pytest.mark.parametrize("forged", [
    b"GPC1" + (2**31).to_bytes(4, "little"),
    b"x" * 1000,
    b'GPC1\x16\x00\x00\x00{"arrays":[],"done":1} ',
    b"GPC1\x02\x00\x00\x00{}",
])
def test_threat_10_forged_replies_are_no_verdict(forged, verdict):
    source = f"""
import os
def double(values):
    for handle in range(3, 64):
        try: os.write(handle, {forged!r})
        except OSError: pass
    return values
"""
    double_fails(verdict(double=source))


def test_threat_10_an_answer_to_another_question_is_refused(verdict):
    """A well-formed reply, sent before the question, that lacks the question's nonce."""
    source = """
import os
reply = b'{"nonce":"%s","done":{},"arrays":[]}' % (b"0" * 32)
for handle in range(3, 64):
    try: os.write(handle, b"GPC1" + len(reply).to_bytes(4, "little") + reply)
    except OSError: pass
def double(values): return 2 * values
"""
    double_fails(verdict(double=source), "a question that was not asked")


@pytest.mark.parametrize(("source", "reason"), [
    ("import os\ndef double(v): os._exit(0)", "ended the process itself (exit code 0)"),
    ("import sys\ndef double(v): sys.exit(0)", "raises SystemExit"),
    ("import os\nos._exit(3)", "exit code 3"),
    ("import sys\nsys.exit(0)", "raises SystemExit"),
    ("import ctypes\ndef double(v): ctypes.string_at(0)", "crashed"),
])
def test_threat_11_ending_the_process_fails_that_test_only(source, reason, verdict):
    double_fails(verdict(double=source), reason)


LOOKING = """
import os
FOUND = []
for top in ("/", {secret!r}, "..", "/home", "/root", os.path.expanduser("~")):
    for folder, folders, files in os.walk(top):
        if folder.startswith(("/usr", "/sys", "/lib")) or "site-packages" in folder:
            folders.clear()
            continue
        FOUND += [name for name in files if name in ("grades-7f3a.db", "tests-7f3a.ipynb")]
def double(values):
    raise NameError(f"name 'x_{{len(FOUND)}}' is not defined")
"""


def test_threats_13_14_15_17_21_nothing_of_the_instructors_is_in_sight(isolated_verdict, secret):
    reason = double_fails(isolated_verdict(double=LOOKING.format(secret=str(secret))))
    assert "x_0" in reason
    planted = Path(sys.prefix, "planted-7f3a")
    spoiling = f"""
import pathlib
def double(values):
    for path in ({str(secret / "grades-7f3a.db")!r}, {str(planted)!r}):
        try: pathlib.Path(path).write_text("mine")
        except OSError: pass
    return values
"""
    try:
        double_fails(isolated_verdict(double=spoiling))
        assert not planted.exists()
        assert (secret / "grades-7f3a.db").read_text() == "grades"
    finally:
        planted.unlink(missing_ok=True)


def test_threats_16_29_environment_and_processes_are_out_of_reach(isolated_verdict, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    source = """
import os
seen = str(os.environ)
for path in ("/proc/1/environ", f"/proc/{os.getppid()}/environ", "/proc/self/environ"):
    try: seen += open(path).read()
    except OSError: pass
others = [name for name in os.listdir("/proc") if name.isdigit()]
def double(values):
    raise NameError(f"name 'x_{'hunter2' in seen}_{len(others)}_{os.getpid()}' is not defined")
"""
    assert "x_False_0_1" in double_fails(isolated_verdict(double=source))


def test_threat_18_seeds_differ_and_are_not_guessable(server):
    assignment = toy()
    # Knows the numbers that the public seed gives, and returns the right answer for them only.
    source = """
from gpucourse.grading.verbs import secret_rng
def double(values):
    public = secret_rng(str(len(values))).uniform(-1, 1, len(values))
    known = len(values) in (0, 3) or np.array_equal(values, public)
    return 2 * values if known else values
"""
    verdict = grade(assignment, submitted(assignment, double=source), server, SEED)
    assert verdict.tests[0].reason == "wrong for negative numbers"


def test_threat_19_reasons_carry_no_hidden_input(verdict):
    source = """
def double(values):
    if len(values) == 33:
        raise ValueError("the input was " + str(values[:3].tolist()))
    return 2 * values
"""
    reason = double_fails(verdict(double=source), "raises ValueError")
    assert "input" not in reason


@pytest.mark.parametrize("action", [
    "socket.create_connection(('127.0.0.1', {port}), 1)",
    "socket.socket(socket.AF_UNIX)",
    "os.fork()",
    "os.kill(os.getppid(), 9)",
    "subprocess.run(['true'])",
    "ctypes.CDLL(None, use_errno=True).ptrace(16, 1, 0, 0) and os.stat('/nowhere')",
])
def test_threats_20_24_32_no_network_no_processes_no_tracing(action, isolated_verdict):
    """The action must raise OSError, which the answer swallows before it works correctly."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        source = f"""
import ctypes, os, socket, subprocess
def double(values):
    try: {action.format(port=listener.getsockname()[1])}
    except OSError: return 2 * values
"""
        assert isolated_verdict(double=source).earned == 5.0


def test_threat_22_nothing_can_be_planted_for_the_next(isolated_verdict):
    plant = """
import os
for folder in (os.path.expanduser("~"), "/tmp", "/var/tmp", "/dev/shm"):
    try: open(folder + "/planted", "w").write("x")
    except OSError: pass
""" + DOUBLE.replace("### BEGIN SOLUTION", "").replace("### END SOLUTION", "")
    assert isolated_verdict(double=plant).earned == 5.0
    look = """
import os
places = [f for f in ("/tmp", "/var/tmp", "/dev/shm") if os.path.exists(f + "/planted")]
def double(values): return values if places else 2 * values
"""
    assert isolated_verdict(double=look).earned == 5.0


def test_threat_23_threads_end_with_the_answer(verdict, server):
    source = """
import threading, time
for _ in range(5):
    threading.Thread(target=lambda: time.sleep(1000)).start()
def double(values): return 2 * values
"""
    assert verdict(double=source).earned == 5.0


def test_threat_24_thread_bomb(verdict):
    source = """
import threading, time
def double(values):
    while True:
        threading.Thread(target=time.sleep, args=(1000,)).start()
"""
    double_fails(verdict(double=source))


def test_threat_25_memory_bomb(verdict):
    source = "def double(values):\n    return [bytearray(1 << 28) for _ in range(100)]\n"
    double_fails(verdict(double=source), "MemoryError")


@pytest.mark.parametrize("source", [
    "def double(values):\n    while True: pass\n",
    "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass\n",
])
def test_threat_26_endless_loops_are_stopped(source, verdict):
    double_fails(verdict(double=source), f"took longer than {LIMITS.request_seconds:g} s")


def test_threat_27_endless_output_goes_nowhere(verdict):
    source = "def double(values):\n    while True: print('x' * 100000)\n"
    double_fails(verdict(double=source), "took longer than")


def test_threat_27_a_result_larger_than_is_allowed(verdict):
    source = "def double(values):\n    return [np.zeros(1 << 25)] * 3\n"
    double_fails(verdict(double=source))


def test_threat_28_full_disk(verdict):
    source = """
import os
def double(values):
    written = 0
    try:
        for number in range(100):
            with open(f"/tmp/{number}", "wb") as file:
                written += file.write(bytes(1 << 23))
    except OSError:
        return 2 * values
"""
    assert verdict(double=source).earned == 5.0


def test_a_syntax_error_costs_its_own_cell(verdict):
    reason = double_fails(verdict(double="def double(values)\n    return 1\n"), "syntax error")
    assert "cell 'double', line 1" in reason


def test_magics_are_reported(verdict):
    notices = verdict(double="!ls\n" + answers(toy())["double"]).notices
    assert any("not Python" in notice and "!ls" in notice for notice in notices)


def test_a_helper_outside_the_answer_cells_is_named(server):
    assignment = toy()
    ingested = submitted(assignment, double="def double(values):\n    return helper(values)\n")
    ingested.strays["helper"] = "cell 2"
    verdict = grade(assignment, ingested, server, SEED)
    double_fails(verdict, "'helper'", "cell 2", "not graded")


def test_workers_do_not_see_each_other(protecting):
    """Two workers of one fork server, at the same time."""
    theirs = """
import subprocess, sys
open("mine", "w").write("x")
"""
    mine = """
import os
others = [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
alone = not os.path.exists("mine") and not others
def double(values):
    return 2 * values if alone else values
"""
    # grade() keeps its alarm in the main thread; the other submission waits in a worker here.
    worker = protecting.spawn()
    try:
        worker.wire.send({"nonce": "1", "do": "define", "cell": "a", "source": theirs})
        answer, _ = worker.wire.receive(time.monotonic() + 10)
        assert "error" not in answer
        assignment = toy()
        verdict = grade(assignment, submitted(assignment, double=mine), protecting, SEED)
    finally:
        worker.kill()
    assert verdict.earned == 5.0, verdict.to_json()


def test_the_verdict_names_no_path_of_the_machine(verdict):
    text = verdict(double="def double(values):\n    return values.nothing\n").to_json()
    assert str(Path.home()) not in text
    assert json.loads(text)["kind"] == GRADED
