"""Benchmark of jaxpile and jax.jit: processor, wall and compilation time, cost of a call.

    JAX_PLATFORMS=cpu python -m lab.benchmarks.jit_speed [--cores 1 0] [--sizes 4096] [--write]

Both run in turns in one process, because the machine may be shared, and medians are reported. Each
number of cores has its own process: 1 is pinned to one core, 0 uses all. The results are compared
before anything is timed, and may have at most twice NumPy's own error against long double.
``--write`` saves the results in lab/results/jit_speed.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

SIZES = (4096, 16384, 65536, 1 << 20)
#: The goal, for cells from this size on: at most 1.0 times the processor time of jax.jit in 10 of
#: 12.
AIM_FROM = 65536
CALLS = 100


def turns(functions, args, seconds: float) -> list[tuple[float, float]]:
    """Return the median processor and wall seconds of each function, called in turns."""
    taken: list[list[tuple[float, float]]] = [[] for _ in functions]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken[0]) < 11:
        for function, times in zip(functions, taken, strict=True):
            wall, processor = time.perf_counter(), time.process_time()
            function(*args)
            times.append((time.process_time() - processor, time.perf_counter() - wall))
    return [
        tuple(statistics.median(column) for column in zip(*times[2:], strict=True))
        for times in taken
    ]


def first_call(function, args) -> float:
    """Return the processor seconds of the call that compiles."""
    start = time.process_time()
    function(*args)
    return time.process_time() - start


def errors(results, exact) -> list[float]:
    """Return the largest error of each result, in units of the largest exact element."""
    import numpy as np

    return [
        float(
            np.max(np.abs(np.asarray(found, np.longdouble) - truth))
            / max(np.max(np.abs(truth)), np.longdouble(1e-300))
        )
        for found, truth in zip(results, exact, strict=True)
    ]


def too_wrong(program, args, found) -> list[tuple[float, float]]:
    """Return (error, NumPy's error) where ours exceeds twice NumPy's (or one unit)."""
    import jax
    import numpy as np

    wide = [np.asarray(x, np.longdouble) if x.dtype.kind == "f" else x for x in args]
    exact, numpy, ours = (
        jax.tree.leaves(result) for result in (program(*wide), program(*args), found)
    )
    pairs = zip(errors(ours, exact), errors(numpy, exact), strict=True)
    return [(mine, theirs) for mine, theirs in pairs if mine > 2 * max(theirs, 2.0**-53)]


def measured(sizes, seconds: float, cores: int) -> dict:
    """Return a row for each program and size, and the cost of a call, in this pinned process."""
    import jax
    import jax.numpy as jnp

    import jaxpile
    from lab.benchmarks.jit_programs import PROGRAMS, arguments

    jax.config.update("jax_enable_x64", True)

    def waiting(function):
        return lambda *args: jax.block_until_ready(function(*args))

    rows = []
    for name, program in PROGRAMS.items():
        for size in sizes:
            given = arguments(name, size)
            args = [jnp.asarray(x) for x in given]
            both = [waiting(jaxpile.jit(program)), waiting(jax.jit(program))]
            compiling = [first_call(function, args) for function in both]
            wrong = too_wrong(program, given, both[0](*args))
            if wrong:
                raise SystemExit(f"{name} of {size} errs by more than twice NumPy's error: {wrong}")
            ours, theirs = turns(both, args, seconds)
            rows.append(
                {
                    "program": name,
                    "size": size,
                    "cores": cores,
                    "ours_us": ours[0] * 1e6,
                    "jax_us": theirs[0] * 1e6,
                    "processor": ours[0] / theirs[0],
                    "wall": ours[1] / theirs[1],
                    "compile_s": compiling[0],
                    "jax_compile_s": compiling[1],
                }
            )
            row = rows[-1]
            print(
                f"{name:28}{size:9}{cores:6}{row['ours_us']:9.0f}{row['jax_us']:9.0f}"
                f"{row['processor']:7.2f}{row['wall']:6.2f}{compiling[0]:11.2f}"
                f"{compiling[1]:7.2f}",
                file=sys.stderr,
            )
    one = jnp.ones(16)
    both = [many(waiting(jit(lambda x: x + 1))) for jit in (jaxpile.jit, jax.jit)]
    ours, theirs = turns(both, (one,), seconds)
    return {
        "jax": jax.__version__,
        "rows": rows,
        "call_us": {"cores": cores, "ours": ours[0] * 1e6 / CALLS, "jax": theirs[0] * 1e6 / CALLS},
    }


def many(function):
    """Make ``CALLS`` calls as one, because reading the clock costs as much as one call."""

    def calls(*args):
        for _ in range(CALLS):
            function(*args)

    return calls


def apart(options, cores: int) -> dict:
    """Run ``measured`` in a separate process."""
    command = [
        sys.executable,
        "-m",
        "lab.benchmarks.jit_speed",
        "--child",
        "--cores",
        str(cores),
        "--seconds",
        str(options.seconds),
        "--sizes",
        *map(str, options.sizes),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--cores",
        type=int,
        nargs="+",
        default=[1, 0],
        help="numbers of cores to measure with; 0: all (default: 1 0)",
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="for each row")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--write", action="store_true", help="save the results in the repository")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        if options.cores[0] and hasattr(os, "sched_setaffinity"):
            # before JAX starts its threads
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores[0]])
        print(json.dumps(measured(options.sizes, options.seconds, options.cores[0])))
        return
    print(
        f"{'program':28}{'size':>9}{'cores':>6}{'ours µs':>9}{'jax µs':>9}{'ratio':>7}{'wall':>6}"
        f"{'compile s':>11}{'jax s':>7}",
        file=sys.stderr,
    )
    found = [apart(options, cores) for cores in options.cores]
    rows = [row for one in found for row in one["rows"]]
    large = [row["processor"] for row in rows if row["size"] >= AIM_FROM]
    if large:
        print(
            f"from {AIM_FROM} up: processor time at most that of jax.jit in "
            f"{sum(ratio <= 1 for ratio in large)} of {len(large)} cells, {max(large):.2f} of it "
            "at worst"
        )
    for one in found:
        print(
            "a call of 16 numbers, {cores} cores: {ours:.0f} µs and {jax:.0f} µs".format(
                **one["call_us"]
            )
        )
    if options.write:
        from lab.benchmarks.report import write

        results = {"jax": found[0]["jax"], "rows": rows, "calls": [one["call_us"] for one in found]}
        print(f"wrote {write('jit_speed', results).name}")


if __name__ == "__main__":
    main()
