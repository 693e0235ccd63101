"""Errors whose message says everything, and which are shown without a traceback."""

from __future__ import annotations


class CourseError(Exception):
    """The message says what is wrong and what to do: notebooks and the command show it alone."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]
