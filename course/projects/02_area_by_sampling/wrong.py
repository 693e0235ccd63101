"""Wrong answers that people really give, each with the reason that the grader must find.

``fails`` lists every test cell that must fail; the reason of the first must contain ``reason``.
Cells that are not named are those of the solution. A mistake in one or two places is written as the
solution with these changed, ``changed(cell, old, new)``; an answer that goes about it in another way
is written out.
"""

from gpucourse.course.edited import edits_beside

changed = edits_beside(__file__)

# Stands below `philox` in its cell and is given to the learner.
BLOCKS = '''

@cuda.jit
def philox_blocks(counters, keys, words):
    i = cuda.grid(1)
    if i < words.shape[0]:
        c, k = counters[i], keys[i]
        a, b, c, d = philox(c[0], c[1], c[2], c[3], k[0], k[1])
        words[i, 0], words[i, 1], words[i, 2], words[i, 3] = a, b, c, d
'''

# The same below `in_mandelbrot`.
CLASSIFY = '''

@cuda.jit
def classify(cx, cy, limit, kinds):
    i = cuda.grid(1)
    if i < kinds.size:
        kinds[i] = in_mandelbrot(cx[i], cy[i], limit)
'''


def philox(rounds="10", step="k0 = uint32(k0 + uint32(0x9E3779B9))", low="uint32(p0)"):
    """The solution's `philox`, with one thing or another about it changed."""
    return f'''@cuda.jit(device=True)
def philox(c0, c1, c2, c3, k0, k1):
    for _ in range({rounds}):
        p0 = uint64(0xD2511F53) * uint64(c0)
        p1 = uint64(0xCD9E8D57) * uint64(c2)
        c0, c1, c2, c3 = (
            uint32(p1 >> uint64(32)) ^ uint32(c1) ^ uint32(k0), uint32(p1),
            uint32(p0 >> uint64(32)) ^ uint32(c3) ^ uint32(k1), {low},
        )
        {step}
        k1 = uint32(k1 + uint32(0xBB67AE85))
    return c0, c1, c2, c3
''' + BLOCKS


def count_hits(x, y, index="t", guard="if t < states.size:"):
    """The solution's `count_hits` with other coordinates, stream or guard."""
    return f'''@cuda.jit
def count_hits(states, points, x0, x1, y0, y1, hits):
    t = cuda.grid(1)
    {guard}
        count = 0
        for _ in range(points):
            u = xoroshiro128p_uniform_float64(states, {index})
            v = xoroshiro128p_uniform_float64(states, {index})
            if inside({x}, {y}):
                count += 1
        hits[t] = count
'''


def add_hits(dtype="int64", barrier="cuda.syncthreads()", half="(active + 1) // 2",
             partner="t + half < active"):
    """The solution's `add_hits` with another type, barrier or tree."""
    return f'''@cuda.jit
def add_hits(hits, total):
    partial = cuda.shared.array(MAX_THREADS, {dtype})
    t = cuda.threadIdx.x
    own = int64(0)
    for i in range(cuda.grid(1), hits.size, cuda.gridsize(1)):
        own += hits[i]
    partial[t] = own
    active = cuda.blockDim.x
    while active > 1:
        {barrier}
        half = {half}
        if {partner}:
            partial[t] += partial[t + half]
        active = half
    if t == 0:
        cuda.atomic.add(total, 0, int64(partial[0]))
'''


def mandelbrot(name="mandelbrot_hits", counts="in_mandelbrot(cx, cy, limit) > 0", before=""):
    """A kernel that decides one point after the other, and what it does before."""
    return f'''@cuda.jit
def {name}(seed, first, n, limit, total):{before}
    count = 0
    for i in range(first + cuda.grid(1), first + n, cuda.gridsize(1)):
        words = philox(uint32(i), uint32(i >> 32), uint32(0), uint32(0),
                       uint32(seed), uint32(seed >> 32))
        cx = -2.0 + 2.5 * (words[0] * 2.0**-32)
        cy = 1.25 * (words[1] * 2.0**-32)
        if {counts}:
            count += 1
    cuda.atomic.add(total, 0, count)
'''


def runners(hare_again="hx, hy = hx * hx - hy * hy + cx, 2.0 * hx * hy + cy", lost="4.0",
            met="hx == tx and hy == ty"):
    """The solution's `in_mandelbrot` with another hare, radius or meeting."""
    return f'''@cuda.jit(device=True)
def in_mandelbrot(cx, cy, limit):
    tx = ty = hx = hy = 0.0
    for _ in range(limit):
        tx, ty = tx * tx - ty * ty + cx, 2.0 * tx * ty + cy
        hx, hy = hx * hx - hy * hy + cx, 2.0 * hx * hy + cy
        {hare_again}
        if hx * hx + hy * hy > {lost}:
            return 0
        if {met}:
            return 1
    return 2
''' + CLASSIFY


