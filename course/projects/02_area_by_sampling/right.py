"""Right answers in other styles than ours, for the grader to give everything.

Cells that are not named are those of the solution.
"""

def jax_hits(body: str) -> str:
    """A `hits_of_stream` of its own, for all streams at once by `vmap`."""
    return f"""import jax
import jax.numpy as jnp


def hits_of_stream(key, points):
{body}

def jax_hits(seed, streams, points):
    keys = jax.random.split(jax.random.key(seed), streams)
    return jax.jit(jax.vmap(lambda key: hits_of_stream(key, points)))(keys)
"""


def all_at_once(hits: str) -> str:
    """All points in a row, added up stream by stream."""
    return f"""import jax
import jax.numpy as jnp


def jax_hits(seed, streams, points):
    keys = jax.random.split(jax.random.key(seed), 2 * streams).reshape(2, streams)
    draw = jax.vmap(lambda key: jax.random.uniform(key, (points,), minval=-1, maxval=1))
    x, y = (draw(some).ravel() for some in keys)
    inside, stream = jnp.hypot(x, y) < 1, jnp.arange(streams * points) // points
    return {hits}
"""


def add_hits_by_warps(options: str) -> str:
    """An `add_hits` that adds up with shuffles."""
    return f"""@cuda.jit({options})
def add_hits(hits, total):
    sums = cuda.shared.array(32, int64)
    t, T = cuda.threadIdx.x, cuda.blockDim.x
    lanes = min(32, T - t // 32 * 32)
    own = int64(0)
    for i in range(cuda.grid(1), hits.size, cuda.gridsize(1)):
        own += hits[i]
    for distance in (16, 8, 4, 2, 1):
        other = cuda.shfl_down_sync((1 << lanes) - 1, own, distance)
        if t % 32 + distance < lanes:
            own += other
    if t % 32 == 0:
        sums[t // 32] = own
    cuda.syncthreads()
    if t == 0:
        for warp in range(1, (T + 31) // 32):
            own += sums[warp]
        cuda.atomic.add(total, 0, own)
"""


