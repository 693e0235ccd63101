"""Checks and hints of "CuPy: NumPy on the device"."""

from __future__ import annotations

from functools import partial

import numpy as np

import virtualgpu
from gpucourse.exercises.checks import exercise, require
from gpucourse.exercises.host_side import leaving
from gpucourse.exercises.trials import LENGTHS, require_shared, require_unchanged, watched
from gpucourse.exercises.waiting import launches_on_a_gpu
from virtualgpu.errors import VirtualGPUError
from gpucourse.wording import a_or_an, is_not
from gpucourse.wording import many

#: What the array of bytes holds before the launch.
LEFTOVER_BYTE = -99


@exercise(
    "lookup",
    hints=(
        "The idea: compare with the table's length, on both sides, and let `cp.where` choose "
        "between the table's answer and NaN.",
        "The shape: `known = (layers >= 0) & (layers < …)`, then `cp.where(known, …, cp.nan)`. The "
        "lookup itself may wrap: what it finds where `known` is False is not used.",
    ),
)
def lookup(offsets_of):
    """Every layer of the table found, NaN for all others, and nothing left the device."""
    import cupy as cp

    launches_on_a_gpu()
    random = np.random.default_rng(31)
    for k, n in enumerate(LENGTHS):
        table = (7, 12, 1, 5)[k % 4]
        offsets = random.normal(size=table)
        layers = random.integers(-9, 20, n)
        d_layers, d_offsets = cp.asarray(layers), cp.asarray(offsets)
        with virtualgpu.launches() as launched, leaving() as left:
            got = offsets_of(d_layers, d_offsets)
        require(
            isinstance(got, cp.ndarray),
            f"the answer is {a_or_an(type(got).__module__)}.{type(got).__name__}, not an array of CuPy",
            look="use cp.where and cp.nan, without .get()",
        )
        require(
            got.shape == (n,),
            f"{many(n, 'layer')} gave an array of the shape {got.shape}",
            look="return one value for each hit, whether its layer is known or not",
        )
        known = (layers >= 0) & (layers < table)
        got = got.get()
        _require_unchanged((d_layers, d_offsets), (layers, offsets), "layers and offsets")
        for k in np.flatnonzero(~known & ~np.isnan(got)):
            require(
                False,
                f"layer {layers[k]} is not in a table of {table}, and its offset is {got[k]:.3f}",
                look=("remember that indices that are too large wrap around, and so do those below "
                "0"),
            )
        for k in np.flatnonzero(known & (got != np.where(known, offsets[layers % table], 0))):
            require(
                False,
                f"layer {layers[k]} of {table} has the offset {offsets[layers[k]]:.3f}, and your answer is "
                f"{got[k]:.3f}",
                look="which layers are known? 0 is, and so is the last one",
            )
        if n and virtualgpu.answers():  # a real GPU keeps no list
            require(
                launched,
                "the answers are right, but the device did nothing for them",
                look="work with the arrays on the device, without .get()",
            )
            require(
                len(launched) <= 30,
                f"the answers are right, but {many(n, 'layer')} took "
                f"{many(len(launched), 'launch', 'launches')}",
                look="work on whole arrays at once, without a loop",
            )
            left.demand_none(f"with {many(n, 'layer')}", "cp.where chooses on the device: no .get()")


