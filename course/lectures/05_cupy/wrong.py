"""Wrong answers to the exercises of "CuPy", with what the check must say of each."""

from __future__ import annotations

import numpy as np

from wrong_answers import collection, swap

import cupy as cp  # isort: skip  (after the virtual GPU is active)

WRONG, wrong = collection("05_cupy")

# --- lookup -------------------------------------------------------------------------------------


@wrong("lookup", "not in a table of 7.*wrap around")
def trusts_the_indices(layers, offsets):
    return offsets[layers]


@wrong("lookup", r"layer -\d is not in a table of 7")
def checks_one_side(layers, offsets):
    return cp.where(layers < offsets.size, offsets[layers], cp.nan)


@wrong("lookup", "layer [06] of 7 has the offset .*, but your answer is nan.*including these two")
def leaves_out_the_first_or_last(layers, offsets):
    return cp.where((layers > 0) & (layers < offsets.size), offsets[layers], cp.nan)


@wrong("lookup", "not in a table of 7")
def clips(layers, offsets):
    return offsets[cp.clip(layers, 0, offsets.size - 1)]


@wrong("lookup", "numpy.ndarray, not a CuPy array")
def on_the_host(layers, offsets):
    layers, offsets = layers.get(), offsets.get()
    known = (layers >= 0) & (layers < offsets.size)
    return np.where(known, offsets[np.where(known, layers, 0)], np.nan)


@wrong("lookup", "the answer has the shape .*known or not")
def drops_the_unknown(layers, offsets):
    return offsets[layers[(layers >= 0) & (layers < offsets.size)]]


@wrong("lookup", "ambiguous")
def asks_with_and(layers, offsets):
    return cp.where(layers >= 0 and layers < offsets.size, offsets[layers], cp.nan)


@wrong("lookup", "129 layers took .* launches.*without a loop")
def one_after_the_other(layers, offsets):
    none = cp.array(cp.nan)
    return cp.array([offsets[k] if 0 <= k < offsets.size else none for k in layers])


@wrong("lookup", "the device did nothing.*without .get")
def there_and_back_again(layers, offsets):
    layers, offsets = layers.get(), offsets.get()
    known = (layers >= 0) & (layers < offsets.size)
    return cp.asarray(np.where(known, offsets[np.where(known, layers, 0)], np.nan))


@wrong("lookup", "takes data from the device")
def numpy_does_it_and_the_device_for_show(layers, offsets):
    layers + 0
    on_host, table = layers.get(), offsets.get()
    known = (on_host >= 0) & (on_host < table.size)
    return cp.asarray(np.where(known, table[np.where(known, on_host, 0)], np.nan))


one_block = cp.RawKernel(r"""extern "C" __global__
void offsets_of(const long long *layers, const double *offsets, double *found, int n, int size) {
    int i = threadIdx.x;
    if (i >= n) return;
    bool known = layers[i] >= 0 && layers[i] < size;
    found[i] = known ? offsets[layers[i]] : nan("");
}""", "offsets_of")


@wrong("lookup", "not in a table of|your answer is nan|, not ")
def one_block_of_threads(layers, offsets):
    found, n = cp.zeros(layers.shape), layers.size
    one_block((1,), (1024,), (layers, offsets, found, np.int32(n), np.int32(offsets.size)))
    return found


wrong("lookup", "not in a table of|your answer is nan", "tables of seven")(swap("offsets.size", "7"))

# --- in-chunks ----------------------------------------------------------------------------------


def time_to_wall(a, b, c):
    return (-b + np.sqrt(b**2 - 4 * a * c)) / (2 * a)


@wrong("in-chunks", "did not fit: Out of memory.*longer than a chunk")
def all_at_once(a, b, c, chunk):
    return time_to_wall(a, b, c)


@wrong("in-chunks", "did not fit: Out of memory.*many chunks")
def joins_at_the_end(a, b, c, chunk):
    parts = [slice(start, start + chunk) for start in range(0, a.size, chunk)]
    done = [time_to_wall(a[part], b[part], c[part]) for part in parts]
    return cp.concatenate(done) if done else cp.empty(0)


@wrong("in-chunks", "so NumPy computed them on the host.*without .get")
def times_by_numpy(a, b, c, chunk):
    times = cp.empty_like(a)
    times.set(time_to_wall(a.get(), b.get(), c.get()))
    return times


