"""Checks and hints of "A port, done"."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np

from gpucourse.exercises.checks import exercise, require
from gpucourse.exercises.methods import equations, require_all_at_once
from gpucourse.exercises.trials import counted, require_shared, watched
from gpucourse.exercises.waiting import trial
from gpucourse.wording import a_or_an, is_not
from gpucourse.wording import many

PIXELS = 64
THREADS = 64


def _loop(signal, good, pixels, starts, stops, weights, *, past=0, single=False, empty="",
          all_=False, unweighted=False, last_wins=False, keeps=False, in_place=False):
    """(cleaned, sky, hits) as `make_map` has them, with one thing done wrongly if asked for."""
    cleaned = signal if in_place else signal.copy()
    sky, hits = np.zeros(PIXELS), np.zeros(PIXELS)
    for d in range(len(signal)):
        for first, last in zip(starts, stops, strict=True):
            if empty == "length" and first == last:
                return cleaned, sky, hits
            t = np.arange(min(last + past, signal.shape[1]) - first)
            t = t[good[d, first + t] | all_]
            if not len(t):
                if empty == "nan":
                    sky += np.nan
                continue
            y = cleaned[d, first + t]
            determinant = len(t) * (t**2).sum() - t.sum() ** 2
            slope = (len(t) * (t * y).sum() - t.sum() * y.sum()) / max(determinant, 1)
            if single and len(t) == 1:
                slope = np.nan
            rest = y - (y.sum() - slope * t.sum()) / len(t) - slope * t
            cleaned[d, first + t] = y if keeps else rest
            seen, weight = pixels[d, first + t], 1.0 if unweighted else weights[d]
            if last_wins:
                sky[seen] += weight * rest
                hits[seen] += weight
            else:
                np.add.at(sky, seen, weight * rest)
                np.add.at(hits, seen, weight)
    return cleaned, sky, hits


#: What a port may do wrong, and what `_loop` is asked for then.
MISTAKES = {
    "includes the sample at `stop` in each sweep": {"past": 1},
    "uses bad samples as if they were good": {"all_": True},
    "ignores the weights": {"unweighted": True},
    "adds only one sample if a pixel appears twice": {"last_wins": True},
    "computes the right map, but returns the signal unchanged": {"keeps": True},
    "changes its input signal": {"in_place": True},
    "divides by zero in a sweep without a good sample": {"empty": "nan"},
    "computes a slope of NaN for a sweep with a single good sample": {"single": True},
    "stops at a sweep of length zero": {"empty": "length"},
}


@exercise(
    "test",
    hints=(
        "The idea: for each mistake that somebody could make, you need a case that reveals it. "
        "How short can a sweep be, and how few good samples can it have?",
        "The shape: make another observation, and change its arrays: `good[0, starts[1]:stops[1]] "
        "= False`; in another sweep, do so for all samples but one; in a third, set `stops[3] = starts[3]`. Append the "
        "six arrays to `cases`. Where you make a bad sample good, give its signal a number.",
    ),
)
def test(passes):
    """The loop passes your test, and none of the nine wrong ports does."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        trial("a right port")
        right, ran = _port()
        require(passes(right) is not None, "the test returns None", look="return True or False")
        require(passes(_port()[0]), "your test rejects a port that does the same as the loop",
                look="is there a NaN in the signal where your case says that the sample is good?")
        for what, mistake in MISTAKES.items():
            trial(f"a port that {what}")
            require(not passes(_port(**mistake)[0]), f"your test accepts a port that {what}",
                    look="which case would show this fault?")
        require(passes(_port()[0]), "your test rejects a port that does the same as the loop, when it is "
                "tried once more", look=("does the test keep anything from the ports that it tried before?"))
        require(ran, "the test returns a result without calling the port",
                look="run the port on your cases, and compare it with the loop: `same(port, case)`")


