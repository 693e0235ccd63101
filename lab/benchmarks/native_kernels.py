"""Kernels of :mod:`lab.benchmarks.native_speed`.

Each comes with the same work as a serial loop for ``numba.njit``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import cuda, float32, int32, njit, uint64
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

N = 1 << 20
SIDE, LIMIT = 512, 200
BINS = 100
EDGE, TILE = 256, 16
EVENTS = 200_000
STREAMS = 128 * 256


@dataclass
class Case:
    """A kernel ``kernel[blocks, threads](*arrays)`` and a serial ``loop(*others)``.

    ``others`` are the same arrays by default.
    """

    kernel: Callable
    loop: Callable
    blocks: int
    threads: int
    arrays: tuple
    others: tuple = ()


@njit
def add_loop(a, b, c):
    for i in range(c.size):
        c[i] = a[i] + b[i]


@njit
def saxpy_loop(a, x, y):
    for i in range(y.size):
        y[i] = a * x[i] + y[i]


@njit
def iterations(cx, cy):
    x = y = 0.0
    k = 0
    while k < LIMIT and x * x + y * y < 4:
        x, y = x * x - y * y + cx, 2 * x * y + cy
        k += 1
    return k


@njit
def mandelbrot_loop(out):
    for i in range(out.size):
        out[i] = iterations(-2 + 2.5 * (i % SIDE) / SIDE, -1.25 + 2.5 * (i // SIDE) / SIDE)


@njit
def uniform(states, i):
    """Draw a number with xoroshiro128+, as numba.cuda.random does."""
    s0, s1 = states[i, 0], states[i, 1]
    result = s0 + s1
    s1 ^= s0
    rotated = (s0 << uint64(55)) | (s0 >> uint64(9))
    states[i, 0] = rotated ^ s1 ^ (s1 << uint64(14))
    states[i, 1] = (s1 << uint64(36)) | (s1 >> uint64(28))
    return float32((result >> uint64(11)) * (1.0 / (uint64(1) << uint64(53))))


@njit
def inside_loop(states, count):
    for i in range(states.shape[0]):
        for _ in range(N // STREAMS):
            x = uniform(states, i)
            y = uniform(states, i)
            if x * x + y * y < float32(1):
                count[0] += 1


@njit
def histogram_loop(values, bins):
    for i in range(values.size):
        bins[int(values[i] * float32(BINS))] += 1


@njit
def sum_loop(x, total):
    for i in range(x.size):
        total[0] += x[i]


@njit
def product_loop(a, b, c):
    for i in range(EDGE):
        for j in range(EDGE):
            c[i, j] = 0
        for k in range(EDGE):
            for j in range(EDGE):
                c[i, j] += a[i, k] * b[k, j]


@njit
def mass(pt1, eta1, phi1, pt2, eta2, phi2):
    return math.sqrt(2 * pt1 * pt2 * (math.cosh(eta1 - eta2) - math.cos(phi1 - phi2)))


@njit
def masses_loop(offsets, charge, pt, eta, phi, bins):
    for event in range(offsets.size - 1):
        for i in range(offsets[event], offsets[event + 1]):
            for j in range(i + 1, offsets[event + 1]):
                if charge[i] != charge[j]:
                    at = int(mass(pt[i], eta[i], phi[i], pt[j], eta[j], phi[j]))
                    if at < bins.size:
                        bins[at] += 1


def kernels() -> dict[str, Callable]:
    """Return kernels for the virtual GPU that is active."""
    point = cuda.jit(device=True)(iterations.py_func)
    pair_mass = cuda.jit(device=True)(mass.py_func)

    @cuda.jit
    def add(a, b, c):
        i = cuda.grid(1)
        if i < c.size:
            c[i] = a[i] + b[i]

    @cuda.jit
    def saxpy(a, x, y):
        for i in range(cuda.grid(1), y.size, cuda.gridsize(1)):
            y[i] = a * x[i] + y[i]

    @cuda.jit
    def mandelbrot(out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = point(-2 + 2.5 * (i % SIDE) / SIDE, -1.25 + 2.5 * (i // SIDE) / SIDE)

    @cuda.jit
    def inside(states, count):
        i = cuda.grid(1)
        own = 0
        for _ in range(N // STREAMS):
            x = xoroshiro128p_uniform_float32(states, i)
            y = xoroshiro128p_uniform_float32(states, i)
            if x * x + y * y < float32(1):
                own += 1
        cuda.atomic.add(count, 0, own)

    @cuda.jit
    def histogram(values, bins):
        for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
            cuda.atomic.add(bins, int(values[i] * float32(BINS)), 1)

    @cuda.jit
    def histogram_shared(values, bins):
        own = cuda.shared.array(BINS, int32)
        for b in range(cuda.threadIdx.x, BINS, cuda.blockDim.x):
            own[b] = 0
        cuda.syncthreads()
        for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
            cuda.atomic.add(own, int(values[i] * float32(BINS)), 1)
        cuda.syncthreads()
        for b in range(cuda.threadIdx.x, BINS, cuda.blockDim.x):
            cuda.atomic.add(bins, b, own[b])

    @cuda.jit
    def tree_sum(x, total):
        shared = cuda.shared.array(256, float32)
        t, i = cuda.threadIdx.x, cuda.grid(1)
        shared[t] = x[i] if i < x.size else 0
        cuda.syncthreads()
        half = 128
        while half > 0:
            if t < half:
                shared[t] += shared[t + half]
            cuda.syncthreads()
            half //= 2
        if t == 0:
            cuda.atomic.add(total, 0, shared[0])

    @cuda.jit
    def product(a, b, c):
        left = cuda.shared.array((TILE, TILE), float32)
        right = cuda.shared.array((TILE, TILE), float32)
        j, i = cuda.grid(2)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        total = float32(0)
        for tile in range(0, EDGE, TILE):
            left[y, x] = a[i, tile + x]
            right[y, x] = b[tile + y, j]
            cuda.syncthreads()
            for k in range(TILE):
                total += left[y, k] * right[k, x]
            cuda.syncthreads()
        c[i, j] = total

    @cuda.jit
    def masses(offsets, charge, pt, eta, phi, bins):
        event = cuda.grid(1)
        if event < offsets.size - 1:
            for i in range(offsets[event], offsets[event + 1]):
                for j in range(i + 1, offsets[event + 1]):
                    if charge[i] != charge[j]:
                        at = int(pair_mass(pt[i], eta[i], phi[i], pt[j], eta[j], phi[j]))
                        if at < bins.size:
                            cuda.atomic.add(bins, at, 1)

    @cuda.jit
    def alone(x, total):
        for i in range(x.size):
            total[0] += x[i]

    return {
        kernel.py_func.__name__: kernel
        for kernel in (
            add,
            saxpy,
            mandelbrot,
            inside,
            histogram,
            histogram_shared,
            tree_sum,
            product,
            masses,
            alone,
        )
    }


def events(count: int, random: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Return offsets of ``count`` events with two muons on average, the muons, and mass bins."""
    counts = random.poisson(2.0, count)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    muons = int(offsets[-1])
    return (
        offsets,
        random.integers(0, 2, muons).astype(np.int8),
        random.exponential(30, muons),
        random.normal(0, 1.5, muons),
        random.uniform(-np.pi, np.pi, muons),
        np.zeros(120, np.int32),
    )


