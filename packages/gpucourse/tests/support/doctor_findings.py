"""What the doctor finds, for its tests."""

from __future__ import annotations

from gpucourse.doctor import Finding


def finding(part, name: str) -> Finding:
    """The one finding of this name that a part of the examination makes."""
    (found,) = (f for f in part() if f.name == name)
    return found