def _port(**mistake):
    """A port, right or with a mistake, which looks the same; and what notes its calls."""
    calls = []

    def make_map(signal, good, pixels, starts, stops, weights):
        calls.append(len(signal))
        return _loop(signal, good, pixels, starts, stops, weights, **mistake)

    return make_map, calls


def _small(sweeps=5, longest=40, seed=1, detectors=2):
    """An observation with the sweeps that a port has to get right; NaN wherever none is good."""
    random = np.random.default_rng(seed)
    lengths = random.integers(2, longest + 1, sweeps)
    if sweeps > 3:
        lengths[1:4] = 0, longest, 1
    stops = np.cumsum(lengths + random.integers(0, 3, sweeps))  # some follow at once
    starts, samples = stops - lengths, int(stops.max(initial=0))  # the last ends with the signal
    signal = random.normal(0, 5, (detectors, samples)) + np.linspace(0, 9, samples)
    good = random.random((detectors, samples)) > 0.2
    if sweeps > 4:
        good[0, starts[4]:stops[4]] = False
        good[1, starts[4]:stops[4] - 1] = False
        good[1, stops[4] - 1] = True
    signal[~good] = np.nan
    pixels = random.integers(0, PIXELS, (detectors, samples))
    return signal, good, pixels, starts, stops, random.uniform(0.5, 2.0, detectors)


def _require_results(found, data, case, near=1e-9):
    names = "the cleaned signal", "sky", "hits"
    for name, ours, theirs in zip(names, found, _loop(*data), strict=True):
        ours = np.asarray(ours)
        require(ours.shape == theirs.shape, f"{case}, {name} has the shape {ours.shape}, not "
                                            f"{theirs.shape}", look=("which array does the loop return?"))
        wrong = np.argwhere(~np.isclose(ours, theirs, near, near, True))
        if not len(wrong):
            continue
        place = tuple(map(int, wrong[0]))
        where = ", ".join(map(str, place))
        look = "which samples do you add, with which weight, and is every addition kept?"
        if name == "the cleaned signal":
            look = "this sample belongs to no sweep"
            for first, last in zip(data[3], data[4], strict=True):
                if first <= place[1] < last:
                    count = data[1][place[0], first:last].sum()
                    look = f"it is in a sweep of {last - first} samples, {count} of them good"
        require(False, f"{case}, {name}[{where}] {is_not(ours[place], theirs[place])}",
                look=look)


