"""What the figures in ``img/`` are drawn with: one style, and SVG that is the same every time.

A figure is a script with a function ``draw``; coordinates are its own units, y upwards.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from gpucourse.views.picture import COLOURS, INK

SKY, ORANGE, GREEN, YELLOW, PURPLE, BLUE, VERMILION = COLOURS
PAPER, FAINT = "#F4F4F4", "#9A9A9A"
#: Sizes of text in points, on figures 8.2 inches wide.
SMALL, NORMAL, LARGE = 8.5, 9.5, 11


def sheet(width: float, height: float, across: float) -> tuple[Figure, Axes]:
    """Return a figure of ``width`` × ``height`` inches, ``across`` units wide; y starts at 0."""
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, across), ylim=(0, across * height / width))
    axes.set_axis_off()
    return figure, axes


def box(
    axes: Axes,
    x: float,
    y: float,
    width: float,
    height: float,
    fill: str = "white",
    edge: str = "none",
    **style,
) -> None:
    """Draw a rectangle with slightly rounded corners, its lower left corner at (x, y)."""
    axes.add_patch(
        FancyBboxPatch(
            (x, y),
            width,
            height,
            facecolor=fill,
            edgecolor=edge,
            **{"boxstyle": "round,pad=0,rounding_size=0.08", "linewidth": 1.1, **style},
        )
    )


def say(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    size: float = NORMAL,
    colour: str = INK,
    ha: str = "center",
    **style,
) -> None:
    """Write text around (x, y)."""
    axes.text(x, y, text, size=size, color=colour, ha=ha, va="center", **style)


def arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str = INK, **style
) -> None:
    """Draw an arrow from one point to another."""
    axes.annotate(
        "",
        end,
        start,
        arrowprops={
            "arrowstyle": "-|>",
            "color": colour,
            "linewidth": 1.2,
            "shrinkA": 0,
            "shrinkB": 0,
            **style,
        },
    )


def save(figure: Figure, script: str, alt: str) -> None:
    """Write the figure beside its script, with its description as the SVG's title."""
    import matplotlib as mpl

    target = Path(script).with_suffix(".svg")
    # A fixed salt and no date: drawing twice gives the same bytes. Text is drawn as outlines, so
    # that it fits wherever it is shown.
    with mpl.rc_context({"svg.hashsalt": "gpucourse", "svg.fonttype": "path"}):
        figure.savefig(
            target,
            metadata={"Date": None, "Title": alt, "Creator": f"matplotlib {mpl.__version__}"},
        )
    # matplotlib leaves blanks at the ends of some lines
    lines = target.read_text(encoding="utf-8").splitlines()
    target.write_text("".join(line.rstrip() + "\n" for line in lines), encoding="utf-8")
