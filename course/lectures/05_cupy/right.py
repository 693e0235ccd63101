"""Right answers to the exercises of "CuPy" in other styles than the lecture's."""

from __future__ import annotations

from wrong_answers import other_styles

import cupy as cp  # isort: skip  (after the virtual GPU is active)

RIGHT, right = other_styles("05_cupy")


@right("lookup")
def by_take_and_a_mask(layers, offsets):
    found = cp.take(offsets, cp.clip(layers, 0, offsets.size - 1)).astype(cp.float64)
    found[(layers < 0) | (layers >= offsets.size)] = cp.nan
    return found


@right("lookup")
def a_row_more_in_the_table(layers, offsets):
    longer = cp.concatenate((offsets, cp.full(1, cp.nan)))
    return longer[cp.where((layers >= 0) & (layers < offsets.size), layers, offsets.size)]


@right("in-chunks")
def pieces_of_equal_length(a, b, c, chunk):
    times = cp.empty_like(a)
    pieces = max(1, -(-a.size // chunk))
    for k in range(pieces):
        part = slice(k * a.size // pieces, (k + 1) * a.size // pieces)
        u, v, w = a[part], b[part], c[part]
        times[part] = (-v + cp.sqrt(v * v - 4 * u * w)) / (2 * u)
    return times


solve = cp.ElementwiseKernel("T a, T b, T c", "T t", "t = (-b + sqrt(b*b - 4*a*c)) / (2*a)", "solve")


@right("in-chunks")
def a_kernel_of_its_own_for_each_chunk(a, b, c, chunk):
    times, start = cp.zeros_like(a), 0
    while start < a.size:
        end = min(start + chunk, a.size)
        solve(a[start:end], b[start:end], c[start:end], times[start:end])
        start = end
    return times


def leaving(body):
    return cp.ElementwiseKernel("T wall, T z, T vz, T length", "T time, int8 lid", body, "leave")


right("elementwise", "by infinity")(leaving("""
    T at_lid = vz > 0 ? (length - z) / vz : vz < 0 ? (-length - z) / vz : (T) (1.0 / 0.0);
    lid = at_lid < wall ? 1 : 0;
    time = fmin(at_lid, wall);
"""))
right("elementwise", "by copysign")(leaving("""
    time = wall; lid = 0;
    if (vz == 0) return;
    T at = (copysign(length, vz) - z) / vz;
    if (at < wall) { time = at; lid = 1; }
"""))


def first(each, combine, identity):
    return cp.ReductionKernel("float64 time, int8 lid", "float64 first", each, combine,
                              "first = a", identity, "first_at_lid")


right("reduction", "by a conditional")(
    first("lid == 1 ? time : 1.0 / 0.0", "a < b ? a : b", "1.0 / 0.0"))
right("reduction", "by fmin")(first("lid != 0 ? time : 1.0 / 0.0", "fmin(a, b)", "1.0 / 0.0"))


def begins(body):
    return cp.RawKernel(
        'extern "C" __global__ void begins(const double *time, double pause, signed char *begin, int n)\n'
        f"{{ int i = blockIdx.x * blockDim.x + threadIdx.x;\n{body} }}", "begins")


right("begins", "leaves early")(begins(
    "if (i >= n) return; if (i == 0) { begin[0] = 1; return; } begin[i] = time[i] > time[i - 1] + pause;"))
right("begins", "strides")(begins(
    "for (; i < n; i += gridDim.x * blockDim.x) begin[i] = !i || time[i] - time[i - 1] > pause ? 1 : 0;"))
right("begins", "a macro from its options")(cp.RawKernel(
    'extern "C" __global__ void begins(const double *time, double pause, signed char *begin, int n)\n'
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n) begin[i] = i < FIRST || time[i] - time[i - FIRST] > pause; }",
    "begins", options=("-DFIRST=1",)))
