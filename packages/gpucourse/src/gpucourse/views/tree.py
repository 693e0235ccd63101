"""Levels of a reduction, drawn from the values that the kernel left after each launch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpucourse.views.picture import COLOURS, INK, Picture, bare, canvas

#: A wider row of values would be illegible.
WIDEST = 32


def draw_levels(levels: Sequence[np.ndarray]) -> Picture:
    """Draw a tree of values in which each is joined to the two that it came from.

    Parameters
    ----------
    levels : sequence of ndarray, shape (n₀,), (n₁,), …
        The values that still matter after each launch, the input first. Element ``i`` of a level
        is assumed to come from elements ``i`` and ``i + len(level)`` of the level above. Elements
        beyond twice its length were not used and are marked.
    """
    levels = [np.asarray(level) for level in levels]
    widest = max(len(level) for level in levels)
    if widest > WIDEST:
        raise ValueError(f"{widest} values are too many to draw; {WIDEST} is the most")
    figure, axes = canvas(min(11, 1.4 + 0.62 * widest), 0.5 + 0.8 * len(levels))
    lost: list[str] = []
    for depth, level in enumerate(levels):
        fewer = len(levels[depth + 1]) if depth + 1 < len(levels) else len(level)
        for i, value in enumerate(level):
            dropped = i >= 2 * fewer
            if dropped:
                lost.append(f"{value:g}")
            _value(axes, i, depth, f"{value:g}", dropped)
        if depth:
            above = levels[depth - 1]
            for i in range(len(level)):
                _line(axes, i, i, depth)
                if i + len(level) < len(above):
                    _line(axes, i + len(level), i, depth)
        axes.text(-0.9, depth, _title(depth), ha="right", va="center", size=9)
    axes.set(xlim=(-2.9, widest - 0.4), ylim=(len(levels) - 0.6, -0.5), xticks=[], yticks=[])
    bare(axes)
    sizes = ", ".join(str(len(level)) for level in levels)
    ends = f"{levels[-1][0]:g}" if len(levels[-1]) else "nothing"
    alt = f"A tree of values whose levels have {sizes} elements; the last value is {ends}."
    if lost:
        values = "value is" if len(lost) == 1 else "values are"
        alt += f" {len(lost)} {values} left out on the way: {', '.join(lost)}."
    return Picture(figure, alt)


def _title(depth: int) -> str:
    return "input" if depth == 0 else f"after launch {depth}"


def _value(axes, x: float, y: float, text: str, dropped: bool) -> None:
    colour = COLOURS[6] if dropped else COLOURS[0]
    box = {
        "boxstyle": "round,pad=0.35",
        "facecolor": "white" if dropped else colour,
        "edgecolor": colour,
        "linestyle": "--" if dropped else "-",
    }
    axes.text(x, y, text, ha="center", va="center", size=9, color=INK, zorder=3, bbox=box)


def _line(axes, x_from: float, x_to: float, depth: int) -> None:
    # Values that stay in place are drawn fainter than values that move.
    colour = "0.8" if x_from == x_to else "0.45"
    axes.plot([x_from, x_to], [depth - 1, depth], color=colour, zorder=1, linewidth=1.5)
