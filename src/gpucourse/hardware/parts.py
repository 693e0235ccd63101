"""What ``gpucourse gpu-check`` looks at: one function for each part, the most valuable first.

A part is given a time, saves its rows whenever it has some, and goes on with what it can: whatever
a machine lacks becomes a row that says so.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gpucourse.hardware import grading_run, jobs, labelled, lesson_pair, machine, nsight
from gpucourse.hardware import replay as replays
from gpucourse.hardware import sanitizer as sanitizers
from gpucourse.hardware.checked import KIND
from gpucourse.hardware.gpu_process import GPU, VIRTUAL
from gpucourse.hardware.lesson_run import cells, find_root, lessons
from gpucourse.hardware.rows import FAILS, NOT_RUN, Row

#: Seconds for one lesson on one device; on two cores a lesson takes up to one minute.
LESSON_SECONDS = 240.0
#: Launches whose counters are compared.
MOST_COUNTED = 150


@dataclass
class Check:
    """One run of the check.

    ``folder`` holds what the parts leave for each other, ``out`` is the result; ``device`` is
    ``gpu`` or, in a rehearsal, ``virtual``. ``only``: ids of lessons; by default all.
    """

    folder: Path
    out: Path
    device: str = GPU
    workers: int = field(default_factory=jobs.cores)
    only: tuple[str, ...] = ()
    tell: Callable[[str], None] = print
    root: Path = field(default_factory=find_root)
    result: dict = field(default_factory=dict)

    def save(self, part: str, rows: list[Row], *, complete: bool = False, note: str = "") -> None:
        """Write the rows of a part; the file is never half written."""
        self.result.setdefault("parts", {})[part] = {
            "complete": complete, "note": note, "rows": [row.as_dict() for row in rows]}
        self.out.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.result, indent=1, ensure_ascii=False)
        partial = self.out.with_suffix(".part")
        partial.write_text(text + "\n", encoding="utf-8")
        partial.replace(self.out)

    @property
    def on_gpu(self) -> dict[str, str]:
        """The environment of a process that is to have the GPU."""
        return jobs.HIDDEN if self.device == VIRTUAL else {}

    def lessons(self) -> list[str]:
        return [id for id in lessons(self.root) if not self.only or id in self.only]


# -- lessons and their launches -----------------------------------------------------------------

#: Runs of a lesson: (name, sizes, on the GPU, recorded).
_RUNS = {
    "virtual": ("virtual", False, True),
    "own": ("own", True, False),
    "small": ("virtual", True, False),
    "again": ("virtual", False, False),
}


def run_lessons(check: Check, seconds: float) -> None:
    """Every solution on the GPU, at its own sizes and at those of the virtual GPU; every launch of
    the virtual GPU again on the GPU."""
    clock = jobs.Clock(seconds)
    said: dict[tuple[str, str], str] = {}
    tasks = [(name, id) for name in ("virtual", "own", "small") for id in check.lessons()]

    def save(complete: bool = False) -> None:
        check.save("launches", _launch_rows(check), complete=complete)
        check.save("lessons", _lesson_rows(check, said), complete=complete)

    def done(task: tuple[str, str], last: str) -> None:
        said[task] = last
        save()

    jobs.side_by_side(lambda task: _run_lesson(check, clock, *task), tasks, check.workers, done)
    # Two runs on the virtual GPU tell what is not repeatable at all.
    differing = [id for id in check.lessons() if _compare(check, id).verdict not in ("agrees",)]
    jobs.side_by_side(lambda id: _run_lesson(check, clock, "again", id), differing, check.workers)
    save(complete=clock.left > 0)


def _run_lesson(check: Check, clock: jobs.Clock, name: str, id: str) -> str:
    """One run of a lesson in a process of its own; its last words."""
    if clock.left < 5:
        return "no time was left"
    sizes, on_gpu, record = _RUNS[name]
    folder = _folder(check, id, name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = jobs.python("gpucourse.hardware.lesson_run", id, folder, "--sizes", sizes,
                          *["--record"] * record)
    ended = jobs.run(command, min(LESSON_SECONDS, clock.left), folder=check.root,
                     environment={"MPLBACKEND": "agg"} | (check.on_gpu if on_gpu else jobs.HIDDEN))
    (folder / "output.txt").write_text(ended.output[-20_000:])
    check.tell(f"{id}, {name}: {ended.seconds:.0f} s")
    if record and clock.left > 5:
        again = jobs.run(
            jobs.python("gpucourse.hardware.replay", folder / "launches",
                        folder / "launches.jsonl", "--device", check.device),
            clock.left, environment=check.on_gpu)
        check.tell(f"{id}, launches on the GPU: {again.seconds:.0f} s")
        if again.code:
            return again.last
    return "its time was up" if ended.code is None else ended.last if ended.code else ""


def _folder(check: Check, id: str, name: str) -> Path:
    return check.folder / "lessons" / id / name


def _launch_rows(check: Check) -> list[Row]:
    rows = []
    for id in check.lessons():
        folder = _folder(check, id, "virtual")
        found = replays.read(folder / "launches.jsonl")
        recorded = len(list((folder / "launches").glob("*.npz")))
        rows += found
        if len(found) < recorded:
            rows.append(Row(f"{recorded - len(found)} launches of {id}", NOT_RUN, "no time"))
    return rows


def _lesson_rows(check: Check, said: dict[tuple[str, str], str]) -> list[Row]:
    rows = []
    for id in check.lessons():
        total = len(cells(check.root, id))
        for name, what in (("own", f"{id}, as a learner runs it"),
                           ("small", f"{id}, at the virtual GPU's sizes")):
            if ("no time was left" in said.get((name, id), "")) or (name, id) not in said:
                rows.append(Row(what, NOT_RUN, "no time was left"))
                continue
            row = lesson_pair.judge(id, _folder(check, id, name), total, said[name, id])
            row.what = what
            rows.append(row)
        if {("virtual", id), ("small", id)} <= said.keys():
            row = _compare(check, id)
            row.what = f"{id}, arrays of both devices"
            rows.append(row)
    return rows


def _compare(check: Check, id: str) -> Row:
    again = _folder(check, id, "again")
    return lesson_pair.compare(id, _folder(check, id, "small"), _folder(check, id, "virtual"),
                               again if again.exists() else None)


# -- NVIDIA's own tools -------------------------------------------------------------------------


def run_counters(check: Check, seconds: float) -> None:
    """Counters of the virtual GPU against Nsight Compute's. Nothing else runs on the GPU."""
    program = machine.tool("ncu")
    if program is None:
        check.save("counters", [Row("Nsight Compute", NOT_RUN, "ncu is not installed")],
                   complete=True)
        return
    clock = jobs.Clock(seconds)
    folder = check.folder / "counters"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = []
    for id in check.lessons():
        for path in nsight.choose(_folder(check, id, "virtual") / "launches", MOST_COUNTED):
            files.append(shutil.copy(path, folder / f"{id}-{path.stem}.npz"))
    rows = nsight.compare(program, files[:MOST_COUNTED], clock, check.workers, check.device,
                          lambda text: check.tell(f"counters: {text}"))
    check.save("counters", rows, complete=True)