RIGHT = [
    {"name": "another", "cells": {
        "neighbour-z": """def neighbour_z(streams, lag):
    n_threads, n_draws = streams.shape
    a = streams[0 : n_threads - 1, lag:n_draws].ravel()
    b = streams[1:n_threads, 0 : n_draws - lag].ravel()
    return ((a - 1 / 2) * (b - 1 / 2)).mean() * 12 * np.sqrt(len(a))
""",
        "diagnose": """def diagnose(streams):
    if (streams == streams[0]).all():
        return "same"
    for k in range(1, 33):
        if np.mean(streams[:-1, k:] == streams[1:, :-k]) > 0.5:
            return "overlap"
    u = streams[:, 0]
    if abs(u.mean() - 0.5) > 6 / np.sqrt(12 * u.size) or abs(neighbour_z(streams, 0)) > 6:
        return "weak"
    return "good"
""",
        "seed-states": """@cuda.jit
def seed_states(seed, states):
    for t in range(cuda.grid(1), states.size, cuda.gridsize(1)):
        s = uint64(seed) + GOLDEN * uint64(2 * t + 1)
        states["s0"][t] = splitmix64(s)
        states["s1"][t] = splitmix64(uint64(s + GOLDEN))
""",
        # In float32, and with the state in a variable of its own.
        "count-hits": """from numba.cuda.random import xoroshiro128p_type, xoroshiro128p_uniform_float32


@cuda.jit
def count_hits(states, points, x0, x1, y0, y1, hits):
    t = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if t >= len(states):
        return
    own = cuda.local.array(1, xoroshiro128p_type)
    own[0] = states[t]
    hits[t] = 0
    for _ in range(points):
        y = y0 + (y1 - y0) * xoroshiro128p_uniform_float32(own, 0)
        x = x0 + (x1 - x0) * xoroshiro128p_uniform_float32(own, 0)
        hits[t] += inside(x, y)
    states[t] = own[0]
""",
        "add-hits": """@cuda.jit
def add_hits(hits, total):
    s = cuda.shared.array(MAX_THREADS, dtype=np.int64)
    t, left = cuda.threadIdx.x, cuda.blockDim.x
    s[t] = 0
    i = cuda.grid(1)
    while i < hits.size:
        s[t] += hits[i]
        i += cuda.gridsize(1)
    while left > 1:
        cuda.syncthreads()
        if t < left // 2:
            s[t] += s[left - 1 - t]
        left -= left // 2
    if t == 0:
        cuda.atomic.add(total, 0, s[0])
""",
        # With the generator's own host function for states.
        "sample-disc": """from numba.cuda.random import create_xoroshiro128p_states


def sample_disc(seed, threads, points):
    states = create_xoroshiro128p_states(threads, seed)
    d_hits = cuda.device_array((threads,), dtype=np.int32)
    d_total = cuda.to_device(np.array([0]))
    count_hits[(threads + 63) // 64, 64](states, points, -1.0, 1.0, -1.0, 1.0, d_hits)
    add_hits[1, 256](d_hits, d_total)
    return d_total.copy_to_host()[0]
""",
        "estimate": """def estimate(hits, n, box_area):
    p = hits / n
    return p * box_area, np.sqrt(n * p * (1 - p)) / n * box_area
""",
        "philox": """@cuda.jit(device=True)
def mulhilo(a, b):
    p = uint64(a) * uint64(b)
    return uint32(p >> 32), uint32(p)


@cuda.jit(device=True)
def philox(c0, c1, c2, c3, k0, k1):
    for r in range(10):
        if r > 0:
            k0 = uint32(k0 + 0x9E3779B9)
            k1 = uint32(k1 + 0xBB67AE85)
        h0, l0 = mulhilo(0xD2511F53, c0)
        h1, l1 = mulhilo(0xCD9E8D57, c2)
        c0, c1, c2, c3 = uint32(h1 ^ c1 ^ k0), l1, uint32(h0 ^ c3 ^ k1), l0
    return c0, c1, c2, c3


@cuda.jit
def philox_blocks(counters, keys, words):
    i = cuda.grid(1)
    if i < words.shape[0]:
        c, k = counters[i], keys[i]
        a, b, c, d = philox(c[0], c[1], c[2], c[3], k[0], k[1])
        words[i, 0], words[i, 1], words[i, 2], words[i, 3] = a, b, c, d
""",
        "count-points": """@cuda.jit
def count_points(seed, first, n, x0, x1, y0, y1, total):
    j = cuda.grid(1)
    while j < n:
        i = first + j
        w = philox(i & 0xFFFFFFFF, i >> 32, 0, 0, seed & 0xFFFFFFFF, seed >> 32)
        if inside(x0 + (x1 - x0) * w[0] / 4294967296, y0 + (y1 - y0) * w[1] / 4294967296):
            cuda.atomic.add(total, 0, 1)
        j += cuda.gridsize(1)
""",
        "jax-hits": """import jax
import jax.numpy as jnp
from functools import partial


def hits_of_stream(key, points):
    xy = jax.random.uniform(key, (points, 2)) * 2 - 1
    return jnp.count_nonzero(jnp.hypot(xy[:, 0], xy[:, 1]) < 1)


@partial(jax.jit, static_argnums=(1, 2))
def jax_hits(seed, streams, points):
    base = jax.random.PRNGKey(seed)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(base, jnp.arange(streams))
    return jax.vmap(hits_of_stream, in_axes=(0, None))(keys, points)
""",
        "in-mandelbrot": """@cuda.jit(device=True)
def step(x, y, cx, cy):
    return x * x - y * y + cx, 2 * x * y + cy


@cuda.jit(device=True)
def in_mandelbrot(cx, cy, limit):
    t = (0.0, 0.0)
    h = (0.0, 0.0)
    n = 0
    while n < limit:
        t = step(t[0], t[1], cx, cy)
        for _ in range(2):
            h = step(h[0], h[1], cx, cy)
            if h[0] * h[0] + h[1] * h[1] > 4:
                return 0
        if t == h:
            return 1
        n += 1
    return 2


@cuda.jit
def classify(cx, cy, limit, kinds):
    i = cuda.grid(1)
    if i < kinds.size:
        kinds[i] = in_mandelbrot(cx[i], cy[i], limit)
""",
    }},
    # Sums of float32, whole arrays, all points at once; looked at on the way.
    {"name": "whole-arrays", "cells": {
        "sample-disc": """def sample_disc(seed, threads, points):
    states = cuda.device_array(threads, xoroshiro128p_dtype)
    hits, total = cuda.device_array(threads, np.int32), cuda.to_device(np.zeros(1, np.int64))
    grid = (threads + 127) // 128
    seed_states[grid, 128](seed, states)
    count_hits[grid, 128](states, points, -1.0, 1.0, -1.0, 1.0, hits)
    add_hits[grid, 128](hits, total)
    result = total.copy_to_host()
    display(result)
    return int(result[0])
""",
        "jax-hits": """import jax
import jax.numpy as jnp


@jax.jit
def coordinates(keys):
    return jax.vmap(lambda key: jax.random.uniform(key, minval=-1.0, maxval=1.0))(keys)


def jax_hits(seed, streams, points):
    keys = jax.random.split(jax.random.PRNGKey(seed), 2 * streams * points)
    x, y = coordinates(keys).reshape(2, streams, points)
    inside = jnp.where(jax.lax.integer_pow(x, 2) + jnp.square(y) < 1, jnp.float32(1), 0.0)
    jax.debug.print("{} of all hit", inside.sum())
    return jnp.sum(inside, axis=1).astype(jnp.int32)
""",
    }},
    # One generator, its streams told apart by folding numbers in, and a sort on the way.
    {"name": "folded-keys", "cells": {
        "jax-hits": """import jax
import jax.numpy as jnp


def hits_of_stream(key, points):
    x, y = jax.random.split(key)
    radius = jnp.sort(jnp.abs(jax.lax.complex(*(jax.random.uniform(k, points, minval=-1.0, maxval=1.0)
                                                for k in (x, y)))))
    return jnp.count_nonzero(jnp.cumprod(radius < 1.0))


def jax_hits(seed, streams, points):
    key = jax.random.key(seed)
    return jax.vmap(lambda i: hits_of_stream(jax.random.fold_in(key, i), points))(jnp.arange(streams))
""",
    }},
    # -- one style each ------------------------------------------------------------------------
    {"name": "scan-in-a-stream", "cells": {
        "jax-hits": jax_hits("""    def draw(hits, key):
        x, y = jax.random.uniform(key, (2,), minval=-1.0, maxval=1.0)
        return hits + (x * x + y * y < 1), None

    hits, _ = jax.lax.scan(draw, 0, jax.random.split(key, points))
    return hits
""")}},
    {"name": "while-in-a-stream", "cells": {
        "jax-hits": jax_hits("""    def draw(state):
        i, hits, key = state
        key, now = jax.random.split(key)
        x, y = jax.random.uniform(now, (2,), minval=-1.0, maxval=1.0)
        return i + 1, hits + jnp.where(x * x + y * y < 1, 1, 0), key

    return jax.lax.while_loop(lambda state: state[0] < points, draw, (0, 0, key))[1]
""")}},
    {"name": "fori-loop", "cells": {
        "jax-hits": jax_hits("""    def draw(i, hits):
        x, y = jax.random.uniform(jax.random.fold_in(key, i), (2,), minval=-1.0, maxval=1.0)
        return jax.lax.cond(x * x + y * y < 1, lambda n: n + 1, lambda n: n, hits)

    return jax.lax.fori_loop(0, points, draw, 0)
""")}},
    # Both coordinates from one number, added up with an operation of its own.
    {"name": "one-number-for-both", "cells": {
        "jax-hits": jax_hits("""    drawn = jax.random.bits(key, (points,), jnp.uint32)
    x, y = ((half / 32768.0 - 1.0) for half in (drawn >> 16, drawn & 0xFFFF))
    inside = (x * x + y * y < 1.0).astype(jnp.int32)
    return jax.lax.reduce(inside, jnp.int32(0), lambda a, b: a + b, (0,))
""")}},
    {"name": "segment-sum", "cells": {
        "jax-hits": all_at_once(
            "jax.ops.segment_sum(inside.astype(int), stream, num_segments=streams)")}},
    {"name": "bincount", "cells": {
        "jax-hits": all_at_once(
            "jnp.bincount(stream, weights=inside.astype(int), length=streams).astype(jnp.int32)")}},
    {"name": "shuffles", "cells": {
        "add-hits": add_hits_by_warps(""),
        # The hits of a warp are added up before they travel.
        "count-points": """@cuda.jit
def count_points(seed, first, n, x0, x1, y0, y1, total):
    count = int64(0)
    for i in range(first + cuda.grid(1), first + n, cuda.gridsize(1)):
        w = philox(uint32(i), uint32(i >> 32), uint32(0), uint32(0), uint32(seed), uint32(seed >> 32))
        count += inside(x0 + (x1 - x0) * (w[0] * 2.0**-32), y0 + (y1 - y0) * (w[1] * 2.0**-32))
    together = cuda.activemask()
    for distance in (16, 8, 4, 2, 1):
        other = cuda.shfl_down_sync(together, count, distance)
        if cuda.laneid + distance < cuda.popc(together):
            count += other
    if cuda.laneid == 0:
        cuda.atomic.add(total, 0, count)
"""}},
    {"name": "interleaved-tree", "cells": {
        "add-hits": """@cuda.jit
def add_hits(hits, total):
    s = cuda.shared.array(1024, np.int64)
    t, T = cuda.threadIdx.x, cuda.blockDim.x
    s[t] = 0
    for i in range(cuda.grid(1), len(hits), cuda.gridsize(1)):
        s[t] += hits[i]
    cuda.syncthreads()
    step = 1
    while step < T:
        left = 2 * step * t
        if left + step < T:
            s[left] += s[left + step]
        cuda.syncthreads()
        step *= 2
    if t == 0:
        cuda.atomic.add(total, 0, s[0])
""",
        "neighbour-z": """def neighbour_z(streams, lag):
    draws = streams.shape[1] - lag
    u, v = streams[:-1, lag:] - 0.5, streams[1:, :draws] - 0.5
    return 12 * np.einsum("ij,ij", u, v) / np.sqrt(u.size)
"""}},
    {"name": "several-each", "cells": {
        "add-hits": """@cuda.jit
def add_hits(hits, total):
    partial = cuda.shared.array(MAX_THREADS, int64)
    t = cuda.threadIdx.x
    own = int64(0)
    for first in range(4 * cuda.grid(1), hits.size, 4 * cuda.gridsize(1)):
        for i in range(first, min(first + 4, hits.size)):
            own += hits[i]
    partial[t] = own
    cuda.syncthreads()
    distance = 512
    while distance > 0:
        if t < distance and t + distance < cuda.blockDim.x:
            partial[t] += partial[t + distance]
        cuda.syncthreads()
        distance //= 2
    if t == 0:
        cuda.atomic.add(total, 0, partial[0])
""",
        "count-points": """@cuda.jit
def count_points(seed, first, n, x0, x1, y0, y1, total):
    each = (n + cuda.gridsize(1) - 1) // cuda.gridsize(1)
    begin = cuda.grid(1) * each
    for i in range(first + begin, first + min(begin + each, n)):
        w = philox(uint32(i), uint32(i >> 32), uint32(0), uint32(0), uint32(seed), uint32(seed >> 32))
        if inside(x0 + (x1 - x0) * w[0] / 2**32, y0 + (y1 - y0) * w[1] / 2**32):
            cuda.atomic.add(total, 0, 1)
""",
        "count-hits": """@cuda.jit
def count_hits(states, points, x0, x1, y0, y1, hits):
    for t in range(cuda.grid(1), states.size, cuda.gridsize(1)):
        hits[t] = 0
        left = points
        while left > 0:
            x = xoroshiro128p_uniform_float64(states, t) * (x1 - x0) + x0
            y = xoroshiro128p_uniform_float64(states, t) * (y1 - y0) + y0
            hits[t] += 1 if inside(x, y) else 0
            left -= 1
"""}},
    {"name": "cuda-reduce", "cells": {
        "sample-disc": """@cuda.reduce
def added(a, b):
    return a + b


@cuda.jit
def widen(hits, wide):
    i = cuda.grid(1)
    if i < wide.size:
        wide[i] = hits[i]


def sample_disc(seed, threads, points):
    grid = math.ceil(threads / 64)
    states = cuda.device_array(threads, xoroshiro128p_dtype)
    hits = cuda.device_array(threads, np.int32)
    wide = cuda.device_array(threads, np.int64)
    seed_states[grid, 64](seed, states)
    count_hits[grid, 64](states, points, -1.0, 1.0, -1.0, 1.0, hits)
    widen[grid, 64](hits, wide)
    return int(added(wide))
"""}},
    {"name": "cuda-c++", "cells": {
        "sample-disc": """import cupy as cp

ADD = cp.RawKernel(r'''
extern "C" __global__ void add(const int* hits, int n, unsigned long long* total) {
    unsigned long long own = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        own += hits[i];
    for (int distance = 16; distance > 0; distance /= 2)
        own += __shfl_xor_sync(0xffffffff, own, distance);
    if (threadIdx.x % 32 == 0) atomicAdd(total, own);
}''', "add")


def sample_disc(seed, threads, points):
    states = cuda.device_array(threads, xoroshiro128p_dtype)
    hits, total = cp.empty(threads, cp.int32), cp.zeros(1, cp.uint64)
    seed_states[(threads + 127) // 128, 128](seed, states)
    count_hits[(threads + 127) // 128, 128](states, points, -1.0, 1.0, -1.0, 1.0, hits)
    ADD((4,), (128,), (hits, np.int32(threads), total))
    return int(total[0])
"""}},
    {"name": "unoptimised", "cells": {
        "add-hits": add_hits_by_warps("debug=True, opt=False"),
        "count-hits": """@cuda.jit(debug=True, opt=False)
def count_hits(states, points, x0, x1, y0, y1, hits):
    t = cuda.grid(1)
    if t < states.size:
        count = 0
        for _ in range(points):
            x = x0 + (x1 - x0) * xoroshiro128p_uniform_float64(states, t)
            y = y0 + (y1 - y0) * xoroshiro128p_uniform_float64(states, t)
            if inside(x, y):
                count += 1
        hits[t] = count
""",
        "seed-states": """@cuda.jit(debug=True, opt=False)
def seed_states(seed, states):
    t = cuda.grid(1)
    if t < states.size:
        first = uint64(seed) + (uint64(2) * uint64(t) + uint64(1)) * GOLDEN
        states[t]["s0"] = splitmix64(first)
        states[t]["s1"] = splitmix64(first + GOLDEN)
"""}},
    {"name": "complex-numbers", "cells": {
        "in-mandelbrot": """@cuda.jit(device=True)
def in_mandelbrot(cx, cy, limit):
    c, tortoise, hare = complex(cx, cy), 0j, 0j
    for _ in range(limit):
        tortoise = tortoise * tortoise + c
        hare = hare * hare + c
        hare = hare * hare + c
        if hare.real * hare.real + hare.imag * hare.imag > 4.0:
            return 0
        if hare == tortoise:
            return 1
    return 2


@cuda.jit
def classify(cx, cy, limit, kinds):
    i = cuda.grid(1)
    if i < kinds.size:
        kinds[i] = in_mandelbrot(cx[i], cy[i], limit)
""",
        "mandelbrot-hits": """@cuda.jit
def mandelbrot_hits(seed, first, n, limit, total):
    mine = cuda.shared.array(1, int64)
    if cuda.threadIdx.x == 0:
        mine[0] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    while i < n:
        k = first + i
        w = philox(uint32(k), uint32(k >> 32), uint32(0), uint32(0), uint32(seed), uint32(seed >> 32))
        if in_mandelbrot(-2.0 + 2.5 * w[0] / 2**32, 1.25 * w[1] / 2**32, limit) != 0:
            cuda.atomic.add(mine, 0, 1)
        i += cuda.gridsize(1)
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(total, 0, mine[0])
"""}},
]
