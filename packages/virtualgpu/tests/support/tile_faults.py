"""Kernels over tiles with one fault each, and beside each an honest one."""

import cuda.tile as ct

ZERO = ct.PaddingMode.ZERO


@ct.kernel
def all_to_the_first(x, y, tile: ct.Constant[int]):
    part = ct.load(x, (ct.bid(0),), (tile,))
    ct.store(y, (0,), part)  # line: races


@ct.kernel
def each_to_its_own(x, y, tile: ct.Constant[int]):
    part = ct.load(x, (ct.bid(0),), (tile,))
    ct.store(y, (ct.bid(0),), part)


@ct.kernel
def shift_in_place(x, tile: ct.Constant[int]):
    part = ct.load(x, (ct.bid(0) + 1,), (tile,))  # line: loads what the next block stores
    ct.store(x, (ct.bid(0),), part)


@ct.kernel
def total_by_atomics(x, total, tile: ct.Constant[int]):
    part = ct.load(x, (ct.bid(0),), (tile,), padding_mode=ZERO)
    ct.atomic_add(total, 0, ct.sum(part))


@ct.kernel
def last_block_sums(x, parts, arrived, total, tile: ct.Constant[int]):
    part = ct.load(x, (ct.bid(0),), (tile,))
    ct.store(parts, (ct.bid(0),), ct.sum(part).reshape((1,)))
    before = ct.atomic_add(arrived, 0, 1)
    if before == ct.num_blocks(0) - 1:
        every = ct.load(parts, (0,), (8,))
        ct.store(total, (0,), ct.sum(every).reshape((1,)))


@ct.kernel
def last_block_sums_relaxed(x, parts, arrived, total, tile: ct.Constant[int]):
    part = ct.load(x, (ct.bid(0),), (tile,))
    ct.store(parts, (ct.bid(0),), ct.sum(part).reshape((1,)))
    before = ct.atomic_add(arrived, 0, 1, memory_order=ct.MemoryOrder.RELAXED)
    if before == ct.num_blocks(0) - 1:
        every = ct.load(parts, (0,), (8,))  # line: nothing orders it
        ct.store(total, (0,), ct.sum(every).reshape((1,)))


@ct.kernel
def under_a_lock(x, lock, tile: ct.Constant[int]):
    while ct.atomic_cas(lock, 0, 0, 1, memory_order=ct.MemoryOrder.ACQUIRE) != 0:
        pass
    part = ct.load(x, (0,), (tile,))
    ct.store(x, (0,), part + 1)
    ct.atomic_xchg(lock, 0, 0, memory_order=ct.MemoryOrder.RELEASE)


@ct.kernel
def row_sum(x, y, tile: ct.Constant[int]):
    row = ct.load(x, (ct.bid(0), 0), (1, tile))  # line: reaches over the edge
    ct.store(y, (ct.bid(0),), ct.sum(row, axis=1))


@ct.kernel
def row_sum_padded(x, y, tile: ct.Constant[int]):
    row = ct.load(x, (ct.bid(0), 0), (1, tile), padding_mode=ZERO)
    ct.store(y, (ct.bid(0),), ct.sum(row, axis=1))


@ct.kernel
def row_sum_chosen(x, y, tile: ct.Constant[int]):
    row = ct.load(x, (ct.bid(0), 0), (1, tile))
    inside = ct.arange(tile, dtype=ct.int32) < x.shape[1]
    ct.store(y, (ct.bid(0),), ct.sum(ct.where(inside, row, 0.0), axis=1))


@ct.kernel
def unchecked_gather(x, y, tile: ct.Constant[int]):
    at = ct.arange(tile, dtype=ct.int32) * 1000
    ct.store(y, (0,), ct.gather(x, at, check_bounds=False))  # line: far outside


@ct.kernel
def unchecked_load(x, y, tile: ct.Constant[int]):
    part = ct.load(x, (ct.bid(0),), (tile,), check_bounds=False)
    ct.store(y, (ct.bid(0),), part)


@ct.kernel
def asserts(x, tile: ct.Constant[int]):
    part = ct.load(x, (ct.bid(0),), (tile,))
    ct.assert_(part > 0, "positive")  # noqa: PT009
    ct.printf("block %d: %g\n", ct.bid(0), ct.sum(part))


@ct.kernel
def stores_and_asserts(x, tile: ct.Constant[int]):
    ct.store(x, (ct.bid(0),), ct.zeros((tile,), ct.float32))
    ct.assert_(ct.load(x, (ct.bid(0),), (tile,)) > 0, "positive")  # noqa: PT009


@ct.kernel
def waits_for_nobody(flag):
    while ct.atomic_cas(flag, 0, 1, 1) != 1:
        pass


@ct.kernel
def scatters(places, values, y, tile: ct.Constant[int]):
    at = ct.load(places, (0,), (tile,))
    ct.scatter(y, at, ct.load(values, (0,), (tile,)))  # line: one place, several values


@ct.kernel
def scatters_by_atomics(places, values, y, tile: ct.Constant[int]):
    at = ct.load(places, (0,), (tile,))
    ct.atomic_add(y, at, ct.load(values, (0,), (tile,)))
