"""Loops of different length in every lane: Numba kernels equal to plain Python, lane by lane."""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu

pytestmark = pytest.mark.usefixtures("active")


@pytest.fixture(scope="module")
def kernels(active):
    from numba import cuda

    @cuda.jit
    def mandelbrot(real, imaginary, limit, count, left):
        i = cuda.grid(1)
        if i >= real.size:
            return
        x = y = np.float32(0)
        steps = 0
        while steps < limit and x * x + y * y <= np.float32(4):
            x, y = x * x - y * y + real[i], np.float32(2) * x * y + imaginary[i]
            steps += 1
        count[i] = steps
        left[i] = x

    @cuda.jit
    def collatz(start, steps, highest):
        for i in range(cuda.grid(1), start.size, cuda.gridsize(1)):
            n = top = start[i]
            taken = 0
            while n != 1:
                if n % 2:
                    n = 3 * n + 1
                    if n > top:
                        top = n
                else:
                    n //= 2
                taken += 1
            steps[i] = taken
            highest[i] = top

    @cuda.jit
    def search(table, wanted, place):
        i = cuda.grid(1)
        if i < wanted.size:
            low, high = 0, table.size
            while low < high:
                middle = (low + high) // 2
                if table[middle] < wanted[i]:
                    low = middle + 1
                else:
                    high = middle
            place[i] = low

    @cuda.jit
    def primes(last, found):
        """Loops in loops, left by break, continue and return."""
        i = cuda.grid(1)
        if i >= last.size:
            return
        count = 0
        for n in range(2, last[i]):
            prime = True
            for d in range(2, n):
                if d * d > n:
                    break
                if n % d == 0:
                    prime = False
                    break
            if not prime:
                continue
            count += 1
            if count == 30:
                found[i] = -n
                return
        found[i] = count

    @cuda.jit(device=True)
    def ackermann(m, n):
        """A stack by hand, since lanes go to very different depths."""
        stack = cuda.local.array(64, np.int32)
        depth = 0
        stack[0] = m
        while depth >= 0:
            m = stack[depth]
            depth -= 1
            if m == 0:
                n += 1
            elif n == 0:
                depth += 1
                stack[depth] = m - 1
                n = 1
            else:
                stack[depth + 1] = m - 1
                stack[depth + 2] = m
                depth += 2
                n -= 1
        return n

    @cuda.jit
    def deep(m, n, out):
        i = cuda.grid(1)
        if i < m.size:
            out[i] = ackermann(m[i], n[i])

    return {
        "mandelbrot": mandelbrot,
        "collatz": collatz,
        "search": search,
        "primes": primes,
        "deep": deep,
    }


def launch(kernel, count, seed, *args, blocks=None):
    threads = 96
    grid = blocks or -(-count // threads)
    if seed is None:
        kernel[grid, threads](*args)
    else:
        with virtualgpu.schedule(seed):
            kernel[grid, threads](*args)


def mandelbrot(real, imaginary, limit):
    """With a fused multiply-add where NVVM writes one, in double precision and rounded once."""
    f = np.float32

    def fma(a, b, c):
        return f(float(a) * float(b) + float(c))

    x = y = f(0)
    steps = 0
    while steps < limit and fma(x, x, f(y * y)) <= 4:
        x, y = f(f(x * x) - f(y * y)) + real, fma(f(x * 2), y, imaginary)
        steps += 1
    return steps, x


@pytest.mark.parametrize("seed", [None, 3])
def test_mandelbrot(kernels, seed):
    """Points on both sides of the set's edge: from 1 step to the limit."""
    side = 40 if seed is None else 14
    x, y = np.meshgrid(np.linspace(-2, 0.6, side), np.linspace(-1.2, 1.2, side))
    real, imaginary = (a.ravel().astype(np.float32) for a in (x, y))
    count, left = np.zeros(real.size, np.int32), np.zeros(real.size, np.float32)
    launch(kernels["mandelbrot"], real.size, seed, real, imaginary, 60, count, left)
    wanted, x = zip(
        *(mandelbrot(a, b, 60) for a, b in zip(real, imaginary, strict=True)), strict=True
    )
    assert count.tolist() == list(wanted)
    assert left.tolist() == list(x)
    assert len(set(wanted)) > 10


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_collatz(kernels, seed):
    """From no step (1) to 261 (6171), by a grid-stride loop with fewer threads than numbers."""
    start = np.arange(1, 1001 if seed is None else 61, dtype=np.int64)
    start[-1] = 6171
    steps, highest = np.zeros_like(start), np.zeros_like(start)
    launch(kernels["collatz"], start.size, seed, start, steps, highest, blocks=3)

    def path(n):
        seen = [n]
        while n != 1:
            n = 3 * n + 1 if n % 2 else n // 2
            seen.append(n)
        return seen

    assert steps.tolist() == [len(path(int(n))) - 1 for n in start]
    assert highest.tolist() == [max(path(int(n))) for n in start]
    assert steps[-1] == 261


@pytest.mark.parametrize("seed", [None, 4])
@pytest.mark.parametrize("size", [0, 1, 2, 1000])
def test_binary_search(kernels, size, seed):
    random = np.random.default_rng(size)
    table = np.sort(random.normal(0, 1, size)).astype(np.float32)
    wanted = random.normal(0, 1, 500).astype(np.float32)
    wanted[: size // 4] = table[: size // 4][:500]  # and some that are there
    place = np.full(500, -1, np.int64)
    launch(kernels["search"], 500, seed, table, wanted, place)
    assert place.tolist() == np.searchsorted(table, wanted).tolist()


@pytest.mark.parametrize("seed", [None, 7])
def test_loops_with_every_kind_of_exit(kernels, seed):
    last = np.arange(150 if seed is None else 40, dtype=np.int64)
    found = np.zeros_like(last)
    launch(kernels["primes"], last.size, seed, last, found)

    def wanted(stop):
        all_ = [n for n in range(2, stop) if all(n % d for d in range(2, n))]
        return -all_[29] if len(all_) >= 30 else len(all_)

    assert found.tolist() == [wanted(int(n)) for n in last]


@pytest.mark.parametrize("seed", [None, 9])
def test_a_stack_in_local_memory(kernels, seed):
    m, n = (a.ravel().astype(np.int32) for a in np.meshgrid(range(3), range(6)))
    out = np.zeros_like(m)
    launch(kernels["deep"], m.size, seed, m, n, out)
    wanted = {0: lambda n: n + 1, 1: lambda n: n + 2, 2: lambda n: 2 * n + 3}
    assert out.tolist() == [wanted[a](b) for a, b in zip(m, n, strict=True)]
