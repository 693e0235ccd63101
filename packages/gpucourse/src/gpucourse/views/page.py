"""Building blocks of the views: HTML in the notebook's theme, and plain text.

There are no scripts and no resources from the network, so a saved notebook and its export look the
same. If a page removes styles and SVG, it shows words instead. Colours of text, lines and paper
are JupyterLab's variables, or the page's own colours if these are missing. Fills are translucent
or come from one palette that is legible on light and dark pages.
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
#: Colours of neighbouring blocks, warps or threads, in turn. Black text is legible on all of them.
FILLS = (SKY, ORANGE, "#45C29B", YELLOW, "#E3A5C7", "#8FB8DE", "#F2956B", "#C5C5C5")

_RULES = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
# JupyterLab's own rules for tables and code are specific; repeating the class three times outweighs
# them.
STYLE = f"<style>{_RULES.replace('.gpuc ', '.gpuc.gpuc.gpuc ').strip()}</style>"
# JupyterLab removes styles and SVG from the outputs of untrusted notebooks.
_UNTRUSTED = (
    "This notebook is not trusted, so the picture is described in words.\nTo see the picture, "
    "run Jupyter's command “Trust Notebook”."
)
_COLUMNS = 88  # width of text in a monospaced font in a notebook
_numbers = itertools.count(1)


class View:
    """An output that is HTML in a notebook and plain text everywhere else.

    Attributes
    ----------
    markup : str
        HTML without its style sheet.
    text : str
        The same content in words, for terminals and for readers who cannot see the picture.
    """

    def __init__(self, markup: str, text: str):
        self.markup, self.text = markup, text

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": self.text, "text/html": self._repr_html_()}

    def _repr_html_(self) -> str:
        # Without the style sheet the words are visible, and with it the picture.
        words = f"{_UNTRUSTED}\n\n{escape(_wrapped(self.text))}"
        return (
            f'{STYLE}<pre class="gpuc-words">{words}</pre>'
            f'<div class="gpuc-picture" hidden="hidden">{self.markup}</div>'
        )


def _wrapped(text: str) -> str:
    """Break long lines of prose between words; indented lines are tables and are not broken."""
    return "\n".join(
        line if len(line) <= _COLUMNS or line[:1] == " " else textwrap.fill(line, _COLUMNS)
        for line in text.split("\n")
    )


def beside(*views: View) -> View:
    """Show views side by side if the page is wide enough, else one below the other."""
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
    """Return the first line of a view: its title, followed by facts."""
    beside = "".join(f'<span class="faint">{escape(fact)}</span>' for fact in facts if fact)
    return f'<div class="head"><b>{escape(title)}</b>{beside}</div>'


def wide(markup: str, name: str) -> str:
    """Wrap an element that may be wider than the page, so that it scrolls on its own.

    After Tab has reached the element, the arrow keys scroll it. A screen reader reads `name`.
    """
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">{markup}</div>'
    )


def note(text: str) -> str:
    return f'<p class="faint small">{escape(text)}</p>'


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """Return a legend in one row from pairs of a swatch's style and its label."""
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
    """Return an SVG picture with its description; lengths are in pixels."""
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
    """Return a slider over frames that needs no script: a radio button for each frame.

    ``marks`` label the scale instead of 1, 2, …; a frame's name appears under the pointer. After a
    click on the slider, the arrow keys move it. In JupyterLab, which uses these keys itself, the
    course's extension makes this work (``share/labextensions/gpucourse``).
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