@exercise(
    "fit",
    hints=(
        "The idea: the loop's five sums, each `…sum(axis=-1, keepdims=True)`, over arrays in "
        "which the bad samples are 0. Use `xp.where(good, y, 0.0)`, because NaN times 0 is still NaN.",
        "The shape: `t = xp.arange(y.shape[-1])`, then n, sum_t and sum_tt are the sums of `good`, `good * t` and "
        "`good * t * t`; sum_y and sum_ty are those of the new y and of t times it. If a denominator is 0, its numerator "
        "is 0, so divide by `xp.maximum(…, 1)`.",
    ),
)
def fit(fit_lines):
    """Every line is right, with gaps, single samples and none, in NumPy and in JAX."""
    import jax as library
    import jax.numpy as jnp

    compiled = library.jit(partial(fit_lines, xp=jnp))
    random = np.random.default_rng(31)
    for shape in ((2, 9), (3, 4, 17), (5, 2), (4, 1), (2, 0), (33,)):
        y, good = random.normal(20, 5, shape), random.random(shape) > 0.3
        if len(shape) > 1:
            good[0] = False
            good[-1, ..., 1:] = False
        y[~good] = np.nan
        for name, run in (("NumPy", partial(fit_lines, xp=np)), ("JAX", compiled)):
            case = f"with y of the shape {shape}, in {name}"
            given = y.copy(), good.copy()
            with np.errstate(all="raise", under="ignore"):
                found = run(*given)
            require(name == "JAX" or isinstance(found, np.ndarray), f"{case}, the function returns "
                    f"{a_or_an(type(found).__name__)}, not a NumPy array", look=("use only functions of xp"))
            require(all(map(partial(np.array_equal, equal_nan=True), given, (y, good))),
                    f"{case}, the function changes its input arrays", look=("use xp.where, which makes a new array"))
            found = np.asarray(found)
            require(found.shape == shape, f"{case}, the lines have the shape {found.shape}",
                    look="use keepdims=True, which keeps the last axis, so that the sums broadcast against t")
            expected = _lines(y, good)
            near = 1e-9 if found.dtype == np.float64 else 1e-3  # JAX's own float32
            wrong = np.argwhere(~np.isclose(found, expected, near, near))
            if not len(wrong):
                continue
            k = tuple(map(int, wrong[0]))
            count = int(good[k[:-1]].sum())
            require(False, f"{case}, in a row with {count} good samples, the line at {k[-1]} "
                           f"{is_not(found[k], expected[k])}",
                    look="do you replace NaN before you add anything?" if np.isnan(found[k]) else
                    "do all five sums run over only the good samples?")
    sizes = [len(str(library.make_jaxpr(partial(fit_lines, xp=jnp))(y, y > 0).eqns))
             for y in (np.ones((8, 16)), np.ones((64, 16)))]
    require(sizes[1] < 2 * sizes[0], "the lines are right, but the program grows with the number of rows: a "
            "Python loop was unrolled", look="work on all rows at once, with sums along axis=-1")
    require_all_at_once(partial(fit_lines, xp=jnp), np.ones((8, 16)), np.ones((8, 16), bool),
                        look="work on all rows at once, with sums along axis=-1")


def _lines(y, good):
    """Row by row."""
    shape = (-1, max(1, y.shape[-1]))
    rows, marks = y.reshape(shape), good.reshape(shape)
    lines = np.zeros(rows.shape)
    for line, row, ok in zip(lines, rows, marks, strict=True):
        t = np.flatnonzero(ok)
        if len(t) == 1:
            line[:] = row[t[0]]
        elif len(t):
            slope, offset = np.polyfit(t, row[t], 1)
            line[:] = offset + slope * np.arange(len(row))
    return lines.reshape(y.shape)


@exercise(
    "jax",
    hints=(
        "The idea: the mask, in the shape of `positions`, is true for samples that are good *and* before "
        "the stop. All other samples add 0 to the signal, to the sky and to the hits.",
        "The shape: `ok = good[:, positions] & (positions < stops[:, None])`; the lines come from "
        "`fit_lines(signal[:, positions], ok, jnp)`; `cleaned = signal.at[:, positions].add("
        "jnp.where(ok, -line, 0.0))`; `sky.at[pixels[:, positions]].add(…)`, and the same for hits.",
    ),
)
def jax(jax_map):
    """The three results are right whatever the padding, from one program for all sweeps."""
    import jax as library

    _require_lines(getattr(jax_map, "__wrapped__", jax_map))
    look = "use operations of jnp on all rows of `positions` at once"
    for sweeps, more, detectors in ((5, 0, 2), (5, 24, 3), (1, 0, 2), (40, 3, 2)):
        # Last sweep first: what is padding of one row may be a sample of the row before.
        signal, good, pixels, starts, stops, weights = _small(sweeps, detectors=detectors)
        data = signal, good, pixels, starts[::-1].copy(), stops[::-1].copy(), weights
        longest = int((stops - starts).max()) + more
        trial(f"{many(sweeps, 'sweep')} in rows of {longest}")
        # Within a jit: NumPy on the host has no numbers to compute with.
        run = library.jit(partial(jax_map, longest=longest))
        _require_results(run(*data), data, f"with {many(sweeps, 'sweep')} in rows of {longest}")
    plain = partial(getattr(jax_map, "__wrapped__", jax_map), longest=16)
    programs = [library.make_jaxpr(plain)(*_small(n, 16)).jaxpr for n in (8, 64)]
    require_all_at_once(plain, *_small(8, 16), look=look)
    require(len(str(programs[1])) < 2 * len(str(programs[0])), "the results are right, but the program "
            "grows with the number of sweeps: a Python loop was unrolled", look=look)
    signal = programs[1].invars[0].aval
    largest = max(one.aval.size for equation in equations(programs[1]) for one in equation.outvars)
    # An index of two or three numbers for each sample is made of `positions` by JAX.
    room = 3 * max(signal.size, signal.shape[0] * 64 * 16) + 3 * signal.shape[0] * 16
    require(largest <= room, f"the results are right, but the program makes an array of {largest:,} "
            f"numbers for {signal.shape[0]} × 64 rows of 16", look=("make rows of `longest` samples, not longer ones"))


