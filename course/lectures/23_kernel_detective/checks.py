"""Checks and hints of "Kernel detective"."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

import virtualgpu
from gpucourse.exercises.checks import exercise, require
from gpucourse.exercises.host_side import HOST, with_other_values
from virtualgpu.errors import EndlessError
from gpucourse.exercises.trials import (
    LEFTOVER,
    LENGTHS,
    counted,
    held,
    launched,
    require_kernel,
    require_parallel,
    watched,
)
from gpucourse.wording import is_not, many, number

BLOCK = 128


@exercise(
    "wrong-sum",
    hints=(
        "The idea: every element of `tile` takes part in the tree, so every element must be written. "
        "What can a thread without a value write there that does not change the sum?",
        "The shape: `tile[t] = values[i] if i < values.size else 0.0`, in place of the `if`.",
    ),
)
def wrong_sum(kernel):
    """Every block's sum is right for every length, and no thread reads what no thread wrote."""
    random = np.random.default_rng(1)
    for n in (*LENGTHS, 1000):
        values = random.integers(1, 200, n).astype(np.float64)
        blocks = n // BLOCK + 1
        _, sums = launched(kernel, blocks, BLOCK, values, np.full(blocks, float(LEFTOVER)), reads=1)
        padded = np.zeros(blocks * BLOCK)
        padded[:n] = values
        expected = padded.reshape(blocks, BLOCK).sum(axis=1)
        wrong = np.flatnonzero(sums != expected)
        if len(wrong):
            k = wrong[0]
            require(False, f"with {many(n, 'value')}, sums[{k}] {held(sums[k], expected[k])}; it should be {number(expected[k], 6)}",
                    look=("what do the threads whose index is past the end write to `tile`, and do "
                "they take part in the tree reduction?"))
    require_parallel(kernel, 4, BLOCK, np.ones(500), np.zeros(4), items=500,
                     look="keep the tree reduction, in which all threads of a block take part")
    counters = counted(kernel, 4, BLOCK, np.ones(500), np.zeros(4))
    atomics = counters.global_atomics + counters.shared_atomics
    require(atomics == 0, f"the sums are right, but the tree is gone: {many(atomics, 'atomic')} add up 500 values",
            look="keep the tree reduction, and correct the one line that fills `tile`")


@exercise(
    "crash",
    hints=(
        "The idea: there is a block for each run of 128 and one for the rest, so there must be an "
        "element of `maxima` for each of them. When there are no values, there is nothing to launch.",
        "The shape: compute `blocks` first, then `maxima = np.full(blocks, -math.inf)`. Return it "
        "unchanged `if not blocks`, and only then copy and launch.",
    ),
)
def crash(maxima_of):
    """There is a maximum for every run of 128 and for the rest, and none if there are no values."""
    random = np.random.default_rng(2)
    for n in (129, 128, *LENGTHS, 1000):
        values = random.uniform(-90.0, -10.0, n)
        (found,) = watched(lambda values=values: [maxima_of(_to_carry(values))],
                           what=f"your function with {many(n, 'value')}")
        expected = [run.max() for run in np.split(values, range(BLOCK, n, BLOCK)) if run.size]
        require(
            isinstance(found, np.ndarray) and found.ndim == 1,
            f"with {many(n, 'value')}, the answer is {found!r}, not an array with an element for each run",
            look="does run_maxima return the array of the maxima?",
        )
        require(
            len(found) == len(expected),
            f"with {many(n, 'value')}, the answer has the length {len(found)}; the number of runs of 128, including the "
            f"rest, is {len(expected)}",
            look="which of the two divisions rounds down, and should it?",
        )
        found = np.asarray(found)
        wrong = np.flatnonzero(found != np.array(expected))
        if len(wrong):
            k = wrong[0]
            require(False, f"with {many(n, 'value')}, all negative, maximum {k} "
                           f"{is_not(found[k], expected[k])}",
                    look=("what is in `maxima` before the launch, and does each run have its own "
                "element?"))
        _require_loads(lambda values=values: maxima_of(_to_carry(values)), n,
                       f"with {many(n, 'value')}, the maxima", "let keep_maxima find the maxima, with a thread for each "
                       "value: the host function only allocates, copies and launches")
    values, others = random.uniform(-90.0, -10.0, (2, 1000))
    _require_of_others(lambda: maxima_of(values.copy()), values, others,
                       [run.max() for run in np.split(others, range(BLOCK, 1000, BLOCK))],
                       "let keep_maxima find the maxima: pass it the input values")


