"""Launches beside other threads of the host that allocate and free."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from numba import cuda

import virtualgpu
from virtualgpu import devices
from virtualgpu.native.watched_launch import Watched

pytestmark = pytest.mark.usefixtures("active")


@cuda.jit
def sums(x, y):
    i = cuda.grid(1)
    if i < x.size:
        total = 0.0
        for k in range(20):
            total += x[i] * k
        y[i] = total


@pytest.fixture(autouse=True)
def native(monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", "always")


def elsewhere(work) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_checked_launch_leaves_memory_that_comes_meanwhile_unwritten(monkeypatch):
    memory = devices.current().memory
    taken = []
    run = Watched.run

    def beside(self, first):
        elsewhere(lambda: taken.append(memory.allocate(64)))
        run(self, first)

    monkeypatch.setattr(Watched, "run", beside)
    x, y = cuda.to_device(np.arange(64.0)), cuda.device_array(64)
    with virtualgpu.check() as report:
        sums[2, 32](x, y)
    assert report.ok
    np.testing.assert_array_equal(y.copy_to_host(), np.arange(64) * 190.0)
    assert [memory.unwritten[start].left for start in taken] == [64]
    memory.free(taken[0])


def test_memory_freed_and_taken_again_meanwhile_stays_unwritten(monkeypatch):
    memory = devices.current().memory
    run = Watched.run
    starts = [memory.allocate(512) for _ in range(40)]

    def beside(self, first):
        def work():
            for start in starts:
                memory.free(start)
            starts[:] = [memory.allocate(512) for _ in range(40)]

        run(self, first)
        elsewhere(work)

    monkeypatch.setattr(Watched, "run", beside)
    y = cuda.device_array(64)
    with virtualgpu.check():
        sums[2, 32](np.ones(64), y)
    assert {memory.unwritten[start].left for start in starts} == {512}
    for start in starts:
        memory.free(start)


def test_six_threads_launch_and_fail_each_for_itself():
    told: list[str] = []
    failed: list[tuple[int, int]] = []

    def one(seed: int) -> None:
        try:
            for step in range(4):
                size = 512 + 64 * ((seed + step) % 5)
                x = cuda.to_device(np.full(size, float(seed)))
                y = cuda.device_array(size if step != 2 else 1)
                try:
                    sums[-(-size // 128), 128](x, y)
                except virtualgpu.errors.MemoryAccessError:
                    failed.append((seed, step))
                else:
                    np.testing.assert_array_equal(y.copy_to_host(), seed * 190.0)
        except BaseException as error:
            told.append(repr(error))

    with virtualgpu.check():
        threads = [threading.Thread(target=one, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert told == []
    assert sorted(failed) == [(seed, 2) for seed in range(6)]