def _require_lines(function):
    """That the learner's `fit_lines` is right, where `function` calls it."""
    lines = getattr(function, "__globals__", {}).get("fit_lines")
    if lines is None or "fit_lines" not in function.__code__.co_names:
        return
    straight = np.array([1.0, 3.0, 5.0])
    found = lines(straight, np.ones(3, bool), np)
    require(np.shape(found) == (3,) and np.allclose(found, straight),
            "your function calls `fit_lines`, which is not right yet: for 1, 3, 5 it returns a wrong line",
            look="solve the exercise before this one first")


@exercise(
    "cuda",
    hints=(
        "The idea: copy the loop's body. One thing changes because other threads run at the same time, "
        "and one changes because a thread has only one sweep.",
        "The shape: `first, last = starts[k], stops[k]`, the sums, `if n == 0: return`, slope and "
        "offset; in the last loop `cuda.atomic.add(sky, pixels[d, s], …)`, and the same for hits.",
    ),
)
def cuda(kernel):
    """The three results are right in every order that was tried, without a race, with a thread for each sweep."""
    from numba import cuda as numba_cuda

    def launch(data, blocks, threads):
        results = [numba_cuda.to_device(one)
                   for one in (data[0], np.zeros(PIXELS), np.zeros(PIXELS))]
        inputs = [numba_cuda.to_device(one) for one in data[1:]]
        kernel[blocks, threads](results[0], *inputs, *results[1:])
        # Sums in another order: equal to nine digits, and compared to the bit from there.
        return [*(np.round(one.copy_to_host(), 7) for one in results),
                *(one.copy_to_host() for one in inputs)]

    require(hasattr(kernel, "py_func"), f"this is {a_or_an(type(kernel).__name__)}, not a kernel",
            look="pass the name of the function that has @cuda.jit above it")
    for sweeps, detectors, threads in ((5, 2, 64), (1, 3, 32), (40, 2, 32), (9, 3, 128)):
        data = _small(sweeps, detectors=detectors)
        case = f"{many(sweeps, 'sweep')} of {many(detectors, 'detector')}"
        *found, good, pixels, starts, stops, _ = watched(
            partial(launch, data, detectors * sweeps // threads + 1, threads), what=case)
        _require_results(found, data, f"with {case}", near=2e-7)
        for after, before in zip((good, pixels, starts, stops), data[1:], strict=False):
            require(np.array_equal(after, before), f"with {case}, the kernel changes an input "
                                                   "array", look=("let the kernel write only to signal, sky and hits"))
    even = np.ones((8, 16 * 32)), np.ones((8, 16 * 32), bool), np.zeros((8, 16 * 32), np.int64)
    stops = 16 * np.arange(1, 33)
    counters = counted(kernel, 4, THREADS, *even, stops - 16, stops, np.ones(8), np.zeros(PIXELS),
                       np.zeros(PIXELS))
    # A sample is looked at twice, changed, and added twice: about 11 accesses.
    require_shared(counters, (4,), (THREADS,), 8 * 16 * 32, "let each thread take one sweep",
                   accesses=14)