@exercise(
    "in-chunks",
    hints=(
        "The idea: make the result once, as long as `a`, and fill it part by part. A slice of a "
        "CuPy array is a view: no copy.",
        "The shape: `times = cp.empty_like(a)`, `for start in range(0, a.size, chunk):`, and in it "
        "`times[start:start + chunk] = time_to_wall(…)` with the same slice of all three.",
    ),
)
def in_chunks(times_in_chunks):
    """The same times for every length, in the room of the result and five chunks."""
    import cupy as cp

    launches_on_a_gpu()
    sizes = []
    for n, chunk in ((100, 32), (96, 32), (1, 32), (31, 32), (33, 32), (1009, 100), (5000, 3000)):
        coefficients, expected = _lines(n)
        on_device = [cp.asarray(one) for one in coefficients]
        with virtualgpu.launches() as listed, virtualgpu.profile() as profile, leaving() as left:
            got = times_in_chunks(*on_device, chunk)
        case = f"with {many(n, 'particle')} in chunks of {chunk}"
        _require_times(got, expected, case)
        _require_unchanged(on_device, coefficients, "a, b and c")
        require(
            listed or profile.launches or not virtualgpu.answers(),  # a real GPU keeps no list
            f"{case}, the times are right, but the device did nothing for them: NumPy worked them "
            "out on the host",
            look="compute the formula with slices of `a`, `b` and `c`, without .get()",
        )
        left.demand_none(case, ("compute the formula with slices of `a`, `b` and `c`, without .get()"))
        sizes.append((n, chunk, max((one.size for one in listed if one.kind != "fill"), default=0)))
    n, chunk = 60_000, 4_000
    coefficients, expected = _lines(n)
    on_device = [cp.asarray(one) for one in coefficients]
    room = cp.cuda.MemoryPool()  # of its own: what else the notebook holds does not count
    room.set_limit(size=8 * (n + 5 * chunk) + 8192)
    try:
        with cp.cuda.using_allocator(room.malloc):
            got = times_in_chunks(*on_device, chunk)
    except cp.cuda.memory.OutOfMemoryError as error:
        require(
            False,
            f"{many(n, 'particle')} in chunks of {chunk:,} did not fit: {error}",
            look=("is anything except the result longer than a chunk, or do many chunks exist "
                "at once?"),
        )
    _require_times(got, expected, f"with {many(n, 'particle')} in chunks of {chunk:,}")
    coefficients, expected = _lines(0)
    try:
        got = times_in_chunks(*map(cp.asarray, coefficients), 32)
    except Exception as error:
        require(False, f"with no particles at all: {error}", look=("handle the case without any chunk"))
    _require_times(got, expected, "with no particles at all")
    for n, chunk, largest in sizes:  # 0 where kernels of another kind than CuPy's did it
        require(
            not largest or min(n, chunk) / 2 <= largest <= chunk,
            f"with {many(n, 'particle')} in chunks of {chunk:,}, the times are right, but the device "
            f"works on {largest:,} at once",
            look="how long is a slice, and does `chunk` say so?",
        )


@exercise(
    "elementwise",
    hints=(
        "The idea: leave `time = wall; lid = 0;` as it is, and overwrite both `if` the lid comes "
        "first. A particle with `vz == 0` never meets one.",
        "The shape: `if (vz != 0) { T at_lid = ((vz > 0 ? length : -length) - z) / vz; if (…) { "
        "time = …; lid = …; } }`.",
    ),
)
def elementwise(leave):
    """By wall or by lid, forwards, backwards and straight out, in both precisions."""
    import cupy as cp

    require(
        type(leave).__name__ == "ElementwiseKernel",
        f"this is {a_or_an(type(leave).__name__)}, not an ElementwiseKernel",
        look="pass the name to which you assigned cp.ElementwiseKernel(…)",
    )
    launches_on_a_gpu()
    random = np.random.default_rng(33)
    for dtype, n in ((np.float64, 257), (np.float32, 129), (np.float64, 1), (np.float64, 0)):
        wall = random.uniform(3, 20, n).astype(dtype)
        z = random.uniform(-2, 2, n).astype(dtype)
        vz = random.uniform(-0.3, 0.3, n).astype(dtype)
        vz[::8] = 0
        length = dtype(random.uniform(1, 4))
        time, lid = leave(*map(cp.asarray, (wall, z, vz)), length)
        with np.errstate(divide="ignore"):
            at_lid = np.where(vz != 0, (np.where(vz > 0, length, -length) - z) / vz, np.inf)
        by_lid = at_lid < wall
        expected = np.where(by_lid, at_lid, wall)
        bound = 1e-5 if dtype == np.float32 else 1e-12  # a `float` inside would show
        wrong = ~np.isclose(time.get(), expected, rtol=bound) | (lid.get() != by_lid)
        for k in np.flatnonzero(wrong):
            _blame_leaving(wall[k], z[k], vz[k], length, time.get()[k], lid.get()[k], at_lid[k])


