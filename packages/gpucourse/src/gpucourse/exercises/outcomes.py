"""Display of check outcomes and hints, in a notebook and in a terminal."""

from __future__ import annotations

import html
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpucourse.exercises import bounds, reasons
from gpucourse.exercises.reasons import places
from gpucourse.system.language import _

#: Machine-readable part of a check's output, for tests that run notebooks.
CHECK_MIME = "application/vnd.gpucourse.check+json"

# Blue and vermilion of Okabe and Ito's palette, which colour-blind readers can distinguish. Hints
# use its orange, predictions its sky blue.
_PASSED, _FAILED, _HINT = "#0072B2", "#D55E00", "#E69F00"
ASKED = "#56B4E9"
_EMPHASIS = re.compile(r"(?<![\w*)\]])\*(\w(?:[^*\n]*\w)?)\*(?![\w*])")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a check; ``next_step`` is a call with which the learner gets help."""

    name: str
    passed: bool
    message: str
    look: str | None = None
    next_step: str | None = None

    def __str__(self) -> str:
        lines = [f"{'✓' if self.passed else '✗'} {self.name}: {self.message}"]
        if self.look:
            lines.append(f"  {_('Where to look:')} {self.look}")
        if self.next_step:
            lines.append(f"  {_('For a hint, in a new cell:')} {self.next_step}")
        return "\n".join(lines)

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": str(self), "text/html": self.html(), CHECK_MIME: asdict(self)}

    def html(self) -> str:
        """Return the outcome as a box with a coloured edge."""
        sign = "✓" if self.passed else "✗"
        body = f"<b>{sign} {html.escape(self.name)}:</b> {marked_up(self.message)}"
        if self.look:
            body += f"<br><i>{_('Where to look:')}</i> {marked_up(self.look)}"
        if self.next_step:
            body += f"<br><i>{_('For a hint, in a new cell:')}</i> "
            body += f"<code>{html.escape(self.next_step)}</code>"
        return edged(body, _PASSED if self.passed else _FAILED)


@dataclass(frozen=True, slots=True)
class _Hints:
    text: str
    markup: str

    def __str__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": self.text, "text/html": self.markup}


class Said(str):
    """A text that a notebook displays without quotes."""

    def __repr__(self) -> str:
        return str(self)


def show(shown: object, place: Any = None) -> Any:
    """Display an object in a notebook, or print it anywhere else.

    In a notebook, return the display handle. Pass it as ``place`` to replace what it shows.
    """
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        print(shown)
        return None
    from IPython.display import display

    if place is None:
        return display(shown, display_id=True)
    place.update(shown)
    return place


def show_hints(name: str, hints: tuple[str, ...], total: int, solution: Path | None) -> None:
    """Show the first hints of ``total``, and how to see the next hint or the answer."""
    if len(hints) < total:
        more = _('call hint("{name}") again for the next hint').format(name=name)
    elif solution is not None:
        more = _("this is the last hint; the answer is in {path}").format(path=solution.as_posix())
    else:
        more = _("this is the last hint; your teacher has the answer")
    told = [
        (_("Hint {number} of {total}:").format(number=number, total=total), hint)
        for number, hint in enumerate(hints, start=1)
    ]
    lines = [f"{which} {hint}" for which, hint in told]
    markup = "<br>".join(f"<b>{which}</b> {marked_up(hint)}" for which, hint in told)
    markup += f"<br><small>{html.escape(more)}</small>"
    show(_Hints("\n".join([*lines, f"({more})"]), edged(markup, _HINT)))


def describe_error(error: BaseException) -> tuple[str, str | None]:
    """Return the learner's exception as a pair of the fault and the place to look at."""
    where = places(error)[-1:]
    look = str(where[0]) if where else None
    if isinstance(error, bounds.NeverEnds):
        return _("your code was still running after {seconds:g} s, so the check stopped it").format(
            seconds=bounds.SECONDS
        ), look
    return "\n".join(reasons.told(error)), look


def marked_up(text: str) -> str:
    """Return escaped HTML that keeps `code`, *emphasis*, line breaks and indents."""
    parts = re.split(r"`([^`]+)`", html.escape(text, quote=False))
    parts[::2] = (_EMPHASIS.sub(r"<em>\1</em>", words) for words in parts[::2])
    parts[1::2] = (f"<code>{code}</code>" for code in parts[1::2])
    return f'<span style="white-space: pre-wrap">{"".join(parts)}</span>'


def edged(body: str, colour: str) -> str:
    """Return a box with a coloured edge around HTML."""
    style = f"border-left: 4px solid {colour}; padding: 0.3em 0.8em; margin: 0.3em 0"
    return f'<div style="{style}">{body}</div>'
