"""Parts of ``make gpu-check``: one function each, the most valuable first.

Each part has a time limit and saves its rows whenever it has new ones. If a machine lacks
something, a row says so and the part continues.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gpucourse.grading.oracle.checked_device import KIND
from gpucourse.system.atomic import write_atomically
from lab.gpu_check import grading_run, jobs, labelled, lesson_pair, nsight, provenance, rows
from lab.gpu_check import sanitizer as sanitizers
from lab.gpu_check.lesson_run import cells, find_root, lessons
from lab.gpu_check.rows import AGREES, FAILS, NOT_RUN, Row
from virtualgpu.devices.real.process import GPU, VIRTUAL
from virtualgpu.processors import usable

#: Seconds for one lesson on one device. A lesson takes up to one minute on two cores, and a
#: rehearsal may run on a machine that also does other work.
LESSON_SECONDS = {GPU: 240.0, VIRTUAL: 900.0}
#: Number of launches whose counters are compared.
MOST_COUNTED = 150
NO_TIME = "no time was left"
#: A file in the folder of a run that has ended normally, with its last output.
ENDED = "ended.txt"


@dataclass
class Check:
    """One run of the check.

    ``folder`` contains intermediate results for later parts and for a continued run, and ``out``
    is the result. ``device`` is ``gpu`` or, in a rehearsal, ``virtual``. ``only`` has ids of
    lessons; by default all run.
    """

    folder: Path
    out: Path
    device: str = GPU
    workers: int = field(default_factory=lambda: max(1, int(usable())))
    only: tuple[str, ...] = ()
    tell: Callable[[str], None] = print
    root: Path = field(default_factory=find_root)
    result: dict = field(default_factory=dict)

    def save(self, part: str, found: list[Row], *, complete: bool = False) -> None:
        """Write the rows of a part; the file is replaced atomically."""
        self.result.setdefault("parts", {})[part] = {
            "complete": complete,
            "rows": [row.as_dict() for row in found],
        }
        text = json.dumps(self.result, indent=1, ensure_ascii=False)
        write_atomically(self.out, text + "\n")

    @property
    def on_gpu(self) -> dict[str, str]:
        """The environment of a process that is to use the GPU."""
        return jobs.HIDDEN if self.device == VIRTUAL else {}

    def lessons(self) -> list[str]:
        return [id for id in lessons(self.root) if not self.only or id in self.only]


def rows_of(part: dict) -> list[Row]:
    """Return the rows of a part in the result."""
    return [Row(**row) for row in part["rows"]]


# -- lessons and their launches -----------------------------------------------------------------

#: Runs of a lesson: its sizes, whether it runs on the GPU, and further arguments. In the second run
#: on the virtual GPU, uninitialised memory has other contents, so everything that depends on it
#: differs.
_RUNS: dict[str, tuple[str, bool, tuple[str, ...]]] = {
    "virtual": ("virtual", False, ("--record",)),
    "own": ("own", True, ()),
    "small": ("virtual", True, ()),
    "again": ("virtual", False, ("--poison", str(0x3E))),
}


def run_lessons(check: Check, seconds: float) -> None:
    """Run every solution on the GPU, at its own sizes and at those of the virtual GPU.

    Every launch of the virtual GPU is repeated on the GPU.
    """
    clock = jobs.Clock(seconds)
    said: dict[tuple[str, str], str] = {}
    tasks = [(name, id) for name in ("virtual", "own", "small") for id in check.lessons()]

    def save(complete: bool = False) -> None:
        check.save("launches", _launch_rows(check), complete=complete)
        check.save("lessons", _lesson_rows(check, said), complete=complete)

    def done(task: tuple[str, str], last: str) -> None:
        said[task] = last
        save()

    def work(task: tuple[str, str]) -> str:
        last = _run_lesson(check, clock, *task)
        if task[0] == "virtual" and last != NO_TIME:
            return _replay(check, clock, task[1]) or last
        return last

    jobs.side_by_side(work, tasks, check.workers, done)
    # Two runs on the virtual GPU show which results are not repeatable or depend on uninitialised
    # memory.
    differing = [
        id
        for id in check.lessons()
        if NO_TIME not in (said["virtual", id], said["small", id])
        and _compare(check, id).verdict != AGREES
    ]
    again = jobs.side_by_side(
        lambda id: _run_lesson(check, clock, "again", id), differing, check.workers
    )
    save(complete=NO_TIME not in [*said.values(), *again])


def _run_lesson(check: Check, clock: jobs.Clock, name: str, id: str) -> str:
    """Run a lesson in a separate process unless it has already run; return its last output."""
    folder = _folder(check, id, name)
    if (folder / ENDED).exists():
        return (folder / ENDED).read_text(encoding="utf-8")
    if clock.left < 5:
        return NO_TIME
    sizes, on_gpu, more = _RUNS[name]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = jobs.python("lab.gpu_check.lesson_run", id, folder, "--sizes", sizes, *more)
    limit = LESSON_SECONDS[check.device]
    ended = jobs.run(
        command,
        min(limit, clock.left),
        folder=check.root,
        environment={"MPLBACKEND": "agg"} | (check.on_gpu if on_gpu else jobs.HIDDEN),
    )
    (folder / "output.txt").write_text(ended.output[-20_000:], encoding="utf-8")
    check.tell(f"{id}, {name}: {ended.seconds:.0f} s")
    if ended.code is None and ended.seconds < limit:
        return NO_TIME
    last = "its time was up" if ended.code is None else ended.last if ended.code else ""
    (folder / ENDED).write_text(last, encoding="utf-8")
    return last


def _replay(check: Check, clock: jobs.Clock, id: str) -> str:
    """Replay a lesson's recorded launches on the GPU, except those already replayed."""
    launches, result = _launches(check, id)
    if len(rows.read(result)) == len(list(launches.glob("*.npz"))):
        return ""
    if clock.left < 5:
        return NO_TIME
    ended = jobs.run(
        jobs.python("lab.gpu_check.replay", launches, result, "--device", check.device),
        clock.left,
        environment=check.on_gpu,
    )
    check.tell(f"{id}, launches on the GPU: {ended.seconds:.0f} s")
    return NO_TIME if ended.code is None else ended.last if ended.code else ""