class _OnTheWay(np.ndarray):
    """Values that the host may carry to the device, and not compute with."""

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        require(False, f"the host computes with the values: numpy.{ufunc.__name__}",
                look=_IN_KERNELS)


    def __iter__(self):
        require(False, "the host goes through the values one by one", look=_IN_KERNELS)

    def tolist(self):
        return self.__iter__()


_IN_KERNELS = ("the host only allocates, copies and launches; compute everything else "
               "in kernels")


def _to_carry(values: np.ndarray) -> np.ndarray:
    return values.copy().view(_OnTheWay)


def _require_loads(run: Callable[[], object], loads: int, what: str, look: str) -> None:
    """Require that the kernels which `run` launches load so many numbers, shared among threads."""
    with virtualgpu.profile() as profile, virtualgpu.launches() as listed:
        run()
    counters = profile.counters
    if any("grid" not in one.details for one in listed):
        return  # CuPy's operations on whole arrays: they are listed, and their loads are not counted
    require(
        counters.global_loads + counters.global_atomics >= loads,
        f"{what} are right, but kernels did not compute them: they load {counters.global_loads:,} "
        "numbers",
        look=look,
    )
    require(
        counters.busiest_accesses <= 64,
        f"{what} are right, but one thread makes {many(counters.busiest_accesses, 'access', 'accesses')} to memory",
        look=look,
    )


def _require_of_others(call: Callable[[], object], values: np.ndarray, others: np.ndarray,
                       expected: Sequence[float] | np.ndarray, look: str) -> None:
    """Require an answer that follows the device, which gets other values than the host."""
    got = with_other_values(call, [(values, others)], f"with {many(len(values), 'value')}", look)
    require(got is None or np.allclose(np.asarray(got), expected, rtol=1e-12, atol=0.0),
            f"with {many(len(values), 'value')}, the answer is right, but {HOST}: the device was given "
            "other values, and the answer did not change with them", look=look)


