"""Known findings that a project accepts, each with its reason.

The entry ``gpu_stump.py:174: all threads store the same value`` accepts the findings at that line;
for a race, either of its two lines counts. ``my_kernel: …`` accepts the findings in that kernel.
All other findings are still reported, and the report names every entry that matched nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

from virtualgpu.findings import Finding

_ENTRY = re.compile(r"(?P<place>[^\s:]+?)(?::(?P<line>\d+))?:\s+(?P<reason>\S.*)", re.DOTALL)
FORM = "file.py:LINE: reason, or kernel: reason"


@dataclass(frozen=True)
class Acceptance:
    """Accepted findings: those of a kernel, or those at a line of a file, with the reason.

    ``place`` is the kernel's name, the file's name, or the last parts of the file's path.
    """

    place: str
    line: int | None
    reason: str

    def __str__(self) -> str:
        return self.place if self.line is None else f"{self.place}:{self.line}"

    def covers(self, finding: Finding) -> bool:
        """Return True if ``finding`` is in this kernel or at this line."""
        if self.line is None:
            return finding.kernel == self.place
        places = [(finding.filename, finding.line)]
        if finding.other is not None:
            places.append((finding.other.filename, finding.other.line))
        wanted = PurePath(self.place).parts
        return any(
            line == self.line
            and filename is not None
            and PurePath(filename).parts[-len(wanted) :] == wanted
            for filename, line in places
        )


def read(entries: Iterable[str]) -> tuple[Acceptance, ...]:
    """Parse entries of the form ``file.py:LINE: reason`` or ``kernel: reason``.

    Raises ValueError, with the entry as its message, if an entry has another form.
    """
    found = []
    for text in filter(None, map(str.strip, entries)):
        match = _ENTRY.fullmatch(text)
        if match is None:
            raise ValueError(text)
        line = match["line"]
        found.append(
            Acceptance(
                match["place"], int(line) if line else None, " ".join(match["reason"].split())
            )
        )
    return tuple(found)


def split(
    findings: Iterable[Finding], accepted: Iterable[Acceptance]
) -> tuple[list[Finding], dict[Acceptance, int]]:
    """Return the findings not accepted, and the number of occurrences that each entry covers."""
    left: list[Finding] = []
    needed: dict[Acceptance, int] = {}
    for finding in findings:
        by = next((one for one in accepted if one.covers(finding)), None)
        if by is None:
            left.append(finding)
        else:
            needed[by] = needed.get(by, 0) + finding.count
    return left, needed
