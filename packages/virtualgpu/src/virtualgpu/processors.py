"""Number of processor cores available to this process, also inside a container."""

from __future__ import annotations

import os
from pathlib import Path

from virtualgpu.errors import VirtualGPUError

CGROUP = Path("/sys/fs/cgroup")
PROC = Path("/proc")
VARIABLE = "VIRTUALGPU_THREADS"


def usable(cgroup: Path = CGROUP, proc: Path = PROC) -> float:
    """Return the number of available cores, a fraction if a container's quota is one.

    The quotas of all control groups around this process (versions 1 and 2) are applied.
    """
    if hasattr(os, "sched_getaffinity"):
        count = float(len(os.sched_getaffinity(0)))
    else:
        count = float(os.cpu_count() or 1)
    for group in control_groups("cpu", cgroup, proc):
        words = " ".join(lines(group / "cpu.max")).split() or [
            " ".join(lines(group / f"cpu.cfs_{name}_us")) for name in ("quota", "period")
        ]
        # "max" and -1 mean no quota
        if all(word.isdigit() for word in words) and int(words[1]):
            count = min(count, int(words[0]) / int(words[1]))
    return count


def wanted() -> int:
    """Return the number of cores for blocks: ``VIRTUALGPU_THREADS``, or all available ones.

    Raises VirtualGPUError if the variable is not an integer from 1 to 1024.
    """
    said = os.environ.get(VARIABLE, "").strip()
    if not said:
        return max(1, int(usable()))
    if not (said.isascii() and said.isdigit() and 1 <= int(said) <= 1024):
        raise VirtualGPUError(
            f"{VARIABLE}={said!r}: the number of processor cores for blocks must be a whole "
            "number from 1 to 1024. Leave it out to use all cores available to this process "
            f"({max(1, int(usable()))})"
        )
    return int(said)


def control_groups(controller: str, cgroup: Path, proc: Path) -> list[Path]:
    """Return the folders of this process's control groups, innermost first and the root last.

    In a container, the process's own group is mounted as the root of ``cgroup``. On a machine that
    limits its users (systemd slices), the groups are below that root.
    """
    for line in lines(proc / "self" / "cgroup"):
        _, controllers, own = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = cgroup / controller if controllers else cgroup
        group = root / own.strip("/")
        if ".." in group.parts:  # a group outside the container's view
            group = root
        return [group, *(above for above in group.parents if above.is_relative_to(root))]
    return [cgroup, cgroup / controller]


def lines(path: Path) -> list[str]:
    """Return a file's lines, or none if it cannot be read."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
