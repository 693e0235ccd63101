"""Building blocks of the views: HTML that follows the notebook's theme, and plain text.

No script and nothing from the network: a saved notebook and its export show the same. Where a page
takes styles and SVG out, there are words.
Colours of text, lines and paper are JupyterLab's own variables, or what the page has where those
are missing; fills are translucent or taken from one palette that reads on light and dark.
"""

from __future__ import annotations

import hashlib
import html
import itertools
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpucourse.views.picture import COLOURS
from gpucourse.wording import a_or_an

SKY, ORANGE, GREEN, YELLOW, PURPLE, BLUE, VERMILION = COLOURS
#: Blocks, warps or threads that stand side by side take these in turn. All carry black text.
FILLS = (SKY, ORANGE, "#45C29B", YELLOW, "#E3A5C7", "#8FB8DE", "#F2956B", "#C5C5C5")

_RULES = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
# JupyterLab's own rules for tables and code are specific; the name three times outweighs them.
STYLE = f"<style>{_RULES.replace('.gpuc ', '.gpuc.gpuc.gpuc ').strip()}</style>"
# JupyterLab takes styles and SVG out of the outputs of notebooks that were run elsewhere.
_UNTRUSTED = (
    "In words, because this notebook is not trusted:\n“Trust Notebook” among "
    "Jupyter's commands shows the picture."
)
_COLUMNS = 88  # of a monospaced font, in a notebook
_numbers = itertools.count(1)


class View:
    """Something to look at: HTML in a notebook, plain text everywhere else.

    Attributes
    ----------
    markup : str
        HTML without the style sheet.
    text : str
        The same in words, for terminals and for those who cannot see the picture.
    """

    def __init__(self, markup: str, text: str):
        self.markup, self.text = markup, text

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": self.text, "text/html": self._repr_html_()}

    def _repr_html_(self) -> str:
        # The words show where the style sheet has been taken out, and the picture only with it.
        words = f"{_UNTRUSTED}\n\n{escape(_wrapped(self.text))}"
        return (
            f'{STYLE}<pre class="gpuc-words">{words}</pre>'
            f'<div class="gpuc-picture" hidden="hidden">{self.markup}</div>'
        )


def _wrapped(text: str) -> str:
    """Break long lines of prose between words; indented lines are tables and stay whole."""
    return "\n".join(
        line if len(line) <= _COLUMNS or line[:1] == " " else textwrap.fill(line, _COLUMNS)
        for line in text.split("\n")
    )


def beside(*views: View) -> View:
    """Place views side by side where the page is wide enough, else one below the other."""
    for view in views:
        if not isinstance(view, View):
            raise TypeError(
                "beside() takes views, such as gpucourse.memory(...), not "
                f"{a_or_an(type(view).__name__)}"
            )
    return View(
        f'<div class="gpuc-row">{"".join(view.markup for view in views)}</div>',
        "\n\n".join(view.text for view in views),
    )


def box(*parts: str, label: str = "") -> str:
    """Return the outermost element of a view."""
    named = f' role="group" aria-label="{escape(label)}"' if label else ""
    return f'<div class="gpuc"{named}>{"".join(parts)}</div>'


def head(title: str, *facts: str) -> str:
    """Return the first line of a view: its name, with facts beside it."""
    beside = "".join(f'<span class="faint">{escape(fact)}</span>' for fact in facts if fact)
    return f'<div class="head"><b>{escape(title)}</b>{beside}</div>'


def wide(markup: str, name: str) -> str:
    """Wrap an element that may be wider than the page, so that it scrolls by itself.

    The arrow keys scroll it too once Tab has reached it. `name` is what a screen reader calls it.
    """
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">{markup}</div>'
    )


def note(text: str) -> str:
    return f'<p class="faint small">{escape(text)}</p>'


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """Return a legend in one row from pairs of a swatch's style and words."""
    return (
        '<div class="legend small">'
        + "".join(
            f'<span><i style="{style}"></i>{escape(words)}</span>' for style, words in entries
        )
        + "</div>"
    )


def escape(text: object) -> str:
    return html.escape(str(text), quote=True)


# -- pictures -----------------------------------------------------------------------------------


def svg(width: float, height: float, parts: Iterable[str], alt: str) -> str:
    """Return a picture with its description; lengths are pixels."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" role="img" aria-label="{escape(alt)}">{"".join(parts)}</svg>'
    )


def rect(x: float, y: float, width: float, height: float, style: str, title: str = "") -> str:
    inside = f"><title>{escape(title)}</title></rect>" if title else "/>"
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" {style}{inside}'


def label(
    x: float, y: float, text: object, size: float = 11, anchor: str = "start", style: str = ""
) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}" {style}>'
        f"{escape(text)}</text>"
    )


# -- steps --------------------------------------------------------------------------------------


def stepper(frames: Sequence[str], names: Sequence[str], marks: Sequence[object] = ()) -> str:
    """Return a slider over frames without a script: one radio button each, drawn as a scale.

    ``marks`` stand on the scale, in place of 1, 2, …; a frame's name is what a pointer is told.
    The arrow keys move it once it has been clicked; in JupyterLab, whose own they are in a
    notebook, thanks to the course's extension (``share/labextensions/gpucourse``).
    """
    if len(frames) == 1:
        return f"<div>{frames[0]}</div>"
    seed = "".join(frames).encode() + str(next(_numbers)).encode()
    id = "gpuc" + hashlib.sha256(seed).hexdigest()[:10]
    rules = (
        f".{id}>input{{position:absolute;opacity:0;width:1px;height:1px}}"
        f".{id}>.f{{display:none}}"
        f".{id}>.scale{{display:flex;margin:.3em 0 .5em;max-width:760px}}"
        f".{id}>.scale label{{flex:1 1 0;height:24px;min-width:5px;cursor:pointer;font-size:11px;"
        "line-height:24px;text-align:center;overflow:hidden;margin-right:1px;"
        "background:color-mix(in srgb,currentColor 14%,transparent)}"
        f".{id}>.scale label:hover{{background:color-mix(in srgb,currentColor 32%,transparent)}}"
    )
    shown = ",".join(f"#{id}-{n}:checked~.f{n}" for n in range(len(frames)))
    chosen = ",".join(f"#{id}-{n}:checked~.scale label.s{n}" for n in range(len(frames)))
    focus = ",".join(f"#{id}-{n}:focus-visible~.scale label.s{n}" for n in range(len(frames)))
    rules += (
        f"{shown}{{display:block}}{chosen}{{background:#0072B2;color:#fff;font-weight:600}}"
        f"{focus}{{outline:2px solid #E69F00}}"
    )
    steps = marks or (range(1, len(frames) + 1) if len(frames) <= 40 else [""] * len(frames))
    inputs = "".join(
        f'<input type="radio" name="{id}" id="{id}-{n}" '
        f'aria-label="{escape(names[n]) if marks else f"step {n + 1}"}"'
        f"{' checked' if n == 0 else ''}>"
        for n in range(len(frames))
    )
    labels = "".join(
        f'<label class="s{n}" for="{id}-{n}" title="{escape(name)}">{escape(step)}</label>'
        for n, (name, step) in enumerate(zip(names, steps, strict=True))
    )
    body = "".join(f'<div class="f f{n}">{frame}</div>' for n, frame in enumerate(frames))
    return (
        f'<style>{rules}</style><div class="gpuc-steps {id}">{inputs}'
        f'<div class="scale">{labels}</div>{body}</div>'
    )
