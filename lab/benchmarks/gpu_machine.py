"""Reference figures of the machine (copies, launches, peaks) for all other measurements."""

from __future__ import annotations

import numpy as np

from lab.benchmarks.gpu_work import (
    Group,
    Ready,
    Work,
    blocks_for,
    expect_close,
    fitting,
    full_grid,
    jax_ready,
    on_numba,
    virtual,
)

FMA_ROUNDS, FMA_CHAINS = 4096, 8
FMA = """
extern "C" __global__ void fma_peak(REAL *out, REAL a, REAL b, int rounds)
{
    REAL x[8];
    for (int k = 0; k < 8; k++) x[k] = threadIdx.x + k;
    #pragma unroll 16
    for (int round = 0; round < rounds; round++) {
        #pragma unroll
        for (int k = 0; k < 8; k++) x[k] = x[k] * a + b;
    }
    REAL sum = 0;
    for (int k = 0; k < 8; k++) sum += x[k];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


def copies(size: int) -> Work:
    """Time copies of float64 on the device, the reference bandwidth of streaming kernels."""
    import cupy as cp
    from numba import cuda

    n = fitting(size, 16)
    work = Work(n, "numbers", bytes=16 * n, flops=0)
    source = cp.random.default_rng(1).random(n)

    @work.add("memcpy", "cudaMemcpy, on the device", made_by="CuPy")
    def _():
        target = cp.zeros_like(source)
        return Ready(lambda: cp.copyto(target, source), lambda _: expect_close(target, source, 0.0))

    @work.add("cupy", "CuPy ElementwiseKernel y = x", made_by="CuPy")
    def _():
        target = cp.zeros_like(source)
        kernel = cp.ElementwiseKernel("float64 x", "float64 y", "y = x", "copy_each")
        return Ready(lambda: kernel(source, target), lambda _: expect_close(target, source, 0.0))

    @work.add("numba", "Numba kernel, a thread for each number")
    def _():
        @cuda.jit
        def copy_each(x, y):
            i = cuda.grid(1)
            if i < x.size:
                y[i] = x[i]

        target = cp.zeros_like(source)
        x, y, blocks = on_numba(source), on_numba(target), blocks_for(n, 256)
        return Ready(
            lambda: copy_each[blocks, 256](x, y), lambda _: expect_close(target, source, 0.0)
        )

    return work


def launches(size: int) -> Work:
    """Time a kernel that does almost nothing, which gives the cost of a launch."""
    import cupy as cp
    from numba import cuda

    work = Work(1, "launches")

    def one_more(made_by):
        number = cp.zeros(1, np.float32)

        def check(_):
            before = float(number[0])
            made_by(number)
            assert float(number[0]) == before + 1, "the kernel did not add one"

        return Ready(lambda: made_by(number), check)

    @work.add("numba", "Numba kernel")
    def _():
        @cuda.jit
        def add_one(x):
            x[0] += np.float32(1)

        seen = {}

        def run(number):
            if "x" not in seen:
                seen["x"] = on_numba(number)
            add_one[1, 1](seen["x"])

        return one_more(run)

    @work.add("cupy-raw", "CuPy RawKernel", made_by="CuPy")
    def _():
        kernel = cp.RawKernel('extern "C" __global__ void one(float *x) { x[0] += 1; }', "one")
        return one_more(lambda number: kernel((1,), (1,), (number,)))

    @work.add("cupy", "CuPy, x += 1", made_by="CuPy")
    def _():
        return one_more(lambda number: cp.add(number, 1, out=number))

    @work.add("jax", "JAX, jit of x + 1", "queue", "JAX")
    def _():
        jax = jax_ready()
        add = jax.jit(lambda x: x + 1)
        number = jax.numpy.zeros(1, np.float32)

        def check(result):
            assert float(result[0]) == 1, "JAX did not add one"

        return Ready(lambda: add(number), check)

    return work


def link(size: int) -> Work:
    """Time copies of float64 numbers between host and device."""
    import cupy as cp

    n = size
    work = Work(n, "numbers", bytes=8 * n, flops=0)
    pageable = np.random.default_rng(1).random(n)
    device = cp.zeros(n)

    def pinned():
        memory = cp.cuda.alloc_pinned_memory(8 * n)
        return np.frombuffer(memory, np.float64, n)

    @work.add("to-device", "to the device, ordinary memory", "call", "CuPy")
    def _():
        return Ready(lambda: device.set(pageable), lambda _: expect_close(device, pageable, 0.0))

    @work.add("to-device-pinned", "to the device, pinned memory", "call", "CuPy")
    def _():
        source = pinned()
        source[:] = pageable
        return Ready(lambda: device.set(source), lambda _: expect_close(device, source, 0.0))

    @work.add("to-host", "to the host, ordinary memory", "call", "CuPy")
    def _():
        target = np.zeros(n)
        return Ready(lambda: device.get(out=target), lambda _: expect_close(target, device, 0.0))

    @work.add("to-host-pinned", "to the host, pinned memory", "call", "CuPy")
    def _():
        target = pinned()
        return Ready(lambda: device.get(out=target), lambda _: expect_close(target, device, 0.0))

    return work


def peak(real: str):
    """Time fused multiply-adds of one precision, eight independent chains in each thread."""

    def build(size: int) -> Work:
        import cupy as cp

        threads, blocks = 256, 4 * full_grid(256)
        rounds = 4 if virtual() else FMA_ROUNDS
        work = Work(threads * blocks, "threads", flops=2 * FMA_CHAINS * rounds * threads * blocks)
        kind = {"float": np.float32, "double": np.float64}[real]

        @work.add("fma", f"chains of fma, {real}", made_by="C++")
        def _():
            kernel = cp.RawKernel(FMA.replace("REAL", real), "fma_peak")
            out = cp.zeros(threads * blocks, kind)
            # x → a x + b stays near its fixed point 2, so it becomes neither zero nor infinity.
            a, b = kind(0.5), kind(1)

            def run():
                kernel((blocks,), (threads,), (out, a, b, np.int32(rounds)))

            def check(_):
                x = np.arange(threads)[:, None] + np.arange(FMA_CHAINS, dtype=kind)
                for _ in range(min(rounds, 200)):
                    x = x * a + b
                expect_close(out, np.tile(x.sum(axis=1, dtype=np.float64), blocks), 1e-5)

            return Ready(run, check)

        return work

    return build


GROUPS = (
    Group("copy", "Copying on the device", copies, (2**28,), (2**12,)),
    Group("launch", "A launch", launches, (1,), (1,), patience=0.5),
    Group("link", "Between host and device", link, (2**25,), (2**10,), patience=0.6),
    Group("peak.float32", "Peak of float32", peak("float"), (1,), (1,), patience=0.5),
    Group("peak.float64", "Peak of float64", peak("double"), (1,), (1,), patience=0.5),
)