def run_sanitizer(check: Check, seconds: float) -> None:
    """The labelled fault kernels under compute-sanitizer."""
    program = machine.tool("compute-sanitizer")
    if program is None:
        why = "compute-sanitizer is not installed"
        check.save("sanitizer", [Row("compute-sanitizer", NOT_RUN, why)], complete=True)
        return
    clock = jobs.Clock(seconds)
    folder = check.folder / "labelled"
    if not labelled.read(folder):
        done = jobs.run([sys.executable, str(labelled.recorder()), str(folder)], clock.left,
                        environment=jobs.HIDDEN)
        check.tell(f"sanitizer: {done.last}")
    labels = labelled.read(folder)
    if not labels:
        why = f"the labelled kernels were not recorded: {done.last}"
        check.save("sanitizer", [Row("compute-sanitizer", FAILS, why)])
        return
    rows = sanitizers.compare(program, folder, labels, clock, check.workers, check.device,
                              lambda text: check.tell(f"sanitizer: {text}"))
    check.save("sanitizer", rows, complete=clock.left > 0)


# -- grading ------------------------------------------------------------------------------------


def run_grading(check: Check, seconds: float) -> None:
    """The class of ``gpucourse demo`` on the GPU, and beside it on the virtual GPU."""
    if importlib.util.find_spec("nbformat") is None:
        check.save("grading", [Row("the class of the demo", NOT_RUN, "nbformat is not installed")],
                   complete=True)
        return
    folder = check.folder / "grading"
    folder.mkdir(parents=True, exist_ok=True)
    there, here = folder / "gpu.jsonl", folder / "virtual.jsonl"
    half = max(1, check.workers // 2)
    kinds = {GPU: {KIND: check.device} | check.on_gpu, VIRTUAL: jobs.HIDDEN}

    def work(side: tuple[str, Path]) -> jobs.Done:
        kind, result = side
        result.unlink(missing_ok=True)
        return jobs.run(jobs.python("gpucourse.hardware.grading_run", result, "--device", kind,
                                    "--workers", half), seconds, environment=kinds[kind])

    def done(side: tuple[str, Path], ended: jobs.Done) -> None:
        check.tell(f"grading, {side[0]}: {ended.seconds:.0f} s {ended.last if ended.code else ''}")
        rows = grading_run.same_reasons(replays.read(there), replays.read(here))
        if not rows:
            rows = [Row("the class of the demo", FAILS, ended.last or "nobody was graded in time")]
        check.save("grading", rows, note="" if ended.code == 0 else ended.last)

    ended = jobs.side_by_side(work, [(GPU, there), (VIRTUAL, here)], 2, done)
    rows = grading_run.same_reasons(replays.read(there), replays.read(here))
    if rows and all(one.code == 0 for one in ended):
        check.save("grading", rows, complete=True)


#: Name, what it does, and its share of the time that is left when it begins.
PARTS: dict[str, tuple[Callable[[Check, float], None], float]] = {
    "lessons": (run_lessons, 0.45),
    "counters": (run_counters, 0.25),
    "grading": (run_grading, 0.7),
    "sanitizer": (run_sanitizer, 1.0),
}