@wrong("in-chunks", "time 96 is .*fill every chunk")
def whole_chunks_only(a, b, c, chunk):
    times = cp.zeros_like(a)
    for k in range(a.size // chunk):
        part = slice(k * chunk, (k + 1) * chunk)
        times[part] = time_to_wall(a[part], b[part], c[part])
    return times


wrong("in-chunks", "time .* is .*the same slice", "always the first chunk of c")(
    swap(", c[part])", ", c[: times[part].size])"))


@wrong("in-chunks", "no particles at all: .*there is no chunk")
def counts_on_a_first_chunk(a, b, c, chunk):
    times = cp.empty_like(a)
    for k in range(-(-a.size // min(chunk, a.size))):
        part = slice(k * chunk, (k + 1) * chunk)
        times[part] = time_to_wall(a[part], b[part], c[part])
    return times


@wrong("in-chunks", "the answer is a list")
def returns_the_parts(a, b, c, chunk):
    parts = [slice(start, start + chunk) for start in range(0, a.size, chunk)]
    return [time_to_wall(a[part], b[part], c[part]) for part in parts]


@wrong("in-chunks", "takes data from the device")
def numpy_does_it_and_the_device_multiplies_by_one(a, b, c, chunk):
    times = cp.empty_like(a)
    times.set(time_to_wall(a.get(), b.get(), c.get()))
    times *= 1
    return times


wrong("in-chunks", "the device works on .* particles at once.*`chunk` elements", "chunks of 500")(
    swap("range(0, a.size, chunk)", "range(0, a.size, 500)"),
    swap("start + chunk)", "start + 500)"))

# --- elementwise --------------------------------------------------------------------------------


def leaving(body):
    return cp.ElementwiseKernel("T wall, T z, T vz, T length", "T time, int8 lid", body, "leave")


wrong("elementwise", "the particle leaves by a lid", "by the wall only")(leaving("time = wall; lid = 0;"))
wrong("elementwise", "backwards reaches the lid at -length", "forwards only")(leaving("""
    T at_lid = (length - z) / vz;
    lid = vz != 0 && at_lid < wall;
    time = lid ? at_lid : wall;
"""))
wrong("elementwise", "vz = 0.*do not divide by vz", "straight out")(leaving("""
    T at_lid = vz != 0 ? ((vz > 0 ? length : -length) - z) / vz : 0;
    lid = at_lid < wall;
    time = lid ? at_lid : wall;
"""))
wrong("elementwise", "whichever comes first", "the later one")(leaving("""
    T at_lid = vz != 0 ? ((vz > 0 ? length : -length) - z) / vz : 0;
    lid = at_lid > wall;
    time = lid ? at_lid : wall;
"""))
wrong("elementwise", "whichever comes first, and `lid`", "lid forgotten")(leaving("""
    T at_lid = vz != 0 ? ((vz > 0 ? length : -length) - z) / vz : 1e30;
    lid = 0;
    time = min(at_lid, wall);
"""))
wrong("elementwise", "in both cases, whether", "the lid only")(leaving("""
    T at_lid = ((vz > 0 ? length : -length) - z) / vz;
    if (vz != 0 && at_lid < wall) { time = at_lid; lid = 1; }
"""))
wrong("elementwise", 'identifier "tiem" is undefined', "misspelt")(leaving("tiem = wall; lid = 0;"))


wrong("elementwise", "the particle leaves by", "lids of the example")(leaving("""
    T at_lid = vz != 0 ? ((vz > 0 ? (T) 2.5 : (T) -2.5) - z) / vz : (T) 1e30;
    lid = at_lid < wall;
    time = lid ? at_lid : wall;
"""))

@wrong("elementwise", "this is a function, not an ElementwiseKernel")
def in_python(wall, z, vz, length):
    at_lid = cp.where(vz != 0, (cp.where(vz > 0, length, -length) - z) / vz, cp.inf)
    return cp.minimum(wall, at_lid), (at_lid < wall).astype(np.int8)


# --- reduction ----------------------------------------------------------------------------------


def first(each, combine, identity):
    return cp.ReductionKernel("float64 time, int8 lid", "float64 first", each, combine,
                              "first = a", identity, "first_at_lid")


NEVER = "1.0 / 0.0"
wrong("reduction", "0 is smaller than every time", "identity 0")(
    first(f"lid ? time : {NEVER}", "min(a, b)", "0"))
wrong("reduction", "particles that leave by the wall take part", "all of them")(
    first("time", "min(a, b)", NEVER))
wrong("reduction", "the value of a particle at the wall", "0 for the others")(
    first("lid ? time : 0", "min(a, b)", NEVER))
wrong("reduction", "combines two results|neither the identity", "a sum")(
    first("lid ? time : 0", "a + b", "0"))
wrong("reduction", "neither the identity nor", "a large number for infinity")(
    first("lid ? time : 1e9", "min(a, b)", "1e9"))
wrong("reduction", "this is a function, not a ReductionKernel", "in array operations")(
    lambda time, lid: cp.where(lid, time, cp.inf).min())

# --- begins -------------------------------------------------------------------------------------

CPP = "i == 0 || time[i] - time[i - 1] > pause"


def begins(body):
    return cp.RawKernel(
        'extern "C" __global__ void begins(const double *time, double pause, signed char *begin, int n)\n'
        f"{{ int i = blockIdx.x * blockDim.x + threadIdx.x;\n{body} }}", "begins")


wrong("begins", "your busiest thread makes .*, and .* are enough", "one thread")(
    begins("if (i == 0) for (i = 0; i < n; i++) begin[i] = " + CPP + ";"))
wrong("begins", "illegal address.*threads from index `n` on", "no guard")(begins(f"begin[i] = {CPP};"))
wrong("begins", "illegal address.*has no previous one", "reads before the first")(
    begins("if (i < n) begin[i] = time[i] - time[i - 1] > pause;"))
wrong("begins", r"begin\[0\] was never written, not 1", "leaves out the first")(
    begins("if (i > 0 && i < n) begin[i] = time[i] - time[i - 1] > pause;"))
wrong("begins", r"begin\[0\] is 0, not 1", "no group for the first")(
    begins("if (i < n) begin[i] = i > 0 && time[i] - time[i - 1] > pause;"))
wrong("begins", r"begin\[\d+\] is 1, not 0: .* after the previous one", "as long as the pause")(
    begins("if (i < n) begin[i] = i == 0 || time[i] - time[i - 1] >= pause;"))
wrong("begins", r"begin\[\d+\] is .*, not", "pause_of_the_example")(
    begins("if (i < n) begin[i] = i == 0 || time[i] - time[i - 1] > 0.01;"))
wrong("begins", r"begin\[\d+\] is", "in single precision")(
    begins("if (i < n) begin[i] = i == 0 || (float) time[i] - (float) time[i - 1] > pause;"))
wrong("begins", "is there still a loop over all", "a loop in every thread")(
    begins(f"for (i = 0; i < n; ++i) begin[i] = {CPP};"))
wrong("begins", "was never written", "one block only")(
    begins(f"i = threadIdx.x; if (i < n && blockIdx.x == 0) begin[i] = {CPP};"))
wrong("begins", "this is a function, not a RawKernel", "by_numpy")(
    lambda time, pause, begin, n: np.greater(np.diff(time, prepend=-np.inf), pause, out=begin))
wrong("begins", "this is a str, not a RawKernel", "its text")("void begins() {}")
wrong("begins", "race: |never written", "blocks of 64")(
    begins(f"i = blockIdx.x * 64 + threadIdx.x; if (i < n) begin[i] = {CPP};"))
wrong("begins", "the kernel changes time", "over the times")(cp.RawKernel(
    'extern "C" __global__ void begins(double *time, double pause, signed char *begin, int n)\n'
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    f"  bool first = i < n && ({CPP});\n"
    "  __syncthreads(); if (i < n) begin[i] = first; if (i == n - 1) time[i] = 0; }", "begins"))


@wrong("lookup", "has changed its inputs layers and offsets")
def corrects_the_layers(layers, offsets):
    known = (layers >= 0) & (layers < offsets.size)
    layers[~known] = 0
    return cp.where(known, offsets[layers], cp.nan)


@wrong("in-chunks", "has changed its inputs a, b and c.*a new array")
def over_the_first_coefficients(a, b, c, chunk):
    for start in range(0, a.size, chunk):
        part = slice(start, start + chunk)
        a[part] = (-b[part] + cp.sqrt(b[part] ** 2 - 4 * a[part] * c[part])) / (2 * a[part])
    return a


wrong("elementwise", "time is", "a float in between")(swap("T at_lid", "float at_lid"))