def of_size(count: int) -> dict[str, Case]:
    """Return cases over ``count`` elements for the active virtual GPU, one thread per element.

    In "a sum by one thread" a single thread does all the work.
    """
    by_name, random = kernels(), np.random.default_rng(1)
    blocks, threads = -(-count // 256), min(count, 256)
    a, b, c = random.random((3, count), dtype=np.float32)
    total = np.zeros(1, np.float32)
    return {
        "vector add": Case(by_name["add"], add_loop, blocks, threads, (a, b, c)),
        "Mandelbrot, 200 rounds": Case(
            by_name["mandelbrot"], mandelbrot_loop, blocks, threads, (np.empty(count, np.int32),)
        ),
        "masses of pairs, jagged": Case(
            by_name["masses"], masses_loop, blocks, threads, events(count, random)
        ),
        "a sum by one thread": Case(by_name["alone"], sum_loop, 1, 1, (a, total)),
    }


def cases() -> dict[str, Case]:
    """Return the cases by their names in the results; kernels use the active virtual GPU."""
    by_name = kernels()
    random = np.random.default_rng(1)
    a, b = random.random((2, N), dtype=np.float32)
    c = np.empty_like(a)
    bins = np.zeros(BINS, np.int32)
    matrices = tuple(random.random((3, EDGE, EDGE), dtype=np.float32))
    states = create_xoroshiro128p_states(STREAMS, 1)
    own_states = states.copy_to_host().view(np.uint64).reshape(STREAMS, 2)
    return {
        "vector add, float32, 2**20": Case(by_name["add"], add_loop, N // 256, 256, (a, b, c)),
        "grid-stride saxpy, 2**20, 128 x 128": Case(
            by_name["saxpy"], saxpy_loop, 128, 128, (np.float32(2), a, c)
        ),
        f"Mandelbrot {SIDE} x {SIDE}, {LIMIT} rounds, float64": Case(
            by_name["mandelbrot"],
            mandelbrot_loop,
            SIDE * SIDE // 256,
            256,
            (np.empty(SIDE * SIDE, np.int32),),
        ),
        "pi by sampling, xoroshiro128p, 2**20 points": Case(
            by_name["inside"],
            inside_loop,
            STREAMS // 256,
            256,
            (states, np.zeros(1, np.int32)),
            (own_states, np.zeros(1, np.int32)),
        ),
        f"histogram, {BINS} bins, 2**20, global atomics": Case(
            by_name["histogram"], histogram_loop, 128, 256, (a, bins)
        ),
        "the same, in shared memory": Case(
            by_name["histogram_shared"], histogram_loop, 128, 256, (a, bins)
        ),
        "tree sum in shared memory, 2**20": Case(
            by_name["tree_sum"], sum_loop, N // 256, 256, (a, np.zeros(1, np.float32))
        ),
        f"tiled matrix product, {EDGE} x {EDGE}, float32": Case(
            by_name["product"], product_loop, (EDGE // TILE,) * 2, (TILE,) * 2, matrices
        ),
        f"masses of pairs in {EVENTS:,} events, jagged": Case(
            by_name["masses"], masses_loop, -(-EVENTS // 256), 256, events(EVENTS, random)
        ),
    }
