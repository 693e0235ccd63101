"""The grader killed at random moments: nothing lost, nothing graded twice, gradebook consistent.

    python -m lab.evidence.grader_kills              50 kills of each kind (25 minutes on two cores)
    python -m lab.evidence.grader_kills --kills 2 --count 6 --only grader

``grader``: the process of ``gpucourse grade`` is killed (SIGKILL, it alone) and the same command
is given again, until the class is graded; then comes the next class. ``worker``: a class is graded
on a Dask cluster of two worker processes, and one of them is killed again and again. A submission
that eight workers seem to have died of is not a zero but a fault of the grader's: the next run
takes it up.

After each kill every verdict on file must be whole and, once it is there, never change (a second
grading would draw another seed), the gradebook must be sound, and every process that the killed one
had started must end by itself. When a class is done each submission has its one verdict, and the
gradebook has the points of it, which are those that the answer deserves.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from gpucourse.grading.verdict import INFRASTRUCTURE_FAULT
from lab.benchmarks import report
from lab.benchmarks.grader_class import OURS, Course, deserved, environment

# By then whatever a killed grader left behind must be gone.
ORPHANS_END = 60.0


class Broken(AssertionError):
    """Raised when something has happened that must never happen."""


def fill(folder: Path, count: int) -> Course:
    course = Course(folder, OURS)
    course.trivial_class(count, hostile_every=5)
    return course


def verdicts(course: Course) -> dict[str, str]:
    """The verdicts on file, as text; the name of a temporary file is no verdict."""
    return {
        path.parts[-3]: path.read_text()
        for path in (course.folder / "verdicts").glob("*/trivial/*.json")
    }


def check_halfway(course: Course, known: dict[str, str]) -> dict[str, str]:
    """Nothing that was there has changed; the gradebook is sound."""
    now = verdicts(course)
    for student, text in known.items():
        if now.get(student) != text:
            raise Broken(f"{student}: the verdict was lost or made a second time")
    with sqlite3.connect(course.folder / "gradebook.db") as gradebook:
        (sound,) = gradebook.execute("PRAGMA integrity_check").fetchone()
        twice = gradebook.execute(
            "SELECT student_id FROM submitted_assignment GROUP BY "
            "student_id, assignment_id HAVING count(*) > 1"
        ).fetchall()
    gradebook.close()
    if sound != "ok" or twice:
        raise Broken(f"the gradebook is not sound: {sound}, twice: {twice}")
    return now


def check_done(course: Course, known: dict[str, str]) -> None:
    """Everybody has a verdict, the gradebook its points, and they are the right ones."""
    final = check_halfway(course, known)
    expected = deserved(course.folder)
    points = {v["student"]: v["earned"] for v in course.verdicts("trivial")}
    if points != expected or set(final) != set(expected):
        raise Broken(f"verdicts say {points}, deserved is {expected}")
    if course.scores("trivial") != expected:
        raise Broken("the gradebook does not have the points of the verdicts")


def wait_for_a_moment(
    process: subprocess.Popen, course: Course, count: int, chance: random.Random
) -> bool:
    """Wait until some random moment of the run; False if the run is over before it.

    Three in ten fall into the start, which takes most of the time; the others come soon after
    some number of verdicts is there, while the next ones are made and written.
    """
    target = (
        None
        if chance.random() < 0.3
        else len(verdicts(course)) + chance.randrange(max(1, count - len(verdicts(course))))
    )
    end = time.monotonic() + (chance.uniform(0.0, 6.0) if target is None else 600.0)
    while process.poll() is None and time.monotonic() < end:
        if target is not None and len(verdicts(course)) >= target:
            time.sleep(chance.uniform(0.0, 0.3))
            break
        time.sleep(0.01)
    return process.poll() is None


def kill_graders(folder: Path, kills: int, count: int, chance: random.Random) -> dict:
    done, classes = 0, 0
    while done < kills:
        course = fill(folder / f"class-{classes}", count)
        known: dict[str, str] = {}
        while True:
            process = subprocess.Popen(
                course.command("trivial"),
                env=environment(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            if done < kills and wait_for_a_moment(process, course, count, chance):
                started = psutil.Process(process.pid).children(recursive=True)
                process.kill()
                process.wait()
                done += 1
                _, alive = psutil.wait_procs(started, ORPHANS_END)
                if alive:
                    raise Broken(f"still running: {[p.cmdline() for p in alive]}")
                known = check_halfway(course, known)
                print(f"kill {done}: {len(known)} of {count} on file", flush=True)
                continue
            if process.wait():
                raise Broken(f"gpucourse grade ended with {process.returncode}")
            break
        check_done(course, known)
        classes += 1
    return {
        "kills": done,
        "classes": classes,
        "submissions": classes * count,
        "lost": 0,
        "graded twice": 0,
    }


def kill_workers(folder: Path, kills: int, count: int, chance: random.Random) -> dict:
    from distributed import LocalCluster
    from rich.console import Console

    from gpucourse.grading.commands.grade_class import Class

    done, classes, again = 0, 0, 0
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        while done < kills:
            course = fill(folder / f"cluster-{classes}", count)
            over = threading.Event()
            killed: list[int] = []

            def kill_some(over=over, killed=killed, left=kills - done) -> None:
                # The first verdict takes some seconds: a worker has to start its station.
                while len(killed) < left and not over.wait(chance.uniform(2.0, 12.0)):
                    # One that is killed while Dask starts it is given up: another takes its
                    # place, as a batch system would have it.
                    cluster.scale(2)
                    if len(cluster.scheduler.workers) == len(cluster.workers) == 2:
                        nanny = chance.choice(list(cluster.workers.values()))
                        psutil.Process(nanny.pid).send_signal(signal.SIGKILL)
                        killed.append(1)

            killer = threading.Thread(target=kill_some)
            killer.start()
            try:
                Class(
                    course.folder, Console(quiet=True), scheduler=cluster.scheduler_address
                ).grade("trivial")
            finally:
                over.set()
                killer.join()
            done, classes = done + len(killed), classes + 1
            # A submission whose workers died time and again is left to the next run, never a zero.
            left = check_halfway(course, {})
            unfinished = [
                name
                for name, text in left.items()
                if json.loads(text)["kind"] == INFRASTRUCTURE_FAULT
            ]
            if unfinished:
                again += len(unfinished)
                Class(
                    course.folder, Console(quiet=True), scheduler=cluster.scheduler_address
                ).grade("trivial")
            check_done(course, {n: text for n, text in left.items() if n not in unfinished})
            print(
                f"class {classes}: {count} graded while {len(killed)} workers were killed; "
                f"{len(unfinished)} by a second run",
                flush=True,
            )
    return {
        "kills": done,
        "classes": classes,
        "submissions": classes * count,
        "left to a second run": again,
        "lost": 0,
        "graded twice": 0,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50, help="of each kind")
    parser.add_argument("--count", type=int, default=40, help="submissions of a class")
    parser.add_argument("--only", choices=["grader", "worker"])
    parser.add_argument("--seed", type=int, default=6, help="of the moments")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    results: dict = {}
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        if options.only != "worker":
            results["grader"] = kill_graders(Path(name), options.kills, options.count, chance)
        if options.only != "grader":
            results["worker"] = kill_workers(Path(name), options.kills, options.count, chance)
    print(results)
    if options.kills >= 50 and options.only is None:
        print(report.write("grader_kills", results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
