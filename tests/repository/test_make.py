"""README's commands: ``make`` lists verbs, ``make course`` serves, ``gpucourse grade`` grades."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest
import websocket

pytestmark = pytest.mark.slow

PACKAGES = ("virtualgpu", "gpustandins", "gpucourse")
TOKEN = "a-token-for-this-test"


def test_make_alone_lists_every_verb(repository: Path) -> None:
    listed = subprocess.run(["make"], cwd=repository, capture_output=True, text=True, check=True)
    phony = re.search(r"(?m)^\.PHONY: (.+)$", (repository / "Makefile").read_text())
    assert re.findall(r"(?m)^  make ([a-z-]+) +\w", listed.stdout) == phony[1].split()


def is_set_up(repository: Path, environment: Path) -> bool:
    """Whether ``make setup`` would leave this environment as it is."""
    done = subprocess.run(
        ["make", "-q", f"VENV={environment}", "setup"],
        cwd=repository,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.returncode == 0


def test_a_folder_that_has_been_renamed_is_set_up_anew(repository: Path, tmp_path: Path) -> None:
    assert not is_set_up(repository, tmp_path)
    stamp = tmp_path / ".set-up"
    stamp.write_text(f"{repository}\n")
    assert is_set_up(repository, tmp_path)
    stamp.write_text("/somewhere/else\n")
    assert not is_set_up(repository, tmp_path)
    # As the first versions of this Makefile left it.
    stamp.write_text("")
    assert is_set_up(repository, tmp_path)


def test_settings_that_are_newer_are_installed(repository: Path, tmp_path: Path) -> None:
    copy, stamp = tmp_path / "copy", tmp_path / ".set-up"
    for name in ("packages/gpucourse/jupyter", "requirements"):
        shutil.copytree(repository / name, copy / name)
    for package in ("virtualgpu", "gpustandins"):
        (copy / "packages" / package).mkdir()
    for name in ("Makefile", *(f"packages/{one}/pyproject.toml" for one in PACKAGES)):
        shutil.copy(repository / name, copy / name)
    stamp.write_text(f"{copy}\n")
    assert is_set_up(copy, tmp_path)
    (setting, *_) = sorted(copy.glob("packages/gpucourse/jupyter/*/*"))
    needs = copy / "packages/virtualgpu/pyproject.toml"
    later = stamp.stat().st_mtime + 10
    for path in (setting, needs):
        before = path.stat().st_mtime
        os.utime(path, (later, later))
        assert not is_set_up(copy, tmp_path)
        os.utime(path, (before, before))


@pytest.fixture
def served(repository: Path, tmp_path: Path):
    """JupyterLab as ``make course`` starts it; yields its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = f"--no-browser --port={port} --port-retries=0 --IdentityProvider.token={TOKEN}"
    # The environment that runs this test is set up already, and must not change under it: -o.
    command = ["make", "-o", f"{sys.prefix}/.set-up", f"VENV={sys.prefix}", "course"]
    command.append(f"COURSE_ARGS={arguments}")
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=repository, stdout=log, stderr=log, start_new_session=True
        )
    try:
        wait_for(f"http://127.0.0.1:{port}", process, tmp_path / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def get(address: str) -> bytes:
    request = urllib.request.Request(address, headers={"Authorization": f"token {TOKEN}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read()


def wait_for(address: str, process: subprocess.Popen, log: Path, seconds: float = 60) -> None:
    """Returns once the server answers; fails with its log when it ends or takes too long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        try:
            get(f"{address}/api/status")
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.2)
        else:
            return
    pytest.fail(f"make course did not answer in {seconds} s:\n{log.read_text()}")


@pytest.mark.rehearsal
def test_make_course_serves_the_notebooks(repository: Path, served: str) -> None:
    assert b"JupyterLab" in get(f"{served}/lab")
    kernels = json.loads(get(f"{served}/api/kernelspecs"))
    assert "python3" in kernels["kernelspecs"]
    # What a learner sees of the repository: the lessons, their answers and their help.
    tracked = subprocess.run(
        ["git", "ls-tree", "--name-only", "HEAD"],
        cwd=repository,
        text=True,
        capture_output=True,
        check=True,
    ).stdout.split("\n")
    here = {item["name"] for item in json.loads(get(f"{served}/api/contents"))["content"]}
    assert here & set(tracked) == {
        "README.md",
        "docs",
        "lectures",
        "projects",
        "solutions",
        "welcome.ipynb",
    }
    page = get(f"{served}/lab").decode()
    disabled = json.loads(re.search(r'"disabledExtensions": (\[.*?\])', page).group(1))
    assert {"@jupyter/nbgrader:create-assignment", "@jupyter/nbgrader:formgrader"} <= set(disabled)


def connect(served: str, kind: str) -> closing[websocket.WebSocket]:
    """Start a kernel or a terminal on the server; returns a connection to it."""
    request = urllib.request.Request(
        f"{served}/api/{kind}", method="POST", headers={"Authorization": f"token {TOKEN}"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        made = json.load(answer)
    place = (
        f"api/kernels/{made['id']}/channels"
        if kind == "kernels"
        else (f"terminals/websocket/{made['name']}")
    )
    address = served.replace("http://", "ws://")
    return closing(websocket.create_connection(f"{address}/{place}?token={TOKEN}", timeout=60))


def said_by_a_kernel(served: str, code: str) -> str:
    header = {"msg_id": "1", "msg_type": "execute_request", "username": "", "session": "s"}
    content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
    request = {"channel": "shell", "header": header, "content": content}
    said, done = "", False
    with connect(served, "kernels") as connection:
        connection.send(json.dumps(request | {"parent_header": {}, "metadata": {}, "buffers": []}))
        while not done:
            message = json.loads(connection.recv())
            said += message["content"].get("text", "")
            idle = message["content"].get("execution_state") == "idle"
            done = idle and message["parent_header"].get("msg_id") == header["msg_id"]
    return said


def said_by_a_terminal(served: str, line: str) -> str:
    said = ""
    with connect(served, "terminals") as connection:
        connection.send(json.dumps(["stdin", f"{line}; echo en''d\r"]))
        while "end" not in said:
            kind, text = json.loads(connection.recv())
            said += text if kind == "stdout" else ""
    return said


@pytest.mark.rehearsal
def test_pip_installs_into_the_environment_of_the_course(served: str) -> None:
    """Lessons say `pip install torch`: by `%pip`, by `!pip` and in a terminal."""
    for said in (
        said_by_a_kernel(served, "%pip --version"),
        said_by_a_kernel(served, "!pip --version"),
        said_by_a_terminal(served, "pip --version"),
    ):
        assert f"from {sys.prefix}/lib/" in re.sub(r"\s*\n", "", said)


def test_what_make_course_starts_finds_the_programs(repository: Path, tmp_path: Path) -> None:
    """The notebooks say `gpucourse grade …`, in a terminal or after `!`."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("jupyter", "command -v gpucourse"), ("gpucourse", ":")):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    done = subprocess.run(
        ["make", "-s", "-o", f"{tmp_path}/.set-up", f"VENV={tmp_path}", "course"],
        cwd=repository,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(programs / "gpucourse")


@pytest.mark.rehearsal
def test_a_starter_is_graded_as_readme_shows(repository: Path) -> None:
    program = Path(sys.executable).with_name("gpucourse")
    starter = "projects/01_fill_a_histogram/01_fill_a_histogram.ipynb"
    done = subprocess.run(
        [program, "grade", starter], cwd=repository, capture_output=True, text=True
    )
    assert done.returncode == 1, done.stderr  # graded, and not all points
    assert re.search(r"01_fill_a_histogram: 0 of \d+ points", done.stdout), done.stdout
    assert "3 more points are given by a person: reflection" in done.stdout
