"""Findings that a project knows and accepts, each with its reason.

``gpu_stump.py:174: all threads store the same value`` accepts what is found at that line (of a race
either line), ``my_kernel: …`` what is found in that kernel. Nothing else of the test is accepted,
and the run says which entries were not needed.
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
    """Accepted finding: a kernel, or a file and a line, and the reason.

    The file is given by its name, or more of its path.
    """

    place: str
    line: int | None
    reason: str

    def __str__(self) -> str:
        return self.place if self.line is None else f"{self.place}:{self.line}"

    def covers(self, finding: Finding) -> bool:
        """Return True if ``finding`` is at this place."""
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
    """Return acceptances from their texts.

    Raises ValueError with a text that has another form.
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
    """Split findings into those not accepted and a count of uses of each acceptance."""
    left: list[Finding] = []
    needed: dict[Acceptance, int] = {}
    for finding in findings:
        by = next((one for one in accepted if one.covers(finding)), None)
        if by is None:
            left.append(finding)
        else:
            needed[by] = needed.get(by, 0) + finding.count
    return left, needed
