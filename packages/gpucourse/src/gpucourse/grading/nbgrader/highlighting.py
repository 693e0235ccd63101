"""Students' code in colours, on the pages of feedback and formgrader, within bounds.

A highlighter takes quadratic time on some text: 12 s for 199 kB of ``a.a.a…``.
"""

from __future__ import annotations

import html
from functools import cache
from typing import Any

from gpucourse.grading.submission.bounded import Bounded


def highlighted(source: str, language: str | None = None, metadata: Any = None) -> str:
    """Return Python as HTML: nbconvert's filter ``highlight_code``.

    It has no colours where they would take too long. The notebook's own statement of its language
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
    """Return Python in colours. Takes quadratic time on some text: use :func:`highlighted`."""
    return str(_highlighter()(source))


_coloured = Bounded(__name__, "coloured")
