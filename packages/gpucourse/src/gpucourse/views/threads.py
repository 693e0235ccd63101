"""Pictures of threads, drawn from arrays in which each thread stored its number."""

from __future__ import annotations

import numpy as np

from gpucourse.views.picture import COLOURS, GREY, INK, PALE, Picture, bare, canvas
from gpucourse.wording import many

#: More cells than this in a row cannot be read.
WIDEST = 64
WARP = 32


def draw_threads(block: np.ndarray, thread: np.ndarray, size: int | None = None) -> Picture:
    """Draw the threads of a launch in the order of ``cuda.grid(1)``, coloured by block.

    Parameters
    ----------
    block, thread : ndarray, int, shape (threads,)
        ``cuda.blockIdx.x`` and ``cuda.threadIdx.x``, as thread ``cuda.grid(1)`` wrote them.
    size : int, optional
        How many elements there are: the threads from here on have none and are drawn hollow.
    """
    block, thread = _signed(block, thread)
    size = len(block) if size is None else size
    width = min(11, 0.6 + 0.44 * len(block))
    figure, axes = canvas(width, 1.55)
    pitch = width / (len(block) + 1.3)  # inches from one thread to the next
    for i, (b, t) in enumerate(zip(block, thread, strict=True)):
        busy = i < size
        axes.add_patch(_cell(i, 0, COLOURS[b % len(COLOURS)], hollow=not busy))
        ink, letters = INK if busy else GREY, 10 if pitch > 0.2 else 8
        axes.text(i, 0, str(t), ha="center", va="center", color=ink, size=letters)
        axes.text(i, 0.72, str(i), ha="center", va="center", color=GREY, size=8)
    blocks, theirs = np.unique(block, return_counts=True)
    roomy = theirs.min() * pitch > 0.65  # as wide as "block 31"
    for b in blocks:
        middle = np.flatnonzero(block == b).mean()
        name, letters = (f"block {b}", 10) if roomy else (str(b), 8)
        axes.text(middle, -0.78, name, ha="center", va="center", size=letters)
    if not roomy:
        axes.text(-0.7, -0.78, "block", ha="right", va="center")
    axes.set(xlim=(-1.7, len(block) - 0.4), ylim=(-1.1, 1.05), xticks=[], yticks=[])
    axes.text(-0.7, 0, "thread", ha="right", va="center")
    axes.text(-0.7, 0.72, "grid(1)", ha="right", va="center", color=GREY, size=8)
    bare(axes)
    idle = max(0, len(block) - size)
    alt = (
        f"{many(len(block), 'thread in a row', 'threads in a row')}, in "
        f"{many(len(blocks), 'block')}; inside each "
        f"they are numbered from 0, while grid(1) counts from 0 to {len(block) - 1}"
    )
    return Picture(figure, alt + (f"; the last {idle} have no element." if idle else "."))


def draw_visits(turn: np.ndarray) -> Picture:
    """Draw the thread that visited each element, and the iteration of its loop.

    Parameters
    ----------
    turn : ndarray, int, shape (threads, elements)
        1 for the thread's first iteration, 2 for its second, …; 0 where it never came. Elements
        that no thread visited, or more than one, are marked below.
    """
    turn = np.asarray(turn)
    threads, elements = turn.shape
    if elements > WIDEST:
        raise ValueError(f"{elements} elements are too many to draw: at most {WIDEST}")
    figure, axes = canvas(min(11, 1.2 + 0.42 * elements), 0.95 + 0.3 * threads)
    for t, i in np.argwhere(turn):
        axes.add_patch(_cell(i, t, COLOURS[(turn[t, i] - 1) % len(COLOURS)]))
        axes.text(i, t, str(turn[t, i]), ha="center", va="center", color=INK, size=9)
    times = np.count_nonzero(turn, axis=0)
    for i in np.flatnonzero(times != 1):
        axes.text(i, threads, f"×{times[i]}", ha="center", va="center", color="#D55E00", size=9)
    low = threads + (0.5 if (times != 1).any() else -0.3)
    axes.set(xlim=(-0.6, elements - 0.4), ylim=(low, -0.7), xlabel="element", ylabel="thread")
    axes.set_xticks(range(elements))
    axes.set_yticks(range(threads))
    axes.tick_params(labelsize=8)
    bare(axes)
    visits = ", ".join(
        f"thread {t}: {' '.join(map(str, np.flatnonzero(row)))}" for t, row in enumerate(turn)
    )
    wrong = np.flatnonzero(times != 1)
    alt = f"Elements visited by each of {many(threads, 'thread')}; {visits}. " + (
        f"{many(len(wrong), 'element')} not visited exactly once."
        if len(wrong)
        else "Every element is visited exactly once."
    )
    return Picture(figure, alt)


def draw_lanes(work: np.ndarray, per: str = "iteration", first: int = 0) -> Picture:
    """Draw the work of each warp's lanes, and their wait for the busiest of them.

    Parameters
    ----------
    work : ndarray, int, shape (threads,)
        Iterations of its loop that each thread needs, in the order of ``cuda.grid(1)``.
    per : str
        What one iteration handles, for the axis.
    first : int
        The number of the first of these threads; it must be the first of its warp.
    """
    work = np.asarray(work)
    if not 0 < len(work) <= 4 * WARP:
        raise ValueError(f"{len(work)} threads cannot be drawn: give 1 to {4 * WARP} of them")
    if first % WARP:
        raise ValueError(f"thread {first} is not the first of its warp: give a multiple of {WARP}")
    threads = first + np.arange(len(work))
    starts = range(0, len(work), WARP)
    busiest = np.array([work[start : start + WARP].max() for start in starts])
    paid = np.repeat(busiest, WARP)[: len(work)]
    figure, axes = canvas(min(11, 2 + 0.09 * len(work)), 2.6)
    axes.bar(threads, paid, width=1, color=PALE, label="masked: waits for its warp")
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
        f"they need {many(useful, 'iteration')} in "
        f"all; because each warp makes as many as its busiest lane, {total} are paid for."
    )
    return Picture(figure, alt)


def _signed(block: np.ndarray, thread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    block, thread = np.asarray(block), np.asarray(thread)
    if block.shape != thread.shape or block.ndim != 1:
        raise ValueError(
            f"block has shape {block.shape} and thread {thread.shape}: give one number per thread"
        )
    if len(block) > WIDEST:
        raise ValueError(f"{len(block)} threads are too many to draw: at most {WIDEST}")
    return block, thread


def _cell(x: float, y: float, colour: str, hollow: bool = False):
    from matplotlib.patches import Rectangle

    return Rectangle(
        (x - 0.45, y - 0.42),
        0.9,
        0.84,
        facecolor="white" if hollow else colour,
        edgecolor=colour if hollow else "none",
        linestyle="--" if hollow else "-",
        linewidth=1.5,
    )
