"""Trial of Binder's environment on this machine: its size, and every notebook in 2 GB.

    python -m lab.trials.binder                 continues where it stopped
    python -m lab.trials.binder 04_ 01_fill     some notebooks again

The trial does the steps of repo2docker that work without Docker: it installs Python 3.12 and the
packages of ``binder/requirements.txt``, runs ``binder/postBuild`` in a copy of the tracked files,
and starts JupyterLab and each kernel with ``binder/start`` on one core. If this user may create a
control group, server and kernel share one with 2 GB of memory, and a process that needs more is
killed as on Binder. Each notebook runs with its answers; a project then grades itself in the same
kernel.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import psutil
from rich.progress import track

from gpucourse.course.registry import Lesson, Project, load_course
from gpucourse.publish.release.binder import PYTHON
from lab.benchmarks.kernels import execute, unexpected
from lab.benchmarks.report import RESULTS, write

REPOSITORY = Path(__file__).resolve().parents[2]
PLACE = REPOSITORY / "build" / "binder"
HOME, ENVIRONMENT = PLACE / "home", PLACE / "environment"
NAME = "binder_size"
LIMIT = 2_000_000_000
GROUP = Path("/sys/fs/cgroup/memory/gpucourse-binder")
PORT = 8971
# Codes that move a terminal's cursor and colour its text.
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


# --- the image --------------------------------------------------------------------------------


def build() -> None:
    """Build from a fresh copy of the commit; the environment is reused if the lock is unchanged."""
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    subprocess.run(["tar", "-x", "-C", HOME], input=git("archive", "HEAD"), check=True)
    lock = HOME / "binder" / "requirements.txt"
    stamp = ENVIRONMENT / "installed.txt"
    if not stamp.is_file() or stamp.read_bytes() != lock.read_bytes():
        uv = [sys.executable, "-m", "uv"]
        subprocess.run(
            [*uv, "venv", "-q", "--clear", "--seed", "--python", PYTHON, ENVIRONMENT], check=True
        )
        subprocess.run(
            [
                *uv,
                "pip",
                "install",
                "-q",
                "--python",
                ENVIRONMENT / "bin" / "python",
                "--compile-bytecode",
                "--require-hashes",
                "-r",
                lock,
            ],
            check=True,
        )
        shutil.copy(lock, stamp)
    subprocess.run(
        [HOME / "binder" / "postBuild"],
        cwd=HOME,
        env=environment(),
        check=True,
        stdout=subprocess.DEVNULL,
    )


def git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, check=True).stdout


def environment() -> dict[str, str]:
    """Return an environment as in Binder's image.

    The home directory is the repository, and the environment's programs come first.
    """
    kept = {name: os.environ[name] for name in ("LANG", "TERM") if name in os.environ}
    return {**kept, "HOME": str(HOME), "PATH": f"{ENVIRONMENT}/bin:/usr/local/bin:/usr/bin:/bin"}


def sizes() -> dict:
    """Return megabytes on disk, and the ten largest packages of the environment."""
    (packages,) = ENVIRONMENT.glob("lib/python*/site-packages")
    parts = {path.name: megabytes(path) for path in packages.iterdir() if path.is_dir()}
    largest = sorted(parts, key=parts.__getitem__, reverse=True)[:10]
    pins = (HOME / "binder" / "requirements.txt").read_text().count("==")
    return {
        "packages": pins,
        "environment MB": megabytes(ENVIRONMENT),
        "of it compiled Python MB": megabytes(ENVIRONMENT, "*.pyc"),
        "repository MB": megabytes(HOME),
        "largest packages MB": {name: parts[name] for name in largest},
    }


def megabytes(folder: Path, pattern: str = "*") -> float:
    """Return the files' size on disk in 10⁶ bytes; hard links count once."""
    seen = {
        (s.st_dev, s.st_ino): s.st_blocks * 512
        for path in folder.rglob(pattern)
        if not path.is_dir()
        for s in [path.lstat()]
    }
    return round(sum(seen.values()) / 1e6, 1)


# --- Binder's limits --------------------------------------------------------------------------


class Room:
    """Memory control group of ``LIMIT`` bytes (cgroup v1), or none if that is forbidden."""

    def __init__(self) -> None:
        try:
            GROUP.mkdir(exist_ok=True)
            (GROUP / "memory.limit_in_bytes").write_text(str(LIMIT))
            self.limited = True
        except OSError:
            self.limited = False

    def command(self, *words: object) -> list[str]:
        """Return the command that runs ``words`` on one core with ``binder/start`` in the group."""
        enter = f"echo $$ > {GROUP}/cgroup.procs && " if self.limited else ""
        start = f'{enter}exec taskset -c 0 "$@"'
        return ["sh", "-c", start, "sh", str(HOME / "binder" / "start"), *map(str, words)]

    def leave(self) -> None:
        """Remove the group after its last process has ended."""
        end = time.monotonic() + 30
        while self.limited:
            try:
                return GROUP.rmdir()
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def killed(self) -> int:
        """Return the number of processes killed so far because memory ran out."""
        if not self.limited:
            return 0
        text = (GROUP / "memory.oom_control").read_text()
        return int(dict(line.split() for line in text.splitlines()).get("oom_kill", 0))


