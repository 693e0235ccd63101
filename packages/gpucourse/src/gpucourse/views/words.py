"""Sentences about counters: the meaning of each number, and its best possible value."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpucourse.wording import many
from virtualgpu.api import Counters

#: Signs of a remark: as good as possible, costly, or neutral.
GOOD, COSTLY, PLAIN = "✓", "!", "·"
#: Factor above the best value at which a remark is costly: a tenth more.
_TOLERANCE = 1.1
WARP = 32


@dataclass(frozen=True, slots=True)
class Remark:
    """One sentence about a launch; ``sign`` is GOOD, COSTLY or PLAIN."""

    topic: str
    text: str
    sign: str = PLAIN


def remarks(counters: Counters, grid: tuple[int, ...], block: tuple[int, ...]) -> list[Remark]:
    """Return remarks on a launch's counters, the most important first."""
    blocks = math.prod(grid)
    found = [_work(counters, math.prod(block))]
    found += _memory(counters)
    found += _atomics(counters)
    if counters.barriers:
        each = counters.barriers / blocks
        found.append(Remark("barriers", f"each block passed {number(each)}"))
    if moved := counters.global_bytes_read + counters.global_bytes_written:
        text = (
            f"threads asked to read {size(counters.global_bytes_read)} and write "
            f"{size(counters.global_bytes_written)} of global memory"
        )
        if counters.flops:
            text += (
                f", for {many(counters.flops, 'floating point operation')}: "
                f"{number(counters.flops / moved)} per byte"
            )
        found.append(Remark("traffic", text))
    return found


def geometry(grid: tuple[int, ...], block: tuple[int, ...]) -> str:
    """Describe a launch: ``4 blocks of 48 threads: 192 threads in 8 warps, …``."""
    blocks, threads = math.prod(grid), math.prod(block)
    warps = blocks * -(-threads // WARP)
    text = (
        f"{many(blocks, 'block')} of {many(threads, 'thread')}: "
        f"{many(blocks * threads, 'thread')} in {many(warps, 'warp')}"
    )
    if threads % WARP:
        text += f", the last of each block with {threads % WARP} of {WARP} lanes"
    return text


def _work(counters: Counters, threads: int) -> Remark:
    issued = counters.warp_instructions
    lost = counters.lanes_lost / (WARP * issued) if issued else 0
    text = (
        f"warps issued {many(issued, 'instruction')}, with {number(counters.active_lanes)} of "
        f"{WARP} lanes at work on average"
    )
    if lost < 0.005:
        return Remark("lanes", text, GOOD)
    reasons = []
    if counters.divergent_branches:
        reasons.append(
            f"{many(counters.divergent_branches, 'branch', 'branches')} diverged within a "
            "warp: while some of its lanes ran, the others waited"
        )
    if threads % WARP:
        reasons.append(f"blocks of {many(threads, 'thread')} do not fill their last warp")
    text += f": {share(lost)} of the executed lanes did nothing"
    if reasons:
        text += " (" + "; ".join(reasons) + ")"
    return Remark("lanes", text, COSTLY if lost > 0.1 else PLAIN)


def _memory(counters: Counters) -> list[Remark]:
    found = []
    for kind in ("load", "store"):
        requests = getattr(counters, f"global_{kind}_requests")
        if not requests:
            continue
        touched = getattr(counters, f"global_{kind}_sectors") / requests
        ideal = getattr(counters, f"global_{kind}_ideal_sectors") / requests
        good = touched <= ideal * _TOLERANCE
        verb = "read" if kind == "load" else "wrote"
        if good and number(touched) == number(ideal):
            text = f"each time a warp {verb}, it touched {_sectors(touched)}: as few as would do"
        else:
            text = (
                f"each time a warp {verb}, it touched {_sectors(touched)}; {number(ideal)} would do"
            )
        found.append(
            Remark(
                f"global {kind}s", f"{text} ({many(requests, 'request')})", GOOD if good else COSTLY
            )
        )
    for kind in ("load", "store"):
        requests = getattr(counters, f"shared_{kind}_requests")
        if not requests:
            continue
        waves = getattr(counters, f"shared_{kind}_wavefronts")
        conflicts = getattr(counters, f"shared_{kind}_conflicts")
        each = number(waves / requests)
        text = f"each request of a warp took {each} {'wavefront' if each == '1' else 'wavefronts'}"
        if conflicts:
            least = number((waves - conflicts) / requests)
            text += f"; {least} would do: bank conflicts cost {many(conflicts, 'extra wavefront')}"
        else:
            text += ": no bank conflicts"
        found.append(
            Remark(
                f"shared {kind}s",
                f"{text} ({many(requests, 'request')})",
                COSTLY if conflicts else GOOD,
            )
        )
    if counters.local_loads or counters.local_stores:
        found.append(
            Remark(
                "local memory",
                (
                    f"local arrays and spilled variables were read {counters.local_loads:,} "
                    f"and written {counters.local_stores:,} times; on a GPU they are in device "
                    "memory"
                ),
            )
        )
    return found


def _atomics(counters: Counters) -> list[Remark]:
    if not counters.atomics:
        return []
    where = " and ".join(
        f"{n:,} in {space} memory"
        for n, space in ((counters.global_atomics, "global"), (counters.shared_atomics, "shared"))
        if n
    )
    requests = counters.global_atomic_requests + counters.shared_atomic_requests
    queue = counters.atomic_passes / requests
    text = f"{many(counters.atomics, 'update')} ({where}); one address took "
    text += (
        f"{counters.atomic_hottest:,} of them, and on average {number(queue)} lanes of a warp "
        "queued for one address"
        if number(queue) != "1"
        else f"{counters.atomic_hottest:,} of them, but lanes of one warp did not meet there"
    )
    return [Remark("atomics", text, COSTLY if queue > 2 else PLAIN)]


def _sectors(count: float) -> str:
    return f"{number(count)} {'sector' if number(count) == '1' else 'sectors'} of 32 bytes"


# -- numbers ------------------------------------------------------------------------------------


def number(value: float) -> str:
    """Return a number such as ``32``, ``4.5`` or ``12,345``, with at most one decimal."""
    if not math.isfinite(value):
        return "–"
    if value >= 1000:
        return f"{value:,.0f}"
    if 0 < abs(value) < 0.1:
        return f"{value:.2g}"
    return f"{value:.1f}".removesuffix(".0")


def share(part: float) -> str:
    """Return a fraction as a percentage."""
    percent = 100 * part
    return "<1 %" if 0 < percent < 1 else f"{percent:.0f} %"


def size(nbytes: int) -> str:
    """Return a size such as ``400 kB``, in powers of ten."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= factor:
            return f"{number(nbytes / factor)} {unit}"
    return f"{nbytes} B"


def duration(seconds: float) -> str:
    """Return a time with three digits in s, ms, µs or ns, such as ``1.5 ms``."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
