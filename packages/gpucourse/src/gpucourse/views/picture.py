"""Matplotlib figures as a cell's output, with a description for screen readers."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, in an order in which neighbours also differ in lightness. Black is for
# text.
COLOURS = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#CC79A7", "#0072B2", "#D55E00")
PALE = "#E8E8E8"
INK = "#222222"  # text on these fills
GREY = "#7F7F7F"  # legible on light and dark pages
#: Colour of lines and text on a dark page (gpucourse.notebook.figures).
ON_DARK = "#DDDDDD"
# Pixels per inch on the page. Twice as many are drawn for high-resolution screens.
PAGE_DPI = 80


#: SVG bytes up to which a figure is vector graphics. A plot of 10,000 points would take 1 MB.
MOST_VECTORS = 150_000


class Picture:
    """A figure with its ``alt`` text, displayed if it is the last value of a cell.

    Attributes
    ----------
    figure : matplotlib.figure.Figure
        The figure, which you can change or save.
    alt : str
        Description of the picture with its numbers. A screen reader reads it aloud, and a terminal
        shows it.
    """

    def __init__(self, figure: Figure, alt: str):
        self.figure = figure
        self.alt = alt

    def __repr__(self) -> str:
        return self.alt

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        kind, drawn, width = _vectors(self.figure)
        if len(drawn) > MOST_VECTORS:
            kind, drawn, width = _pixels(self.figure)
        data = base64.b64encode(drawn).decode("ascii")
        # pyplot's own image/png output gets no alt text from JupyterLab or nbconvert.
        markup = (
            f'<img src="data:image/{kind};base64,{data}" alt="{html.escape(self.alt)}" '
            f'width="{width}" style="max-width: 100%; height: auto">'
        )
        return {"text/plain": self.alt, "text/html": markup}


def _vectors(figure: Figure) -> tuple[str, bytes, int]:
    """Return a figure as SVG, which slides can enlarge, with its width in pixels."""
    drawn = io.BytesIO()
    # "tight" includes what extends beyond the figure, for example labels below low axes.
    figure.savefig(drawn, format="svg", bbox_inches="tight", metadata={"Date": None})
    svg = drawn.getvalue()
    found = re.search(rb'<svg [^>]*?width="([\d.]+)pt"', svg)
    return "svg+xml", svg, round(float(found[1]) / 72 * PAGE_DPI) if found else 0


def _pixels(figure: Figure) -> tuple[str, bytes, int]:
    """Return a figure as PNG, with its width in pixels of the page."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=2 * PAGE_DPI, bbox_inches="tight")
    png = drawn.getvalue()
    return "png", png, int.from_bytes(png[16:20], "big") // 2  # read from the PNG's first chunk


def show_figure(alt: str) -> None:
    """Show pyplot's current figure with its description, in place of ``plt.show()``."""
    from matplotlib import pyplot

    from gpucourse.exercises.outcomes import show

    figure = pyplot.gcf()
    show(Picture(figure, alt))
    pyplot.close(figure)  # otherwise the notebook shows the figure again, without its description


def canvas(width: float, height: float, columns: int = 1) -> tuple[Figure, Any]:
    """Return a figure of ``width`` by ``height`` inches with its axes, an array for columns.

    It is not made by pyplot, which would show it a second time and keep it for the session.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, columns)


def themed_svg(figure: Figure, alt: str) -> str:
    """Return a figure as SVG in the page's own colours.

    Parts in Matplotlib's default colour, which is black or the colour for dark pages, get the
    page's text colour.
    """
    import matplotlib as mpl

    drawn = io.StringIO()
    # The salt comes from the content, so that parts of two figures on one page have different
    # names.
    salt = hashlib.sha256(alt.encode()).hexdigest()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(
            drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    markup = drawn.getvalue()
    markup = markup[markup.index("<svg") :]
    markup = re.sub(r"<metadata>.*?</metadata>", "", markup, flags=re.DOTALL)
    markup = re.sub(rf"#000000|\bblack\b|{ON_DARK.lower()}", "currentColor", markup)
    # Matplotlib's SVG gives black text no colour.
    return markup.replace(
        "<svg ", f'<svg role="img" aria-label="{html.escape(alt)}" fill="currentColor" ', 1
    )


def bare(axes: Any) -> None:
    """Remove the frame, because the drawing is a diagram and not a plot."""
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)
