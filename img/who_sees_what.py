"""Draws ``who_sees_what.svg``: which memory a thread reaches, and which wait holds up whom.

Run it from anywhere: ``python img/who_sees_what.py``. Used by lecture 06, "Thinking in threads".
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from gpucourse.views.picture import COLOURS, INK

ALT = (
    "A grid with two blocks. Each thread has its own local variables. Each block has a shared "
    "memory of its own, which only its threads reach, and syncthreads waits for the threads of "
    "that block alone. All blocks reach the one global memory, where arrays live; only the end "
    "of the launch waits for the whole grid."
)
THREAD, SHARED, GLOBAL = COLOURS[0], COLOURS[1], COLOURS[2]
WAIT = COLOURS[6]


def box(axes, x: float, y: float, width: float, height: float, **style) -> None:
    """A rounded rectangle with its lower left corner at (x, y)."""
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0.02", **style))


def block(axes, x: float, number: int) -> None:
    """One block: four threads, its barrier and its shared memory."""
    box(axes, x, 1.45, 4.3, 3.35, facecolor="white", edgecolor=INK, linewidth=1.2)
    axes.text(x + 0.12, 4.52, f"block {number}", weight="bold", size=11)
    for t in range(4):
        left = x + 0.15 + 1.03 * t
        box(axes, left, 3.2, 0.9, 1.1, facecolor=THREAD, edgecolor="none")
        axes.text(left + 0.45, 4.0, f"thread {t}", ha="center", va="center", size=9)
        box(axes, left + 0.08, 3.28, 0.74, 0.42, facecolor="white", edgecolor="none")
        axes.text(left + 0.45, 3.49, "local", ha="center", va="center", size=8.5)
    axes.plot([x + 0.1, x + 4.2], [2.78, 2.78], color=WAIT, linewidth=3)
    label = "syncthreads(): waits for this block"
    axes.text(x + 2.15, 2.92, label, ha="center", size=9, color=INK)
    box(axes, x + 0.15, 1.65, 4.0, 0.75, facecolor=SHARED, edgecolor="none")
    axes.text(x + 2.15, 2.03, "shared memory of this block", ha="center", va="center", size=10)


def draw() -> Figure:
    """The figure, 8.2 by 4.4 inches."""
    figure = Figure(figsize=(8.2, 4.4), layout="constrained")
    axes = figure.add_subplot()
    box(axes, 0.1, 1.2, 9.3, 4.25, facecolor="#F5F5F5", edgecolor="0.6")
    axes.text(0.3, 5.12, "grid: one launch", weight="bold", size=11)
    block(axes, 0.3, 0)
    block(axes, 4.9, 1)
    axes.plot([0.1, 9.4], [0.92, 0.92], color=WAIT, linewidth=3)
    axes.text(4.75, 0.62, "end of the launch: waits for the whole grid", ha="center", size=9)
    box(axes, 0.1, -0.35, 9.3, 0.75, facecolor=GLOBAL, edgecolor="none")
    text = "global memory: the arrays; every thread reaches it, and it outlives the launch"
    axes.text(4.75, 0.03, text, ha="center", va="center", size=10, color="white", weight="bold")
    axes.set(xlim=(0, 9.5), ylim=(-0.45, 5.55))
    axes.set_axis_off()
    return figure


def main() -> None:
    target = Path(__file__).with_suffix(".svg")
    # A fixed salt and no date: drawing twice gives the same bytes.
    with mpl.rc_context({"svg.hashsalt": "gpucourse", "svg.fonttype": "path"}):
        draw().savefig(target, metadata={"Date": None, "Title": ALT, "Creator": None})


if __name__ == "__main__":
    main()
