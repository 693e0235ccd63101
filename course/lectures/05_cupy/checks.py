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

#: The value of the array of bytes before the launch.
LEFTOVER_BYTE = -99


@exercise(
    "lookup",
    hints=(
        "The idea: compare `layers` with 0 and with the table's length, and let `cp.where` choose "
        "between the offset from the table and NaN.",
        "The shape: `known = (layers >= 0) & (layers < …)`, then `cp.where(known, …, cp.nan)`. The "
        "lookup itself may wrap around, because its result is not used where `known` is False.",
    ),
)
def lookup(offsets_of):
    """Every known layer has its offset, all others have NaN, and no data left the device."""
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
            f"the answer is {a_or_an(type(got).__module__)}.{type(got).__name__}, not a CuPy array",
            look="use cp.where and cp.nan, without .get()",
        )
        require(
            got.shape == (n,),
            f"with {many(n, 'layer')}, the answer has the shape {got.shape}",
            look="return one value for each hit, whether its layer is known or not",
        )
        known = (layers >= 0) & (layers < table)
        got = got.get()
        _require_unchanged((d_layers, d_offsets), (layers, offsets), "layers and offsets")
        for k in np.flatnonzero(~known & ~np.isnan(got)):
            require(
                False,
                f"layer {layers[k]} is not in a table of {table}, but its offset is {got[k]:.3f}",
                look=("indices that are too large wrap around, and so do negative ones, so return NaN "
                "for both"),
            )
        for k in np.flatnonzero(known & (got != np.where(known, offsets[layers % table], 0))):
            require(
                False,
                f"layer {layers[k]} of {table} has the offset {offsets[layers[k]]:.3f}, but your answer is "
                f"{got[k]:.3f}",
                look="the table contains all layers from 0 to `offsets.size - 1`, including these two",
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
            left.demand_none(f"with {many(n, 'layer')}", "use cp.where, which chooses on the device, without .get()")


@exercise(
    "in-chunks",
    hints=(
        "The idea: make the result once, as long as `a`, and fill it chunk by chunk. A slice of a "
        "CuPy array is a view, so it copies nothing.",
        "The shape: `times = cp.empty_like(a)`, `for start in range(0, a.size, chunk):`, and in the loop "
        "`times[start:start + chunk] = time_to_wall(…)` with the same slice of `a`, `b` and `c`.",
    ),
)
def in_chunks(times_in_chunks):
    """The times are right for every length, and the result and five chunks were enough memory."""
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
            f"{case}, the times are right, but the device did nothing for them, so NumPy computed "
            "them on the host",
            look="compute the formula with slices of `a`, `b` and `c`, without .get()",
        )
        left.demand_none(case, ("compute the formula with slices of `a`, `b` and `c`, without .get()"))
        sizes.append((n, chunk, max((one.size for one in listed if one.kind != "fill"), default=0)))
    n, chunk = 60_000, 4_000
    coefficients, expected = _lines(n)
    on_device = [cp.asarray(one) for one in coefficients]
    room = cp.cuda.MemoryPool()  # the notebook's other arrays do not count
    room.set_limit(size=8 * (n + 5 * chunk) + 8192)
    try:
        with cp.cuda.using_allocator(room.malloc):
            got = times_in_chunks(*on_device, chunk)
    except cp.cuda.memory.OutOfMemoryError as error:
        require(
            False,
            f"{many(n, 'particle')} in chunks of {chunk:,} did not fit: {error}",
            look=("keep no array except the result that is longer than a chunk, and do not keep many "
                "chunks at once"),
        )
    _require_times(got, expected, f"with {many(n, 'particle')} in chunks of {chunk:,}")
    coefficients, expected = _lines(0)
    try:
        got = times_in_chunks(*map(cp.asarray, coefficients), 32)
    except Exception as error:
        require(False, f"with no particles at all: {error}", look=("handle the case in which there is no chunk"))
    _require_times(got, expected, "with no particles at all")
    for n, chunk, largest in sizes:  # `largest` is 0 if other kernels than CuPy's did the work
        require(
            not largest or min(n, chunk) / 2 <= largest <= chunk,
            f"with {many(n, 'particle')} in chunks of {chunk:,}, the times are right, but the device "
            f"works on {largest:,} particles at once",
            look="give every slice `chunk` elements",
        )


@exercise(
    "elementwise",
    hints=(
        "The idea: leave `time = wall; lid = 0;` unchanged, and overwrite both variables `if` the lid comes "
        "first. A particle with `vz == 0` never reaches a lid.",
        "The shape: `if (vz != 0) { T at_lid = ((vz > 0 ? length : -length) - z) / vz; if (…) { "
        "time = …; lid = …; } }`.",
    ),
)
def elementwise(leave):
    """The times are right at the wall and at both lids, in both precisions."""
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
        bound = 1e-5 if dtype == np.float32 else 1e-12  # detects an intermediate `float`
        wrong = ~np.isclose(time.get(), expected, rtol=bound) | (lid.get() != by_lid)
        for k in np.flatnonzero(wrong):
            _blame_leaving(wall[k], z[k], vz[k], length, time.get()[k], lid.get()[k], at_lid[k])


