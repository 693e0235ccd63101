"""CuPy's memory pools: bytes counted as CuPy counts them, and given back when they should be."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator

import numpy as np
import pytest

from virtualgpu import devices


@pytest.fixture
def pool(cp) -> Iterator:
    """A pool of its own, which arrays' memory comes from."""
    made = cp.cuda.MemoryPool()
    with cp.cuda.using_allocator(made.malloc):
        yield made
    made.free_all_blocks()


def counts(pool) -> tuple[int, int, int, int]:
    return pool.used_bytes(), pool.free_bytes(), pool.total_bytes(), pool.n_free_blocks()


def test_sizes_are_rounded_to_512_bytes(cp, pool):
    a = cp.empty(1, np.uint8)
    assert counts(pool) == (512, 0, 512, 0)
    b = cp.empty(65)
    assert counts(pool) == (512 + 1024, 0, 1536, 0)
    del a
    assert counts(pool) == (1024, 512, 1536, 1)
    pool.free_all_blocks()
    assert counts(pool) == (1024, 0, 1024, 0)
    del b
    assert counts(pool) == (0, 1024, 1024, 1)
    pool.free_all_blocks()
    assert counts(pool) == (0, 0, 0, 0)


def test_freed_memory_is_used_again(cp, pool):
    a = cp.empty(100)
    address = a.data.ptr
    del a
    a = cp.empty(120)  # as many units
    assert (a.data.ptr, pool.total_bytes()) == (address, 1024)


def test_a_larger_block_is_split_and_joined_again(cp, pool):
    a = cp.empty(4096, np.uint8)
    del a
    b = cp.empty(1024, np.uint8)
    assert counts(pool) == (1024, 3072, 4096, 1)
    pool.free_all_blocks()  # a part is in use: nothing can go back
    assert counts(pool) == (1024, 3072, 4096, 1)
    c = cp.empty(512, np.uint8)
    assert counts(pool) == (1536, 2560, 4096, 1)
    del b
    assert counts(pool) == (512, 3584, 4096, 2)
    del c
    assert counts(pool) == (0, 4096, 4096, 1)


def test_the_smallest_block_that_fits_is_taken(cp, pool):
    big, small = cp.empty(8192, np.uint8), cp.empty(2048, np.uint8)
    del big, small
    a = cp.empty(1500, np.uint8)
    assert counts(pool) == (1536, 8704, 10240, 2)
    del a


def test_views_keep_the_memory(cp, pool):
    a = cp.empty(64)
    b = a[3:]
    del a
    assert pool.used_bytes() == 512
    del b
    assert pool.used_bytes() == 0


def test_empty_arrays_take_none(cp, pool):
    a = cp.empty(0)
    assert (a.data.ptr, counts(pool)) == (0, (0, 0, 0, 0))


def test_what_expressions_hold(cp, pool):
    a = cp.ones(1000)  # 8,192 bytes rounded
    a + 1
    assert (pool.used_bytes(), pool.total_bytes()) == (8192, 16384)
    (a + 1) * (a + 2)  # three results, of which two are alive with the last
    assert (pool.used_bytes(), pool.total_bytes()) == (8192, 4 * 8192)


def test_limit(cp, pool):
    pool.set_limit(size=4096)
    assert pool.get_limit() == 4096
    a = cp.empty(2048, np.uint8)
    with pytest.raises(
        cp.cuda.OutOfMemoryError,
        match=r"Out of memory allocating 4,096 bytes "
        r"\(allocated so far: 2,048 bytes, limit set to: 4,096 bytes\)\.",
    ):
        cp.empty(4096, np.uint8)
    del a
    assert cp.empty(4096, np.uint8).size == 4096  # freed blocks went back first
    pool.set_limit(fraction=0.5)
    assert pool.get_limit() == cp.cuda.Device().mem_info[1] // 2
    with pytest.raises(ValueError, match="out of range"):
        pool.set_limit(fraction=2)
    with pytest.raises(ValueError, match="one time"):
        pool.set_limit(1, 0.5)
    pool.set_limit()
    assert pool.get_limit() == 0


def test_more_than_the_device_has_leaves_the_pool_as_it_was(cp):
    """CuPy tells what was held before, and takes the failed request off its total again."""
    pool = cp.cuda.MemoryPool()
    with cp.cuda.using_allocator(pool.malloc):
        kept = cp.zeros(64)
        with pytest.raises(
            cp.cuda.OutOfMemoryError,
            match=r"allocating 1,099,511,627,776 bytes "
            r"\(allocated so far: 512 bytes\)\.",
        ):
            cp.empty(2**40, cp.uint8)
    assert (pool.used_bytes(), pool.total_bytes(), pool.n_free_blocks()) == (512, 512, 0)
    assert kept.sum() == 0


def test_arrays_in_cycles_are_collected_before_it_fails(cp, pool):
    class Node:
        pass

    pool.set_limit(size=2048)
    node = Node()
    node.self, node.array = node, cp.empty(2048, np.uint8)
    gc.disable()
    try:
        del node
        assert cp.empty(2048, np.uint8).size == 2048
    finally:
        gc.enable()


