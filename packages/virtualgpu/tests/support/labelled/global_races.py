"""Races in global memory, inside a block and between blocks."""

import numpy as np
from numba import cuda, float32, int32

from labelled.catalog import case

N = 128
X = np.arange(N, dtype=np.float32)
ONE = np.zeros(1, np.int32)


@case("race", (ONE,), grid=2)
def counter_by_increment(count):
    count[0] += 1  # fault


@case("race", (np.arange(N, dtype=np.int32) % 16, np.zeros(16, np.int32)), grid=2)
def global_histogram_by_increment(bins, counts):
    i = cuda.grid(1)
    counts[bins[i]] += 1  # fault


@case("race", (X,), grid=2)
def global_stencil_in_place(x):
    i = cuda.grid(1)
    if 0 < i < x.size - 1:
        x[i] = (x[i - 1] + x[i + 1]) / 2  # fault


@case("race", (X,), grid=2)
def reversed_in_place(x):
    i = cuda.grid(1)
    x[i] = x[x.size - 1 - i]  # fault


@case("race", (X, np.zeros(2, np.float32), np.zeros(N, np.float32)), grid=2)
def blocks_joined_by_syncthreads(x, partial, out):
    i = cuda.grid(1)
    if cuda.threadIdx.x == 0:
        partial[cuda.blockIdx.x] = x[i]  # fault
    cuda.syncthreads()
    out[i] = partial[0] + partial[1]  # fault


@case("race", (X, np.zeros(64, np.float32)), grid=2)
def index_without_the_block(x, out):
    t = cuda.threadIdx.x
    out[t] = x[cuda.grid(1)]  # fault


@case("race", (X, np.zeros(N, np.float32)), grid=2)
def stride_of_one_block(x, out):
    i = cuda.grid(1)
    while i < x.size:
        out[i] = x[i] * 2  # fault
        i += cuda.blockDim.x


@case("race", (ONE, np.zeros(N, np.int32)), grid=2)
def plain_read_beside_atomics(count, out):
    i = cuda.grid(1)
    cuda.atomic.add(count, 0, 1)  # fault
    out[i] = count[0]  # fault


@case("race", (X, np.zeros(1, np.float32)), grid=2)
def maximum_by_comparison(x, best):
    i = cuda.grid(1)
    if x[i] > best[0]:  # fault
        best[0] = x[i]  # fault


@case("race", (X, np.zeros(1, np.float32)), grid=2)
def start_value_set_by_one_thread(x, best):
    i = cuda.grid(1)
    if i == 0:
        best[0] = -1  # fault
    cuda.atomic.max(best, 0, x[i])  # fault


@case("race", (np.zeros(N, np.int32),), grid=2)
def two_elements_for_each_thread(out):
    i = cuda.grid(1)
    out[i] = i  # fault
    if i + 1 < out.size:
        out[i + 1] = i  # fault


@case("race", (np.zeros(32, np.uint8), np.zeros(32, np.int32)), block=32)
def neighbouring_bytes_read_too_early(flags, out):
    t = cuda.threadIdx.x
    flags[t] = t  # fault
    out[t] = flags[t ^ 1]  # fault


@case("race", (X, np.zeros(N, np.float32)), grid=2)
def barrier_of_the_block_before_reading_another(x, out):
    i = cuda.grid(1)
    out[i] = x[i]  # fault
    cuda.syncthreads()
    x[i] = out[(i + 64) % 128]  # fault


@case("race", (np.zeros(4, np.float32),), grid=4)
def local_sum_written_by_all_threads(out):
    total = float32(0)
    for k in range(4):
        total += k * cuda.threadIdx.x
    out[cuda.blockIdx.x] = total  # fault


@case("race", (np.zeros(N, np.int32),), grid=2)
def chain_through_memory(x):
    i = cuda.grid(1)
    previous = int32(0)
    if i > 0:
        previous = x[i - 1]  # fault
    x[i] = previous + 1  # fault


@case("race", (np.zeros(2, np.complex64),), grid=1, block=4)
def complex_sum_by_increment(total):
    total[cuda.threadIdx.x % 2] += 1  # fault