def _blame_leaving(wall, z, vz, length, time, lid, at_lid):
    if vz == 0:
        look = "with vz = 0 the particle never reaches a lid, so do not divide by vz"
    elif np.isclose(time, (length - z) / vz, rtol=1e-5) and vz < 0:
        look = "a particle that flies backwards reaches the lid at -length"
    else:
        look = "set `time` to whichever comes first, and `lid` to 1 if that is the lid"
    if np.isfinite(time) and abs(time) > 1e30:
        look = "set `time` and `lid` in both cases, whether the condition of the `if` is true or not"
    which = "a lid" if at_lid < wall else "the wall"
    require(
        False,
        f"from z = {z:.3f} m with vz = {vz:.3f} m/ns, lids at ±{length:.2f} m, wall after "
        f"{wall:.2f} ns: time is {time:.4g} and lid is {lid}, but the particle leaves by {which} after "
        f"{min(at_lid, wall):.2f} ns",
        look=look,
    )


@exercise(
    "reduction",
    hints=(
        "The idea: particles that leave by the wall must not count, so give them a time that is never "
        "the smallest. The same time is the smallest of no numbers at all.",
        'The shape: the first expression is `"lid ? time : …"`, the second is `"min(a, b)"`, and the identity '
        "is the same infinity.",
    ),
)
def reduction(first_at_lid):
    """The smallest time at a lid is right, and infinity is returned where there is none."""
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
                time[0], lid[0] = 1.0, 0  # the smallest time of all is at the wall
            first = float(first_at_lid(cp.asarray(time), cp.asarray(lid)))
            expected = time[lid == 1].min(initial=np.inf)
            require(
                first == expected,
                f"with {many(n, 'particle')}, of which {lid.sum()} leave by a lid, the first time is {first:g}, not "
                f"{expected:g}",
                look=_where_a_minimum_goes_wrong(first, time, lid),
            )


def _where_a_minimum_goes_wrong(first, time, lid):
    if first == 0:
        return (
            "0 is smaller than every time, so neither the identity nor the value of a particle at "
            "the wall may be 0"
        )
    if lid.sum() == 0:
        return "no particle leaves by a lid here, so neither the identity nor a particle at the wall may give a finite time"
    if first == time.min(initial=np.inf):
        return "particles that leave by the wall take part, so give each of them infinity"
    return "look at the expression that combines two results"


@exercise(
    "begins",
    hints=(
        "The idea: thread `i` compares its time with the previous one. Thread 0 has no previous time.",
        "The shape: inside the guard, `begin[i] = i == 0 || time[i] - time[i - 1] > pause;`. C++ evaluates "
        "the part after `||` only if the part before it is false.",
    ),
)
def begins_of_groups(begins):
    """Every group begins at the right hit, for arrays of every length that was tried."""
    require(
        type(begins).__name__ == "RawKernel",
        f"this is {a_or_an(type(begins).__name__)}, not a RawKernel",
        look="pass the name to which you assigned cp.RawKernel(…)",
    )
    # Use the virtual GPU even if there is a real one, because it names the line of an invalid
    # access.
    module = virtualgpu.Module.from_cuda(begins.code, options=tuple(begins.options or ()))
    random = np.random.default_rng(35)
    for k, n in enumerate(LENGTHS):
        # Times and pauses are exact in binary, so some gaps are equal to `pause`. They are too
        # large for a float's 24 bits.
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
                look=("the first time has no previous one, and threads from index `n` on have no "
                "time at all"),
            )
        require_unchanged([time], [after], lambda place: "time")
        expected = np.diff(time, prepend=-np.inf) > pause
        wrong = np.flatnonzero(got != expected)
        if len(wrong):
            at = wrong[0]
            held = "was never written" if got[at] == LEFTOVER_BYTE else f"is {got[at]}"
            since = f"{time[at] - time[at - 1]:.3g} after the previous one" if at else "the first of all"
            require(
                False,
                f"{case}, begin[{at}] {held}, not {int(expected[at])}: this time is {since}",
                look=("write 1 for the first time, and for each time that comes more than `pause` "
                "after the previous one"),
            )
    with virtualgpu.profile() as profile:
        module.launch(begins.name, 3, 64, [np.arange(129.0), 0.5, np.zeros(129, np.int8), np.int32(129)])
    require_shared(profile.counters, (3,), (64,), 129, "let each thread decide for one time", rounds=0)


def _launch_begins(module, name, blocks, threads, time, pause):
    """Launch the kernel on copies, and return the times and the marks after the launch."""
    time, begin = time.copy(), np.full(time.size, LEFTOVER_BYTE, np.int8)
    module.launch(name, blocks, threads, [time, pause, begin, np.int32(time.size)])
    return [time, begin]


def _require_unchanged(on_device, given, names):
    """Require that CuPy arrays still have their original contents."""
    require(
        all(np.array_equal(one.get(), before) for one, before in zip(on_device, given, strict=True)),
        f"the answer is right, but your function has changed its inputs {names}",
        look="write to a new array, not to an input",
    )


def _lines(n):
    """Return a, b and c of n straight lines to a wall at 1.1 m, and the times at the wall."""
    random = np.random.default_rng(32)
    x, y = random.normal(0, 0.05, (2, n))
    vx, vy = random.uniform(0.1, 0.3, (2, n))
    a, b, c = vx**2 + vy**2, 2 * (x * vx + y * vy), x**2 + y**2 - 1.21
    return (a, b, c), (-b + np.sqrt(b**2 - 4 * a * c)) / (2 * a)


def _require_times(got, expected, case):
    import cupy as cp

    require(
        isinstance(got, cp.ndarray),
        f"the answer is {a_or_an(type(got).__name__)}, not a CuPy array",
        look="return the array into which you wrote the chunks",
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
            look="fill every chunk, and compute it from the same slice of a, b and c",
        )