def test_the_environment_sets_a_limit(cp, monkeypatch):
    monkeypatch.setenv("CUPY_GPU_MEMORY_LIMIT", "1048576")
    assert cp.cuda.MemoryPool().get_limit() == 1048576
    monkeypatch.setenv("CUPY_GPU_MEMORY_LIMIT", "25%")
    assert cp.cuda.MemoryPool().get_limit() == cp.cuda.Device().mem_info[1] // 4


def test_more_than_the_device_has(cp, pool):
    free, total = cp.cuda.Device().mem_info
    assert 0 < free <= total
    with pytest.raises(MemoryError, match="Out of memory allocating"):
        cp.empty(total + 512, np.uint8)
    assert counts(pool)[0] == 0


def test_memory_in_a_pool_is_not_free_on_the_device(cp, pool):
    before = cp.cuda.Device().mem_info[0]
    a = cp.zeros(1 << 20, np.uint8)
    assert before - cp.cuda.Device().mem_info[0] == 1 << 20
    del a
    pool.used_bytes()
    assert before - cp.cuda.Device().mem_info[0] == 1 << 20
    pool.free_all_blocks()
    assert cp.cuda.Device().mem_info[0] == before


def test_streams_have_arenas_of_their_own(cp, pool):
    stream = cp.cuda.Stream()
    with stream:
        a = cp.empty(1024, np.uint8)
    del a
    b = cp.empty(1024, np.uint8)
    assert counts(pool) == (1024, 1024, 2048, 1)
    pool.free_all_blocks(stream=cp.cuda.Stream.null)
    assert pool.free_bytes() == 1024
    pool.free_all_blocks(stream=stream)
    assert pool.free_bytes() == 0
    del b


def test_without_a_pool(cp):
    with cp.cuda.using_allocator(None):
        before = cp.cuda.Device().mem_info[0]
        a = cp.zeros(1000, np.uint8)
        assert cp.cuda.Device().mem_info[0] == before - 1000
        del a
        assert cp.cuda.Device().mem_info[0] == before


def test_an_allocator_of_ones_own(cp):
    asked = []

    def allocate(nbytes):
        asked.append(nbytes)
        return cp.cuda.MemoryPointer(cp.cuda.Memory(nbytes), 0)

    with cp.cuda.using_allocator(allocate):
        assert (cp.ones(3) + 1).tolist() == [2, 2, 2]
    assert asked == [24, 24]


def test_the_default_pool(cp):
    pool = cp.get_default_memory_pool()
    assert pool is cp.get_default_memory_pool()
    before = pool.used_bytes()
    a = cp.zeros(64)
    assert pool.used_bytes() == before + 512
    del a


def test_another_device_has_its_own_memory(cp):
    # Both devices begin at the same address, and the pool keeps a place on each.
    before, others = devices.current(), [devices.VirtualDevice(1 << 20) for _ in range(2)]
    for _ in range(3):
        arrays = []
        for other in others:
            devices.set_current(other)
            try:
                arrays.append(cp.arange(3) + len(arrays))
            finally:
                devices.set_current(before)
        assert [one.tolist() for one in arrays] == [[0, 1, 2], [1, 2, 3]]
        del arrays, other


def test_pointers(cp):
    a = cp.arange(8, dtype=np.uint8)
    start = a.data
    assert (int(start + 3), (start + 3 - 1).ptr) == (start.ptr + 3, start.ptr + 2)
    assert start.device == cp.cuda.Device(0) and start.mem.size == 512
    host = np.zeros(4, np.uint8)
    (start + 2).copy_to_host(host.ctypes.data, 4)
    assert host.tolist() == [2, 3, 4, 5]
    start.copy_from_host(ctypes.c_void_p((host * 10).ctypes.data), 2)
    start.copy_from(start + 6, 1)
    (start + 1).memset(255, 2)
    assert a.tolist() == [6, 255, 255, 3, 4, 5, 6, 7]


def test_unowned_memory_is_checked(cp):
    from virtualgpu.errors import VirtualGPUError

    with pytest.raises(VirtualGPUError, match="array over memory"):
        cp.cuda.UnownedMemory(12345, 8, None)


def test_pinned_memory(cp):
    pool = cp.cuda.PinnedMemoryPool()
    mem = pool.malloc(700)
    assert mem.mem.size == 1024
    array = np.frombuffer(mem, np.float64, 10)
    array[:] = 3
    assert cp.asarray(array).sum() == 30
    assert array.ctypes.data == mem.ptr
    assert (mem + 8).size() == 1016
    assert np.frombuffer(mem + 8, np.float64, 1).tolist() == [3]
    assert pool.n_free_blocks() == 0
    del mem, array
    assert pool.n_free_blocks() == 1
    pool.free_all_blocks()
    assert pool.n_free_blocks() == 0
    assert cp.cuda.alloc_pinned_memory(100).size() == 512
    cp.cuda.set_pinned_memory_allocator(None)
    assert cp.cuda.alloc_pinned_memory(100).size() == 100
    cp.cuda.set_pinned_memory_allocator(cp.get_default_pinned_memory_pool().malloc)