def _launches(check: Check, id: str) -> tuple[Path, Path]:
    """Return the folder of a lesson's recorded launches, and the rows of their comparison."""
    folder = _folder(check, id, "virtual")
    return folder / "launches", folder / "launches.jsonl"


def _folder(check: Check, id: str, name: str) -> Path:
    return check.folder / "lessons" / id / name


def _launch_rows(check: Check) -> list[Row]:
    found = []
    for id in check.lessons():
        launches, result = _launches(check, id)
        known, recorded = rows.read(result), len(list(launches.glob("*.npz")))
        found += known
        if len(known) < recorded:
            found.append(Row(f"{recorded - len(known)} launches of {id}", NOT_RUN, NO_TIME))
    return found


def _lesson_rows(check: Check, said: dict[tuple[str, str], str]) -> list[Row]:
    found = []
    for id in check.lessons():
        total = len(cells(check.root, id))
        for name, what in (
            ("own", f"{id}, as a learner runs it"),
            ("small", f"{id}, at the virtual GPU's sizes"),
        ):
            if said.get((name, id), NO_TIME) == NO_TIME:
                found.append(Row(what, NOT_RUN, NO_TIME))
                continue
            row = lesson_pair.judge(id, _folder(check, id, name), total, said[name, id])
            row.what = what
            found.append(row)
        if all(said.get((name, id), NO_TIME) != NO_TIME for name in ("virtual", "small")):
            row = _compare(check, id)
            row.what = f"{id}, arrays of both devices"
            found.append(row)
    return found


def _compare(check: Check, id: str) -> Row:
    again = _folder(check, id, "again")
    return lesson_pair.compare(
        id,
        _folder(check, id, "small"),
        _folder(check, id, "virtual"),
        again if again.exists() else None,
    )


# -- instructions -------------------------------------------------------------------------------


def run_instructions(check: Check, seconds: float) -> None:
    """Run each instruction form in its own kernel; compare with an H200 and the virtual GPU."""
    result = check.folder / "instructions" / "rows.jsonl"
    result.parent.mkdir(parents=True, exist_ok=True)
    ended = jobs.run(
        jobs.python("lab.gpu_check.instructions", result, "--device", check.device),
        seconds,
        environment=check.on_gpu,
    )
    check.tell(f"instructions: {ended.seconds:.0f} s")
    found = rows.read(result)
    if ended.code is None:
        found.append(Row("the other forms", NOT_RUN, NO_TIME))
    elif ended.code:
        found.append(Row("the other forms", FAILS, ended.last))
    check.save("instructions", found, complete=ended.code == 0)


# -- NVIDIA's tools -----------------------------------------------------------------------------


