"""Errors whose message is shown without a traceback."""

from __future__ import annotations


class CourseError(Exception):
    """Error whose message says what is wrong and what to do."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]
