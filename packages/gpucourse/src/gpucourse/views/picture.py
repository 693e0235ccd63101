"""A matplotlib figure as a cell's output, with a description for screen readers."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, in an order whose neighbours differ in lightness too; black is for text.
COLOURS = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#CC79A7", "#0072B2", "#D55E00")
PALE = "#E8E8E8"
INK = "#222222"  # on what is filled with one of these
GREY = "#7F7F7F"  # reads on light and dark paper
#: Lines and letters on a dark page (gpucourse.notebook.figures).
ON_DARK = "#DDDDDD"
# Pixels per inch on the page; twice as many are drawn, for screens that have them.
PAGE_DPI = 80


#: Bytes of SVG up to which a figure is drawn by vectors: a plot of 10,000 points takes 1 MB.
MOST_VECTORS = 150_000


class Picture:
    """A figure and its ``alt`` text; the last value of a cell shows itself.

    Attributes
    ----------
    figure : matplotlib.figure.Figure
        To save or to change.
    alt : str
        What is to be seen, with its numbers: read aloud by a screen reader, shown in a terminal.
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
        # Not pyplot's image/png output: neither JupyterLab nor nbconvert gives that an alt text.
        markup = (
            f'<img src="data:image/{kind};base64,{data}" alt="{html.escape(self.alt)}" '
            f'width="{width}" style="max-width: 100%; height: auto">'
        )
        return {"text/plain": self.alt, "text/html": markup}


def _vectors(figure: Figure) -> tuple[str, bytes, int]:
    """Return a figure as SVG, which a slide enlarges without blur, and its width in pixels."""
    drawn = io.BytesIO()
    # "tight" takes in what stands beyond the figure's edge: a label under a low pair of axes.
    figure.savefig(drawn, format="svg", bbox_inches="tight", metadata={"Date": None})
    svg = drawn.getvalue()
    found = re.search(rb'<svg [^>]*?width="([\d.]+)pt"', svg)
    return "svg+xml", svg, round(float(found[1]) / 72 * PAGE_DPI) if found else 0


def _pixels(figure: Figure) -> tuple[str, bytes, int]:
    """Return a figure as PNG and its width in pixels of the page."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=2 * PAGE_DPI, bbox_inches="tight")
    png = drawn.getvalue()
    return "png", png, int.from_bytes(png[16:20], "big") // 2  # from the PNG's first chunk


def show_figure(alt: str) -> None:
    """Show pyplot's current figure with its description; used in place of ``plt.show()``."""
    from matplotlib import pyplot

    from gpucourse.exercises.outcomes import show

    figure = pyplot.gcf()
    show(Picture(figure, alt))
    pyplot.close(figure)  # or the notebook would show it once more, without words


def canvas(width: float, height: float, columns: int = 1) -> tuple[Figure, Any]:
    """Return a figure of ``width`` by ``height`` inches and its axes, an array for columns.

    Not made by pyplot, which would show it a second time and keep it for the session.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, columns)


def themed_svg(figure: Figure, alt: str) -> str:
    """Return a figure as SVG in the page's own colours.

    Parts drawn in the default colour, black or that of dark pages, take the page's text colour.
    """
    import matplotlib as mpl

    drawn = io.StringIO()
    # A salt from the content: two figures in one page must not share the names of their parts.
    salt = hashlib.sha256(alt.encode()).hexdigest()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(
            drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    markup = drawn.getvalue()
    markup = markup[markup.index("<svg") :]
    markup = re.sub(r"<metadata>.*?</metadata>", "", markup, flags=re.DOTALL)
    markup = re.sub(rf"#000000|\bblack\b|{ON_DARK.lower()}", "currentColor", markup)
    # Text has no colour of its own in matplotlib's SVG: black is left unsaid.
    return markup.replace(
        "<svg ", f'<svg role="img" aria-label="{html.escape(alt)}" fill="currentColor" ', 1
    )


def bare(axes: Any) -> None:
    """Remove the frame: the drawing is a diagram, not a plot."""
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)
