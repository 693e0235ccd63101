"""Benchmark of the virtual GPU, interpreting and native, against ``numba.njit`` on one core.

    python -m lab.benchmarks.native_speed

It runs the same work as a kernel and as a serial loop (:mod:`.native_kernels`), and reports
processor time as medians of interleaved calls. Kernel and loop have run before, so neither
compiles while it is timed. The ratios are what matters. Further figures are the cost of a
process's first launches, with nothing on disk and with the cache of an earlier process; a small
launch; the memory of a launch; ``check()``; and the speed-up on two cores, with that of two bare
cores of this machine, because what is called a core may be half a physical core, or have other
work.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np
from numba import njit

REPEATS = 11
LAUNCHES = 100  # on one core and on two, of which the fastest counts
ROUNDS = 100_000
SMALL = 300  # launches of 32 threads

# The first work of a process, and the device's processor seconds for it. Numba's work before it
# passes on PTX is not included.
FIRST = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np, virtualgpu
from numba import cuda, float32
from virtualgpu import devices
virtualgpu.activate(force=True)
spent = [0.0]
def timed(method):
    def run(self, *arguments, **options):
        begin = time.process_time()
        try:
            return method(self, *arguments, **options)
        finally:
            spent[0] += time.process_time() - begin
    return run
for name in ("load", "launch"):
    setattr(devices.VirtualDevice, name, timed(getattr(devices.VirtualDevice, name)))
from lab.benchmarks.native_kernels import cases
case = cases()["tree sum in shared memory, 2**20"]
x, total = cuda.to_device(np.ones(1024, np.float32)), cuda.to_device(np.zeros(1, np.float32))
spent[0] = 0.0
if sys.argv[1] == "checked":
    with virtualgpu.check():
        case.kernel[4, 256](x, total)
else:
    case.kernel[4, 256](x, total)
print(json.dumps(spent[0]))
"""


# Largest increase of a process's memory during a launch, in MiB. All arrays are written beforehand,
# and the same kernel has already run on one block.
MEMORY = """
import json, os, warnings
warnings.simplefilter("ignore")
import numpy as np, virtualgpu
from numba import cuda
virtualgpu.activate(force=True)
from lab.benchmarks.native_kernels import cases
def kibibytes(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))
found = {}
for name, case in cases().items():
    if not name.startswith(("vector add", "tree sum")):
        continue
    wide = [np.zeros(1 << 24, np.float32) if isinstance(one, np.ndarray) and one.size > 1 else one
            for one in case.arrays]
    there = [cuda.to_device(one) for one in wide]
    case.kernel[1, 256](*there)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = kibibytes("VmRSS")
    case.kernel[1 << 16, 256](*there)
    found[name.split(",")[0]] = round((kibibytes("VmHWM") - before) / 1024, 1)
print(json.dumps(found))
"""


def interleaved(
    first: Callable[[], object],
    second: Callable[[], object],
    repeats: int = REPEATS,
    clock: Callable[[], float] = time.process_time,
    of: Callable[[list[float]], float] = statistics.median,
) -> tuple[float, float]:
    """Return the medians, or results of ``of``, of the times of two functions run in turn."""
    for _ in range(2):
        first()
        second()
    taken: tuple[list[float], list[float]] = [], []
    for _ in range(repeats):
        for times, run in zip(taken, (first, second), strict=True):
            begin = clock()
            run()
            times.append(clock() - begin)
    return of(taken[0]), of(taken[1])


def first_launch(how: str, native: str | None, folder: str) -> float:
    """Return the seconds of a process with ``VIRTUALGPU_NATIVE`` (None: not set, as is usual)."""
    settings = {name: value for name, value in os.environ.items() if name != "VIRTUALGPU_NATIVE"}
    settings |= {"VIRTUALGPU_CACHE": folder} | ({"VIRTUALGPU_NATIVE": native} if native else {})
    ran = subprocess.run(
        [sys.executable, "-c", FIRST, how],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        env=settings,
    )
    return round(json.loads(ran.stdout), 3)


def first_launches() -> dict[str, dict[str, float]]:
    found = {}
    for name, how, native in (
        ("by default", "plain", None),
        ("interpreted", "plain", "0"),
        ("native", "plain", "always"),
        ("under check()", "checked", "0"),
    ):
        with tempfile.TemporaryDirectory() as folder:
            found[name] = {
                "cold": first_launch(how, native, folder),
                "from the cache": first_launch(how, native, folder),
            }
    return found


def memory(native: str) -> dict[str, float]:
    ran = subprocess.run(
        [sys.executable, "-c", MEMORY],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        env=os.environ | {"VIRTUALGPU_NATIVE": native},
    )
    return dict(json.loads(ran.stdout))


