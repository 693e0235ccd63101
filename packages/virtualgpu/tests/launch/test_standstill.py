"""What can never end is named within two seconds; what only waits is not blamed."""

from __future__ import annotations

import re
import time
from contextlib import nullcontext

import numpy as np
import pytest
from numba import cuda, int32

import virtualgpu
from labelled.everything import CASES
from ptx_lab import per_thread
from virtualgpu.errors import EndlessError
from virtualgpu.launch import standstill

MACHINES = ["interpreted", "native", "checked", "random order"]
SECONDS = 2  # of processor time


@pytest.fixture(params=MACHINES)
def machine(request, monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", "always" if request.param == "native" else "0")
    before = virtualgpu.is_active()
    virtualgpu.activate(force=True)
    watched = {"checked": virtualgpu.check, "random order": lambda: virtualgpu.schedule(3)}
    with watched.get(request.param, nullcontext)():
        yield request.param
    if not before:
        virtualgpu.deactivate()


@cuda.jit
def flag_nobody_sets(flag, out):
    while cuda.atomic.add(flag, 0, 0) == 0:
        pass
    out[cuda.grid(1)] = 1


@cuda.jit
def more_blocks_than_launched(count, out):
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(count, 0, 1)
        while cuda.atomic.add(count, 0, 0) < cuda.gridDim.x + 1:
            pass
    cuda.syncthreads()
    out[cuda.grid(1)] = 1


@cuda.jit
def lock_taken_twice(lock, out):
    if cuda.threadIdx.x == 0:
        for _ in range(2):
            while cuda.atomic.cas(lock, 0, 0, 1) != 0:
                cuda.nanosleep(int32(100))
        out[cuda.blockIdx.x] = 1


@cuda.jit
def lock_kept(lock, out):
    while cuda.atomic.exch(lock, 0, 1) != 0:
        pass
    out[0] += 1


@cuda.jit
def setter_behind_a_barrier(flag, out):
    if cuda.threadIdx.x != 0:
        while cuda.atomic.cas(flag, 0, 2, 2) == 0:
            pass
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        cuda.atomic.exch(flag, 0, 1)
    out[cuda.grid(1)] = 1


@cuda.jit
def each_for_the_other(flags, out):
    t = cuda.threadIdx.x
    if t < 2:
        while cuda.atomic.add(flags, 1 - t, 0) == 0:
            pass
        cuda.atomic.exch(flags, t, 1)
    out[t] = 1


@cuda.jit
def step_by_zero(step, out):
    i = cuda.grid(1)
    while i < out.size:
        out[i] += 1
        i += step[0]


@cuda.jit
def search_that_stands_still(sorted_, out):
    wanted = out[cuda.grid(1)]
    low, high = 0, sorted_.size
    while high - low > 1:
        middle = (low + high) // 2
        if sorted_[middle] <= wanted:
            low = middle
        else:
            high = middle + 1  # never gets below 2 where low is 0
    out[cuda.grid(1)] = low


@cuda.jit
def flag_in_shared_memory(out):
    flag = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        flag[0] = 0
    cuda.syncthreads()
    while cuda.atomic.add(flag, 0, 0) == 0:
        pass
    out[cuda.grid(1)] = 1


@cuda.jit
def forgotten_stride(values, best):
    i = cuda.grid(1)
    while i < values.size:
        if values[i] < best[0]:
            best[0] = values[i]


def zeros(count):
    return np.zeros(count, np.int32)


NEVER = {
    "flag": (
        flag_nobody_sets,
        2,
        48,
        lambda: (zeros(1), zeros(96)),
        r"flag\[0\] of 1, which stays 0",
    ),
    "blocks": (
        more_blocks_than_launched,
        3,
        64,
        lambda: (zeros(1), zeros(192)),
        r"1 thread .* count\[0\] of 1, which stays 3; 63 threads .*syncthreads",
    ),
    "twice": (
        lock_taken_twice,
        2,
        32,
        lambda: (zeros(1), zeros(2)),
        r"lock\[0\] of 1, which stays 1",
    ),
    "kept": (lock_kept, 1, 64, lambda: (zeros(1), zeros(1)), r"lock\[0\] of 1, which stays 1"),
    "behind": (
        setter_behind_a_barrier,
        1,
        64,
        lambda: (zeros(1), zeros(64)),
        r"63 threads .* flag\[0\] of 1, which stays 0; 1 thread .*syncthreads",
    ),
    "each other": (
        each_for_the_other,
        1,
        32,
        lambda: (zeros(2), zeros(32)),
        r"flags\[.\] of 2, which stays 0; .*30 have ended",
    ),
    "zero": (step_by_zero, 2, 32, lambda: (zeros(1), zeros(64)), r"step\[0\] of 1, which stays 0"),
    "search": (
        search_that_stands_still,
        1,
        32,
        lambda: (np.arange(2, 99), zeros(32)),
        r"sorted_\[1\] of 97, which stays 3|nothing that ends it changes",
    ),
    "shared": (
        flag_in_shared_memory,
        2,
        32,
        lambda: (zeros(64),),
        "4 bytes of shared memory at offset 0, which stays 0",
    ),
}


@pytest.fixture
def soon(monkeypatch):
    """A launch that is watched is looked at as early as another, which saves half a second."""
    monkeypatch.setattr(standstill, "WATCHED", 1)


@pytest.mark.filterwarnings("ignore:Grid size")
@pytest.mark.parametrize("case", NEVER.values(), ids=NEVER)
def test_what_never_ends_is_named(case, machine, request):
    if case is not NEVER["flag"]:
        request.getfixturevalue("soon")
    kernel, grid, block, make, words = case
    arguments = make()
    begin = time.thread_time()
    with pytest.raises(EndlessError, match=f"(?s){words}") as caught:
        kernel[grid, block](*arguments)
    assert time.thread_time() - begin < SECONDS + 4  # Numba's compiler and ours
    assert len(str(caught.value).split("\n")[0]) <= 300  # of which notebooks cut nothing off
    assert "while" in str(caught.value.location)


@pytest.mark.filterwarnings("ignore:Grid size")
@pytest.mark.parametrize("machine", MACHINES[:2], indirect=True)
def test_a_loop_that_forgets_its_counter_is_told_of_it(machine):
    with pytest.raises(EndlessError) as caught:
        forgotten_stride[2, 64](np.full(200, 40.07596206665039), np.zeros(1))
    assert re.search(
        r"stays 40\.076; .*Look for a constant loop counter|does it never change",
        str(caught.value),
    )


# What the functions that a loop calls add up decides nothing; what they step by does.
CALLS = """
__device__ __noinline__ float more(float a, int k) { return a * k + 1; }
__device__ __noinline__ int next(int k, int step) { return k + step; }
__device__ __noinline__ void put(float *p, float v) { *p += v; }
extern "C" __global__ void result(const float *x, float *out, int n, int step) {
    int i = threadIdx.x, k = i; float sum = 0;
    while (k < n) { sum = more(sum + x[k], k); k += step; }
    out[i] = sum; }
extern "C" __global__ void counter(const float *x, float *out, int n, int step) {
    int i = threadIdx.x, k = i; float sum = 0;
    while (k < n) { sum += x[k]; k = next(k, step); }
    out[i] = sum; }
extern "C" __global__ void memory(const float *x, float *out, int n, int step) {
    int i = threadIdx.x, k = i;
    while (k < n) { put(out + i, x[k]); k += step; } }
"""


@pytest.mark.parametrize("name", ["result", "counter", "memory"])
def test_a_loop_that_calls_functions_is_named_by_what_decides_its_end(name, machine, soon):
    module = virtualgpu.Module.from_cuda(CALLS)
    x, out = np.ones(96, np.float32), np.zeros(96, np.float32)
    with pytest.raises(EndlessError, match="nothing that ends it changes"):
        module.launch(name, 1, 64, [x, out, np.int32(96), np.int32(0)])
    module.launch(name, 1, 64, [x, out, np.int32(96), np.int32(32)])
    if name != "result":
        assert (out[:32] == 3).all() and (out[32:64] == 2).all()


# 1,200 rounds of a loop whose step another thread gives, by a function that reads it.
STEP_GIVEN = """
__device__ __noinline__ int next(int k, const volatile int *step) { return k + *step; }
extern "C" __global__ void waits(int *step, int *out) {
    int i = threadIdx.x, k = 0, rounds = 0;
    if (i == 63) { for (int r = 0; r < 1200; r++) out[i] = out[i] * 5 + r; *step = 1; }
    while (k < 9) { k = next(k, step); rounds++; }
    out[i] = k; }
"""


def test_a_function_that_reads_what_another_thread_stores_is_not_blamed(machine, always_looking):
    step, out = zeros(1), zeros(64)
    virtualgpu.Module.from_cuda(STEP_GIVEN).launch("waits", 1, 64, [step, out])
    assert (out == 9).all()


@cuda.jit
def adds_while_the_step_is_zero(values, step, out):
    i = k = cuda.grid(1)
    total = 0.0
    while k < values.size:
        total += values[k]
        k += step[0]
        out[i] = total


@pytest.mark.filterwarnings("ignore:Grid size")
@pytest.mark.parametrize("seed", range(4))
def test_what_never_ends_is_named_in_any_order(seed, monkeypatch):
    """A random order holds some lanes back until the others have come to an end, or wait."""
    monkeypatch.setenv("VIRTUALGPU_TIME_LIMIT", "20")
    virtualgpu.activate(force=True)
    with virtualgpu.schedule(seed), pytest.raises(EndlessError, match=r"step\[0\] of 1"):
        adds_while_the_step_is_zero[2, 64](np.ones(200), np.zeros(1, np.int64), np.zeros(128))


# -- no false alarm ------------------------------------------------------------------------------


@pytest.fixture
def always_looking(monkeypatch):
    """From the first moment to the last, not now and then."""
    monkeypatch.setattr(standstill, "FIRST", 1e-6)
    monkeypatch.setattr(standstill, "PART", 1e9)


@cuda.jit
def backs_off(lock, total):
    wait = int32(8)
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        cuda.nanosleep(wait)
        wait = min(2 * wait, 256)
    total[0] += 1
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


@cuda.jit
def takes_tickets(tickets, total):
    mine = cuda.atomic.add(tickets, 0, 1)
    while cuda.atomic.add(tickets, 1, 0) != mine:
        pass
    total[0] += 1
    cuda.threadfence()
    cuda.atomic.add(tickets, 1, 1)


@cuda.jit
def looks_back(ready, sums, total):
    block = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        before = 0
        if block > 0:
            while cuda.atomic.add(ready, block - 1, 0) == 0:
                pass
            before = sums[block - 1]
        sums[block] = before + 1
        cuda.threadfence()
        cuda.atomic.exch(ready, block, 1)
        if block == cuda.gridDim.x - 1:
            total[0] = sums[block] * cuda.blockDim.x


@cuda.jit
def meets_the_grid(total):
    grid = cuda.cg.this_grid()
    for _ in range(20):
        grid.sync()
    cuda.atomic.add(total, 0, 1)


@cuda.jit
def waits_for_one_who_works(flag, total):
    i = cuda.grid(1)
    if i == 0:
        seed = 1
        for _ in range(3000):
            seed = (seed * 1103515245 + 12345) % 2147483648
        cuda.atomic.exch(flag, 0, seed)
    while cuda.atomic.add(flag, 0, 0) == 0:
        pass
    cuda.atomic.add(total, 0, 1)


@cuda.jit
def gives_up(flag, total):
    rounds = 0
    while cuda.atomic.add(flag, 0, 0) == 0 and rounds < 500:
        rounds += 1
    cuda.atomic.add(total, 0, 1)


@cuda.jit
def locks_as_a_block(lock, total):
    taken = cuda.shared.array(1, int32)
    while True:
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            taken[0] = cuda.atomic.cas(lock, 0, 0, 1)
        cuda.syncthreads()
        if taken[0] == 0:
            break
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        total[0] += cuda.blockDim.x
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


PATIENT = {
    "lock with back-off": (backs_off, 1),
    "tickets": (takes_tickets, 1),
    "look-back": (looks_back, 2),
    "grid barrier": (meets_the_grid, 0),
    "a worker": (waits_for_one_who_works, 1),
    "gives up": (gives_up, 1),
    "a lock that one thread takes for its block": (locks_as_a_block, 1),
}


@pytest.mark.filterwarnings("ignore:Grid size")
@pytest.mark.parametrize("kernel", PATIENT.values(), ids=PATIENT)
def test_what_waits_is_not_blamed(kernel, machine, always_looking):
    kernel, words = kernel
    blocks, total = 4, zeros(1)
    arrays = (zeros(2 if kernel is takes_tickets else blocks) for _ in range(words))
    kernel[blocks, 32](*arrays, total)
    assert total[0] == 32 * blocks


class Sorted(np.ndarray):
    """An array that is not sorted again."""

    def __array_function__(self, function, types, arguments, options):
        assert function not in (np.isin, np.union1d, np.unique, np.sort), function.__name__
        return super().__array_function__(function, types, arguments, options)


class SortedOnce(dict):
    def __setitem__(self, space, words):
        super().__setitem__(space, words.view(Sorted))


@cuda.jit
def first_below_zero(values, out):
    k = cuda.grid(1)
    while k < values.size and values[k] >= 0:
        k += cuda.gridsize(1)
    out[cuda.grid(1)] = k


@pytest.mark.filterwarnings("ignore:Grid size")
@pytest.mark.parametrize("machine", MACHINES[:1], indirect=True)
def test_a_look_sorts_nothing_that_earlier_ones_have(machine, always_looking, monkeypatch):
    """Of jagged masses in 200,000 events a launch took six times as long."""
    looking = []

    class Looks(standstill.Standstill):
        def __init__(self, launch, takes_back=False):
            super().__init__(launch, takes_back)
            self.words = SortedOnce()
            looking.append(self)

    monkeypatch.setattr(standstill, "Standstill", Looks)
    values, out = np.ones(64 * 300, np.int64), zeros(64)
    first_below_zero[2, 32](values, out)
    assert (out >= values.size).all()
    words = np.asarray(looking[0].words["global"])
    assert len(words) > 64 and (np.diff(words) > 0).all()


CLOCKS = {"clock": "%clock64", "low half": "%clock", "time": "%globaltimer"}


@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS)
def test_loops_on_a_clock_end(clock, always_looking):
    read = (
        f"mov.u64 %rd5, {clock};"
        if clock != "%clock"
        else "mov.u32 %r5, %clock; cvt.u64.u32 %rd5, %r5;"
    )
    limit = 2_000_000 if clock == "%globaltimer" else 2000  # ns, instructions
    out = per_thread(f"""
        {read} add.u64 %rd6, %rd5, {limit}; mov.u32 %r0, 7;
        Again: {read} setp.lt.u64 %p1, %rd5, %rd6; @%p1 bra Again;""")
    assert (out == 7).all()


CLEAN = [name for name, case in CASES.items() if case.kind == "clean"]


@pytest.mark.parametrize("name", CLEAN[::6])
def test_clean_labelled_kernels_are_not_blamed(name, always_looking):
    assert not CASES[name].problem(None)


@pytest.mark.parametrize("load", ["ld.volatile.global.u32", "ld.global.u32"])
def test_waves_that_wait_for_a_later_one_make_room(load, always_looking):
    """Block 0 waits for a word that the last of 96 blocks writes: two waves later. A plain load
    lets no other lane run by itself; that its lanes go in circles does."""
    flag = zeros(1).view(np.uint32)
    out = per_thread(
        f"""
        setp.eq.u32 %p1, %block, 0; @%p1 bra Spin; mov.u32 %r0, 0;
        setp.eq.u32 %p2, %block, 95; @%p2 st.volatile.global.u32 [%rd2], 7; exit;
        Spin: {load} %r0, [%rd2]; setp.eq.u32 %p3, %r0, 0;
        @%p3 bra Spin;""",
        flag,
        grid=96,
        block=1024,
    )
    assert (out[:1024] == 7).all()