def _blame_leaving(wall, z, vz, length, time, lid, at_lid):
    if vz == 0:
        look = "with vz = 0 there is no lid to meet, and nothing to divide by"
    elif np.isclose(time, (length - z) / vz, rtol=1e-5) and vz < 0:
        look = "backwards, the lid is at -length"
    else:
        look = "take whichever comes first, and let `lid` say which one it was"
    if np.isfinite(time) and abs(time) > 1e30:
        look = "are `time` and `lid` set whichever way the `if` goes?"
    which = "a lid" if at_lid < wall else "the wall"
    require(
        False,
        f"from z = {z:.3f} m with vz = {vz:.3f} m/ns, lids at ±{length:.2f} m, wall after "
        f"{wall:.2f} ns: time is {time:.4g} and lid {lid}, but it leaves by {which} after "
        f"{min(at_lid, wall):.2f} ns",
        look=look,
    )


@exercise(
    "reduction",
    hints=(
        "The idea: particles that leave by the wall must not win, so give them a time that never "
        "is the smallest. What is the smallest of no numbers at all?",
        'The shape: each is `"lid ? time : …"`, combined by `"min(a, b)"`; the identity is the '
        "same infinity.",
    ),
)
def reduction(first_at_lid):
    """The smallest of the right ones, infinity where there is none."""
    import cupy as cp

    require(
        type(first_at_lid).__name__ == "ReductionKernel",
        f"this is {a_or_an(type(first_at_lid).__name__)}, not a ReductionKernel",
        look="pass the name to which you assigned cp.ReductionKernel(…)",
    )
    launches_on_a_gpu()
    random = np.random.default_rng(34)
    for n in LENGTHS:
        time = random.uniform(3, 20, n)
        for share in (0.5, 0.0, 1.0):
            lid = (random.random(n) < share).astype(np.int8)
            if n and share == 0.5:
                time[0], lid[0] = 1.0, 0  # the smallest of all leaves by the wall
            first = float(first_at_lid(cp.asarray(time), cp.asarray(lid)))
            expected = time[lid == 1].min(initial=np.inf)
            require(
                first == expected,
                f"with {many(n, 'particle')}, {lid.sum()} of them by a lid, the first is {first:g}, not "
                f"{expected:g}",
                look=_where_a_minimum_goes_wrong(first, time, lid),
            )


def _where_a_minimum_goes_wrong(first, time, lid):
    if first == 0:
        return (
            "0 is smaller than every time: what is the identity, which takes part in the "
            "combining, and what does a particle at the wall give?"
        )
    if lid.sum() == 0:
        return "no particle at a lid: neither the identity nor those at the wall may show"
    if first == time.min(initial=np.inf):
        return "those that leave by the wall take part: what does each of them give?"
    return "how are two results combined?"


