"""Order between blocks: fences, atomics, flags, locks, grid.sync."""

import numpy as np
from numba import cuda, float32, int32

from labelled.catalog import case

BLOCKS = 8
X = np.ones(BLOCKS * 32, np.float32)


def one(dtype=np.int32):
    return np.zeros(1, dtype)


def many(dtype=np.int32):
    return np.zeros(BLOCKS, dtype)


@case(
    "clean",
    (X, many(np.float32), one(), one(np.float32)),
    grid=BLOCKS,
    block=32,
    result=lambda x, partial, count, out: out[0] == x.size,
)
def last_block(x, partial, count, out):
    s = cuda.shared.array(32, float32)
    is_last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    if t == 0:
        total = float32(0)
        for k in range(32):
            total += s[k]
        partial[cuda.blockIdx.x] = total
        cuda.threadfence()
        is_last[0] = cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1
        cuda.threadfence()
    cuda.syncthreads()
    if is_last[0] and t == 0:
        total = float32(0)
        for k in range(cuda.gridDim.x):
            total += partial[k]
        out[0] = total


@case(
    "clean",
    (X, many(np.float32), one(np.uint32), one(np.float32)),
    grid=BLOCKS,
    block=32,
    result=lambda x, partial, count, out: out[0] == BLOCKS,
)
def last_block_as_in_nvidias_sample(x, partial, count, out):
    is_last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        partial[cuda.blockIdx.x] = x[cuda.grid(1)]
        cuda.threadfence()
        is_last[0] = cuda.atomic.inc(count, 0, cuda.gridDim.x) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if is_last[0] and t < cuda.gridDim.x:
        cuda.atomic.add(out, 0, partial[t])


@case("race", (X, many(np.float32), one(), one(np.float32)), grid=BLOCKS, block=32)
def last_block_without_fence(x, partial, count, out):
    is_last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        partial[cuda.blockIdx.x] = x[cuda.grid(1)]  # fault
        is_last[0] = cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if is_last[0] and t < cuda.gridDim.x:
        cuda.atomic.add(out, 0, partial[t])  # fault


@case("race", (X, many(np.float32), one(), one(np.float32)), grid=BLOCKS, block=32)
def last_block_with_the_fence_too_late(x, partial, count, out):
    is_last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        partial[cuda.blockIdx.x] = x[cuda.grid(1)]  # fault
        is_last[0] = cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1
        cuda.threadfence()
    cuda.syncthreads()
    if is_last[0] and t < cuda.gridDim.x:
        cuda.atomic.add(out, 0, partial[t])  # fault


@case("race", (X, many(np.float32), one(), one(np.float32)), grid=BLOCKS, block=32)
def last_block_with_a_fence_of_the_block(x, partial, count, out):
    is_last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        partial[cuda.blockIdx.x] = x[cuda.grid(1)]  # fault
        cuda.threadfence_block()
        is_last[0] = cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1
        cuda.threadfence_block()
    cuda.syncthreads()
    if is_last[0] and t < cuda.gridDim.x:
        cuda.atomic.add(out, 0, partial[t])  # fault


@case(
    "clean",
    (X, many(np.float32), one(), one(np.float32)),
    grid=BLOCKS,
    block=32,
    result=lambda x, partial, count, out: out[0] == x.size and count[0] == 0,
)
def last_block_resets_the_counter(x, partial, count, out):
    is_last = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        partial[cuda.blockIdx.x] = 32 * x[cuda.blockIdx.x]
        cuda.threadfence()
        is_last[0] = cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if is_last[0] and cuda.threadIdx.x == 0:
        total = float32(0)
        for k in range(cuda.gridDim.x):
            total += partial[k]
        out[0] = total
        count[0] = 0


@case("race", (one(), one()), grid=BLOCKS, block=32)
def some_block_resets_the_counter(count, out):
    if cuda.threadIdx.x == 0:
        cuda.threadfence()
        seen = cuda.atomic.add(count, 0, 1)  # fault
        cuda.threadfence()
        if seen == 3:
            count[0] = 0  # fault


@case("race", (one(), one()), grid=BLOCKS, block=32)
def counter_reset_by_who_saw_nothing(count, out):
    if cuda.threadIdx.x == 0:
        cuda.threadfence()
        cuda.atomic.add(count, 0, 1)  # fault
    elif cuda.threadIdx.x == 1 and cuda.blockIdx.x == 7:
        cuda.threadfence()
        count[0] = 0  # fault


@case(
    "clean",
    (X, np.zeros(X.size, np.float32), one(), one(np.float32)),
    grid=BLOCKS,
    block=32,
    result=lambda x, partial, count, out: out[0] == x.size,
)
def all_fence_then_one_signals(x, partial, count, out):
    is_last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    partial[cuda.grid(1)] = x[cuda.grid(1)]
    cuda.threadfence()
    cuda.syncthreads()
    if t == 0:
        is_last[0] = cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if is_last[0]:
        k = t
        while k < x.size:
            cuda.atomic.add(out, 0, partial[k])
            k += 32


