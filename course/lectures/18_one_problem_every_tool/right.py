"""Right answers to the exercises of "One problem, every tool" in other styles than the lecture's."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from wrong_answers import other_styles

import pycuda.autoprimaryctx  # noqa: F401  # isort: skip  (after the virtual GPU is active)
import pycuda.driver as driver  # isort: skip
import cupy as cp  # isort: skip
from numba import cuda, float32  # isort: skip
from pycuda.compiler import SourceModule  # isort: skip

RIGHT, right = other_styles("18_one_problem_every_tool")

# --- ship ---------------------------------------------------------------------------------------


@cuda.jit
def ship_kernel(real, imag, limit, steps):
    first_column, first_row = cuda.grid(2)
    across, down = cuda.gridsize(2)
    for row in range(first_row, imag.size, down):
        for column in range(first_column, real.size, across):
            x = y = float32(0)
            left = limit
            while left > 0 and x * x + y * y <= float32(4):
                x, y = x * x - y * y + real[column], abs((x + x) * y) + imag[row]
                left -= 1
            steps[row, column] = limit - left


@right("ship")
def by_strides_of_the_grid(real, imag, limit):
    steps = np.empty((imag.size, real.size), np.int32)
    ship_kernel[(4, 8), (16, 16)](real, imag, limit, steps)
    return steps


flat_ship = SourceModule("""
__device__ int stays(float2 c, int limit)
{
    float2 z = make_float2(0, 0);
    for (int k = 0; k < limit; ++k) {
        if (z.x * z.x + z.y * z.y > 4) return k;
        z = make_float2(z.x * z.x - z.y * z.y + c.x, fabsf(2 * z.x * z.y) + c.y);
    }
    return limit;
}

__global__ void ship(const float2 *points, int n, int limit, int *steps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) steps[i] = stays(points[i], limit);
}
""").get_function("ship")


@right("ship")
def by_a_list_of_points(real, imag, limit):
    points = np.stack(np.meshgrid(real, imag), axis=-1)
    steps = np.zeros(points.shape[:2], np.int32)
    flat_ship(driver.In(points), np.int32(steps.size), np.int32(limit), driver.Out(steps),
              grid=(-(-steps.size // 128), 1), block=(128, 1, 1))
    return steps


@right("ship")
def compiled_where_it_is_used(real, imag, limit):
    @jax.jit
    def whole(cx, cy):
        def one_more(_, state):
            x, y, steps = state
            inside = x * x + y * y <= 4
            return x * x - y * y + cx, jnp.abs(2 * x * y) + cy, steps + inside

        zeros = jnp.zeros((cy.shape[0], cx.shape[1]), jnp.float32)
        return jax.lax.fori_loop(0, limit, one_more, (zeros, zeros, zeros.astype(jnp.int32)))[2]

    return np.array(whole(real[None, :], imag[:, None]))


@right("ship")
def a_while_loop_mapped_twice(real, imag, limit):
    from jax import lax, vmap

    def stays(cx, cy):
        def more(state):
            x, y, k = state
            return (k < limit) & (x * x + y * y <= 4)

        def step(state):
            x, y, k = state
            return x * x - y * y + cx, abs((x + x) * y) + cy, k + 1

        return lax.while_loop(more, step, (jnp.float32(0), jnp.float32(0), 0))[2]

    by_row = vmap(vmap(stays, (0, None)), (None, 0))
    return np.asarray(jax.jit(by_row)(real, imag)).astype(np.int32)


@partial(jax.jit, static_argnames="limit")
def scanned(real, imag, limit):
    def turn(state, _):
        x, y = state
        xx, yy = x * x, y * y
        return (xx - yy + real, abs((x + x) * y) + imag[:, None]), xx + yy <= 4

    zeros = jnp.zeros((imag.size, real.size), jnp.float32)
    return jax.lax.scan(turn, (zeros, zeros), length=limit)[1].sum(0, dtype=jnp.int32)


@right("ship")
def by_scan(real, imag, limit):
    return np.asarray(scanned(real, imag, limit))


@cuda.jit
def rows_of_the_ship(real, imag, limit, steps):
    row = cuda.grid(1)
    if row < imag.size:
        for column in range(real.size):
            x = y = float32(0)
            k = 0
            while k < limit and x * x + y * y <= float32(4):
                x, y = x * x - y * y + real[column], abs((x + x) * y) + imag[row]
                k += 1
            steps[row, column] = k


@right("ship")
def a_thread_for_each_row(real, imag, limit):
    steps = cuda.to_device(np.zeros((imag.size, real.size), np.int32))
    rows_of_the_ship[-(-imag.size // 32), 32](*map(cuda.to_device, (real, imag)), limit, steps)
    return steps.copy_to_host()


by_complex = cp.ElementwiseKernel("complex64 c, int32 limit", "int32 k", """
    float x = 0, y = 0;
    for (k = 0; k < limit && x * x + y * y <= 4; ++k) {
        float next = x * x - y * y + c.real();
        y = abs(2 * x * y) + c.imag();
        x = next;
    }
""", "by_complex")


@right("ship")
def of_complex_numbers(real, imag, limit):
    points = (real[None, :] + 1j * imag[:, None]).astype(np.complex64)
    return by_complex(cp.asarray(points), limit).get()


@right("ship")
def in_a_stream(real, imag, limit):
    stream = cuda.stream()
    steps = cuda.device_array((imag.size, real.size), np.int32, stream=stream)
    points = [cuda.to_device(one, stream) for one in (real, imag)]
    ship_kernel[(8, 8), (16, 8), stream](*points, limit, steps)
    made = steps.copy_to_host(stream=stream)
    stream.synchronize()
    return made


@right("ship")
def as_the_arrays_of_numpy(real, imag, limit):
    @jax.jit
    def unrolled(cx, cy):
        x, y, steps = cx * 0, cy * 0, jnp.zeros((), jnp.int32)
        for _ in range(limit):
            xx, yy = x * x, y * y
            steps += xx + yy <= 4
            x, y = xx - yy + cx, jnp.abs((x + x) * y) + cy
        return steps

    return np.asarray(unrolled(real[None, :], imag[:, None]))


# --- roofline -----------------------------------------------------------------------------------


@right("roofline")
def the_lesser_of_two_pairs(intensity, peak, bandwidth):
    return min((peak, "arithmetic"), (intensity * bandwidth, "memory"))


@right("roofline")
def by_the_ridge(intensity, peak, bandwidth):
    ridge = peak / bandwidth
    names = np.array(["arithmetic", "memory"])
    return np.minimum(intensity / ridge, 1.0) * peak, names[int(intensity < ridge)]


@right("roofline")
def by_a_table(intensity, peak, bandwidth):
    bounds = {"arithmetic": peak, "memory": bandwidth * intensity}
    limit = min(bounds, key=bounds.get)
    return [bounds[limit], limit]
