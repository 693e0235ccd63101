"""Wrong answers to the exercises of "One problem, every tool", with what the check says of each."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from wrong_answers import collection

import cupy as cp  # isort: skip  (after the virtual GPU is active)
from numba import cuda, float32, njit, prange  # isort: skip

WRONG, wrong = collection("18_one_problem_every_tool")

# --- ship ---------------------------------------------------------------------------------------

BODY = """
    float x = 0, y = 0;
    int k = 0;
    while (k < limit && x * x + y * y <= 4) {
        float next = x * x - y * y + cx;
        y = (x + x) * y + cy;
        x = next;
        ++k;
    }
    steps = k;
"""


def elementwise(body: str, name: str):
    """A ship by an ElementwiseKernel with this body."""
    kernel = cp.ElementwiseKernel("float32 cx, float32 cy, int32 limit", "int32 steps", body, name)

    def burning_ship(real, imag, limit):
        return kernel(cp.asarray(real)[None, :], cp.asarray(imag)[:, None], limit).get()

    return burning_ship


def whole(xp, real, imag, limit):
    """The right ship by operations on whole arrays."""
    cx, cy = real[None, :], imag[:, None]
    x = y = xp.zeros((imag.size, real.size), xp.float32)
    steps = xp.zeros(x.shape, xp.int32)
    for _ in range(limit):
        xx, yy = x * x, y * y
        steps = steps + (xx + yy <= 4)
        x, y = xx - yy + cx, abs((x + x) * y) + cy
    return steps


ONE_LANE = cp.RawKernel(
    """extern "C" __global__ void ship(const float *real, const float *imag, int width, int height,
                                     int limit, int *all) {
    if (threadIdx.x % 32) return;
    int me = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    for (int i = me; i < width * height; i += gridDim.x * blockDim.x / 32) {
        float cx = real[i % width], cy = imag[i / width];
        int steps;
        {""" + BODY.replace("(x + x) * y + cy", "abs((x + x) * y) + cy") + """}
        all[i] = steps;
    }
}""", "ship")
right_elementwise = elementwise(BODY.replace("(x + x) * y + cy", "abs((x + x) * y) + cy"), "ship")
wrong("ship", "this is the Mandelbrot set.*drop the signs", "signs are kept")(
    elementwise(BODY, "mandelbrot")
)
wrong("ship", "differ from NumPy's: pixel .*around the product", "abs of it all")(
    elementwise(BODY.replace("(x + x) * y + cy", "abs((x + x) * y + cy)"), "abs_of_all")
)
wrong("ship", "differ from NumPy's", "abs of x")(
    elementwise(BODY.replace("(x + x) * y + cy", "abs(x + x) * y + cy"), "abs_of_x")
)
wrong("ship", "differ from NumPy's", "new x in the old formula")(
    elementwise(
        BODY.replace("float next = ", "x = ")
        .replace("x = next;", "")
        .replace("(x + x) * y + cy", "abs((x + x) * y) + cy"),
        "new_x",
    )
)


@wrong("ship", "your busiest thread makes .*, and .* are enough")
def by_one_lane_of_each_warp(real, imag, limit):
    steps = cp.zeros((imag.size, real.size), cp.int32)
    ONE_LANE((16,), (64,), (cp.asarray(real), cp.asarray(imag), np.int32(real.size),
                            np.int32(imag.size), np.int32(limit), steps))
    return steps.get()


@wrong("ship", "right, but it took 220 launches.*loop inside it")
def whole_arrays(real, imag, limit):
    return whole(cp, cp.asarray(real), cp.asarray(imag), limit).get()


@wrong("ship", "nothing was launched, so the CPU computed it")
def numpy_alone(real, imag, limit):
    with np.errstate(all="ignore"):
        return whole(np, real, imag, limit).astype(np.int32)


@wrong("ship", "the launch did .* operations, and these steps need .*so the CPU computed it")
def launches_for_show(real, imag, limit):
    copy_kernel(cp.asarray(real))
    return numpy_alone(real, imag, limit)


@njit
def ship_of_one_point(cx, cy, limit):
    x = y = float32(0)
    steps = 0
    while steps < limit and x * x + y * y <= float32(4):
        x, y = x * x - y * y + cx, abs((x + x) * y) + cy
        steps += 1
    return steps


copy_kernel = cp.ElementwiseKernel("float32 x", "float32 y", "y = x + x", "copy_kernel")
double_by_jax = jax.jit(lambda x: x + x)


@wrong("ship", "nothing was launched, so the CPU computed it")
def calls_jax_for_show(real, imag, limit):
    double_by_jax(real)
    return numpy_alone(real, imag, limit)


@wrong("ship", "nothing was launched, so the CPU computed it")
def in_plain_python_and_jax_for_show(real, imag, limit):
    double_by_jax(real)
    steps = np.zeros((imag.size, real.size), np.int32)
    for row, cy in enumerate(imag.tolist()):
        for column, cx in enumerate(real.tolist()):
            x, y = np.float32(0).item(), 0.0
            while steps[row, column] < limit and x * x + y * y <= 4:
                x, y = x * x - y * y + cx, abs(2 * x * y) + cy
                steps[row, column] += 1
    return steps


@wrong("ship", "nothing was launched, so the CPU computed it")
def numba_inside_and_jax_for_show(real, imag, limit):
    from numba import njit as compiled

    double_by_jax(real)
    fast = compiled(lambda cx, cy, limit: ship_of_one_point(cx, cy, limit))
    return np.array([[fast(cx, cy, limit) for cx in real] for cy in imag], np.int32)


@wrong("ship", "nothing was launched, so the CPU computed it")
def jax_calls_numpy_back(real, imag, limit):
    shape = jax.ShapeDtypeStruct((imag.size, real.size), jnp.int32)

    def by_numpy(real, imag):
        return numpy_alone(np.asarray(real), np.asarray(imag), limit)

    return np.asarray(jax.jit(lambda a, b: jax.pure_callback(by_numpy, shape, a, b))(real, imag))


@wrong("ship", "returns a cupy.ndarray, not a NumPy array.*\\.get")
def still_on_the_device(real, imag, limit):
    return cp.asarray(right_elementwise(real, imag, limit))


@wrong("ship", "every pixel is 0: was a kernel launched")
def starter_computes_nothing(real, imag, limit):
    return np.zeros((imag.size, real.size), np.int32)


@wrong("ship", r"the shape \(97, 61\), not \(61, 97\)")
def turned(real, imag, limit):
    return right_elementwise(real, imag, limit).T


@wrong("ship", "nothing was launched")
def parallel_on_the_cpu(real, imag, limit):
    return numba_ship(real, imag, limit)


@njit
def stays(cx, cy, limit):
    x = y = float32(0)
    steps = 0
    while steps < limit and x * x + y * y <= float32(4):
        x, y = x * x - y * y + cx, abs((x + x) * y) + cy
        steps += 1
    return steps


@njit(parallel=True)
def numba_ship(real, imag, limit):
    steps = np.empty((imag.size, real.size), np.int32)
    for row in prange(imag.size):
        for column in range(real.size):
            steps[row, column] = stays(real[column], imag[row], limit)
    return steps


# --- the same with other tools: right answers, for test_lecture_18.py ----------------------------

stays_on_device = cuda.jit(device=True)(stays.py_func)


@cuda.jit
def ship_kernel(real, imag, limit, out):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = stays_on_device(real[column], imag[row], limit)


def right_numba_cuda(real, imag, limit):
    out = cuda.device_array((imag.size, real.size), np.int32)
    blocks = (real.size + 31) // 32, (imag.size + 7) // 8
    ship_kernel[blocks, (32, 8)](cuda.to_device(real), cuda.to_device(imag), limit, out)
    return out.copy_to_host()


@partial(jax.jit, static_argnames="limit")
def jax_ship(real, imag, limit):
    def turn(_, state):
        x, y, steps = state
        xx, yy = x * x, y * y
        return (
            xx - yy + real[None, :],
            abs((x + x) * y) + imag[:, None],
            steps + (xx + yy <= 4),
        )

    zeros = jnp.zeros((imag.size, real.size), jnp.float32)
    return jax.lax.fori_loop(0, limit, turn, (zeros, zeros, zeros.astype(jnp.int32)))[2]


def right_jax(real, imag, limit):
    return np.asarray(jax_ship(real, imag, limit))


# --- roofline -----------------------------------------------------------------------------------


@wrong("roofline", r"2.345e\+11 flops a second are possible; your function returns 6.7e\+13")
def the_ceiling_alone(intensity, peak, bandwidth):
    return peak, "arithmetic"


@wrong("roofline", r"6.7e\+13 flops a second are possible; your function returns 3.35e\+15")
def the_slope_alone(intensity, peak, bandwidth):
    return intensity * bandwidth, "memory"


@wrong("roofline", "your function returns")
def the_greater(intensity, peak, bandwidth):
    return max(peak, intensity * bandwidth), "arithmetic"


@wrong("roofline", "your function returns")
def divided(intensity, peak, bandwidth):
    return min(peak, bandwidth / max(intensity, 1e-9)), "memory"


@wrong("roofline", "the limit is memory, not 'arithmetic'.*which of the two limits is lower")
def names_swapped(intensity, peak, bandwidth):
    slope = intensity * bandwidth
    return (slope, "arithmetic") if slope < peak else (peak, "memory")


@wrong("roofline", "not two things")
def the_number_alone(intensity, peak, bandwidth):
    return min(peak, intensity * bandwidth)


@njit
def steps_of_the_processor(real, imag, limit):
    steps = np.zeros((imag.size, real.size), np.int32)
    for row in range(imag.size):
        for column in range(real.size):
            cx, cy = real[column], imag[row]
            x = y = np.float32(0)
            while steps[row, column] < limit and x * x + y * y <= np.float32(4):
                x, y = x * x - y * y + cx, abs((x + x) * y) + cy
                steps[row, column] += 1
    return steps


@jax.jit
def named(x):
    return x


@wrong("ship", "so the CPU computed it")
def njit_and_a_name_of_jax(real, imag, limit):
    np.asarray(named(real))
    return steps_of_the_processor(real, imag, limit)


# --- ship, on the host or not at once -------------------------------------------------------------


@wrong("ship", "right, but computed on the host, not by a kernel")
def a_ship_by_cupy_for_show(real, imag, limit):
    right_elementwise(real, imag, limit)
    return numpy_alone(real, imag, limit)


@wrong("ship", "right, but computed on the host, not by a kernel")
def a_ship_by_numba_for_show(real, imag, limit):
    right_numba_cuda(real, imag, limit)
    return numpy_alone(real, imag, limit)


@wrong("ship", "each operation as a separate program.*apply jax.jit to the whole")
def whole_arrays_of_jax(real, imag, limit):
    return np.asarray(whole(jnp, jnp.asarray(real), jnp.asarray(imag), limit))


@partial(jax.jit, static_argnames="limit")
def pixels_in_a_row(real, imag, limit):
    def stays_of(point):
        def step(state):
            x, y, k = state
            return x * x - y * y + point[0], abs((x + x) * y) + point[1], k + 1

        return jax.lax.while_loop(lambda s: (s[2] < limit) & (s[0] * s[0] + s[1] * s[1] <= 4), step,
                                  (jnp.float32(0), jnp.float32(0), jnp.int32(0)))[2]

    points = jnp.tile(real, imag.size), jnp.repeat(imag, real.size)
    return jax.lax.map(stays_of, points).reshape(imag.size, real.size)


@wrong("ship", "one pixel after the other, in a loop")
def pixel_after_pixel(real, imag, limit):
    return np.asarray(pixels_in_a_row(real, imag, limit))


@wrong("ship", "differ from NumPy's")
def evenly_spaced(real, imag, limit):
    return right_elementwise(*(np.linspace(one[0], one[-1], one.size, dtype=np.float32)
                               for one in (real, imag)), limit)


@wrong("ship", "the function changes its input arrays")
def leaves_zeros(real, imag, limit):
    steps = right_elementwise(real, imag, limit)
    real[:] = 0
    return steps


@wrong("ship", "an array of float64, not int32")
def in_float64(real, imag, limit):
    return right_elementwise(real, imag, limit).astype(float)


@wrong("roofline", "your function returns")
def for_these_gpus(intensity, peak, bandwidth):
    return (intensity * bandwidth, "memory") if intensity < 25.3 else (peak, "arithmetic")