@exercise(
    "begins",
    hints=(
        "The idea: thread `i` compares its time with the one before. Which thread has none before it?",
        "The shape: inside the guard, `begin[i] = i == 0 || time[i] - time[i - 1] > pause;`. C++ looks "
        "at what follows `||` only if what stands before it is false.",
    ),
)
def begins_of_groups(begins):
    """Every group begins where it should, for every length that was tried."""
    require(
        type(begins).__name__ == "RawKernel",
        f"this is {a_or_an(type(begins).__name__)}, not a RawKernel",
        look="pass the name to which you assigned cp.RawKernel(…)",
    )
    # On the virtual GPU also where there is a real one: it names the line of a bad address.
    module = virtualgpu.Module.from_cuda(begins.code, options=tuple(begins.options or ()))
    random = np.random.default_rng(35)
    for k, n in enumerate(LENGTHS):
        # Exact in binary, so pauses of just `pause` occur; too large for a float's 24 bits.
        pause = 0.25 * int(random.integers(1, 4))
        time = 2.0**30 + 0.25 * np.cumsum(random.integers(0, 6, n))
        case = f"with {many(n, 'time')} and a pause of {pause:.3g}"
        threads = (64, 96, 256)[k % 3]
        blocks = n // threads + 1
        launch = partial(_launch_begins, module, begins.name, blocks, threads, time, pause)
        try:
            after, got = watched(launch, what=f"begins[{blocks}, {threads}] on {n:,} times")
        except VirtualGPUError as error:
            require(
                False,
                f"{case} and {threads * blocks} threads: {str(error).splitlines()[0]}",
                look=("the first time has none before it, and threads from index `n` on have no "
                "time at all"),
            )
        require_unchanged([time], [after], lambda place: "time")
        expected = np.diff(time, prepend=-np.inf) > pause
        wrong = np.flatnonzero(got != expected)
        if len(wrong):
            at = wrong[0]
            held = "was never written" if got[at] == LEFTOVER_BYTE else f"is {got[at]}"
            since = f"{time[at] - time[at - 1]:.3g} after the one before" if at else "the first of all"
            require(
                False,
                f"{case}, begin[{at}] {held}, not {int(expected[at])}: this time is {since}",
                look=("write 1 for the first time, and for each time that comes more than `pause` "
                "after the one before"),
            )
    with virtualgpu.profile() as profile:
        module.launch(begins.name, 3, 64, [np.arange(129.0), 0.5, np.zeros(129, np.int8), np.int32(129)])
    require_shared(profile.counters, (3,), (64,), 129, "each thread decides for one time", rounds=0)


def _launch_begins(module, name, blocks, threads, time, pause):
    """Launch on copies; the times and the marks afterwards."""
    time, begin = time.copy(), np.full(time.size, LEFTOVER_BYTE, np.int8)
    module.launch(name, blocks, threads, [time, pause, begin, np.int32(time.size)])
    return [time, begin]


def _require_unchanged(on_device, given, names):
    """Require that arrays of CuPy hold what they were given."""
    require(
        all(np.array_equal(one.get(), before) for one, before in zip(on_device, given, strict=True)),
        f"the answer is right, but it has changed {names}, which are there to be read",
        look="write to a new array, not to an input",
    )


def _lines(n):
    """a, b and c of n straight lines from near the middle to a wall at 1.1 m, and their times."""
    random = np.random.default_rng(32)
    x, y = random.normal(0, 0.05, (2, n))
    vx, vy = random.uniform(0.1, 0.3, (2, n))
    a, b, c = vx**2 + vy**2, 2 * (x * vx + y * vy), x**2 + y**2 - 1.21
    return (a, b, c), (-b + np.sqrt(b**2 - 4 * a * c)) / (2 * a)


def _require_times(got, expected, case):
    import cupy as cp

    require(
        isinstance(got, cp.ndarray),
        f"the answer is {a_or_an(type(got).__name__)}, not an array of CuPy",
        look="return the array that the parts were written to",
    )
    require(
        got.shape == expected.shape,
        f"{case}, the answer has {many(got.size, 'time')}",
        look="the last chunk may be shorter than the others",
    )
    wrong = np.flatnonzero(~np.isclose(got.get(), expected, rtol=1e-9))
    if len(wrong):
        require(
            False,
            f"{case}, time {wrong[0]} {is_not(got.get()[wrong[0]], expected[wrong[0]])}",
            look="which chunks were filled, and from the same slice of a, b and c?",
        )
