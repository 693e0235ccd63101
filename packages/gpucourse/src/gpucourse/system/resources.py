"""How much memory and how many processors this process may use, inside a container too."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_PROC = Path("/proc")
# Version 1 says "no limit" with a number near 2**63.
_UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class Resources:
    """``memory`` and ``free`` in bytes; ``processors`` counts fractions of a container's quota."""

    memory: int
    free: int
    processors: float


def resources(cgroup: Path = _CGROUP, proc: Path = _PROC) -> Resources:
    """What is left after the limits of the machine and of every control group around this process.

    In a container its own group is mounted as the root of ``cgroup``; on a machine that limits its
    users (systemd's slices) the groups lie below it. Versions 1 and 2 are read.
    """
    import psutil

    machine = psutil.virtual_memory()
    total, free = machine.total, machine.available
    for group in _groups("memory", cgroup, proc):
        limit = _number(group / "memory.max", group / "memory.limit_in_bytes")
        if limit is None or limit >= min(machine.total, _UNLIMITED):
            continue
        used = _number(group / "memory.current", group / "memory.usage_in_bytes") or 0
        # File pages that are out of use count as used, and go when they are needed.
        idle = _count(group / "memory.stat", "inactive_file", "total_inactive_file") or 0
        total, free = min(total, limit), min(free, max(0, limit - used + idle))
    return Resources(total, free, _processors(cgroup, proc))


def memory_kills(cgroup: Path = _CGROUP, proc: Path = _PROC) -> int | None:
    """How many processes the system has killed for memory, where this process lives.

    Counted for this process's own control group, else for the whole machine; None where it is not
    counted.
    """
    for group in _groups("memory", cgroup, proc):
        for name in ("memory.events", "memory.oom_control"):
            if (count := _count(group / name, "oom_kill")) is not None:
                return count
    return _count(proc / "vmstat", "oom_kill")


def gigabytes(count: float) -> str:
    """``1.5 GB`` (10⁹ bytes), to two digits; ``3 MB`` below a tenth of one."""
    if 0 < count < 1e8:
        return f"{count / 1e6:.0f} MB"
    value = count / 1e9
    return f"{value:.0f} GB" if value >= 10 or math.isclose(value, 0) else f"{value:.1f} GB"


def _processors(cgroup: Path, proc: Path) -> float:
    if hasattr(os, "sched_getaffinity"):
        count = float(len(os.sched_getaffinity(0)))
    else:
        count = float(os.cpu_count() or 1)
    for group in _groups("cpu", cgroup, proc):
        words = " ".join(_lines(group / "cpu.max")).split()
        if not words:
            words = [str(_number(group / f"cpu.cfs_{name}_us")) for name in ("quota", "period")]
        # "max" and -1 mean no quota
        if all(word.isdigit() for word in words) and int(words[1]):
            count = min(count, int(words[0]) / int(words[1]))
    return count


def _groups(controller: str, cgroup: Path, proc: Path) -> list[Path]:
    """Folders of the control groups that this process is in, its own first, the root last."""
    for line in _lines(proc / "self" / "cgroup"):
        _, controllers, own = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = cgroup / controller if controllers else cgroup
        group = root / own.strip("/")
        if ".." in group.parts:  # a group outside of what a container sees
            group = root
        return [group, *(above for above in group.parents if above.is_relative_to(root))]
    return [cgroup, cgroup / controller]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _number(*paths: Path) -> int | None:
    for path in paths:
        try:
            return int(path.read_text())
        except (OSError, ValueError):  # missing, or the word "max"
            continue
    return None


def _count(path: Path, *keys: str) -> int | None:
    """The number behind the first of these words in a file of words and numbers."""
    for line in _lines(path):
        word, _, value = line.partition(" ")
        if word in keys and value.isdigit():
            return int(value)
    return None
