"""jaxpile against jax.jit: processor time, wall time, time to compile, and what a call costs.

    JAX_PLATFORMS=cpu python -m benchmarks.jit_speed [--cores N]

Both in turns in one process (the machine may be shared), medians; by default pinned to one core.
With several cores both use them all. The results are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

SIZES = (4096, 65536, 1 << 20)


def turns(functions, args, seconds: float = 2.0) -> list[tuple[float, float]]:
    """Median processor and wall seconds of each function, called in turns."""
    taken: list[list[tuple[float, float]]] = [[] for _ in functions]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken[0]) < 11:
        for function, times in zip(functions, taken, strict=True):
            wall, processor = time.perf_counter(), time.process_time()
            function(*args)
            times.append((time.process_time() - processor, time.perf_counter() - wall))
    return [tuple(statistics.median(column) for column in zip(*times[2:], strict=True))
            for times in taken]


def first_call(function, args) -> float:
    """Processor seconds of the call that compiles."""
    start = time.process_time()
    function(*args)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cores", type=int, default=1, help="cores to use; 0: all (default: 1)")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each row")
    options = parser.parse_args()
    if options.cores and hasattr(os, "sched_setaffinity"):
        # before JAX starts its threads
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.cores])
    import jax
    import jax.numpy as jnp
    import numpy as np

    import jaxpile
    from benchmarks.jit_programs import PROGRAMS, arguments

    jax.config.update("jax_enable_x64", True)

    def waiting(function):
        return lambda *args: jax.block_until_ready(function(*args))

    print(f"jax {jax.__version__}, cores {options.cores or os.cpu_count()}; times in microseconds")
    print(f"{'program':28} {'size':>8} {'ours':>9} {'jax.jit':>9} {'ratio':>6} {'wall':>6} "
          f"{'compile s':>10} {'jax':>6}")
    for name, program in PROGRAMS.items():
        for size in SIZES:
            args = [jnp.asarray(x) for x in arguments(name, size)]
            both = [waiting(jaxpile.jit(program)), waiting(jax.jit(program))]
            compiling = [first_call(function, args) for function in both]
            np.testing.assert_allclose(both[0](*args), both[1](*args), rtol=1e-10, atol=1e-11)
            ours, theirs = turns(both, args, options.seconds)
            print(f"{name:28} {size:8} {ours[0] * 1e6:9.0f} {theirs[0] * 1e6:9.0f} "
                  f"{ours[0] / theirs[0]:6.2f} {ours[1] / theirs[1]:6.2f} {compiling[0]:10.2f} "
                  f"{compiling[1]:6.2f}")
    one = jnp.ones(16)
    both = [waiting(jaxpile.jit(lambda x: x + 1)), waiting(jax.jit(lambda x: x + 1))]
    ours, theirs = turns(both, (one,), options.seconds)
    print(f"a call of 16 numbers: {ours[0] * 1e6:.0f} and {theirs[0] * 1e6:.0f} microseconds")


if __name__ == "__main__":
    main()
