"""``lesson("06_numba_cuda")``: the checks and hints that a lecture's first cell loads."""

from __future__ import annotations

from collections.abc import Callable

from gpucourse.exercises.checks import lecture
from gpucourse.exercises.predictions import predictions


def lesson(id: str) -> tuple[Callable[..., None], Callable[[str], None], Callable[..., None]]:
    """Return ``check``, ``hint`` and ``predict`` of a lecture.

    In its first cell::

        from gpucourse import lesson
        check, hint, predict = lesson("06_numba_cuda")
    """
    return (*lecture(id), predictions(id))
