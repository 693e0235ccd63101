"""Comparison of native code with the interpreter on random kernels: bytes and messages.

``python -m lab.evidence.native --kernels 4000`` generates kernels 0 to 3999
(``packages/virtualgpu/tests/support/structured_kernels.py``), compiles each once and launches it
on 250 blocks. A case is one block with its own input. Results are written to
``lab/results/native.json`` continually. When the command is stopped and started again, it repeats
the failed cases once and then continues where it was. ``--show NUMBER`` prints a kernel and its
outcome.

Blocks with an error are launched one by one, at most four per kernel; the blocks that remain after
them are left out. One kernel in fifty also runs under ``check()``. Bytes may differ where
``check()`` finds a race, and where warps wait for each other and two of them fail, either error
may be reported. Any other difference is a failure, and so is a process that dies or hangs. After a
failure the exit status is 1.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections import Counter
from random import Random

import numpy as np

import lab.benchmarks.support  # noqa: F401
from lab.evidence import campaign
from native_lab import Loaded, checked
from structured_kernels import STATEMENTS, Structured
from structured_words import by_block, inputs
from virtualgpu import native
from virtualgpu.errors import BudgetExceeded, VirtualGPUError
from virtualgpu.native import run as native_run
from virtualgpu.native.compiled import NativeKernel

BLOCKS = 250
WATCHED = 6  # blocks run under check()
WIDTHS = (1, 20, 32, 32, 33, 64, 77, 96)  # threads per block
WRONG = 4  # failing blocks per kernel that are compared; further blocks are left out
SECONDS = 30.0  # processor seconds for a launch


class Different(Exception):
    """Error for a difference between the two executors."""


class Pair:
    """A kernel for both executors."""

    def __init__(self, seed: int):
        self.seed, self.meetings = seed, bool(seed % 2)
        self.watched = seed % 100 in (3, 54)  # this variant takes up to 10 s to compile
        self.text = Structured(seed, self.meetings, 3 if self.watched else STATEMENTS).text()
        self.width = Random(seed).choice(WIDTHS)
        self.loaded = Loaded(self.text, inputs(seed, BLOCKS, self.width))
        self.ended = Counter[str]()

    def run(self) -> Counter[str]:
        """Run the kernel's blocks and return their outcomes. Raises Different."""
        self.compare(0, BLOCKS)
        reason = self.loaded.program.native
        if isinstance(reason, str):
            return Counter([f"refused: {reason}"])
        if self.watched:
            self.watch()
        return self.ended

    def compare(self, first: int, stop: int) -> None:
        """Compare the blocks from ``first`` to ``stop``, in as many launches as necessary."""
        if first >= stop or self.ended["equal errors"] >= WRONG:
            return
        options = {
            "grid": stop - first,
            "block": self.width,
            "numbers": [first],
            "seconds": SECONDS,
        }
        there, wrong = self.loaded.run(None, **options)
        here, error = self.loaded.run(native.natively, **options)
        if isinstance(wrong, BudgetExceeded) or isinstance(error, BudgetExceeded):
            self.ended["took too long"] += 1
        elif (found := wrong or error) is None:
            self.same_bytes(first, stop, there, here)
        elif stop - first == 1:
            if said(error) == said(wrong):
                self.ended["equal errors"] += 1
            elif self.meetings and type(error) is type(wrong) and warp(error) != warp(wrong):
                self.ended["an error of another warp"] += 1
            else:
                raise Different(f"block {first}: {error!s} for {wrong!s}")
        else:
            place = found.location and found.location.block
            at = first + place[0] if place else (first + stop) // 2
            for some in ((at, at + 1), (first, at), (at + 1, stop)):
                self.compare(*some)

    def same_bytes(self, first: int, stop: int, there: list, here: list) -> None:
        one, other = (by_block(contents, BLOCKS, self.width) for contents in (there, here))
        for block in np.flatnonzero((one != other).any(axis=1)):
            if not (first <= block < stop and self.races(int(block))):
                where = np.flatnonzero(one[block] != other[block])
                raise Different(f"block {block}: bytes {where[:8]} of {len(where)}")
            self.ended["different where threads race"] += 1
            self.ended["equal"] -= 1
        self.ended["equal"] += stop - first

    def races(self, block: int) -> bool:
        (_, findings, *_), _ = checked(
            self.text, None, self.loaded.arrays, grid=1, block=self.width, numbers=[block]
        )
        return any(kind == "race" for kind, *_ in findings)

    def watch(self) -> None:
        """Compare the reports under ``check()``, the bytes, and which bytes were written."""
        options = {"grid": WATCHED, "block": self.width, "numbers": [0]}
        there, _ = checked(self.text, None, self.loaded.arrays, **options)
        here, code = checked(self.text, native.natively, self.loaded.arrays, **options)
        if here != there:
            raise Different(
                f"under check(): {here[0]}\n{here[1]} {here[4]}\nfor {there[0]}\n"
                f"{there[1]} {there[4]}"
            )
        how = "native" if isinstance(code, NativeKernel) else "interpreted"
        self.ended[f"check(), {how}, {'findings' if there[1] else 'clean'}"] += 1


def said(error: VirtualGPUError | None) -> list[str]:
    """Return an error's text; a deadlock's groups are sorted, and its first thread removed."""
    words = str(error)
    if not words.startswith("deadlock"):
        return [words]
    what, _, groups = words.split("\n")[0].partition(" waits for ever: ")
    waiting, _, advice = groups.partition(". Every")
    return [what, *sorted(waiting.split("; ")), advice]


def warp(error: VirtualGPUError | None) -> int | None:
    """Return the warp of the thread that an error names, for one-dimensional blocks."""
    place = error and error.location
    return place.thread[0] // 32 if place and place.thread else None


def outcome(seed: int) -> tuple[Counter[str], str]:
    """Return the outcome of a kernel's cases, or ``FAILED`` with the reason."""
    try:
        return +Pair(seed).run(), ""
    except Different as difference:
        return Counter(["FAILED"]), str(difference)
    except Exception as error:
        return Counter(["FAILED"]), repr(error)


def serve(first: int, stop: int) -> None:
    os.environ["VIRTUALGPU_CACHE"] = "0"
    native_run.STRICT = True
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for seed in range(first, stop):
        print(f"> {seed}", flush=True)
        begin = time.process_time()
        ended, why = outcome(seed)
        seconds = round(time.process_time() - begin, 4)
        print(f"< {seed} {json.dumps([seconds, ended, why])}", flush=True)


def show(seed: int) -> None:
    native_run.STRICT = True
    pair = Pair(seed)
    print(pair.text)
    print(pair.width, "threads per block:", *outcome(seed), file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1].isdigit():
        serve(int(sys.argv[1]), int(sys.argv[2]))
    else:
        # Compiled code stays in memory until its process ends.
        sys.exit(
            campaign.main(
                "lab.evidence.native",
                __doc__ or "",
                "native code against the interpreting machine, on random kernels",
                "kernels",
                4000,
                chunk=20,
                show=show,
            )
        )