@case(
    "clean",
    (one(), one(), one()),
    grid=2,
    block=32,
    result=lambda lock, total, most: total[0] == 64 * 63 // 2 and most[0] == 63,
)
def lock_with_fences(lock, total, most):
    i = cuda.grid(1)
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    total[0] += i
    if i > most[0]:
        most[0] = i
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


@case("race", (one(), one()), grid=2, block=32)
def lock_without_fences(lock, total):
    i = cuda.grid(1)
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    total[0] += i  # fault
    cuda.atomic.exch(lock, 0, 0)


@case("race", (one(), one()), grid=2, block=32)
def lock_without_fence_on_entry(lock, total):
    i = cuda.grid(1)
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    total[0] += i  # fault
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


@case("race", (one(), one()), grid=2, block=32)
def lock_released_by_a_plain_store(lock, total):
    i = cuda.grid(1)
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:  # fault
        pass
    cuda.threadfence()
    cuda.atomic.add(total, 0, i)
    cuda.threadfence()
    lock[0] = 0  # fault


@case("clean", (one(), one(), one()), grid=2, block=32, result=lambda data, flag, out: out[0] == 42)
def flag_with_fences(data, flag, out):
    if cuda.threadIdx.x == 0:
        if cuda.blockIdx.x == 1:
            data[0] = 42
            cuda.threadfence()
            cuda.atomic.exch(flag, 0, 1)
        else:
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
            cuda.threadfence()
            out[0] = data[0]


@case("race", (one(), one(), one()), grid=2, block=32)
def flag_without_fences(data, flag, out):
    if cuda.threadIdx.x == 0:
        if cuda.blockIdx.x == 1:
            data[0] = 42  # fault
            cuda.atomic.exch(flag, 0, 1)
        else:
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
            out[0] = data[0]  # fault


@case("race", (one(), one(), one()), grid=2, block=32)
def data_written_after_the_fence(data, flag, out):
    if cuda.threadIdx.x == 0:
        if cuda.blockIdx.x == 1:
            cuda.threadfence()
            data[0] = 42  # fault
            cuda.atomic.exch(flag, 0, 1)
        else:
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
            cuda.threadfence()
            out[0] = data[0]  # fault


@case("race", (one(), one(), one()), grid=2, block=32)
def flag_set_by_a_plain_store(data, flag, out):
    if cuda.threadIdx.x == 0:
        if cuda.blockIdx.x == 1:
            data[0] = 42
            cuda.threadfence()
            flag[0] = 1  # fault
        else:
            tries = 0
            while cuda.atomic.add(flag, 0, 0) == 0 and tries < 1000:  # fault
                tries += 1


@case(
    "clean",
    (np.zeros(BLOCKS * 32, np.int32), many(), np.zeros(BLOCKS * 32, np.int32)),
    grid=BLOCKS,
    block=32,
    result=lambda data, flags, out: (out == np.repeat(np.arange(BLOCKS) * 32, 32)).all(),
)
def each_block_waits_for_the_one_before(data, flags, out):
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    data[b * 32 + t] = 1
    cuda.syncthreads()
    if b > 0:
        if t == 0:
            while cuda.atomic.add(flags, b - 1, 0) == 0:
                pass
            cuda.threadfence()
        cuda.syncthreads()
    total = 0
    for k in range(b * 32):
        total += data[k]
    out[b * 32 + t] = total
    cuda.syncthreads()
    if t == 0:
        cuda.threadfence()
        cuda.atomic.exch(flags, b, 1)


@case(
    "clean",
    (one(), np.zeros(64, np.int32), one()),
    block=64,
    result=lambda flag, data, out: out[0] == 7,
)
def flag_inside_a_block(flag, data, out):
    t = cuda.threadIdx.x
    if t == 40:
        data[0] = 7
        cuda.threadfence_block()
        cuda.atomic.exch(flag, 0, 1)
    elif t == 3:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        cuda.threadfence_block()
        out[0] = data[0]


@case(
    "clean",
    (np.zeros(64, np.int32), np.zeros(64, np.int32)),
    grid=2,
    block=32,
    result=lambda a, b: (b == np.arange(64)[::-1]).all(),
)
def grid_sync(a, b):
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    a[i] = i
    grid.sync()
    b[i] = a[63 - i]
    grid.sync()
    a[i] = 0


@case("race", (np.zeros(64, np.int32), np.zeros(64, np.int32)), grid=2, block=32)
def grid_sync_missing_once(a, b):
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    a[i] = i
    grid.sync()
    b[i] = a[63 - i]  # fault
    a[i] = 0  # fault
