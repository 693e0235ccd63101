"""Timeline of warps: each warp's steps, where its lanes diverged, and where it waited.

The axis is the order in which the virtual GPU runs instructions. One step is one instruction, or
the arithmetic of one line, of the threads that run it together. It does not show how long a step
takes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from gpucourse.views.launch.runs import Launch, Observed, traced
from gpucourse.views.page import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    VERMILION,
    YELLOW,
    View,
    box,
    escape,
    head,
    label,
    legend,
    note,
    rect,
    svg,
    wide,
)
from gpucourse.views.words import WARP
from gpucourse.wording import many
from virtualgpu import sources
from virtualgpu.api import ThreadStep

#: Default and largest numbers of steps and warps drawn.
STEPS, WARPS = 100, 4
MOST_STEPS, MOST_WARPS = 240, 12
_WIDTH, _LEFT, _LANE = 860, 64, 2.5

#: Actions of a warp: colour, words, and a letter for terminals.
KINDS = {
    "compute": ("#8FB8DE", "computes", "c"),
    "global load": (ORANGE, "reads global memory", "g"),
    "global store": (VERMILION, "writes global memory", "w"),
    "shared": (GREEN, "shared memory", "s"),
    "local": (YELLOW, "local memory", "l"),
    "atomic": (PURPLE, "atomic update", "a"),
    "sync": (BLUE, "arrives at a barrier or fence", "b"),
}
_WAIT = f'fill="{BLUE}" fill-opacity=".35"'
_MASKED = 'fill="currentColor" fill-opacity=".13"'


@dataclass(slots=True)
class Column:
    """One drawn step: the threads that take part and the threads that wait at a barrier."""

    kind: str
    step: ThreadStep
    active: np.ndarray  # bool, shape (threads watched,)
    waiting: np.ndarray
    ended: np.ndarray
    taken: np.ndarray | None = None  # the step is a branch

    def parted(self, lanes: slice) -> bool:
        """Return True if lanes of one warp take different branches here."""
        if self.taken is None:
            return False
        ways = self.taken[lanes][self.active[lanes]]
        return bool(ways.any() and not ways.all())


def timeline(
    kernel: object,
    grid: object = None,
    block: object = None,
    *arguments: object,
    warps: int = WARPS,
    steps: int = STEPS,
    shared_bytes: int = 0,
) -> View:
    """Launch a kernel on copies of its arguments and draw what its first warps did, step by step.

    Parameters
    ----------
    kernel, grid, block, *arguments, shared_bytes
        As for :func:`gpucourse.report`.
    warps, steps : int
        Number of warps from the first, at most 12, and of steps, at most 240. A line below the
        picture says what is left out.

    Returns
    -------
    View
        A band for each warp, 32 lanes high; the pointer over a step shows its line and threads.
    """
    launch = Launch.of(kernel, grid, block, arguments, shared_bytes)
    warps, steps = min(max(1, warps), MOST_WARPS), min(max(1, steps), MOST_STEPS)
    first = warp_starts(launch.threads, launch.blocks, warps)
    observed = traced(launch, threads=int(first[-1]))
    columns = list(_columns(observed.trace.steps, int(first[-1])))
    return _View(observed, columns, first, steps).view()


def warp_starts(in_block: int, blocks: int, warps: int) -> np.ndarray:
    """Return the first thread of each drawn warp, and the first thread after them."""
    per_block = max(1, -(-in_block // WARP))  # the launch itself reports an empty block
    number = np.arange(min(warps, per_block * max(0, blocks)) + 1)
    starts = number // per_block * in_block + number % per_block * WARP
    return np.minimum(starts, blocks * in_block)


def _columns(steps: list[ThreadStep], threads: int):
    waiting, ended = np.zeros(threads, bool), np.zeros(threads, bool)
    for at, step in enumerate(steps):
        if step.kind == "exit":
            ended[step.threads] = True
            continue
        if step.kind == "released":
            waiting[step.threads] = False
            continue
        if step.kind == "run" and (_is_heading(step) or _belongs_to_next(steps, at)):
            continue
        active = np.zeros(threads, bool)
        active[step.threads] = True
        taken = None
        if step.kind == "branch":
            taken = np.zeros(threads, bool)
            taken[step.threads] = step.taken
        yield Column(_kind(step), step, active, waiting.copy(), ended.copy(), taken)
        if step.kind == "barrier":
            waiting[step.threads] = True


def _is_heading(step: ThreadStep) -> bool:
    """Return True for the line of ``def``, to which the compiler assigns parameter loads."""
    return sources.text(step.filename, step.line).startswith(("def ", "@"))


def _belongs_to_next(steps: list[ThreadStep], at: int) -> bool:
    """Return True for arithmetic of the same line and threads as a neighbouring access.

    Such arithmetic is not drawn as a step of its own.
    """
    step = steps[at]
    for other in steps[at + 1 : at + 2] + steps[max(0, at - 1) : at]:
        if (
            other.kind not in ("run", "exit", "released")
            and other.line == step.line
            and len(other.threads) == len(step.threads)
            and (other.threads == step.threads).all()
        ):
            return True
    return False


def _kind(step: ThreadStep) -> str:
    if step.kind == "atomic":
        return "atomic"
    if step.space == "global":
        return f"global {step.kind}"
    return step.space or {"barrier": "sync", "syncwarp": "sync", "fence": "sync"}.get(
        step.kind, "compute"
    )


class _View:
    """Drawing of the columns of one launch."""

    def __init__(self, observed: Observed, columns: list[Column], first: np.ndarray, steps: int):
        self.observed, self.first = observed, first
        self.left_out = len(columns) - steps
        self.columns = columns[:steps]
        self.in_block = int(np.prod(observed.block))
        self.width = min(16, max(3.4, (_WIDTH - _LEFT) / max(1, len(self.columns))))

    def view(self) -> View:
        names = [self._name(w) for w in range(len(self.first) - 1)]
        title = f"{self.observed.kernel}: {many(len(names), 'warp')}, step by step"
        entries = [
            (f"background:{KINDS[kind][0]}", KINDS[kind][1])
            for kind in KINDS
            if any(column.kind == kind for column in self.columns)
        ]
        if any(column.waiting.any() for column in self.columns):
            entries.append((f"background:{BLUE};opacity:.35", "waits there"))
        entries += [
            ("background:currentColor;opacity:.13", "masked off while other lanes of the warp run"),
            (f"background:{VERMILION};height:3px;vertical-align:.35em", "lanes part"),
        ]
        told = self._told()
        alt = f"{title}. {' '.join(self._sentences(names))}"
        told.insert(
            0,
            "Steps go from left to right in the order in which the virtual GPU runs them, "
            "and their lengths are not times. A row is blank where its warp does not run or "
            "has ended.",
        )
        picture = wide(self._picture(alt), title)
        notes = [note(text) for text in told]
        markup = box(head(title), legend(entries), picture, *notes, label=title)
        rows = [f"{name:18}{self._letters(w)}" for w, name in enumerate(names)]
        letters = ", ".join(f"{k[2]} {k[1]}" for k in KINDS.values())
        text = [
            title,
            *rows,
            f"({letters}; - waits at a barrier; capitals: some lanes are masked)",
            *self._sentences(names),
            *told,
        ]
        return View(markup, "\n".join(text))

    def _name(self, warp: int) -> str:
        block, thread = divmod(int(self.first[warp]), self.in_block)
        return f"block {block} warp {thread // WARP}"

    # -- the picture ---------------------------------------------------------------------------

    def _picture(self, alt: str) -> str:
        parts, top = [], 14.0
        for warp in range(len(self.first) - 1):
            start, end = self.first[warp], self.first[warp + 1]
            block, _, number = self._name(warp).partition(" warp ")
            height = _LANE * max(int(end - start), 10)
            middle = top + height / 2
            parts.append(label(_LEFT - 6, middle - 1, block, 11, "end"))
            parts.append(label(_LEFT - 6, middle + 12, f"warp {number}", 11, "end"))
            for at, column in enumerate(self.columns):
                parts += self._cell(column, at, top, slice(start, end))
            top += height + 11
        parts += self._lines(top + 4)
        return svg(_LEFT + self.width * len(self.columns) + 4, top + 12, parts, alt)

    def _cell(self, column: Column, at: int, top: float, lanes: slice):
        active, waiting = column.active[lanes], column.waiting[lanes]
        x, width = _LEFT + at * self.width, self.width - (0.8 if self.width > 5 else 0.4)
        if active.any():
            title = f"<title>{escape(self._hover(column, at, lanes))}</title>"
            yield (
                f'<path d="{_runs(active, x, top, width)}" fill="{KINDS[column.kind][0]}">'
                f"{title}</path>"
            )
            if column.parted(lanes):
                yield rect(x, top - 4, width, 3, f'fill="{VERMILION}"')
            masked = ~active & ~waiting & ~column.ended[lanes]
            if masked.any():
                yield f'<path d="{_runs(masked, x, top, width)}" {_MASKED}/>'
        if waiting.any():
            yield f'<path d="{_runs(waiting, x, top, width)}" {_WAIT}/>'

    def _hover(self, column: Column, at: int, lanes: slice) -> str:
        step = column.step
        code = sources.text(step.filename, step.line)[:60]
        threads = np.flatnonzero(column.active[lanes]) + int(lanes.start) % self.in_block
        what = KINDS[column.kind][1]
        if column.parted(lanes):
            what = "the lanes diverge here"
        elif column.kind in ("shared", "local"):
            what = f"{'reads' if step.kind == 'load' else 'writes'} {what}"
        return (
            f"step {at + 1}, line {step.line}: {code}\n{what}; threads {ranges(threads)} "
            f"({len(threads)} of {WARP} lanes)"
        )

    def _lines(self, y: float):
        """Yield line numbers below the steps where there is room."""
        free = 0.0
        before = None
        for at, column in enumerate(self.columns):
            x = _LEFT + (at + 0.5) * self.width
            if column.step.line != before and x >= free:
                yield label(x, y, column.step.line or "", 9, "middle", 'class="dim"')
                free = x + 15
                before = column.step.line
        yield label(_LEFT - 6, y, "line", 9, "end", 'class="dim"')

    # -- words ---------------------------------------------------------------------------------

    def _letters(self, warp: int) -> str:
        lanes = slice(self.first[warp], self.first[warp + 1])
        row = []
        for column in self.columns:
            active = column.active[lanes]
            letter = " "
            if active.any():
                letter = KINDS[column.kind][2]
                if not (active | column.ended[lanes]).all():
                    letter = letter.upper()
            elif column.waiting[lanes].any():
                letter = "-"
            row.append(letter)
        return "".join(row).rstrip()

    def _sentences(self, names: list[str]):
        for warp, name in enumerate(names):
            lanes = slice(self.first[warp], self.first[warp + 1])
            mine = [c for c in self.columns if c.active[lanes].any()]
            kinds = Counter(c.kind for c in mine)
            told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
            parted = sum(not (c.active[lanes] | c.ended[lanes]).all() for c in mine)
            yield (
                f"{name.capitalize()}: {many(len(mine), 'step')} ({told}); in {parted} of them "
                "some of its lanes are masked off."
            )

    def _told(self) -> list[str]:
        told = []
        blocks = int(np.prod(self.observed.grid))
        warps = blocks * -(-self.in_block // WARP)
        if warps > len(self.first) - 1:
            told.append(f"The launch has {many(warps, 'warp')}; {len(self.first) - 1} are shown.")
        if self.left_out > 0 or not self.observed.trace.complete:
            more = (
                f"{self.left_out:,}"
                if self.observed.trace.complete
                else f"more than {max(self.left_out, 0):,}"
            )
            told.append(f"{more} further steps are left out.")
        if self.observed.error is not None:
            told.append(f"The launch was stopped here: {self.observed.error.message}")
        return told


def _runs(lanes: np.ndarray, x: float, top: float, width: float) -> str:
    """Return rectangles over the lanes that are True, as SVG path data."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], lanes, [False])).astype(np.int8)))
    return "".join(
        f"M{x:.4g} {top + _LANE * start:g}h{width:.3g}v{_LANE * (end - start):g}h-{width:.3g}z"
        for start, end in edges.reshape(-1, 2)
    )


def ranges(numbers: np.ndarray, most: int = 6) -> str:
    """Return numbers as ``0-31, 40``, with … after the first few."""
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    shown = [
        f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}"
        for run in np.split(numbers, breaks)
        if len(run)
    ]
    return ", ".join(shown[:most]) + (", …" if len(shown) > most else "")
