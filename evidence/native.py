"""Native code against the interpreting machine, on random kernels: the same bytes, the same words.

    python -m evidence.native [seeds] [first seed]

Each seed makes two kernels (``packages/virtualgpu/tests/support/structured_kernels.py``), one in
which lanes never have to wait, one with meetings and barriers, and runs both machines on one warp.
Lanes that wait for others go on in an order that nothing fixes: of a deadlock, the groups may come
in another order, and where ``check()`` finds a race (as in seed 3031) words may differ.
Ends with status 1 where they differ; writes ``benchmarks/results/native.json``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter

import numpy as np

import benchmarks.support  # noqa: F401
from benchmarks.report import write
from native_lab import after, checked
from structured_kernels import WORDS, Structured
from virtualgpu import codegen

CHUNK = 25  # seeds for one process: compiled code stays in memory until its end


def outcome(seed: int, meetings: bool) -> str:
    """How one kernel ended: ``equal``, ``equal errors``, ``refused``, or ``DIFFERENT`` and how."""
    arrays = np.random.default_rng(seed).integers(0, 1 << 32, (2, WORDS), dtype=np.uint32)
    text = Structured(seed, meetings).text()
    options = {"grid": 1, "block": [32, 32, 20][seed % 3]}
    there, wrong, _ = after(text, None, arrays, **options)
    here, error, code = after(text, codegen.natively, arrays, **options)
    if isinstance(code, str):
        return f"refused: {code}"
    if said(error) != said(wrong):
        return f"DIFFERENT words, {error!r} for {wrong!r}"
    if wrong is not None:
        return "equal errors"
    same = all((a == b).all() for a, b in zip(here, there, strict=True))
    if same:
        return "equal"
    if meetings:
        (_, findings, *_), _ = checked(text, None, arrays, **options)
        if any(kind == "race" for kind, *_ in findings):
            return "different where lanes race"
    return "DIFFERENT bytes"


def said(words: str | None) -> list[str] | None:
    """An error's words; of a deadlock, the groups that wait in no order, without the first's
    thread."""
    if words is None or not words.startswith("deadlock"):
        return None if words is None else [words]
    what, _, groups = words.split("\n")[0].partition(" waits for ever: ")
    waiting, _, advice = groups.partition(". Every")
    return [what, *sorted(waiting.split("; ")), advice]


def serve(first: int, stop: int) -> None:
    for seed in range(first, stop):
        for meetings in (False, True):
            print(seed, int(meetings), outcome(seed, meetings), flush=True)


def main(seeds: int, first: int) -> int:
    start, ended, different = time.perf_counter(), Counter[str](), []
    for begin in range(first, first + seeds, CHUNK):
        stop = min(begin + CHUNK, first + seeds)
        done = subprocess.run(
            [sys.executable, "-m", "evidence.native", "--serve", str(begin), str(stop)],
            env={**os.environ, "VIRTUALGPU_CACHE": "0"}, capture_output=True, text=True,
            check=False)
        lines = done.stdout.splitlines()
        for line in lines:
            _, meetings, how = line.split(" ", 2)
            kind = "with meetings" if meetings == "1" else "without"
            ended[f"{kind}: {how.split(',')[0]}"] += 1
            if "DIFFERENT" in how:
                different.append(line)
        if done.returncode:
            different.append(f"the process died after {lines[-1:]}: {done.stderr[-500:]}")
        print(write("native", {
            "command": f"python -m evidence.native {seeds} {first}",
            "seeds": [first, stop], "kernels": sum(ended.values()), "ended": dict(ended),
            "different": different, "seconds": round(time.perf_counter() - start),
        }), dict(ended), flush=True)
    return bool(different)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(int(sys.argv[2]), int(sys.argv[3]))
    else:
        seeds, first = [*map(int, sys.argv[1:]), *(1000, 0)[len(sys.argv) - 1 :]]
        sys.exit(main(seeds, first))
