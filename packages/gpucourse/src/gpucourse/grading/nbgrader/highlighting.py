"""Syntax highlighting of students' code for feedback and formgrader, with a time limit.

A highlighter takes quadratic time on some text: 12 s for 199 kB of ``a.a.a…``.
"""

from __future__ import annotations

import html
from functools import cache
from typing import Any

from gpucourse.grading.submission.bounded import Bounded


def highlighted(source: str, language: str | None = None, metadata: Any = None) -> str:
    """Return Python code as HTML, in place of nbconvert's filter ``highlight_code``.

    The code is not coloured if that would take too long. The language that the notebook declares
    is ignored.
    """
    shown = _coloured(source)
    return (
        f'<div class="highlight"><pre>{html.escape(source)}</pre></div>'
        if shown is None
        else (shown)
    )


@cache
def _highlighter() -> Any:
    from nbconvert.filters.highlight import Highlight2HTML

    return Highlight2HTML(pygments_lexer="ipython3")  # type: ignore[no-untyped-call]


def coloured(source: str) -> str:
    """Return Python code in colours, in quadratic time for some text; use :func:`highlighted`."""
    return str(_highlighter()(source))


_coloured = Bounded(__name__, "coloured")
