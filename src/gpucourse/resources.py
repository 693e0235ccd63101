"""How much memory and how many processors this process may use, inside a container too."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
# Version 1 says "no limit" with a number near 2**63.
_UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class Resources:
    """``memory`` and ``free`` in bytes; ``processors`` counts fractions of a container's quota."""

    memory: int
    free: int
    processors: float


def resources(cgroup: Path = _CGROUP) -> Resources:
    """What is left after the limits of the container (cgroup v1 or v2) and of the machine."""
    import psutil

    machine = psutil.virtual_memory()
    total, free = machine.total, machine.available
    limit = _number(cgroup, "memory.max", "memory/memory.limit_in_bytes")
    if limit is not None and limit < min(total, _UNLIMITED):
        used = _number(cgroup, "memory.current", "memory/memory.usage_in_bytes") or 0
        # File pages that nobody uses any more count as used, and go when they are needed.
        idle = _statistic(cgroup, "inactive_file")
        total, free = limit, min(free, max(0, limit - used + idle))
    return Resources(total, free, _processors(cgroup))


def memory_kills(cgroup: Path = _CGROUP, proc: Path = Path("/proc")) -> int | None:
    """How many processes the system has killed for memory, where this process lives.

    Counted for this process's own control group (``memory.events`` of version 2,
    ``memory.oom_control`` of version 1), else for the whole machine; None where nobody counts.
    """
    for line in _lines(proc / "self" / "cgroup"):
        _, controllers, own = line.split(":", 2)
        if not controllers:
            # In a container its own group is mounted as the root.
            places = [cgroup / own.lstrip("/") / "memory.events", cgroup / "memory.events"]
        elif "memory" in controllers.split(","):
            top = cgroup / "memory"
            places = [top / own.lstrip("/") / "memory.oom_control", top / "memory.oom_control"]
        else:
            continue
        for place in places:
            if (count := _count(place, "oom_kill")) is not None:
                return count
    return _count(proc / "vmstat", "oom_kill")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _count(path: Path, key: str) -> int | None:
    for line in _lines(path):
        word, _, value = line.partition(" ")
        if word == key and value.isdigit():
            return int(value)
    return None


def _processors(cgroup: Path) -> float:
    if hasattr(os, "sched_getaffinity"):
        count = float(len(os.sched_getaffinity(0)))
    else:
        count = float(os.cpu_count() or 1)
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
        return min(count, int(quota) / int(period)) if quota != "max" else count
    except (OSError, ValueError):
        pass
    quota = _number(cgroup, "cpu/cpu.cfs_quota_us")
    period = _number(cgroup, "cpu/cpu.cfs_period_us")
    return min(count, quota / period) if quota and period and quota > 0 else count


def _number(cgroup: Path, *names: str) -> int | None:
    for name in names:
        try:
            return int((cgroup / name).read_text())
        except (OSError, ValueError):  # missing, or the word "max"
            continue
    return None


def _statistic(cgroup: Path, key: str) -> int:
    for name in ("memory.stat", "memory/memory.stat"):
        try:
            for line in (cgroup / name).read_text().splitlines():
                word, value = line.split()
                if word in (key, f"total_{key}"):
                    return int(value)
        except (OSError, ValueError):
            continue
    return 0


def gigabytes(count: float) -> str:
    """``1.5 GB`` (10⁹ bytes), to two digits."""
    value = count / 1e9
    return f"{value:.0f} GB" if value >= 10 or math.isclose(value, 0) else f"{value:.1f} GB"
