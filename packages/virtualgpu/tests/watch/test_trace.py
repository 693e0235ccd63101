"""The trace: which threads did what together, in which order."""

from __future__ import annotations

import warnings

import numpy as np

import virtualgpu

virtualgpu.activate(force=True)

from numba import cuda, float32  # noqa: E402

from virtualgpu.watch import instruments  # noqa: E402


def trace(kernel, grid, block, *arguments, limit=None, **options):
    with warnings.catch_warnings(), instruments.trace(limit, **options) as result:
        warnings.simplefilter("ignore")
        kernel[grid, block](*[cuda.to_device(a) for a in arguments])
    return result.launches[0]


@cuda.jit
def odd_and_even(x, out):
    s = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    if t % 2:
        out[t] = s[t - 1]
    else:
        out[t] = s[t] * 2


FIRST = odd_and_even.py_func.__code__.co_firstlineno


def test_accesses_in_order():
    launch = trace(odd_and_even, 1, 8, np.arange(8, dtype=np.float32), np.zeros(8, np.float32))
    assert (launch.kernel, launch.block, launch.complete) == ("odd_and_even", (8, 1, 1), True)
    shared = launch.accesses("shared")
    assert [(step.kind, step.line - FIRST) for step in shared] == [
        ("store", 4),
        ("load", 7),
        ("load", 9),
    ] or [(step.kind, step.line - FIRST) for step in shared] == [
        ("store", 4),
        ("load", 9),
        ("load", 7),
    ]
    store = shared[0]
    assert store.threads.tolist() == list(range(8))
    assert store.addresses.tolist() == [4 * t for t in range(8)]
    odd = next(step for step in shared if step.line == FIRST + 7)
    assert odd.threads.tolist() == [1, 3, 5, 7]
    assert odd.addresses.tolist() == [0, 8, 16, 24]
    assert odd.size == 4


def test_barrier_branch_and_end():
    launch = trace(odd_and_even, 2, 8, np.arange(8, dtype=np.float32), np.zeros(8, np.float32))
    kinds = [step.kind for step in launch.steps]
    assert kinds.index("barrier") < kinds.index("released") < kinds.index("branch")
    released = launch.steps[kinds.index("released")]
    assert released.line == FIRST + 5
    branch = launch.steps[kinds.index("branch")]
    assert sorted(np.unique(branch.taken).tolist()) == [False, True]
    ended = np.concatenate([step.threads for step in launch.steps if step.kind == "exit"])
    assert sorted(ended.tolist()) == list(range(16))


def test_steps_of_one_thread():
    launch = trace(odd_and_even, 2, 8, np.arange(8, dtype=np.float32), np.zeros(8, np.float32))
    mine = [step for step in launch.of_thread(8 + 3) if step.space]
    assert [(step.kind, step.space) for step in mine] == [
        ("load", "global"),
        ("store", "shared"),
        ("load", "shared"),
        ("store", "global"),
    ]


def test_text_shows_lines_and_threads():
    launch = trace(odd_and_even, 1, 8, np.arange(8, dtype=np.float32), np.zeros(8, np.float32))
    text = str(launch)
    assert "store shared" in text
    assert "0-7" in text
    assert "s[t] = x[t]" in text


def test_large_launches_are_cut():
    launch = trace(
        odd_and_even, 100, 8, np.arange(8, dtype=np.float32), np.zeros(8, np.float32), limit=1000
    )
    assert not launch.complete
    assert sum(len(step.threads) for step in launch.steps) < 1000 + 800
    assert "too large" in str(launch)


def test_runs_stand_between_the_accesses_of_their_block():
    launch = trace(odd_and_even, 1, 8, np.arange(8, dtype=np.float32), np.zeros(8, np.float32))
    lines = [step.line - FIRST for step in launch.steps if step.line and step.line > FIRST + 2]
    before_branch = lines[: lines.index(6)]
    assert before_branch == sorted(before_branch)
    # What follows the branch is a jump or a return: no step of its own.
    last = launch.steps[-2]
    assert (last.kind, last.space) == ("store", "global")


def test_some_threads_only():
    x, out = np.arange(800, dtype=np.float32), np.zeros(800, np.float32)
    launch = trace(odd_and_even, 100, 8, x, out, threads=3)
    assert launch.complete
    assert {int(t) for step in launch.steps for t in step.threads} == {0, 1, 2}
    launch = trace(odd_and_even, 100, 8, x, out, threads=np.array([9, 13]))
    assert {int(t) for step in launch.steps for t in step.threads} == {9, 13}
    for step in launch.steps:
        for part in (step.addresses, step.taken):
            assert part is None or len(part) == len(step.threads)


def test_values_are_those_after_the_access():
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    launch = trace(odd_and_even, 1, 8, x, out, values=True)
    even = [s for s in launch.steps if s.line == FIRST + 9]
    load, store = (next(s for s in even if s.kind == kind) for kind in ("load", "store"))
    assert load.values.view(np.float32).ravel().tolist() == [0, 2, 4, 6]
    assert store.values.view(np.float32).ravel().tolist() == [0, 4, 8, 12]
    assert all(step.values is None for step in trace(odd_and_even, 1, 8, x, out).steps)


def test_arrays_in_shared_memory_are_named():
    launch = trace(odd_and_even, 1, 8, np.zeros(8, np.float32), np.zeros(8, np.float32))
    ((start, end, _name),) = launch.shared
    assert end - start == 32
