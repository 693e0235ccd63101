"""The GPU benchmark's contenders, on the virtual GPU: taken from the course, right, or caught."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import virtualgpu
from gpucourse.course.regions import HIDDEN_TESTS, SOLUTION, remove_regions, unwrap_regions
from gpucourse.publish.source.reader import read_course
from gpucourse.system.libraries import absent
from lab.benchmarks import gpu_cells, gpu_measuring, gpu_reduction, gpu_work, gpu_worker
from lab.benchmarks.gpu_cells import Missing, code_cells, take

pytestmark = pytest.mark.rehearsal

# Rows that need what only a GPU has; each is named in the report of a trial.
ON_A_GPU = {
    "reduction/cupy-own",
    "reduction/cub",
    "histogram.peaks/cupy-own",
    "histogram.peaks/cub",
    "histogram.even/cupy-own",
    "histogram.even/cub",
}


# -- from the course --------------------------------------------------------------------------


def test_cells_are_those_of_the_build(repository: Path) -> None:
    """It reads ``course/`` without jupytext, which a bare machine does not have."""
    _, sources = read_course(repository)
    assert len(sources) >= 15
    for source in sources:
        if (repository / "course/lectures" / source.lesson.id / "puzzles").is_dir():
            continue  # a puzzle's cells are made from its own file
        cells = {
            cell.name: unwrap_regions(remove_regions(cell.source, HIDDEN_TESTS), SOLUTION)
            for cell in source.cells
            if cell.kind == "code"
            # What a cell needs may be missing: then it is left out.
            and not (
                (needs := re.match(r"%%needs (\w+)\n", cell.source))
                and absent(needs[1]) is not None
            )
        }
        ours = code_cells(source.lesson.id)
        assert list(ours) == list(cells)
        for name, text in cells.items():
            # The magics of a lesson, which the source has as comments.
            text = re.sub(r"^(%load_ext gpucourse|%%needs)", r"# \1", text, count=1)
            assert ours[name].strip() == text.strip(), f"{source.lesson.id}: {name}"


def test_what_is_taken_is_the_answer_and_nothing_else_runs() -> None:
    got = take("07_trees_and_barriers", "sum_all")
    assert "cuda.syncthreads()" in code_cells("07_trees_and_barriers")["together"]
    scope = got.sum_all.py_func.__globals__
    assert scope["THREADS"] == 128
    assert not {"muons", "check", "d_muon_pt", "report"} & set(scope)
    assert take("07_trees_and_barriers", "sum_all").sum_all is got.sum_all, "compiled twice"
    with pytest.raises(Missing, match="defines no 'sum_everything'"):
        take("07_trees_and_barriers", "sum_everything")


def test_a_definition_means_the_last_binding_before_it() -> None:
    """Lecture 18 binds stays_on_cpu twice; the picture is drawn with the first one."""
    picture = take("18_one_problem_every_tool", "numba_picture").numba_picture
    assert picture.py_func.__globals__["stays_on_cpu"].py_func.__name__ == "stays"
    assert (
        take("05_cupy", "time_to_wall", given={"np": math}).time_to_wall(1.0, 2.0, 0.5)
        == (-2.0 + math.sqrt(2.0)) / 2.0
    )


def test_a_function_is_taken_with_its_rule() -> None:
    import jax

    fade = take("17_jax_in_depth", "fade").fade
    assert jax.make_jaxpr(jax.grad(fade, argnums=1))(1.0, 2.0)


# -- every row, once --------------------------------------------------------------------------


@pytest.mark.parametrize("group", gpu_worker.ORDER)
def test_every_contender_is_right(group: str) -> None:
    rows = gpu_worker.trial(group)
    wrong = {row.id: row.error for row in rows if hasattr(row, "error")}
    assert not wrong
    untried = {f"{row.group}/{row.contender}" for row in rows if hasattr(row, "untried")}
    assert untried == {id for id in ON_A_GPU if id.startswith(f"{group}/")}
    assert rows and not any(hasattr(row, "call_ms") for row in rows), "a trial has no times"


def test_a_wrong_result_is_never_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that loses an element, one that raises, and a library that is missing."""
    from numba import cuda

    def broken(lesson: str, *names: str, **options):
        if names == ("sum_all",):

            @cuda.jit
            def forgets_the_last(values, total):
                if cuda.grid(1) == 0:
                    for i in range(values.size - 1):
                        total[0] += values[i]

            return SimpleNamespace(sum_all=forgets_the_last)
        if names == ("sum_by_warps",):
            raise ImportError("No module named 'numba_something'")
        return gpu_cells.take(lesson, *names, **options)

    monkeypatch.setattr(gpu_reduction, "take", broken)
    timed = []
    monkeypatch.setattr(
        gpu_measuring, "measure", lambda ready, *_: timed.extend(one.contender.id for one in ready)
    )
    monkeypatch.setattr(gpu_worker, "_trouble", lambda: "")
    gpu_work.prepare(virtual=True)
    sent = []
    gpu_worker.do(gpu_worker.Task("reduction", 1009), sent.append, object(), lambda: 1.0)
    errors = {
        row["contender"]: row["error"] for kind, row in sent if kind == "row" and "error" in row
    }
    assert errors["tree"].startswith("AssertionError: the result is ")
    assert errors["shuffle"] == "ImportError: No module named 'numba_something'"
    assert timed == ["eight", "vectors", "cpp", "launches", "cupy", "jax"]