WRONG = [
    # -- streams -------------------------------------------------------------------------------
    {
        "name": "products-of-raw-numbers",
        "kind": "mean not subtracted",
        "fails": ["test-neighbour-z", "test-diagnose"],
        "reason": "do you subtract 1/2 first",
        "cells": {"neighbour-z": '''def neighbour_z(streams, lag):
    u = streams[:-1, lag:]
    v = streams[1:, : streams.shape[1] - lag]
    return float(12 * np.sum(u * v) / math.sqrt(u.size))
'''},
    },
    {
        "name": "lag-in-the-wrong-thread",
        "kind": "off by one thread",
        "fails": ["test-neighbour-z", "test-diagnose"],
        "reason": "z is not near √n where stream t + 1 repeats stream t",
        "cells": {"neighbour-z": '''def neighbour_z(streams, lag):
    u = streams[:-1, : streams.shape[1] - lag] - 0.5
    v = streams[1:, lag:] - 0.5
    return float(12 * np.sum(u * v) / math.sqrt(u.size))
'''},
    },
    {
        "name": "two-sigma-is-guilty",
        "kind": "threshold that ignores how often it is asked",
        "fails": ["test-diagnose"],
        # Of one good specimen in four it says so by luck; then it fails at a weak one.
        "reason": "are diagnosed as something else",
        "cells": {"diagnose": '''def diagnose(streams):
    threads, draws = streams.shape
    z = [abs(neighbour_z(streams, lag)) for lag in range(33)]
    if z[0] > 0.5 * math.sqrt((threads - 1) * draws):
        return "same"
    if max(z[1:]) > 2:
        return "overlap"
    first = (streams[:, 0].mean() - 0.5) * math.sqrt(12 * threads)
    return "weak" if abs(first) > 6 else "good"
'''},
    },
    {
        "name": "only-the-next-lag",
        "kind": "overlapping sequences",
        "fails": ["test-diagnose"],
        "reason": "kind “overlap” are diagnosed as something else",
        "cells": {"diagnose": '''def diagnose(streams):
    threads, draws = streams.shape
    half = 0.5 * math.sqrt((threads - 1) * draws)
    if neighbour_z(streams, 0) > half:
        return "same"
    if neighbour_z(streams, 1) > half:
        return "overlap"
    first = (streams[:, 0].mean() - 0.5) * math.sqrt(12 * threads)
    return "weak" if abs(first) > 6 else "good"
'''},
    },
    # -- states --------------------------------------------------------------------------------
    {
        "name": "one-seed-for-all-threads",
        "kind": "same seed per thread",
        "fails": ["test-seed-states", "test-sample-disc"],
        "reason": "all threads get the same state",
        "cells": changed("seed-states", '''        first = uint64(seed) + (uint64(2) * uint64(t) + uint64(1)) * GOLDEN
        states[t]["s0"] = splitmix64(first)
        states[t]["s1"] = splitmix64(first + GOLDEN)''',
            '''        states[t]["s0"] = splitmix64(uint64(seed) + GOLDEN)
        states[t]["s1"] = splitmix64(uint64(seed) + uint64(2) * GOLDEN)'''),
    },
    {
        "name": "seed-plus-thread",
        "kind": "seeds 0, 1, 2, … unmixed",
        "fails": ["test-seed-states", "test-sample-disc"],
        "reason": "neighbouring threads get nearly the same bits",
        "cells": changed("seed-states", '''        first = uint64(seed) + (uint64(2) * uint64(t) + uint64(1)) * GOLDEN
        states[t]["s0"] = splitmix64(first)
        states[t]["s1"] = splitmix64(first + GOLDEN)''',
            '''        states[t]["s0"] = uint64(seed) + uint64(t)
        states[t]["s1"] = GOLDEN'''),
    },
    {
        "name": "signed-times-unsigned",
        "kind": "signed in place of unsigned",
        "fails": ["test-seed-states", "test-sample-disc"],
        "reason": "is every step in uint64",
        "cells": changed("seed-states", '''        first = uint64(seed) + (uint64(2) * uint64(t) + uint64(1)) * GOLDEN
        states[t]["s0"] = splitmix64(first)
        states[t]["s1"] = splitmix64(first + GOLDEN)''',
            '''        states[t]["s0"] = splitmix64(seed + (2 * t + 1) * GOLDEN)
        states[t]["s1"] = splitmix64(seed + (2 * t + 2) * GOLDEN)'''),
    },
    {
        "name": "one-thread-makes-all-states",
        "kind": "one thread does everything",
        "fails": ["test-seed-states"],
        "reason": "one thread does the work of many",
        "cells": {"seed-states": '''@cuda.jit
def seed_states(seed, states):
    if cuda.grid(1) == 0:
        for t in range(states.size):
            first = uint64(seed) + (uint64(2) * uint64(t) + uint64(1)) * GOLDEN
            states[t]["s0"] = splitmix64(first)
            states[t]["s1"] = splitmix64(first + GOLDEN)
'''},
    },
    # -- points --------------------------------------------------------------------------------
    {
        "name": "one-number-for-x-and-y",
        "kind": "correlated x and y",
        "fails": ["test-count-hits", "test-sample-disc"],
        "reason": "as if x and y were the same number",
        "cells": {"count-hits": count_hits("x0 + (x1 - x0) * u", "y0 + (y1 - y0) * u")},
    },
    {
        "name": "quarter-circle",
        "kind": "quarter circle",
        "fails": ["test-count-hits"],
        "reason": "wrong for a box that is not centred on 0",
        # As good as the whole disc in the box from -1 to 1, and in no other.
        "cells": {"count-hits": count_hits("u", "v")},
    },
    {
        "name": "corner-forgotten",
        "kind": "biased ranges",
        "fails": ["test-count-hits", "test-sample-disc"],
        "reason": "the fraction of hits in the box from -1 to 1 is not π/4",
        "cells": {"count-hits": count_hits("(x1 - x0) * u", "(y1 - y0) * v")},
    },
    {
        "name": "state-not-written-back",
        "kind": "state not written back",
        "fails": ["test-written-back"],
        "reason": "the next launch draws the same points again",
        "cells": {"count-hits": '''from numba.cuda.random import xoroshiro128p_type


@cuda.jit
def count_hits(states, points, x0, x1, y0, y1, hits):
    t = cuda.grid(1)
    if t < states.size:
        own = cuda.local.array(1, xoroshiro128p_type)
        own[0] = states[t]
        count = 0
        for _ in range(points):
            x = x0 + (x1 - x0) * xoroshiro128p_uniform_float64(own, 0)
            y = y0 + (y1 - y0) * xoroshiro128p_uniform_float64(own, 0)
            if inside(x, y):
                count += 1
        hits[t] = count
'''},
    },
    {
        "name": "one-state-for-all-threads",
        "kind": "race",
        "fails": ["test-count-hits", "test-written-back", "test-sample-disc"],
        "reason": "race",
        "cells": {"count-hits": count_hits("x0 + (x1 - x0) * u", "y0 + (y1 - y0) * v", index="0")},
    },
    {
        "name": "no-guard",
        "kind": "out of bounds",
        "fails": ["test-count-hits", "test-written-back", "test-sample-disc"],
        "reason": "outside",
        "cells": {"count-hits": count_hits("x0 + (x1 - x0) * u", "y0 + (y1 - y0) * v",
                                           guard="if True:")},
    },
    {
        "name": "one-thread-draws-for-its-block",
        "kind": "one thread of each block does everything",
        "fails": ["test-count-hits"],
        "reason": "one thread does the work of many",
        "cells": {"count-hits": '''@cuda.jit
def count_hits(states, points, x0, x1, y0, y1, hits):
    if cuda.threadIdx.x == 0:
        for t in range(cuda.blockIdx.x, states.size, cuda.gridDim.x):
            count = 0
            for _ in range(points):
                x = x0 + (x1 - x0) * xoroshiro128p_uniform_float64(states, t)
                y = y0 + (y1 - y0) * xoroshiro128p_uniform_float64(states, t)
                if inside(x, y):
                    count += 1
            hits[t] = count
'''},
    },
    {
        "name": "one-thread-in-eight-draws",
        "kind": "some threads do the work of all",
        "fails": ["test-count-hits"],
        "reason": "one thread does the work of many",
        "cells": {"count-hits": '''@cuda.jit
def count_hits(states, points, x0, x1, y0, y1, hits):
    if cuda.grid(1) % 8 == 0:
        for t in range(cuda.grid(1), min(cuda.grid(1) + 8, states.size)):
            count = 0
            for _ in range(points):
                x = x0 + (x1 - x0) * xoroshiro128p_uniform_float64(states, t)
                y = y0 + (y1 - y0) * xoroshiro128p_uniform_float64(states, t)
                if inside(x, y):
                    count += 1
            hits[t] = count
'''},
    },
    {
        "name": "one-thread-in-eight-draws-except-in-a-launch-it-knows",
        "kind": "threads that look busy",
        "fails": ["test-count-hits"],
        "reason": "one thread does the work of many",
        # The others mix bits for nothing. Four blocks of 128 are the launch in which this was once counted.
        "cells": {"count-hits": '''@cuda.jit
def count_hits(states, points, x0, x1, y0, y1, hits):
    me = cuda.grid(1)
    known = cuda.gridDim.x == 4 and cuda.blockDim.x == 128 or cuda.gridsize(1) == 1
    first, last = (me, me + 1) if known else (me, me + 8 if me % 8 == 0 else me)
    for t in range(first, min(last, states.size)):
        count = 0
        for _ in range(points):
            x = x0 + (x1 - x0) * xoroshiro128p_uniform_float64(states, t)
            y = y0 + (y1 - y0) * xoroshiro128p_uniform_float64(states, t)
            if inside(x, y):
                count += 1
        hits[t] = count
    if first == last:
        z = uint64(me)
        for _ in range(64 * points):
            z = splitmix64(z)
        if z == uint64(1):
            hits[0] = 1
'''},
    },
    {
        "name": "one-thread-in-eight-draws-and-a-thread-alone-wastes-time",
        "kind": "threads that look busy",
        "fails": ["test-count-hits"],
        "reason": "one thread does the work of many",
        "cells": {"count-hits": '''@cuda.jit
def count_hits(states, points, x0, x1, y0, y1, hits):
    me = cuda.grid(1)
    wasted = 0 if me % 8 == 0 else 64 * points
    if cuda.gridsize(1) == 1:
        wasted = 64 * points
    if me % 8 == 0:
        for t in range(me, min(me + 8, states.size)):
            count = 0
            for _ in range(points):
                x = x0 + (x1 - x0) * xoroshiro128p_uniform_float64(states, t)
                y = y0 + (y1 - y0) * xoroshiro128p_uniform_float64(states, t)
                if inside(x, y):
                    count += 1
            hits[t] = count
    z = uint64(me)
    for _ in range(wasted):
        z = splitmix64(z)
    if z == uint64(1):
        hits[0] = 1
'''},
    },
    # -- sums ----------------------------------------------------------------------------------
    {
        "name": "int32-in-shared-memory",
        "kind": "int32 counter overflow",
        "fails": ["test-add-hits"],
        "reason": "32 bits are not enough",
        "cells": {"add-hits": add_hits(dtype="np.int32")},
    },
    {
        "name": "float32-in-shared-memory",
        "kind": "float32 counter overflow",
        "fails": ["test-add-hits"],
        "reason": "count in integers, not in floats",
        "cells": {"add-hits": add_hits(dtype="np.float32")},
    },
    {
        "name": "no-barrier-in-the-tree",
        "kind": "missing barrier",
        "fails": ["test-add-hits", "test-sample-disc"],
        "reason": "race",
        "cells": {"add-hits": add_hits(barrier="pass")},
    },
    {
        "name": "halves-rounded-down",
        "kind": "power-of-two only",
        "fails": ["test-add-hits"],
        "reason": "not a power of two",
        "cells": {"add-hits": add_hits(half="active // 2", partner="t < half")},
    },
    {
        "name": "an-atomic-for-each-thread",
        "kind": "correct but with one global atomic per thread",
        "fails": ["test-add-hits"],
        "reason": "more than one atomic addition for each block",
        "cells": {"add-hits": '''@cuda.jit
def add_hits(hits, total):
    for i in range(cuda.grid(1), hits.size, cuda.gridsize(1)):
        cuda.atomic.add(total, 0, int64(hits[i]))
'''},
    },
    {
        "name": "one-thread-adds-for-its-block",
        "kind": "one thread of each block does everything",
        "fails": ["test-add-hits", "test-sample-disc"],
        "reason": "one thread does the work of many",
        "cells": {"add-hits": '''@cuda.jit
def add_hits(hits, total):
    if cuda.threadIdx.x == 0:
        own = int64(0)
        for i in range(cuda.blockIdx.x, hits.size, cuda.gridDim.x):
            own += hits[i]
        cuda.atomic.add(total, 0, own)
'''},
    },
    {
        "name": "one-thread-adds-the-sums",
        "kind": "one thread of each block does everything",
        "fails": ["test-add-hits"],
        "reason": "one thread does the work of many",
        "cells": {"add-hits": '''@cuda.jit
def add_hits(hits, total):
    partial = cuda.shared.array(MAX_THREADS, int64)
    own = int64(0)
    for i in range(cuda.grid(1), hits.size, cuda.gridsize(1)):
        own += hits[i]
    partial[cuda.threadIdx.x] = own
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        for k in range(1, cuda.blockDim.x):
            own += partial[k]
        cuda.atomic.add(total, 0, own)
'''},
    },
    {
        "name": "hits-queue-at-one-address",
        "kind": "an atomic for each thread in place of a tree",
        "fails": ["test-add-hits"],
        "reason": "threads queue at one address",
        "cells": {"add-hits": '''@cuda.jit
def add_hits(hits, total):
    s = cuda.shared.array(1, dtype=np.int64)
    if cuda.threadIdx.x == 0:
        s[0] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), hits.size, cuda.gridsize(1)):
        cuda.atomic.add(s, 0, int64(hits[i]))
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(total, 0, s[0])
'''},
    },
    {
        "name": "lanes-hand-on-their-sums",
        "kind": "a queue of shuffles in place of a tree",
        "fails": ["test-add-hits"],
        "reason": "the lanes of a warp pass on their numbers one after the other",
        "cells": {"add-hits": '''@cuda.jit
def add_hits(hits, total):
    sums = cuda.shared.array(32, int64)
    t, T = cuda.threadIdx.x, cuda.blockDim.x
    lanes = min(32, T - t // 32 * 32)
    own = int64(0)
    for i in range(cuda.grid(1), hits.size, cuda.gridsize(1)):
        own += hits[i]
    added = own
    for lane in range(1, lanes):
        added += cuda.shfl_sync((1 << lanes) - 1, own, lane)
    if t % 32 == 0:
        sums[t // 32] = added
    cuda.syncthreads()
    if t == 0:
        for warp in range(1, (T + 31) // 32):
            added += sums[warp]
        cuda.atomic.add(total, 0, added)
'''},
    },
    {
        "name": "one-warp-adds-for-its-block",
        "kind": "some threads do the work of all",
        "fails": ["test-add-hits"],
        "reason": "one thread does the work of many",
        "cells": {"add-hits": '''@cuda.jit
def add_hits(hits, total):
    partial = cuda.shared.array(32, int64)
    t, active = cuda.threadIdx.x, min(cuda.blockDim.x, 32)
    if t < 32:
        own = int64(0)
        for i in range(active * cuda.blockIdx.x + t, hits.size, active * cuda.gridDim.x):
            own += hits[i]
        partial[t] = own
    while active > 1:
        cuda.syncthreads()
        half = (active + 1) // 2
        if t + half < active:
            partial[t] += partial[t + half]
        active = half
    if t == 0:
        cuda.atomic.add(total, 0, partial[0])
'''},
    },
    # -- π -------------------------------------------------------------------------------------
    {
        "name": "seed-that-is-not-used",
        "kind": "same seed in every run",
        "fails": ["test-sample-disc"],
        "reason": "another seed gives the same number of hits",
        "cells": {"sample-disc": '''def sample_disc(seed, threads, points):
    grid = math.ceil(threads / 128)
    states = cuda.device_array(threads, xoroshiro128p_dtype)
    hits = cuda.device_array(threads, np.int32)
    total = cuda.to_device(np.zeros(1, np.int64))
    seed_states[grid, 128](1, states)
    count_hits[grid, 128](states, points, -1.0, 1.0, -1.0, 1.0, hits)
    add_hits[grid, 128](hits, total)
    return int(total.copy_to_host()[0])
'''},
    },
    {
        "name": "numpy-in-a-costume",
        "kind": "NumPy in place of a kernel",
        "fails": ["test-sample-disc"],
        "reason": "was computed on the host",
        "cells": {"sample-disc": '''def sample_disc(seed, threads, points):
    x, y = np.random.default_rng(seed).uniform(-1, 1, (2, threads * points))
    return int(np.count_nonzero(x * x + y * y < 1))
'''},
    },
    {
        "name": "copies-what-numpy-drew",
        "kind": "NumPy, then a kernel that copies",
        "fails": ["test-sample-disc"],
        "reason": "the hits are not those of the seed, or the states, that are on the device",
        # The kernels of steps 2 to 4 run as well, and nothing comes of it.
        "cells": {"sample-disc": '''@cuda.jit
def copy(counted, total):
    total[0] = counted


def sample_disc(seed, threads, points):
    grid = math.ceil(threads / 128)
    states = cuda.device_array(threads, xoroshiro128p_dtype)
    hits = cuda.device_array(threads, np.int32)
    total = cuda.to_device(np.zeros(1, np.int64))
    seed_states[grid, 128](seed, states)
    count_hits[grid, 128](states, points, -1.0, 1.0, -1.0, 1.0, hits)
    add_hits[grid, 128](hits, total)
    x, y = np.random.default_rng(seed).uniform(-1, 1, (2, threads * points))
    copy[1, 1](int(np.count_nonzero(x * x + y * y < 1)), total)
    return int(total.copy_to_host()[0])
'''},
    },
    {
        "name": "kernels-in-name-only",
        "kind": "kernels of the right names that compute nothing",
        "fails": ["test-sample-disc"],
        "reason": "count_hits and add_hits have to do the work",
        # As many hits as chance would give, from one random number.
        "cells": {"sample-disc": '''def in_name_only():
    @cuda.jit
    def count_hits(seed, mean, width, hits):
        bits = splitmix64(uint64(seed))
        u = ((bits >> uint64(32)) + 0.5) * 2.0**-32
        v = ((bits & uint64(0xFFFFFFFF)) + 0.5) * 2.0**-32
        normal = math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * v)
        hits[0] = int64(mean + width * normal)

    @cuda.jit
    def add_hits(hits, total):
        total[0] = hits[0]

    return count_hits, add_hits


FIRST, SECOND = in_name_only()


def sample_disc(seed, threads, points):
    hits = cuda.device_array(1, np.int64)
    total = cuda.device_array(1, np.int64)
    n, p = threads * points, math.pi / 4
    FIRST[1, 1](seed, n * p, math.sqrt(n * p * (1 - p)), hits)
    SECOND[1, 1](hits, total)
    return int(total.copy_to_host()[0])
'''},
    },
    {
        "name": "kernels-that-spin-and-draw-no-points",
        "kind": "kernels of the right names that compute nothing",
        "fails": ["test-sample-disc"],
        "reason": "the hits are not those that count_hits finds with the seed",
        # The same, made of the device's states, with the instructions that points would take.
        "cells": {"sample-disc": '''@cuda.jit
def likely(states, points, total):
    t = cuda.grid(1)
    spun = 0
    if t < states.size:
        for i in range(8 * points):
            spun = (spun * 5 + i) & 1023
    if t == 0:
        bits = splitmix64(states[0]["s0"])
        u = ((bits >> uint64(32)) + 0.5) * 2.0**-32
        v = ((bits & uint64(0xFFFFFFFF)) + 0.5) * 2.0**-32
        normal = math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * v)
        n = states.size * points
        total[0] = int64(n * 0.7853981633974483 + normal * math.sqrt(n * 0.16854788))
    elif points < 0:
        total[0] = spun


def sample_disc(seed, threads, points):
    states = cuda.device_array(threads, xoroshiro128p_dtype)
    total = cuda.to_device(np.zeros(1, np.int64))
    seed_states[math.ceil(threads / 128), 128](seed, states)
    likely[math.ceil(threads / 128), 128](states, points, total)
    return int(total.copy_to_host()[0])
'''},
    },
    {
        "name": "samples-a-quarter-of-the-box",
        "kind": "quarter circle",
        "fails": ["test-sample-disc"],
        # As many hits as in the whole box, on average; the kernels count them, so nothing is copied.
        "reason": "is the box from -1 to 1 in both directions",
        "cells": changed("sample-disc", "points, -1.0, 1.0, -1.0, 1.0, hits", "points, 0.0, 1.0, 0.0, 1.0, hits"),
    },
    {
        "name": "picks-numpys-hits-from-a-table",
        "kind": "NumPy, and a table from a kernel",
        "fails": ["test-sample-disc"],
        "reason": "the hits are not those of the seed, or the states, that are on the device",
        # NumPy's generator begins with what comes back of the states after the last launch.
        "cells": {"sample-disc": '''@cuda.jit
def tabulate(states, points, table):
    t, spun = cuda.grid(1), 0
    for i in range(8 * points):
        spun = (spun * 5 + i) & 1023
    for i in range(t, table.size, cuda.gridsize(1)):
        table[i] = i
    if points < 0:
        table[0] = spun


def sample_disc(seed, threads, points):
    states = cuda.device_array(threads, xoroshiro128p_dtype)
    table = cuda.device_array(65536, np.int32)
    seed_states[math.ceil(threads / 128), 128](seed, states)
    tabulate[math.ceil(threads / 128), 128](states, points, table)
    there = states.copy_to_host().view(np.uint64)[:8]
    table.copy_to_host()
    return int(np.random.default_rng(there).binomial(threads * points, math.pi / 4))
'''},
    },
    {
        "name": "samples-in-blocks-of-one-thread",
        "kind": "blocks of a few threads",
        "fails": ["test-sample-disc"],
        "reason": "blocks of fewer than 32 threads",
        "cells": {"sample-disc": '''def sample_disc(seed, threads, points):
    states = cuda.device_array(threads, xoroshiro128p_dtype)
    hits = cuda.device_array(threads, np.int32)
    total = cuda.to_device(np.zeros(1, np.int64))
    seed_states[threads, 1](seed, states)
    count_hits[threads, 1](states, points, -1.0, 1.0, -1.0, 1.0, hits)
    add_hits[32, 32](hits, total)
    return int(total.copy_to_host()[0])
'''},
    },
    {
        "name": "square-root-of-hits",
        "kind": "Poisson for a binomial",
        "fails": ["test-estimate"],
        "reason": "the error is √(p / n)",
        "cells": {"estimate": '''def estimate(hits, n, box_area):
    return box_area * hits / n, box_area * math.sqrt(hits) / n
'''},
    },
    {
        "name": "error-of-the-fraction",
        "kind": "error not scaled with the box",
        "fails": ["test-estimate"],
        "reason": "the standard error is wrong",
        "cells": changed("estimate", "box_area * math", "math"),
    },
    # -- Philox --------------------------------------------------------------------------------
    {
        "name": "nine-rounds",
        "kind": "off by one round",
        "fails": ["test-philox", "test-count-points", "test-mandelbrot-hits",
                  "test-mandelbrot-fast"],
        "reason": "the words after nine rounds",
        "cells": {"philox": philox(rounds="9")},
    },
    {
        "name": "key-left-alone",
        "kind": "key schedule left out",
        "fails": ["test-philox", "test-count-points", "test-mandelbrot-hits",
                  "test-mandelbrot-fast"],
        "reason": "the key is the same in all rounds",
        "cells": {"philox": philox(step="k1 = uint32(k1 - uint32(0xBB67AE85))")},
    },
    {
        "name": "upper-half-twice",
        "kind": "words mixed up",
        "fails": ["test-philox", "test-count-points", "test-mandelbrot-hits",
                  "test-mandelbrot-fast"],
        "reason": "wrong for the counter 0 and the key 0",
        "cells": {"philox": philox(low="uint32(p0 >> uint64(32))")},
    },
    {
        "name": "thread-for-point",
        "kind": "result depends on the launch",
        "fails": ["test-count-points"],
        "reason": "the counter is the number of the point",
        "cells": {"count-points": '''@cuda.jit
def count_points(seed, first, n, x0, x1, y0, y1, total):
    count = 0
    t = cuda.grid(1)
    k = 0
    for i in range(t, n, cuda.gridsize(1)):
        words = philox(uint32(first + t), uint32(k), uint32(0), uint32(0),
                       uint32(seed), uint32(seed >> 32))
        k += 1
        if inside(x0 + (x1 - x0) * (words[0] * 2.0**-32), y0 + (y1 - y0) * (words[1] * 2.0**-32)):
            count += 1
    cuda.atomic.add(total, 0, count)
'''},
    },
    {
        "name": "four-billion-points",
        "kind": "hard-coded size",
        "fails": ["test-count-points"],
        "reason": "the high bits of a point's number are left out",
        "cells": {"count-points": '''@cuda.jit
def count_points(seed, first, n, x0, x1, y0, y1, total):
    for i in range(first + cuda.grid(1), first + n, cuda.gridsize(1)):
        words = philox(uint32(i), uint32(0), uint32(0), uint32(0),
                       uint32(seed), uint32(seed >> 32))
        if inside(x0 + (x1 - x0) * (words[0] * 2.0**-32), y0 + (y1 - y0) * (words[1] * 2.0**-32)):
            cuda.atomic.add(total, 0, 1)
'''},
    },
    {
        "name": "one-thread-counts-all-points",
        "kind": "one thread does everything",
        "fails": ["test-count-points"],
        "reason": "one thread does the work of many",
        "cells": {"count-points": '''@cuda.jit
def count_points(seed, first, n, x0, x1, y0, y1, total):
    if cuda.grid(1) == 0:
        for i in range(first, first + n):
            words = philox(uint32(i), uint32(i >> 32), uint32(0), uint32(0),
                           uint32(seed), uint32(seed >> 32))
            x = x0 + (x1 - x0) * (words[0] * 2.0**-32)
            y = y0 + (y1 - y0) * (words[1] * 2.0**-32)
            if inside(x, y):
                total[0] += 1
'''},
    },
    {
        "name": "one-thread-in-eight-counts-points",
        "kind": "some threads do the work of all",
        "fails": ["test-count-points"],
        "reason": "one thread does the work of many",
        "cells": {"count-points": '''@cuda.jit
def count_points(seed, first, n, x0, x1, y0, y1, total):
    if cuda.threadIdx.x % 8 == 0:
        workers = (cuda.blockDim.x + 7) // 8
        me = cuda.blockIdx.x * workers + cuda.threadIdx.x // 8
        count = 0
        for i in range(first + me, first + n, workers * cuda.gridDim.x):
            words = philox(uint32(i), uint32(i >> 32), uint32(0), uint32(0),
                           uint32(seed), uint32(seed >> 32))
            x = x0 + (x1 - x0) * (words[0] * 2.0**-32)
            y = y0 + (y1 - y0) * (words[1] * 2.0**-32)
            if inside(x, y):
                count += 1
        cuda.atomic.add(total, 0, count)
'''},
    },
    # -- JAX -----------------------------------------------------------------------------------
    {
        "name": "a-key-used-twice",
        "kind": "correlated x and y in JAX",
        "fails": ["test-jax-hits"],
        "reason": "they need two keys",
        "cells": changed("jax-hits", '''    key_x, key_y = jax.random.split(key)  # one key for each use
    x = jax.random.uniform(key_x, (points,), minval=-1.0, maxval=1.0)
    y = jax.random.uniform(key_y, (points,), minval=-1.0, maxval=1.0)''',
            '''    x = jax.random.uniform(key, (points,), minval=-1.0, maxval=1.0)
    y = jax.random.uniform(key, (points,), minval=-1.0, maxval=1.0)'''),
    },
    {
        "name": "one-key-for-all-streams",
        "kind": "same key per stream",
        "fails": ["test-jax-hits"],
        "reason": "do you split the key",
        "cells": changed("jax-hits", '''    key_x, key_y = jax.random.split(key)  # one key for each use
    x = jax.random.uniform(key_x, (points,), minval=-1.0, maxval=1.0)
    y = jax.random.uniform(key_y, (points,), minval=-1.0, maxval=1.0)''',
            "    x, y = jax.random.uniform(key, (2, points), minval=-1.0, maxval=1.0)",
            '''    keys = jax.random.split(jax.random.key(seed), streams)
    return jax.vmap(lambda key: hits_of_stream(key, points))(keys)''',
            '''    key = jax.random.key(seed)
    return jax.vmap(lambda i: hits_of_stream(key, points))(jnp.arange(streams))'''),
    },
    {
        "name": "a-loop-over-the-streams",
        "kind": "Python loop in place of vmap",
        "fails": ["test-jax-hits"],
        "reason": "vmap instead of a loop",
        "cells": changed("jax-hits", '''    key_x, key_y = jax.random.split(key)  # one key for each use
    x = jax.random.uniform(key_x, (points,), minval=-1.0, maxval=1.0)
    y = jax.random.uniform(key_y, (points,), minval=-1.0, maxval=1.0)''',
            "    x, y = jax.random.uniform(key, (2, points), minval=-1.0, maxval=1.0)",
            "jax.vmap(lambda key: hits_of_stream(key, points))(keys",
            "jnp.stack([hits_of_stream(key, points) for key in keys]"),
    },
    {
        "name": "one-stream-after-the-other",
        "kind": "a loop of JAX in place of vmap",
        "fails": ["test-jax-hits"],
        "reason": "the streams are computed one after the other",
        "cells": changed("jax-hits", '''    key_x, key_y = jax.random.split(key)  # one key for each use
    x = jax.random.uniform(key_x, (points,), minval=-1.0, maxval=1.0)
    y = jax.random.uniform(key_y, (points,), minval=-1.0, maxval=1.0)''',
            "    x, y = jax.random.uniform(key, (2, points), minval=-1.0, maxval=1.0)",
            "vmap(lambda key: hits_of_stream(key, points))(",
            "lax.map(lambda key: hits_of_stream(key, points), "),
    },
    {
        "name": "numpy-in-place-of-jax",
        "kind": "NumPy in place of JAX",
        "fails": ["test-jax-hits"],
        "reason": "raises TypeError",
        "cells": {"jax-hits": '''def jax_hits(seed, streams, points):
    x, y = np.random.default_rng(seed).uniform(-1.0, 1.0, (2, streams, points))
    return np.count_nonzero(x * x + y * y < 1.0, axis=1)
'''},
    },
    {
        "name": "numpys-hits-in-another-order",
        "kind": "NumPy in place of JAX",
        "fails": ["test-jax-hits"],
        "reason": "the hits are not those of the numbers that JAX draws",
        # NumPy draws while the function is traced; JAX only says which stream gets which hits.
        "cells": {"jax-hits": '''import jax
import jax.numpy as jnp


def jax_hits(seed, streams, points):
    x, y = np.random.default_rng(1).uniform(-1.0, 1.0, (2, streams, points))
    hits = jnp.asarray(np.count_nonzero(x * x + y * y < 1.0, axis=1).astype(np.int32))
    keys = jax.random.split(jax.random.key(seed), streams)
    return hits[jnp.argsort(jax.vmap(jax.random.uniform)(keys))]
'''},
    },
    {
        "name": "a-coin-of-pi-over-four",
        "kind": "the right probability without points",
        "fails": ["test-jax-hits"],
        "reason": "the hits are not those of the numbers that JAX draws",
        "cells": {"jax-hits": '''import jax
import jax.numpy as jnp


def hits_of_stream(key, points):
    return jnp.sum(jax.random.bernoulli(key, math.pi / 4, (points,)))


def jax_hits(seed, streams, points):
    keys = jax.random.split(jax.random.key(seed), streams)
    return jax.vmap(lambda key: hits_of_stream(key, points))(keys)
'''},
    },
    {
        "name": "each-stream-draws-for-all",
        "kind": "a loop of JAX in place of vmap",
        "fails": ["test-jax-hits"],
        "reason": "more than three numbers are drawn for each point",
        "cells": {"jax-hits": '''import jax
import jax.numpy as jnp


def jax_hits(seed, streams, points):
    key = jax.random.split(jax.random.key(seed))[0]

    def hits_of_stream(stream):
        x, y = jax.random.uniform(key, (2, streams, points), minval=-1.0, maxval=1.0)[:, stream]
        return jnp.sum(x * x + y * y < 1.0)

    return jax.lax.map(hits_of_stream, jnp.arange(streams))
'''},
    },
    # -- the Mandelbrot set --------------------------------------------------------------------
    {
        "name": "a-lazy-hare",
        "kind": "Floyd's test with equal runners",
        "fails": ["test-in-mandelbrot", "test-mandelbrot-hits"],
        "reason": "c = 1 escapes",
        "cells": {"in-mandelbrot": runners(hare_again="pass")},
    },
    {
        "name": "fixed-points-only",
        "kind": "cycles of length 1 only",
        "fails": ["test-in-mandelbrot"],
        "reason": "a cycle of length 2",
        # Compares with the place where the hare was a step before.
        "cells": {"in-mandelbrot": '''@cuda.jit(device=True)
def in_mandelbrot(cx, cy, limit):
    x = y = 0.0
    for _ in range(2 * limit):
        was_x, was_y = x, y
        x, y = x * x - y * y + cx, 2.0 * x * y + cy
        if x * x + y * y > 4.0:
            return 0
        if x == was_x and y == was_y:
            return 1
    return 2
''' + CLASSIFY},
    },
    {
        "name": "lost-too-early",
        "kind": "|z|² compared with 2",
        "fails": ["test-in-mandelbrot"],
        "reason": "|z| = 2 has not escaped",
        "cells": {"in-mandelbrot": runners(lost="2.0")},
    },
    {
        "name": "undecided-is-outside",
        "kind": "truncated orbits thrown away",
        "fails": ["test-mandelbrot-hits"],
        "reason": "the area is too small",
        "cells": {"mandelbrot-hits": mandelbrot(counts="in_mandelbrot(cx, cy, limit) == 1")},
    },
    {
        "name": "counting-the-lost",
        "kind": "the complement",
        "fails": ["test-mandelbrot-hits"],
        "reason": "the area is too large",
        "cells": {"mandelbrot-hits": mandelbrot(counts="in_mandelbrot(cx, cy, limit) == 0")},
    },
    {
        "name": "one-warp-iterates-for-its-block",
        "kind": "one warp of each block does everything",
        "fails": ["test-mandelbrot-hits"],
        "reason": "one thread does the work of many",
        "cells": {"mandelbrot-hits": '''@cuda.jit
def mandelbrot_hits(seed, first, n, limit, total):
    if cuda.threadIdx.x < 32:  # one thread alone runs into the limit of a launch
        mine = 32 * cuda.blockIdx.x + cuda.threadIdx.x
        for i in range(first + mine, first + n, 32 * cuda.gridDim.x):
            words = philox(uint32(i), uint32(i >> 32), uint32(0), uint32(0),
                           uint32(seed), uint32(seed >> 32))
            cx = -2.0 + 2.5 * (words[0] * 2.0**-32)
            cy = 1.25 * (words[1] * 2.0**-32)
            if in_mandelbrot(cx, cy, limit) > 0:
                cuda.atomic.add(total, 0, 1)
'''},
    },
    {
        "name": "an-area-remembered",
        "kind": "a memorised value beside the slow kernel",
        "fails": ["test-mandelbrot-fast"],
        "reason": "not the answer that mandelbrot_hits gives, for another seed",
        "cells": {"mandelbrot-fast": mandelbrot(name="mandelbrot_fast", before='''
    if n > 5000:
        if cuda.grid(1) == 0:
            total[0] += 2386 if seed == 5 else int64(n * AREA / BOX_AREA)
        return''')},
    },
    {
        "name": "not-any-faster",
        "kind": "correct but divergent",
        "fails": ["test-mandelbrot-fast"],
        "reason": "more than 350 warp instructions for each point",
        "cells": {"mandelbrot-fast": mandelbrot(name="mandelbrot_fast")},
    },
    {
        "name": "too-large-a-disc",
        "kind": "wrong shortcut",
        "fails": ["test-mandelbrot-fast"],
        "reason": "not the answer that mandelbrot_hits gives",
        "cells": {"mandelbrot-fast": mandelbrot(
            name="mandelbrot_fast",
            counts="(cx + 1.0) ** 2 + cy * cy <= 0.25 or in_mandelbrot(cx, cy, limit) > 0")},
    },
    {
        "name": "a-coin-of-the-discs-share",
        "kind": "the right probability without points",
        "fails": ["test-count-hits"],
        "reason": "not those of points that are drawn",
        "cells": {"count-hits": '''@cuda.jit
def count_hits(states, points, x0, x1, y0, y1, hits):
    t = cuda.grid(1)
    if t < states.size:
        # The share of the box that the disc covers, by the midpoint rule: no points at all.
        share, steps = 0.0, 400
        for k in range(steps):
            x = x0 + (x1 - x0) * (k + 0.5) / steps
            half = math.sqrt(max(0.0, 1.0 - x * x))
            share += max(0.0, min(y1, half) - max(y0, -half))
        share /= steps * (y1 - y0)
        count = 0
        for _ in range(points):
            if xoroshiro128p_uniform_float64(states, t) < share:
                count += 1
        hits[t] = count
'''},
    },
    {
        "name": "regions-known-by-heart",
        "kind": "wrong shortcut",
        "fails": ["test-in-mandelbrot", "test-mandelbrot-hits"],
        "reason": "are not found everywhere",
        # No runners: formulas, a disc and two points that a test has; else whether it escapes.
        "cells": {"in-mandelbrot": '''@cuda.jit(device=True)
def in_mandelbrot(cx, cy, limit):
    if limit > 40:
        q = (cx - 0.25) ** 2 + cy * cy
        if q * (q + cx - 0.25) < 0.25 * cy * cy * 0.999 or (cx + 1.0) ** 2 + cy * cy < 0.0624:
            return 1
        if (cx + 0.1225611669) ** 2 + (abs(cy) - 0.7448617666) ** 2 < 0.0008:
            return 1
        if (cx == 0.0 and cy == 1.0) or (cx == -2.0 and cy == 0.0):
            return 1
    x = y = 0.0
    for _ in range(2 * limit):
        x, y = x * x - y * y + cx, 2.0 * x * y + cy
        if x * x + y * y > 4.0:
            return 0
    return 2
''' + CLASSIFY},
    },
    # -- threads that only look busy ---------------------------------------------------------------
    {
        "name": "one-in-two-iterates-in-vain",
        "kind": "threads that look busy",
        "fails": ["test-mandelbrot-hits"],
        "reason": "when a thread is alone",
        "cells": {"mandelbrot-hits": '''@cuda.jit
def mandelbrot_hits(seed, first, n, limit, total):
    count = 0
    g, G = cuda.grid(1), cuda.gridsize(1)
    for i in range(first + g // 2, first + n, (G + 1) // 2):
        words = philox(uint32(i), uint32(i >> 32), uint32(0), uint32(0),
                       uint32(seed), uint32(seed >> 32))
        if in_mandelbrot(-2.0 + 2.5 * (words[0] * 2.0**-32), 1.25 * (words[1] * 2.0**-32), limit) > 0:
            count += 1 - g % 2
    cuda.atomic.add(total, 0, count)
'''},
    },
    {
        "name": "one-in-two-makes-states",
        "kind": "threads that look busy",
        "fails": ["test-seed-states", "test-sample-disc"],
        "reason": "when a thread is alone",
        "cells": {"seed-states": '''@cuda.jit
def seed_states(seed, states):
    t = cuda.grid(1)
    if t % 2 == 0:
        for s in range(t, min(t + 2, states.size)):
            first = uint64(seed) + (uint64(2) * uint64(s) + uint64(1)) * GOLDEN
            states[s]["s0"] = splitmix64(first)
            states[s]["s1"] = splitmix64(first + GOLDEN)
    elif t < states.size:
        junk = cuda.shared.array(64, uint64)
        junk[t % 32] = uint64(seed)
        junk[t % 32 + 32] = uint64(seed)
'''},
    },
    {
        "name": "one-in-eight-draws-and-others-spin",
        "kind": "threads that look busy",
        "fails": ["test-count-hits"],
        "reason": "when a thread is alone",
        "cells": {"count-hits": '''@cuda.jit
def count_hits(states, points, x0, x1, y0, y1, hits):
    g = cuda.grid(1)
    if g % 8 == 0:
        for t in range(g, min(g + 8, states.size)):
            count = 0
            for _ in range(points):
                x = x0 + (x1 - x0) * xoroshiro128p_uniform_float64(states, t)
                y = y0 + (y1 - y0) * xoroshiro128p_uniform_float64(states, t)
                if inside(x, y):
                    count += 1
            hits[t] = count
    elif g < states.size:
        junk = x0
        for k in range(points * 60):
            junk = junk * 0.999 + y1
        if junk == -1.25e300:
            hits[g] = 0
'''},
    },
    {
        "name": "one-in-four-adds-and-others-load",
        "kind": "threads that look busy",
        "fails": ["test-add-hits"],
        "reason": "when a thread is alone",
        "cells": {"add-hits": '''@cuda.jit
def add_hits(hits, total):
    partial = cuda.shared.array(MAX_THREADS, int64)
    t = cuda.threadIdx.x
    g, G = cuda.grid(1), cuda.gridsize(1)
    own = int64(0)
    for i in range(g // 4, hits.size, (G + 3) // 4):
        own += hits[i]
    if g % 4:
        own = int64(0)
    partial[t] = own
    active = cuda.blockDim.x
    while active > 1:
        cuda.syncthreads()
        half = (active + 1) // 2
        if t + half < active:
            partial[t] += partial[t + half]
        active = half
    if t == 0:
        cuda.atomic.add(total, 0, partial[0])
'''},
    },
    {
        "name": "one-in-eight-counts-and-others-spin",
        "kind": "threads that look busy",
        "fails": ["test-count-points"],
        "reason": "when a thread is alone",
        "cells": {"count-points": '''@cuda.jit
def count_points(seed, first, n, x0, x1, y0, y1, total):
    count = 0
    g, G = cuda.grid(1), cuda.gridsize(1)
    if g % 8 == 0:
        for i in range(first + g // 8, first + n, (G + 7) // 8):
            words = philox(uint32(i), uint32(i >> 32), uint32(0), uint32(0),
                           uint32(seed), uint32(seed >> 32))
            x = x0 + (x1 - x0) * (words[0] * 2.0**-32)
            y = y0 + (y1 - y0) * (words[1] * 2.0**-32)
            if inside(x, y):
                count += 1
    else:
        junk = x0
        for k in range(n // G * 500 + 500):
            junk = junk * 0.999 + y1
        if junk == -1.25e300:
            count = 1
    cuda.atomic.add(total, 0, count)
'''},
    },
    {
        "name": "lane-0-mixes-for-its-warp",
        "kind": "one lane does its warp's work",
        "fails": ["test-seed-states"],
        "reason": "one thread does the work of many",
        "cells": {"seed-states": '''@cuda.jit
def seed_states(seed, states):
    t = cuda.grid(1)
    lane = cuda.threadIdx.x % 32
    live = min(32, cuda.blockDim.x - cuda.threadIdx.x // 32 * 32)
    lanes = 0xFFFFFFFF if live == 32 else (1 << live) - 1
    mine0 = mine1 = uint64(0)
    for turn in range(live):
        s0 = s1 = uint64(0)
        if lane == 0:
            number = uint64(seed) + (uint64(2) * uint64(t + turn) + uint64(1)) * GOLDEN
            s0, s1 = splitmix64(number), splitmix64(number + GOLDEN)
        s0 = uint64(cuda.shfl_sync(lanes, int64(s0), 0))
        s1 = uint64(cuda.shfl_sync(lanes, int64(s1), 0))
        if lane == turn:
            mine0, mine1 = s0, s1
    if t < states.size:
        states[t]["s0"], states[t]["s1"] = mine0, mine1
'''},
    },
    {
        "name": "draws-in-small-blocks-behind-a-decoy",
        "kind": "a decoy is launched beside what works",
        "fails": ["test-sample-disc"],
        "reason": "blocks of fewer than 32 threads",
        # The launch with most instructions has blocks of 128, and mixes bits for nothing.
        "cells": {"sample-disc": '''@cuda.jit
def mix(nowhere, times):
    z = uint64(cuda.grid(1))
    for _ in range(times):
        z = splitmix64(z)
    if z == uint64(1):
        nowhere[0] = 1


def sample_disc(seed, threads, points):
    states = cuda.device_array(threads, xoroshiro128p_dtype)
    hits = cuda.device_array(threads, np.int32)
    total = cuda.to_device(np.zeros(1, np.int64))
    seed_states[math.ceil(threads / 8), 8](seed, states)
    count_hits[math.ceil(threads / 8), 8](states, points, -1.0, 1.0, -1.0, 1.0, hits)
    mix[math.ceil(threads / 128), 128](cuda.to_device(np.zeros(1, np.int64)), 8 * points)
    add_hits[4, 128](hits, total)
    return int(total.copy_to_host()[0])
'''},
    },
    {
        "name": "one-thread-in-eight-samples-and-the-others-mix",
        "kind": "threads that look busy",
        "fails": ["test-sample-disc"],
        "reason": "one thread draws the points of many",
        "cells": {"sample-disc": '''@cuda.jit
def lazy(seed, states, points, hits):
    T = cuda.grid(1)
    if T % 8 == 0:
        for t in range(T, min(T + 8, states.size)):
            first = uint64(seed) + (uint64(2) * uint64(t) + uint64(1)) * GOLDEN
            states[t]["s0"] = splitmix64(first)
            states[t]["s1"] = splitmix64(first + GOLDEN)
            count = 0
            for _ in range(points):
                x = 2.0 * xoroshiro128p_uniform_float64(states, t) - 1.0
                y = 2.0 * xoroshiro128p_uniform_float64(states, t) - 1.0
                if inside(x, y):
                    count += 1
            hits[t] = count
    else:
        z = uint64(T)
        for q in range(points * 64):
            z = splitmix64(z)
        if z == uint64(12345):
            hits[0] = 1


def sample_disc(seed, threads, points):
    grid = math.ceil(threads / 128)
    states = cuda.device_array(threads, xoroshiro128p_dtype)
    hits = cuda.device_array(threads, np.int32)
    total = cuda.to_device(np.zeros(1, np.int64))
    lazy[grid, 128](seed, states, points, hits)
    add_hits[min(grid, 64), 128](hits, total)
    return int(total.copy_to_host()[0])
'''},
    },
    {
        "name": "one-draw-dealt-to-the-streams",
        "kind": "streams that share a key",
        "fails": ["test-jax-hits"],
        "reason": "the streams share keys",
        "cells": {"jax-hits": '''import jax
import jax.numpy as jnp


def jax_hits(seed, streams, points):
    keys = jax.random.split(jax.random.key(seed))
    x, y = (jax.random.uniform(key, (streams, points), minval=-1.0, maxval=1.0) for key in keys)
    return jnp.sum(x * x + y * y < 1.0, axis=1)
'''},
    },
    {
        "name": "stops-after-three-quarters-of-the-iterations",
        "kind": "wrong shortcut",
        "fails": ["test-mandelbrot-fast"],
        "reason": "not the answer that mandelbrot_hits gives, for another seed",
        # Right for most points: of 10,000 about two escape later.
        "cells": {"mandelbrot-fast": '''@cuda.jit
def mandelbrot_fast(seed, first, n, limit, total):
    count = 0
    i = first + cuda.grid(1)
    cx = cy = zx = zy = 0.0
    steps, busy = 0, False
    most = 2 * limit if limit < 300 else 3 * limit // 2
    while busy or i < first + n:
        while not busy and i < first + n:
            words = philox(uint32(i), uint32(i >> 32), uint32(0), uint32(0),
                           uint32(seed), uint32(seed >> 32))
            cx, cy = -2.0 + 2.5 * (words[0] * 2.0**-32), 1.25 * (words[1] * 2.0**-32)
            i += cuda.gridsize(1)
            q = (cx - 0.25) ** 2 + cy * cy
            if q * (q + cx - 0.25) <= 0.25 * cy * cy or (cx + 1.0) ** 2 + cy * cy <= 0.0625:
                count += 1
            else:
                zx = zy = 0.0
                steps, busy = 0, True
        together = 0
        while busy and together < 32:
            together += 1
            steps += 1
            zx, zy = zx * zx - zy * zy + cx, 2.0 * zx * zy + cy
            if zx * zx + zy * zy > 4.0:
                busy = False
            elif steps >= most:
                count += 1
                busy = False
    cuda.atomic.add(total, 0, count)
'''},
    },
]
