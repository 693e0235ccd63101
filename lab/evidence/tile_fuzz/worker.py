"""Worker that runs some cases: ``python -m lab.evidence.tile_fuzz.worker FIRST STOP``."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
import traceback
from pathlib import Path

import virtualgpu
from virtualgpu.memory.global_memory import GlobalMemory

virtualgpu.activate()
# The cases come from the package's tests.
sys.path.append(str(Path(__file__).parents[3] / "packages/virtualgpu/tests/support"))

import device_arrays  # noqa: E402
import tile_fuzz  # noqa: E402

SEED = 2027


def main(first: int, stop: int) -> None:
    raws, memory = tile_fuzz.corpus(device_arrays), GlobalMemory(1 << 30)
    address = memory.allocate(1 << 16)
    memory.fill(address, 0, 1 << 16)
    for number in range(first, stop):
        print(f"> {number}", flush=True)
        began, why = time.perf_counter(), ""
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                how = tile_fuzz.attempt(memory, address, tile_fuzz.case(raws, SEED, number))
        except Exception:
            how, why = "FAILED", traceback.format_exc(limit=-3)
        print(
            f"< {number} {json.dumps([round(time.perf_counter() - began, 3), {how: 1}, why])}",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