def test_a_group_that_cannot_be_built_is_one_row() -> None:
    sent = []
    gpu_work.prepare(virtual=True)
    gpu_worker.do(gpu_worker.Task("lesson.turning", -1), sent.append, None, lambda: 1.0)
    ((kind, row),) = sent
    assert kind == "row" and row["id"] == "lesson.turning/build/-1" and row["error"]


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda x: gpu_work.expect_close(x, x + 0.001 * (np.arange(4) == 2), 1e-5), "element 2 is"),
        (lambda x: gpu_work.expect_close(x[:3], x, 1e-5), r"shape \(3,\), not \(4,\)"),
        (lambda x: gpu_work.expect_close(x * math.nan, x, 1e-5), "element 0 is nan"),
        (lambda x: gpu_work.expect_number(x[1:], 7.0, 1e-3), "the result is 2.0, not 7.0"),
    ],
)
def test_checks_can_fail(check, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check(np.arange(1.0, 5.0))


# -- what is counted --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "contender", "size"),
    [
        ("copy", "numba", 4096),
        ("quadratic.float64", "numba", 1009),
        ("quadratic.float32", "cpp", 1009),
        ("lesson.turning", "tiled", 96),
        ("sampling.numbers", "counter", 4096),
    ],
)
def test_streaming_work_moves_the_bytes_that_its_row_says(group, contender, size) -> None:
    counters = counted(group, contender, size)
    work = gpu_worker._ALL[group].build(size)
    assert counters.global_bytes_read + counters.global_bytes_written == work.bytes


@pytest.mark.parametrize(
    ("group", "contender", "size"),
    [
        ("quadratic.float64", "numba", 1009),
        ("mandelbrot.picture", "cpp", 96),
        ("lesson.coalescing", "side-by-side", 1009),
        ("lesson.product", "naive", 33),
    ],
)
def test_the_roofline_has_the_operations_that_the_virtual_gpu_counts(group, contender, size):
    assert counted(group, contender, size).flops == gpu_worker._ALL[group].build(size).flops


def counted(group: str, contender: str, size: int):
    """What the virtual GPU counts of one run of a contender."""
    gpu_work.prepare(virtual=True)
    work = gpu_worker._ALL[group].build(size)
    ready = next(one for one in work.contenders if one.id == contender).make()
    with virtualgpu.profile() as profile:
        ready.run()
    return profile.counters


# -- clocks -----------------------------------------------------------------------------------


