"""Lock files in ``requirements/``: their platforms, their options, and a reader.

This command prints the name and the uv options of each file for `make lock`::

    python -m gpucourse.course.locks
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gpucourse.course.projects import COURSE, VIRTUALGPU, Projects

_COURSE = str(COURSE)
# Options of `uv pip compile` for each file in requirements/.
LOCKS: dict[str, tuple[str, ...]] = {
    "base": (_COURSE, "--group=test", "--group=dev"),
    "virtualgpu": (str(VIRTUALGPU), "--extra=numba-cuda"),
    "gpu": (_COURSE, "--extra=gpu"),
    "gpu12": (_COURSE, "--extra=gpu12"),
    "pycuda": ("--group=pycuda", "--constraints=requirements/base.txt"),
    # Only the group, without the package; packages that are also in base have base's version.
    "site": ("--group=site", "--constraints=requirements/base.txt"),
    "hub": ("--group=hub", "--constraints=requirements/base.txt"),
    "build": ("--group=build", "--constraints=requirements/base.txt"),
}


@dataclass
class Pin:
    """One entry of a lock: a requirement, its hashes, and the packages that require it."""

    requirement: Requirement
    hashes: list[str] = field(default_factory=list)
    wanted_by: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return canonicalize_name(self.requirement.name)


def read_lock(text: str) -> list[Pin]:
    """Return the pins of a file that ``uv pip compile --generate-hashes`` wrote."""
    pins: list[Pin] = []
    for line in text.splitlines():
        if re.match(r"\w", line):
            pins.append(Pin(Requirement(line.removesuffix("\\").strip())))
        elif found := re.search(r"--hash=(\w+:\w+)", line):
            pins[-1].hashes.append(found[1])
        # "# via name", or "# via" and one "#   name" per line
        elif found := re.fullmatch(r" +#(?: via|  ) ([\w.-]+)(?: \(.*\))?", line):
            pins[-1].wanted_by.append(canonicalize_name(found[1]))
    return pins


def reachable(roots: Iterable[str], pins: Iterable[Pin]) -> set[str]:
    """Return the names that ``roots`` require, directly or through other pins."""
    needs: dict[str, set[str]] = {}
    for pin in pins:
        for parent in pin.wanted_by:
            needs.setdefault(parent, set()).add(pin.name)
    found: set[str] = set()
    waiting: list[str] = [canonicalize_name(name) for name in roots]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(needs.get(name, ()))
    return found


def course_lock(project: Projects, lock: str) -> str:
    """Return the lock for learners on any machine, without tests and linters."""
    pins = course_pins(project, lock)
    return "\n".join(locked(pin, marker=True) for pin in pins) + "\n"


def course_pins(project: Projects, lock: str) -> list[Pin]:
    """Return the pins of the lock that the packages need."""
    # The lock lists a flattened extra under its parent's name, so names are enough to follow
    # requirements.
    pins = read_lock(lock)
    wanted = reachable((Requirement(root).name for root in project.dependencies), pins)
    return [pin for pin in pins if pin.name in wanted]


def locked(pin: Pin, marker: bool) -> str:
    """Format a pin as an entry of a requirements file, with its hashes."""
    condition = f" ; {pin.requirement.marker}" if marker and pin.requirement.marker else ""
    hashes = "".join(f" \\\n    --hash={value}" for value in pin.hashes)
    extras = ",".join(sorted(pin.requirement.extras))
    name = f"{pin.name}[{extras}]" if extras else pin.name
    return f"{name}{pin.requirement.specifier}{condition}{hashes}"


if __name__ == "__main__":
    for name, options in LOCKS.items():
        print(name, *options)
