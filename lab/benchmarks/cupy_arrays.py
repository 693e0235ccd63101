"""CuPy's stand-in against NumPy: how much slower its arrays are, and how much of it there is.

    python -m lab.benchmarks.cupy_arrays

Expressions on arrays of a million elements, the stand-in and plain NumPy in turns in one process:
what counts is the ratio of the medians of CPU time (the machine may be shared). Then every public
name that CuPy 14.2 shares with NumPy is called on both and the results are compared, by the
same calls as the tests.
"""

from __future__ import annotations

import statistics
import time
import warnings

import numpy as np

import virtualgpu
from lab.benchmarks import report

N = 1_000_000
RUNS = 31

#: What is timed; a, b, c are float64, s float32, i integers, xp the module.
EXPRESSIONS = {
    "a + b": lambda a, b, c, s, i, xp: a + b,
    "quadratic formula": lambda a, b, c, s, i, xp: (-b + xp.sqrt(b**2 - 4 * a * c)) / (2 * a),
    "sin(a)": lambda a, b, c, s, i, xp: xp.sin(a),
    "s * 2 + 1 (float32)": lambda a, b, c, s, i, xp: s * 2 + 1,
    "a > 7.5": lambda a, b, c, s, i, xp: a > 7.5,
    "a % b": lambda a, b, c, s, i, xp: a % b,
    "a += 0.0": lambda a, b, c, s, i, xp: a.__iadd__(0.0),
    "where(a > 7.5, a, b)": lambda a, b, c, s, i, xp: xp.where(a > 7.5, a, b),
    "clip(a, 6, 9)": lambda a, b, c, s, i, xp: xp.clip(a, 6, 9),
    "a.sum()": lambda a, b, c, s, i, xp: a.sum(),
    "a.std()": lambda a, b, c, s, i, xp: a.std(),
    "cumsum(a)": lambda a, b, c, s, i, xp: xp.cumsum(a),
    "dot(a, b)": lambda a, b, c, s, i, xp: xp.dot(a, b),
    "a[a > 7.5]": lambda a, b, c, s, i, xp: a[a > 7.5],
    "a[i]": lambda a, b, c, s, i, xp: a[i],
    "sort(a)": lambda a, b, c, s, i, xp: xp.sort(a),
    "histogram(a, 100)": lambda a, b, c, s, i, xp: xp.histogram(a, 100),
    "bincount(i)": lambda a, b, c, s, i, xp: xp.bincount(i),
    "a.astype(float32)": lambda a, b, c, s, i, xp: a.astype(np.float32),
    "a.astype(int32)": lambda a, b, c, s, i, xp: a.astype(np.int32),
    "concatenate([a, b])": lambda a, b, c, s, i, xp: xp.concatenate([a, b]),
    "a.copy()": lambda a, b, c, s, i, xp: a.copy(),
}


def ratios(cp) -> dict:
    """Milliseconds of both and their ratio, for each expression."""
    random = np.random.default_rng(1)
    host = {
        "a": random.uniform(5, 10, N),
        "b": random.uniform(10, 20, N),
        "c": random.uniform(-0.1, 0.1, N),
        "s": random.uniform(0, 1, N).astype(np.float32),
        "i": random.integers(0, N, N),
    }
    device = {name: cp.asarray(values) for name, values in host.items()}
    found = {}
    for name, run in EXPRESSIONS.items():
        times: tuple[list, list] = ([], [])
        slow = name.startswith(("sort", "histogram"))
        for turn in range(9 if slow else RUNS):
            for took, arrays, module in zip(times, (host, device), (np, cp), strict=True):
                before = time.process_time()
                result = run(**arrays, xp=module)
                took.append(time.process_time() - before)
                del result
            if turn < 2:  # warming up
                times[0].clear()
                times[1].clear()
        numpy_ms, ours_ms = (1e3 * statistics.median(took) for took in times)
        found[name] = {
            "numpy_ms": round(numpy_ms, 3),
            "cupy_standin_ms": round(ours_ms, 3),
            "ratio": round(ours_ms / numpy_ms, 2),
        }
    return found


def coverage(cp) -> dict:
    """How many of CuPy's names in NumPy's namespace give NumPy's results."""
    from test_cupy_namespace import ONLY_THERE, differences, on_host

    import cupy_namespace as namespace
    import lab.benchmarks.support  # noqa: F401

    host, device = namespace.arrays(np), namespace.arrays(cp)
    right: dict[str, bool] = {}
    calls = [(one, False) for one in namespace.calls()]
    calls += [(one, True) for one in namespace.writes()]
    for call, writes in calls:
        name = namespace.name_of(call)
        try:
            results = []
            for arrays in (host, device):
                target = arrays["xp"].linspace(0, 1, 24)
                value = namespace.evaluate(call, {**arrays, "a": target})
                results.append(on_host(target if writes else value, cp))
            same = differences(*results) == []
        except Exception as error:
            print(f"{call}: {type(error).__name__}: {error}")
            same = False
        right[name] = right.get(name, True) and same
    for name in {part for pair in namespace.FILES for part in pair.split()}:
        right[name] = hasattr(cp, name)  # the tests write files with them
    shared = [name for name in namespace.NAMES if hasattr(np, name)]
    wrong = sorted(name for name in shared if not right.get(name, hasattr(cp, name)))
    return {
        "names_shared_by_cupy_and_numpy": len(shared),
        "give_numpys_results": len(shared) - len(wrong),
        "of_these_types_constants_and_modules": len(set(ONLY_THERE) & set(shared)),
        "calls_compared": len(calls),
        "wrong": wrong,
    }


def main() -> None:
    virtualgpu.activate()
    import cupy as cp

    warnings.simplefilter("ignore")
    with np.errstate(all="ignore"):
        names = coverage(cp)
    times = ratios(cp)
    path = report.write(
        "cupy_arrays",
        {
            "elements": N,
            "clock": "CPU time of the process, median, in turns",
            "expressions": times,
            "largest_ratio": max(one["ratio"] for one in times.values()),
            "namespace": names,
        },
    )
    for name, one in times.items():
        print(
            f"{name:<24} NumPy {one['numpy_ms']:8.3f} ms   stand-in "
            f"{one['cupy_standin_ms']:8.3f} ms   {one['ratio']:.2f}"
        )
    print(
        f"{names['give_numpys_results']} of {names['names_shared_by_cupy_and_numpy']} names "
        f"give NumPy's results; {path}"
    )


if __name__ == "__main__":
    main()