class Clock:
    """A stopwatch whose times are made up: each contender's from its name, the rest from here."""

    def __init__(self):
        self.order: list[str] = []

    def device(self, run, spin):
        self.order.append(f"device {run()}")
        return 1.0

    def enqueue(self, run):
        run()
        return 4.0

    def host(self, run, calls, on_device):
        self.order.append(f"{calls} × {run()}")
        return 2.0 if calls == 1 else 1.5


def timed(id: str, clock: str, run=None, made_by: str = "course") -> gpu_measuring.Timed:
    contender = gpu_work.Contender(id, id, lambda: None, clock, made_by)
    return gpu_measuring.Timed(contender, gpu_work.Ready(run or (lambda: id), lambda _: None))


def test_contenders_take_turns_by_the_clocks_that_see_them() -> None:
    kernel, jax, cpu = timed("kernel", "events"), timed("jax", "queue"), timed("cpu", "call")
    clock = Clock()
    gpu_measuring.measure([kernel, jax, cpu], clock, patience=0.1)
    assert kernel.spin == 8.0, "twice what the host needs to queue the work"
    assert kernel.rounds == gpu_measuring.FEWEST < cpu.rounds == gpu_measuring.MOST
    assert len(kernel.device_ms) == len(kernel.queue_ms) == len(kernel.call_ms) == kernel.rounds
    assert not jax.device_ms and len(jax.queue_ms) == jax.rounds
    assert not cpu.device_ms and not cpu.queue_ms and len(cpu.call_ms) == cpu.rounds
    assert kernel.calls == 5, "calls in a row come to ten milliseconds"
    turns = [step.split()[-1] for step in clock.order[6:]]
    assert turns[:6] == ["kernel", "kernel", "kernel", "jax", "jax", "cpu"]
    assert turns[6:12] == ["jax", "jax", "cpu", "kernel", "kernel", "kernel"]


def test_a_copy_is_waited_for_though_its_call_returns_at_once() -> None:
    """As from pinned memory: 4,000 GB/s were "measured" before."""
    waited: dict[str, set] = {}

    class Waits(Clock):
        def host(self, run, calls, on_device):
            waited.setdefault(run(), set()).add(on_device)
            return 2.0

    copy, cpu = timed("copy", "call", made_by="CuPy"), timed("cpu", "call", made_by="CPU")
    gpu_measuring.measure([copy, cpu], Waits(), patience=0.1)
    assert waited == {"copy": {True}, "cpu": {False}}


def test_slow_work_is_run_a_few_times_and_no_time_left_ends_it() -> None:
    class Slow(Clock):
        def host(self, run, calls, on_device):
            return 3000.0

    slow = timed("slow", "call")
    gpu_measuring.measure([slow], Slow(), patience=1.0)
    assert len(slow.call_ms) == 3
    late = timed("late", "call")
    gpu_measuring.measure([late], Clock(), patience=1.0, time_left=lambda: -1.0)
    assert len(late.call_ms) == 3


def test_one_that_fails_while_it_is_timed_costs_its_own_row() -> None:
    calls = iter(range(100))

    def fails_later():
        if next(calls) > 5:
            raise MemoryError("out of memory\nat some address")

    bad, good = timed("bad", "call", fails_later), timed("good", "call")
    gpu_measuring.measure([bad, good], Clock(), patience=0.1)
    assert gpu_worker.samples(bad, measured=True) == {"error": "MemoryError: out of memory"}
    assert len(gpu_worker.samples(good, measured=True)["call_ms"]) == gpu_measuring.MOST


@pytest.mark.filterwarnings("ignore:the virtual GPU has no times")
def test_the_virtual_gpu_never_gives_a_time() -> None:
    """CUDA events of the stand-in give nan, and a row with such a time is an error."""
    gpu_work.prepare(virtual=True)
    watch = gpu_measuring.GPUStopwatch()
    assert math.isnan(watch.device(lambda: None, 0.0))
    assert watch.host(lambda: None, 3, True) > 0 and watch.enqueue(lambda: None) > 0
    row = timed("kernel", "events")
    row.device_ms.append(math.nan)
    assert gpu_worker.samples(row, measured=True) == {"error": "device_ms: the clock gave no time"}
