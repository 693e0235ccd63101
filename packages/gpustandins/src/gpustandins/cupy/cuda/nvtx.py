"""``cupy.cuda.nvtx``: marks for NVIDIA's profilers, which have no effect here."""

from __future__ import annotations

available = True

_open: list[str] = []


def Mark(message: str, id_color: int = -1) -> None:
    """Do nothing; with NVTX, this marks the current moment."""


MarkC = Mark


def RangePush(message: str, id_color: int = -1) -> int:
    """Open a nested range and return its level, which counts from 0."""
    _open.append(message)
    return len(_open) - 1


RangePushC = RangePush


def RangePop() -> int:
    """Close the innermost range; return the number still open, or -2 (NVTX's code)."""
    if not _open:
        return -2
    _open.pop()
    return len(_open)


__all__ = ["Mark", "MarkC", "RangePop", "RangePush", "RangePushC", "available"]
