"""Time of the first, second and tenth launch: interpreted, native, and by default.

    python -m lab.benchmarks.first_launches

The kernels are those of :mod:`.native_kernels`, and four of them also run over 100 to ten million
elements. Each runs in three new processes with nothing on disk: with native code off, with native
code from the first launch, and with the default setting, where the work of a kernel decides
(:mod:`virtualgpu.devices.changeover`). The figures are the milliseconds that the device spends on
loading and launching, without Numba's work before it passes PTX on. They are given as processor
time of all threads, which other work on the machine hardly changes, and as wall time.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile

WAYS = {"interpreted": "0", "native": "always", "by default": None}
ASKED = (1, 2, 10)
SIZES = tuple(10**power for power in range(2, 8))

LAUNCHES = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np, virtualgpu
from numba import cuda
from virtualgpu import devices
virtualgpu.activate(force=True)
spent = np.zeros(2)
def timed(method):
    def run(self, *arguments, **options):
        begin = np.array([time.process_time(), time.perf_counter()])
        try:
            return method(self, *arguments, **options)
        finally:
            spent[:] += [time.process_time(), time.perf_counter()] - begin
    return run
for name in ("load", "launch"):
    setattr(devices.VirtualDevice, name, timed(getattr(devices.VirtualDevice, name)))
from lab.benchmarks.native_kernels import cases, of_size
name, size = sys.argv[1], int(sys.argv[2])
case = (of_size(size) if size else cases())[name]
there = [cuda.to_device(one) if isinstance(one, np.ndarray) else one for one in case.arrays]
found, total = [], 0.0
while len(found) < 10 and total < 20:
    spent[:] = 0
    try:
        case.kernel[case.blocks, case.threads](*there)
    except virtualgpu.BudgetExceeded:
        break
    found.append(spent.tolist())
    total += spent[0]
print(json.dumps(found))
"""


def launches(name: str, size: int, native: str | None) -> list[list[float]]:
    """Return the processor seconds and wall seconds of each of ten launches.

    Fewer are made if they take 20 s together, or if a time limit stops one.
    """
    settings = {key: value for key, value in os.environ.items() if key != "VIRTUALGPU_NATIVE"}
    with tempfile.TemporaryDirectory() as folder:
        settings |= {"VIRTUALGPU_CACHE": folder} | ({"VIRTUALGPU_NATIVE": native} if native else {})
        ran = subprocess.run(
            [sys.executable, "-c", LAUNCHES, name, str(size)],
            check=True,
            text=True,
            stdout=subprocess.PIPE,
            env=settings,
        )
    found: list[list[float]] = json.loads(ran.stdout)
    return found


def over_better(found: dict[str, dict[str, dict[str, list[float]]]]) -> dict[str, list[float]]:
    """Return each row's ratio of the default to the better of interpreted and native.

    The ratios compare the processor times of the first launch, and of the first two together.
    """

    def spent(ways: dict[str, dict[str, list[float]]], way: str, numbers: tuple[int, ...]) -> float:
        """Return the time of some launches; infinite if a time limit stopped one."""
        return sum(ways[way].get(f"launch {number}", [math.inf])[0] for number in numbers)

    return {
        row: [
            round(
                spent(ways, "by default", numbers)
                / min(spent(ways, way, numbers) for way in ("interpreted", "native")),
                2,
            )
            for numbers in ((1,), (1, 2))
        ]
        for row, ways in found.items()
    }


def main() -> None:
    os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")
    import virtualgpu

    virtualgpu.activate(force=True)
    from lab.benchmarks.native_kernels import cases, of_size
    from lab.benchmarks.report import write

    wanted = [(name, 0) for name in cases()]
    wanted += [(name, size) for name in of_size(SIZES[0]) for size in SIZES]
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for name, size in wanted:
        row = f"{name}, {size:,}" if size else name
        found[row] = {}
        for way, native in WAYS.items():
            taken = launches(name, size, native)
            found[row][way] = {
                f"launch {number}": [round(one * 1e3, 1) for one in taken[number - 1]]
                for number in ASKED
                if number <= len(taken)
            }
        print(row, json.dumps(found[row]), flush=True)
    print(
        write(
            "first_launches",
            {
                "ms of a launch: processor time, wall": found,
                "by default over the better way, processor time of the first launch, of the first "
                "two": over_better(found),
                "cores": os.cpu_count(),
                "load average (1 min), where 1 is this benchmark's own": round(
                    os.getloadavg()[0], 1
                ),
            },
        )
    )


if __name__ == "__main__":
    main()
