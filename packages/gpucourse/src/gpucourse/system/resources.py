"""Memory and processors that this process may use, also inside a container."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from virtualgpu.processors import CGROUP, PROC, control_groups, lines, usable

# Version 1 represents "no limit" by a number near 2**63.
_UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class Resources:
    """``memory`` and ``free`` in bytes; ``processors`` may be a fraction of a container's quota."""

    memory: int
    free: int
    processors: float


def resources(cgroup: Path = CGROUP, proc: Path = PROC) -> Resources:
    """Return the memory and processors available to this process.

    Limits of the machine and of control groups (versions 1 and 2) are both applied.
    """
    import psutil

    machine = psutil.virtual_memory()
    total, free = machine.total, machine.available
    for group in control_groups("memory", cgroup, proc):
        limit = _number(group / "memory.max", group / "memory.limit_in_bytes")
        if limit is None or limit >= min(machine.total, _UNLIMITED):
            continue
        used = _number(group / "memory.current", group / "memory.usage_in_bytes") or 0
        # Unused file pages count as used memory, but are freed when memory is needed.
        idle = _count(group / "memory.stat", "inactive_file", "total_inactive_file") or 0
        total, free = min(total, limit), min(free, max(0, limit - used + idle))
    return Resources(total, free, usable(cgroup, proc))


def memory_kills(cgroup: Path = CGROUP, proc: Path = PROC) -> int | None:
    """Return the number of processes that the system has killed for lack of memory.

    The count is that of this process's control group, or of the whole machine. It is None if the
    system does not count.
    """
    for group in control_groups("memory", cgroup, proc):
        for name in ("memory.events", "memory.oom_control"):
            if (count := _count(group / name, "oom_kill")) is not None:
                return count
    return _count(proc / "vmstat", "oom_kill")


def gigabytes(count: float) -> str:
    """Return a size such as ``1.5 GB`` (10⁹ bytes), or ``3 MB`` below 0.1 GB."""
    if 0 < count < 1e8:
        return f"{count / 1e6:.0f} MB"
    value = count / 1e9
    return f"{value:.0f} GB" if value >= 10 or math.isclose(value, 0) else f"{value:.1f} GB"


def _number(*paths: Path) -> int | None:
    for path in paths:
        try:
            return int(path.read_text())
        except (OSError, ValueError):  # the file is missing or contains the word "max"
            continue
    return None


def _count(path: Path, *keys: str) -> int | None:
    """Return the number after the first of these words in a file of words and numbers."""
    for line in lines(path):
        word, _, value = line.partition(" ")
        if word in keys and value.isdigit():
            return int(value)
    return None