def main() -> None:
    os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")
    import virtualgpu

    virtualgpu.activate(force=True)
    from numba import cuda

    from lab.benchmarks.native_kernels import cases
    from lab.benchmarks.report import write
    from virtualgpu import devices

    device = devices.current()
    device.cores = 1
    ratios: dict[str, dict[str, float]] = {}
    checked: dict[str, float] = {}
    cores: dict[str, dict[str, float]] = {}
    small: dict[str, float] = {}
    for machine, native in (("interpreted", False), ("native", True)):
        # Compiled at the first launch, or never; a long-lived process reaches this state anyway.
        os.environ["VIRTUALGPU_NATIVE"] = "always" if native else "0"
        device.compiles = native
        for name, case in cases().items():
            there = [
                cuda.to_device(one) if isinstance(one, np.ndarray) else one for one in case.arrays
            ]
            configured = case.kernel[case.blocks, case.threads]

            def launch(configured=configured, there=there):
                configured(*there)

            ours, theirs = interleaved(
                launch, lambda case=case: case.loop(*(case.others or case.arrays))
            )
            ratios.setdefault(name, {})[machine] = round(ours / theirs, 2)
            print(f"{name}, {machine}: {ratios[name][machine]}", flush=True)
            if not native:
                continue

            def watched(launch=launch):
                with virtualgpu.check():
                    launch()

            plain, under = interleaved(launch, watched, 3)
            checked[name] = round(under / plain, 1)
            if name.startswith(("Mandelbrot", "histogram", "the same")):
                cores[name] = on_two_cores(launch, device)
        small[machine] = small_launch(cuda)
    results = {
        "processor time over numba.njit's, one core": ratios,
        "a launch of 32 threads, ms of processor time": small,
        "first launch of a process, s of processor time beyond Numba's own": first_launches(),
        "MiB of memory beyond the arrays, launch of 65,536 blocks of 256 threads": {
            "interpreted": memory("0"),
            "native": memory("always"),
        },
        "check() over a plain native launch, processor time": checked,
        "on two cores": cores,
        "load average (1 min), where 1 is this benchmark's own": round(os.getloadavg()[0], 1),
    }
    print(json.dumps(results, indent=1))
    # The cost of a warp depends on the width of vectors, so each width has its own file.
    wide = llvm.get_host_cpu_features().get("avx512f")
    print(write("native_speed" if wide else "native_speed_avx2", results))


def on_two_cores(launch: Callable[[], object], device) -> dict[str, float]:
    """Return the wall-clock speed-up on two cores, from the best time of each.

    Other work on the machine can still disturb it. The speed-up of a bare loop that takes one core
    equally long is added, and the processor time of both cores together.
    """

    def on(count: int) -> Callable[[], object]:
        def run() -> None:
            device.cores = count
            launch()

        return run

    walls = interleaved(on(1), on(2), LAUNCHES, time.perf_counter, min)
    work = interleaved(on(1), on(2))
    device.cores = 1
    bare = bare_cores(walls[0])
    return {
        "wall time of one over theirs": round(walls[0] / walls[1], 2),
        "the same of a bare loop, numba.njit(nogil=True)": round(bare[0] / bare[1], 2),
        "their processor time over one's": round(work[1] / work[0], 2),
    }


@njit(nogil=True)
def count_rounds(rounds: int) -> float:
    """Compute a chain of multiplications and sums, which needs a core but no memory."""
    x = 1.0
    for _ in range(rounds):
        x = x * 0.999999 + 0.5
    return x


def bare_cores(seconds: float) -> tuple[float, float]:
    """Return the wall time of a loop of some seconds on one core, and of its halves on two."""
    count_rounds(1)
    once = min(
        interleaved(
            lambda: count_rounds(ROUNDS),
            lambda: count_rounds(ROUNDS),
            clock=time.perf_counter,
            of=min,
        )
    )
    rounds = int(seconds / once * ROUNDS)

    def on_two() -> None:
        other = threading.Thread(target=count_rounds, args=(rounds // 2,))
        other.start()
        count_rounds(rounds // 2)
        other.join()

    return interleaved(lambda: count_rounds(rounds), on_two, LAUNCHES, time.perf_counter, min)


def small_launch(cuda) -> float:
    """Return the milliseconds of ``kernel[1, 32](x)``, the best of five rounds."""

    @cuda.jit
    def increase(x):
        x[cuda.grid(1)] += 1

    x = cuda.to_device(np.zeros(32, np.float32))
    best = float("inf")
    for _ in range(6):
        begin = time.process_time()
        for _ in range(SMALL):
            increase[1, 32](x)
        best = min(best, time.process_time() - begin)
    return round(best / SMALL * 1e3, 3)


if __name__ == "__main__":
    main()
