"""Checks and hints of "Streams: copy and compute at once"."""

from __future__ import annotations

from functools import partial

import numpy as np

from gpucourse.exercises.checks import exercise, require
from gpucourse.wording import many


@exercise(
    "wait",
    hints=(
        "The idea: the last copy is queued in `stream`. The host must wait until that queue is empty.",
        "The shape: a stream has a method `synchronize()`.",
    ),
)
def wait(function):
    """The squares are there when the function returns, and no other stream was waited for."""
    import virtualgpu
    from numba import cuda

    from gpucourse.exercises.host_side import HOST, with_other_values

    rng = np.random.default_rng()
    for n in (1000, 1, 129):
        values, others = rng.random((2, n))
        case, look = f"with {n} values", "copy in, launch and copy out, as in the given code, then wait"
        result = np.empty(n)
        with_other_values(
            partial(function, cuda.stream(), values, result), [(values, others)], case, look)
        require(
            not virtualgpu.answers() or not np.array_equal(result, values**2),
            f"{case}, the squares are {HOST}",
            look=look,
        )
        with virtualgpu.check(streams=True) as report:
            mine, busy = cuda.stream(), cuda.stream()
            result, elsewhere = (cuda.pinned_array(n, np.float64) for _ in range(2))
            cuda.to_device(values, stream=busy).copy_to_host(elsewhere, stream=busy)
            function(mine, values, result)
            right = np.array_equal(result, values**2)
        require(right, f"{case}, `result` does not hold their squares", look=look)
        require(
            not report.findings,
            f"{case}, the host reads `result` before the last copy is done, because nothing waits for that copy",
            look="what must the host wait for after the last line of the given code?",
        )
        with virtualgpu.check(streams=True) as report:
            mine, busy = cuda.stream(), cuda.stream()
            result, elsewhere = (cuda.pinned_array(n, np.float64) for _ in range(2))
            cuda.to_device(values, stream=busy).copy_to_host(elsewhere, stream=busy)
            function(mine, values, result)
            elsewhere.sum()
        require(
            report.findings or not virtualgpu.answers(),
            f"{case}, the result is right, but the function also waits for the work of another stream",
            look="`cuda.synchronize()` waits for all streams: wait only for `stream`",
        )


@exercise(
    "both-waits",
    hints=(
        "The idea: the buffer is free again when its result has been copied out, and the next copy in must wait for that.",
        "The shape: add a second event, `done`, with `done.wait(copying)` at the start of the loop "
        "and `done.record(working)` at its end.",
    ),
)
def both_waits(function):
    """Right in every order that was tried, with two streams and one buffer."""
    for count in (4, 1, 2, 7):
        gpu, held = _right_in_every_order(function, count)
        streams = len({task.stream for task in gpu.tasks})
        require(
            held <= 1 and streams == 2,
            f"the results are right in every order, but with {many(streams, 'stream')} and room for {held:g} chunks on the device",
            look="keep one stream that copies in, one that computes, and one buffer between them",
        )


@exercise(
    "pipeline",
    hints=(
        "The idea: the order within a stream protects a buffer, if everything that uses the buffer is "
        "in that stream. Chunk 3 may use the buffer of chunk 0 after the result of chunk 0 has been copied out.",
        "The shape: make lists of three streams and three buffers. For chunk k use those with index "
        "`k % 3`, and queue `copy_in`, `launch` and `copy_out`, one after the other.",
    ),
)
def pipeline(function):
    """Right in every order, all engines busy, in three buffers."""
    for count in (6, 1, 2, 9):
        gpu, held = _right_in_every_order(function, count)
        require(len(gpu.buffers) <= 3 and held <= 3,
                f"the pipeline uses {len(gpu.buffers)} buffers for {count} chunks, with room for {held:g}; there is "
                "memory for three", look="reuse the buffers, with index `k % 3`")
        units = gpu.timetable()
        require(units <= count + 2, f"the results are right in every order, but {count} chunks are done after "
                                    f"{units} units; {count + 2} are enough",
                look=("draw the timeline: which engine waits for what? One buffer and one stream "
                "for each engine is not the same as one for each chunk in flight"))


def _right_in_every_order(function, count):
    """Require right results in 40 orders; return the last device, and the chunks it has room for."""
    from gpucourse.views.paper_streams import PaperGPU

    for seed in range(40):
        gpu, width = PaperGPU(), 2 + seed % 3
        chunks = np.arange(2.0, 2 + width * count).reshape(count, width)
        results = np.full_like(chunks, -1.0)
        function(gpu, chunks, results)
        chunks += seed + 1  # nothing was copied yet: who has squared them did so on the host
        _by_copies_alone(gpu, chunks, results)
        numbers = chunks.copy()
        _each_chunk_crosses(gpu, count)
        _right_after(gpu, seed, chunks, results, numbers, f"with {count} chunks")
    return gpu, sum(buffer.size for buffer in gpu.buffers) / width


def _each_chunk_crosses(gpu, count):
    """Require a copy in and a copy out for each chunk."""
    engines = [task.engine for task in gpu.tasks]
    require(
        engines.count("copy in") == engines.count("copy out") == count,
        f"with {count} chunks, {engines.count('copy in')} are copied in and "
        f"{engines.count('copy out')} out",
        look="queue copy_in, launch and copy_out for each chunk",
    )


def _right_after(gpu, seed, chunks, results, numbers, case):
    """Run the queue in the order of a seed, and require every result."""
    order = gpu.run(seed)
    wrong = np.flatnonzero((results != numbers**2).any(axis=1))
    if not wrong.size:
        return
    k = wrong[0]
    told = " → ".join(task.label for task in order[:9])
    what = "garbage" if np.isnan(results[k]).any() else f"{results[k]}, not {numbers[k]**2}"
    require(False, f"{case}, in an order that is allowed, result {k} is {what}\n"
                   f"(the order began {told})",
            look="is a buffer read before it is filled, or filled again before it has been "
                 "read, or is a result copied out before the launch? (A launch can't access "
                 "`chunks` or `results`, which are on the host.)")


def _by_copies_alone(gpu, chunks: np.ndarray, results: np.ndarray) -> None:
    """Show the host's chunks to copies alone, and take results from copies alone: a kernel that
    reaches for either finds nan, or has written for nothing."""
    numbers = chunks.copy()

    def alone(action, engine):
        def run():
            before = results.copy()
            chunks[:] = numbers if engine == "copy in" else np.nan
            action()
            if engine != "copy out":
                results[:] = before

        return run

    for task in gpu.tasks:
        task.action = alone(task.action, task.engine)