def run_counters(check: Check, seconds: float) -> None:
    """Compare the virtual GPU's counters with Nsight Compute's, while nothing else runs."""
    program = provenance.tool("ncu")
    if program is None:
        check.save(
            "counters", [Row("Nsight Compute", NOT_RUN, "ncu is not installed")], complete=True
        )
        return
    clock = jobs.Clock(seconds)
    folder = check.folder / "counters"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # The lessons record them, unless they were run on a machine that no longer exists.
    recorded = jobs.side_by_side(
        lambda id: _run_lesson(check, clock, "virtual", id), check.lessons(), check.workers
    )
    files = []
    for id in check.lessons():
        for path in nsight.choose(_launches(check, id)[0], MOST_COUNTED):
            files.append(shutil.copy(path, folder / f"{id}-{path.stem}.npz"))
    if not files:
        check.save("counters", [Row("Nsight Compute", NOT_RUN, "no launch was recorded")])
        return
    found, whole = nsight.compare(
        program,
        files[:MOST_COUNTED],
        clock,
        check.workers,
        check.device,
        lambda text: check.tell(f"counters: {text}"),
        lambda found: check.save("counters", found),
    )
    check.save("counters", found, complete=whole and NO_TIME not in recorded)


def run_sanitizer(check: Check, seconds: float) -> None:
    """Run the labelled fault kernels under compute-sanitizer."""
    program = provenance.tool("compute-sanitizer")
    if program is None:
        why = "compute-sanitizer is not installed"
        check.save("sanitizer", [Row("compute-sanitizer", NOT_RUN, why)], complete=True)
        return
    clock = jobs.Clock(seconds)
    folder = check.folder / "sanitizer"
    if not labelled.read(folder):
        done = jobs.run(
            jobs.python("lab.gpu_check.record_labelled", folder),
            clock.left,
            environment=jobs.HIDDEN,
        )
        check.tell(f"sanitizer: {done.last}")
    labels = labelled.read(folder)
    if not labels:
        why = f"the labelled kernels were not recorded: {done.last}"
        check.save("sanitizer", [Row("compute-sanitizer", FAILS, why)])
        return
    whole = sanitizers.compare(
        program,
        folder,
        labels,
        clock,
        check.workers,
        check.device,
        lambda text: check.tell(f"sanitizer: {text}"),
        lambda found: check.save("sanitizer", found),
    )
    check.save("sanitizer", rows_of(check.result["parts"]["sanitizer"]), complete=whole)


# -- grading ------------------------------------------------------------------------------------


def run_grading(check: Check, seconds: float) -> None:
    """Grade the class of ``gpucourse demo`` on the GPU and, in parallel, on the virtual GPU."""
    if importlib.util.find_spec("nbformat") is None:
        check.save(
            "grading",
            [Row("the class of the demo", NOT_RUN, "nbformat is not installed")],
            complete=True,
        )
        return
    folder = check.folder / "grading"
    folder.mkdir(parents=True, exist_ok=True)
    there, here = folder / "gpu.jsonl", folder / "virtual.jsonl"
    half = max(1, check.workers // 2)
    kinds = {GPU: {KIND: check.device} | check.on_gpu, VIRTUAL: jobs.HIDDEN}

    def work(side: tuple[str, Path]) -> jobs.Done:
        kind, result = side
        return jobs.run(
            jobs.python("lab.gpu_check.grading_run", result, "--device", kind, "--workers", half),
            seconds,
            environment=kinds[kind],
        )

    def done(side: tuple[str, Path], ended: jobs.Done) -> None:
        check.tell(f"grading, {side[0]}: {ended.seconds:.0f} s {ended.last if ended.code else ''}")

    ended = jobs.side_by_side(work, [(GPU, there), (VIRTUAL, here)], 2, done)
    found = grading_run.same_reasons(rows.read(there), rows.read(here))
    whole = all(one.code == 0 for one in ended)
    late = any(one.code is None for one in ended)
    if not whole and not late:
        last = next(one.last for one in ended if one.code)
        found.append(Row("the class of the demo", FAILS, f"the grader ended: {last}"))
    elif not whole:
        missing = "some of the class, or its comparison with the virtual GPU"
        found.append(Row(missing, NOT_RUN, NO_TIME))
    check.save("grading", found, complete=whole)


#: Each part's name, function and share of the remaining time when it begins.
PARTS: dict[str, tuple[Callable[[Check, float], None], float]] = {
    "instructions": (run_instructions, 0.2),
    "lessons": (run_lessons, 0.45),
    "sanitizer": (run_sanitizer, 0.45),
    "grading": (run_grading, 0.6),
    "counters": (run_counters, 1.0),
}
