"""Function ``lesson``, with which a lecture's first cell loads its checks and hints."""

from __future__ import annotations

from collections.abc import Callable

from gpucourse.exercises.checks import lecture
from gpucourse.exercises.predictions import predictions


def lesson(id: str) -> tuple[Callable[..., None], Callable[[str], None], Callable[..., None]]:
    """Return ``check``, ``hint`` and ``predict`` of a lecture.

    The first cell of a lecture calls it::

        from gpucourse import lesson
        check, hint, predict = lesson("06_numba_cuda")
    """
    return (*lecture(id), predictions(id))
