"""Right answers to the exercises of "The walk" in other styles than the lesson's."""

from __future__ import annotations

import math

from wrong_answers import other_styles

from numba import cuda  # isort: skip  (after the virtual GPU is active)

RIGHT, right = other_styles("03_the_walk")

HEAD = "__global__ void entered(const double *a, const double *b, const double *c, double *time, int n)"

right("entered", "leaves early, with names for the parts")(f"""
{HEAD}
{{
    const unsigned i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n) return;
    double half = -0.5 * b[i] / a[i];
    double root = sqrt(half * half - c[i] / a[i]);
    time[i] = half - root;
}}
""")
right("entered", "strides through the grid, with a device function")(f"""
__device__ double first_root(double a, double b, double c)
{{
    return -(b + sqrt(b * b - 4.0 * a * c)) / (2.0 * a);
}}
{HEAD}
{{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        time[i] = first_root(a[i], b[i], c[i]);
}}
""")


@right("wall-or-miss")
@cuda.jit
def one_choice_in_a_line(a, b, c, time):
    i = cuda.grid(1)
    if i >= len(time):
        return
    under = b[i] * b[i] - 4 * a[i] * c[i]
    time[i] = (-b[i] + math.sqrt(under)) / (2 * a[i]) if under >= 0 else -1


@right("wall-or-miss")
@cuda.jit
def strides_and_cuts_off_below_zero(a, b, c, time):
    for i in range(cuda.grid(1), time.size, cuda.gridsize(1)):
        under = b[i] ** 2 - 4 * a[i] * c[i]
        found = (-b[i] + math.sqrt(max(under, 0.0))) / (2 * a[i])
        time[i] = found if under >= 0 else -1.0