@contextmanager
def server(room: Room) -> Iterator[psutil.Process]:
    """Run JupyterLab as Binder starts it, and wait until its page has been served once."""
    token = secrets.token_hex()
    options = [
        "--no-browser",
        f"--port={PORT}",
        "--port-retries=0",
        "--ip=127.0.0.1",
        f"--IdentityProvider.token={token}",
        "--allow-root",
    ]
    log = (PLACE / "server.log").open("wb")
    process = subprocess.Popen(
        room.command("jupyter", "lab", *options),
        cwd=HOME,
        env=environment(),
        stdout=log,
        stderr=log,
    )
    try:
        for page in ("lab", "api/contents", "api/kernelspecs", "lab/api/settings"):
            ask(process, f"http://127.0.0.1:{PORT}/{page}?token={token}")
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(30)
        log.close()


def ask(process: subprocess.Popen, address: str) -> None:
    end = time.monotonic() + 600  # it starts slowly on a machine that also does other work
    while True:
        try:
            with urllib.request.urlopen(address, timeout=30) as answer:
                answer.read()
            return
        except OSError:
            if time.monotonic() > end or process.poll() is not None:
                raise
            time.sleep(0.2)


def memory(processes: list[psutil.Process]) -> int:
    """Return the bytes of the processes and their children; shared memory counts once."""
    total = 0
    for process in processes:
        try:
            for one in (process, *process.children(recursive=True)):
                total += one.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total


class Watch(threading.Thread):
    """Monitor that measures a server, and a kernel once there is one, five times a second.

    ``peak`` is the most memory that they and their children used together, in bytes. ``work`` is
    the processor time of the kernel and its children in seconds, which is the time that an
    otherwise idle core would need.
    """

    def __init__(self, server: psutil.Process) -> None:
        super().__init__(daemon=True)
        self.server, self.over = server, threading.Event()
        self.kernel: psutil.Process | None = None
        self.peak, self.work = 0, 0.0

    def run(self) -> None:
        while not self.over.wait(0.2):
            kernel = [self.kernel] if self.kernel else []
            self.peak = max(self.peak, memory([self.server, *kernel]))
            for one in kernel:
                try:
                    alive = one.children(recursive=True)
                    times = [one.cpu_times(), *(child.cpu_times() for child in alive)]
                except psutil.NoSuchProcess:
                    continue
                ended = times[0].children_user + times[0].children_system
                self.work = max(self.work, ended + sum(t.user + t.system for t in times))

    def look_at(self, pid: int) -> None:
        self.kernel = psutil.Process(pid)

    def stop(self) -> None:
        self.over.set()
        self.join()


# --- the notebooks ----------------------------------------------------------------------------


def run(lesson: Lesson, room: Room, lab: psutil.Process) -> dict:
    """Run one lesson's solution in one of Binder's kernels, while the server runs."""
    notebook = nbformat.read(HOME / "solutions" / f"{lesson.id}.ipynb", as_version=4)
    grades = isinstance(lesson, Project)
    if grades:
        answered = HOME / "projects" / lesson.id / "answered.ipynb"
        nbformat.write(notebook, answered)
        notebook.cells.append(nbformat.v4.new_code_cell(f"!gpucourse grade {answered.name}"))
    command = room.command(
        "python", "-m", "ipykernel_launcher", "-f", "{connection_file}", "--log-level=ERROR"
    )
    folder = HOME / (f"projects/{lesson.id}" if grades else "lectures")
    killed, watch = room.killed(), Watch(lab)
    watch.start()
    lived = execute(notebook, command, environment(), folder, watch.look_at)
    watch.stop()
    found = {
        "seconds of one core": round(watch.work, 1),
        "peak MB of server and kernel": round(watch.peak / 1e6),
        "killed": room.killed() - killed,
        "kernel died": not lived,
        "unexpected errors": unexpected(notebook),
    }
    if grades:
        text = "".join(output.get("text", "") for output in notebook.cells[-1].outputs)
        lines = [line.strip() for line in re.split(r"[\r\n]", _TERMINAL.sub("", text))]
        found["graded in its kernel"] = next((line for line in lines if " points" in line), None)
    return found


def earlier() -> dict:
    """Return an earlier run's results for the same lock and the same notebooks."""
    try:
        return json.loads((RESULTS / f"{NAME}.json").read_text())["results"]["notebooks"]
    except (OSError, ValueError, KeyError):
        return {}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("lessons", nargs="*", help="beginnings of their ids; default: all")
    asked = options.parse_args().lessons
    build()
    room = Room()
    found = earlier()
    lessons = {lesson.id: lesson for lesson in load_course(REPOSITORY).lessons}
    inputs = {}
    for lesson in lessons.values():
        texts = [HOME / "binder" / "requirements.txt", HOME / "solutions" / f"{lesson.id}.ipynb"]
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in texts))
        inputs[lesson.id] = digest.hexdigest()[:16]
    wanted = [
        id
        for id, digest in inputs.items()
        if (id.startswith(tuple(asked)) if asked else found.get(id, {}).get("input") != digest)
    ]
    results = {
        "command": "python -m lab.trials.binder",
        "limit": f"{LIMIT / 1e9:g} GB, enforced" if room.limited else "none could be set here",
        **sizes(),
    }
    for id in track(wanted, "notebooks"):
        with server(room) as lab:
            time.sleep(2)
            results["server alone MB"] = round(memory([lab]) / 1e6)
            found[id] = {"input": inputs[id], **run(lessons[id], room, lab)}
        found = {id: found[id] for id in inputs if id in found}
        write(NAME, {**results, "notebooks": found})
        print(id, found[id])
    room.leave()
    wrong = [
        id
        for id, one in found.items()
        if one["killed"]
        or one["kernel died"]
        or one["unexpected errors"]
        or (
            "graded in its kernel" in one
            and not re.search(r": (\d+) of \1 points", one["graded in its kernel"] or "")
        )
    ]
    print(f"{len(found)} notebooks; with errors: {', '.join(wrong) or 'none'}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