@exercise(
    "hang",
    hints=(
        "The idea: a thread that has the lock must release it on every path through the code. "
        "Alternatively, a thread that does not need the lock does not take it.",
        "The shape: test `values[i] >= cut` *before* the `while`. Or, in place of the `return`, "
        "put the lines that need the lock into an `if`, so that the last two lines always run.",
    ),
)
def hang(kernel):
    """The best value above the cut is kept in every order that was tried, and the lock is free again."""
    require_kernel(kernel)
    # One value, so the lock is taken once; whoever has it waits for nobody.
    counters = counted(kernel, 1, 32, np.ones(1), 0.0, np.zeros(1), np.zeros(1, np.int32))
    look = ("acquire the lock with cuda.atomic.cas, release it with cuda.atomic.exch, and put a "
            "cuda.threadfence() after the first and before the second")
    locked = _waits_for_the_lock(kernel)
    # Before the trials: their checkers see a race where a fence is missing, and advise an atomic.
    require(not locked or counters.fences >= 2,
            "the lock is there, but one of its two fences is missing", look=look)
    random = np.random.default_rng(3)
    for n, threads in ((33, 32), (1, 64), (0, 32), (70, 24)):  # lanes that spin make a launch long
        for cut in (-math.inf, 50.0, 200.0):
            values = random.uniform(1.0, 100.0, n)
            values[n * 2 // 5:][:1] = 300.0  # in none of the elements of blocks of 32
            case = f"with {many(n, 'value')}, {many(threads, 'thread')} in a block and a cut at {cut:g}"
            *_, best, lock = launched(kernel, n // threads + 1, threads, values, cut, np.zeros(1),
                                      np.zeros(1, np.int32))
            expected = values[values >= cut].max(initial=0.0)
            require(
                best[0] == expected,
                f"{case}, best[0] {is_not(best[0], expected)}",
                look=("does the kernel keep the larger value, and does it leave out the values "
                "below the cut?"),
            )
            require(lock[0] == 0, f"{case}, lock[0] is {lock[0]} at the end",
                    look="which thread releases the lock, and on which paths?")
    require(locked, "the answer is right, but the lock is gone", look=look)
    # Above all values, so that nobody need wait: what is counted is who looks at them.
    counters_of_all = counted(kernel, 2, 32, np.ones(64), 2.0, np.zeros(1), np.zeros(1, np.int32))
    require(counters_of_all.threads_at_work >= 32,
            f"the answer is right, but only {counters_of_all.threads_at_work} of 64 threads look at the 64 values",
            look="let each thread look at its own value, as before")
    require(counters.global_stores >= 1,
            "the answer is right, but the lock guards nothing: best[0] is changed by an atomic",
            look=("compare with best[0] and write it after you acquire the lock and before you "
                "release it"))


def _waits_for_the_lock(kernel) -> bool:
    """Whether no thread gets past a lock that somebody else holds."""
    from numba import cuda

    try:
        kernel[2, 32](cuda.to_device(np.ones(64)), 0.0, cuda.to_device(np.zeros(1)),
                      cuda.to_device(np.ones(1, np.int32)))
    except EndlessError:
        return True
    return False


@exercise(
    "slow",
    hints=(
        "The idea: lane `l` takes columns l, l + 32, l + 64, … of its block's row. Then each "
        "lane has a part of the sum, and five shuffles put the parts together.",
        "The shape: `row, lane = cuda.blockIdx.x, cuda.threadIdx.x`; a loop `range(lane, "
        "table.shape[1], 32)`; `for k in (16, 8, 4, 2, 1): mine += "
        "cuda.shfl_down_sync(0xFFFFFFFF, mine, k)`; lane 0 writes.",
    ),
)
def slow(kernel):
    """The sums of all rows are right, and the reads are side by side."""
    random = np.random.default_rng(4)
    for rows, columns in ((5, 100), (1, 1), (3, 31), (3, 32), (2, 33), (4, 0), (7, 257)):
        table = random.integers(-50, 50, (rows, columns)).astype(np.float64)
        _, sums = launched(kernel, rows, 32, table, np.full(rows, float(LEFTOVER)), reads=1)
        wrong = np.flatnonzero(sums != table.sum(axis=1))
        if len(wrong):
            k = wrong[0]
            require(False, f"with a table of {rows} × {columns}, sums[{k}] {held(sums[k], table[k].sum())}; it should be "
                           f"{number(table[k].sum(), 6)}",
                    look=("use a block for each row: does every column have a lane, and which thread "
                "writes?"))
    rows, columns = 16, 1024
    counters = counted(kernel, rows, 32, np.ones((rows, columns)), np.zeros(rows))
    fewest = rows * columns * 8 // 32
    require(
        counters.global_load_sectors <= 1.1 * fewest,
        f"the sums are right, but the kernel is still slow: {many(rows, 'row')} of {many(columns, 'value')} fill {many(fewest, 'sector')}, "
        f"and the warps fetch {counters.global_load_sectors:,}",
        look="which columns do the 32 lanes of a warp read at the same moment?",
    )
    require_parallel(kernel, rows, 32, np.ones((rows, columns)), np.zeros(rows),
                     items=rows * columns, look=("give each of the 32 lanes of a row's block its share of the columns"))


@exercise(
    "most-days",
    hints=(
        "The idea: nothing within a launch waits for all blocks, but the end of a launch does, "
        "because kernels that are launched one after the other run one after the other.",
        "The shape: write one kernel that adds (guard, `cuda.atomic.add`), one that divides (guard, "
        "`values[i] /= total[0]`), and a function that launches both.",
    ),
)
def most_days(shares):
    """The shares are right in every order that was tried, and computed on the device."""
    random = np.random.default_rng(5)
    for n in (1000, 129, 128, 1, 33, 1025):  # 1,025 are too many for one block
        values = random.integers(1, 100, n).astype(np.float64)
        (found,) = watched(lambda values=values: [shares(_to_carry(values))],
                           what=f"your function with {many(n, 'value')}")
        require(
            isinstance(found, np.ndarray) and found.shape == values.shape,
            f"with {many(n, 'value')}, the answer is {type(found).__name__}, not an array of {n} shares",
            look="copy the shares to the host with copy_to_host, and return them",
        )
        found, expected = np.asarray(found), values / values.sum()
        wrong = np.flatnonzero(~np.isclose(found, expected, rtol=1e-12, atol=0.0))
        if len(wrong):
            k = wrong[0]
            require(False, f"with {many(n, 'value')}, share {k} {is_not(found[k], expected[k])}",
                    look="is the total complete before the first division?")
        # Each value once for the total, once to be divided.
        _require_loads(lambda values=values: shares(_to_carry(values)), 2 * n,
                       f"with {many(n, 'value')}, the shares",
                       "add and divide on the device, with a thread for each value")
    values, others = random.uniform(1, 100, (2, 1000))

    def of_one():  # a total may have come to the host, which reads that of its own values
        found = np.asarray(shares(values.copy()))
        return found / found.sum()

    _require_of_others(of_one, values, others, others / others.sum(),
                       "add and divide on the device")


@exercise(
    "two-streams",
    hints=(
        "The idea: each division waits for the *other* stream's total, because its own stream's total comes first "
        "anyway. Queue both additions, and record an event after each, before any stream waits.",
        "The shape: a loop that queues `copy_in`, `launch(add_half, …)` and `added[k].record("
        "streams[k])`; then a loop that begins with `added[1 - k].wait(streams[k])`, and queues "
        "the division and `copy_out`.",
    ),
)
def two_streams(program):
    """Both halves are right in every order that was tried, and two copies overlap with kernels."""
    from gpucourse.views.paper_streams import PaperGPU

    random = np.random.default_rng(6)
    for sizes in ((4, 4), (3, 5), (1, 1)):
        for seed in range(40):
            gpu = PaperGPU()
            halves = [random.integers(1, 9, size).astype(np.float64) for size in sizes]
            results = [np.full(size, -1.0) for size in sizes]
            program(gpu, halves, results)
            old = sum(half.sum() for half in halves)
            for half in halves:  # nothing was copied yet: who reads these now is on the device
                half += random.integers(1, 9, half.size)
            engines = [task.engine for task in gpu.tasks]
            require(
                engines.count("copy in") == engines.count("copy out") == 2,
                f"{engines.count('copy in')} halves are copied in and "
                f"{engines.count('copy out')} out",
                look="queue copy_in, add, divide and copy_out for each half",
            )
            require(
                engines.count("kernel") >= 4,
                f"{engines.count('kernel')} launches were queued; each half needs two",
                look="queue stream.launch(add_half, buffer, totals, k), and later divide_half",
            )
            order = gpu.run(seed)
            total = sum(half.sum() for half in halves)
            for k, (half, result) in enumerate(zip(halves, results, strict=True)):
                if np.allclose(result, half / total):
                    continue
                require(
                    not np.allclose(result, half / old),
                    "the halves were changed after the work was queued and before it ran, and "
                    f"half {k} is divided by the old total, {old:g}, so the host added it up",
                    look=("let add_half add up the values on the device; the host only queues the work"),
                )
                told = " → ".join(task.label for task in order)
                what = "garbage" if np.isnan(result).any() else f"{result}, not {half / total}"
                require(False, f"in an order that is allowed, half {k} is {what}\n({told})",
                        look=("which totals does this division need, and what ensures that both are "
                "complete?"))
        units = gpu.timetable()
        require(units <= 6, f"the results are right in every order, but they are done only after {units} units; 6 are enough",
                look=("which task waits for one that it does not need? gpu.synchronize() holds up "
                "everything; an event holds up only the work after its wait"))
