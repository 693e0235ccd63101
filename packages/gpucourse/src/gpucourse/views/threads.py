"""Picture of the lanes of warps, drawn from the work of each thread."""

from __future__ import annotations

import numpy as np

from gpucourse.views.picture import COLOURS, INK, PALE, Picture, canvas
from gpucourse.wording import many

WARP = 32


def draw_lanes(work: np.ndarray, per: str = "iteration", first: int = 0) -> Picture:
    """Draw the work of each warp's lanes, and their wait for the busiest of them.

    Parameters
    ----------
    work : ndarray, int, shape (threads,)
        Loop iterations of each thread, in the order of ``cuda.grid(1)``.
    per : str
        Name of the thing that one iteration handles, for the axis label.
    first : int
        Index of the first of these threads, which must be the first of its warp.
    """
    work = np.asarray(work)
    if not 0 < len(work) <= 4 * WARP:
        raise ValueError(f"{len(work)} threads cannot be drawn. Pass 1 to {4 * WARP} of them")
    if first % WARP:
        raise ValueError(f"thread {first} is not the first of its warp. Pass a multiple of {WARP}")
    threads = first + np.arange(len(work))
    starts = range(0, len(work), WARP)
    busiest = np.array([work[start : start + WARP].max() for start in starts])
    paid = np.repeat(busiest, WARP)[: len(work)]
    figure, axes = canvas(min(11, 2 + 0.09 * len(work)), 2.6)
    axes.bar(threads, paid, width=1, color=PALE, label="masked, waits for its warp")
    axes.bar(threads, work, width=0.8, color=COLOURS[5], label="works")
    top = max(1, busiest.max())
    for start in starts:
        if start:
            axes.axvline(first + start - 0.5, color=INK, linewidth=1)
        middle = first + start + (WARP - 1) / 2
        axes.text(middle, top * 1.04, f"warp {(first + start) // WARP}", ha="center")
    axes.set(xlim=(first - 0.6, threads[-1] + 0.6), ylim=(0, top * 1.18))
    axes.set(xlabel="thread", ylabel=f"iterations (one {per} each)")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_xticks(range(first, first + len(work) + 1, 8))
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper right", ncols=2, frameon=False)
    useful, total = int(work.sum()), WARP * int(busiest.sum())
    alt = (
        f"Bars of {many(len(work), 'thread in', 'threads in')} {many(len(busiest), 'warp')}: "
        f"they need {many(useful, 'iteration')} in total, but each warp runs as long as its "
        f"busiest lane, so {total} are executed."
    )
    return Picture(figure, alt)
