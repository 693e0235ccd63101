"""Numba's memory while the current device changes: each address belongs to one device."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

import virtualgpu
from virtualgpu import devices


@pytest.fixture(autouse=True)
def active() -> Iterator[None]:
    before = virtualgpu.is_active()
    virtualgpu.activate(force=True)
    yield
    if not before:
        virtualgpu.deactivate()


@pytest.fixture
def cuda(active):
    from numba import cuda

    return cuda


@pytest.fixture
def first() -> Iterator[virtualgpu.VirtualDevice]:
    with devices.use(virtualgpu.VirtualDevice(1 << 20)) as device:
        yield device


@pytest.fixture
def second() -> virtualgpu.VirtualDevice:
    """Its memory begins at the same address as that of ``first``."""
    return virtualgpu.VirtualDevice(1 << 20)


def release(cuda) -> None:
    """Free what Numba has put off, as it does by itself when that is much."""
    gc.collect()
    cuda.current_context().memory_manager.deallocations.clear()


def test_what_is_dropped_on_another_device_is_freed(cuda, first, second):
    there = cuda.to_device(np.zeros(8))
    with devices.use(second):
        here = cuda.to_device(np.ones(8))
        assert here.device_ctypes_pointer.value == there.device_ctypes_pointer.value
        del there
        release(cuda)
        assert first.allocated == 0
        assert here.copy_to_host().tolist() == [1] * 8


def test_a_device_that_is_gone_took_its_memory_along(cuda, first):
    there = cuda.to_device(np.zeros(8))
    with devices.use(virtualgpu.VirtualDevice(1 << 20)):
        here = cuda.to_device(np.ones(8))
    del here
    release(cuda)
    assert there.copy_to_host().tolist() == [0] * 8


def test_mapped_memory_follows_its_own_device_alone(cuda, first, second):
    @cuda.jit
    def add_one(x):
        x[cuda.threadIdx.x] += 1

    host = np.zeros(4)
    with cuda.mapped(host) as there:
        with devices.use(second):
            here = np.zeros(4)
            add_one[1, 4](here)
        assert (host.tolist(), here.tolist()) == ([0] * 4, [1] * 4)
        add_one[1, 4](there)
    assert host.tolist() == [1] * 4
    release(cuda)
    assert first.allocated == 0
