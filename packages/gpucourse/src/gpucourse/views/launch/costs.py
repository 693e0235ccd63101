"""Results of a comparison: a table, bars, and the source of each number."""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from gpucourse.system.device import device
from gpucourse.system.libraries import version
from gpucourse.views.page import View, box, escape, head, note, wide
from gpucourse.views.picture import COLOURS, canvas, themed_svg
from gpucourse.views.words import duration, number, size
from gpucourse.wording import many
from virtualgpu.api import Counters

SECTOR = 32  # in bytes
#: Packages whose versions are stored with a recorded comparison.
PACKAGES = ("numpy", "numba", "numba-cuda", "cupy", "jax", "awkward")


@dataclass
class Result:
    """Result of one implementation.

    Attributes
    ----------
    name : str
    seconds : float or None
        Median time of a call; None for the virtual GPU, which measures no time.
    launches : int
        Kernels launched, including those of array libraries.
    counters : Counters or None
        Counts from the virtual GPU.
    agrees : bool
        True if the answer agrees with the first implementation's.
    trouble : str
        The difference from the first answer, or the error that was raised.
    """

    name: str
    seconds: float | None = None
    launches: int = 0
    counters: Counters | None = None
    agrees: bool = True
    trouble: str = ""


@dataclass(frozen=True)
class Recorded:
    """Times measured on another machine, by implementation, with its name and the date."""

    machine: str
    date: str
    versions: dict[str, str]
    seconds: dict[str, float]

    @classmethod
    def read(cls, path: str | Path) -> Recorded:
        """Read a file written by :meth:`Comparison.save`."""
        return cls(**json.loads(Path(path).read_text(encoding="utf-8")))


class Comparison(View):
    """Comparison of implementations, shown as a table; ``results`` keeps their order."""

    def __init__(self, results: list[Result], recorded: Recorded | None):
        self.results, self.recorded = results, recorded
        super().__init__(_markup(results, recorded), _text(results, recorded))

    def save(self, path: str | Path) -> None:
        """Save times measured on this machine's GPU, for learners who have none.

        Raises RuntimeError without a GPU, because the times would not be a GPU's.
        """
        if device().virtual:
            raise RuntimeError(
                "GPU times can be recorded only on a machine with a GPU, because the virtual "
                "GPU measures no time"
            )
        times = {r.name: r.seconds for r in self.results if r.seconds is not None and r.agrees}
        versions = {name: found for name in PACKAGES if (found := version(name))}
        recorded = Recorded(str(device()), time.strftime("%Y-%m-%d"), versions, times)
        Path(path).write_text(json.dumps(asdict(recorded), indent=1) + "\n", encoding="utf-8")


# -- showing ------------------------------------------------------------------------------------

NO_RECORD = (
    "No GPU times are recorded for this comparison. To add them, run it on a machine with a "
    "GPU, save the result with .save(path), and pass recorded=path here."
)


def _rows(results: list[Result], recorded: Recorded | None) -> tuple[list[str], list[list[str]]]:
    heads = ["", "answer", "time here"]
    if recorded:
        heads.append("recorded")
    counted = any(r.counters for r in results)
    if any(r.launches for r in results):
        heads.append("launches")
    if counted:
        heads += ["instructions", "memory moved", "atomics"]
    rows = []
    for r in results:
        verdict = "agrees" if r.agrees else "differs" if r.seconds or r.launches else "fails"
        row = [r.name, verdict, "–" if r.seconds is None else duration(r.seconds)]
        if recorded:
            known = recorded.seconds.get(r.name)
            row.append("–" if known is None else duration(known))
        if "launches" in heads:
            row.append(f"{r.launches:,}")
        if counted:
            c = r.counters
            row += (
                ["–"] * 3
                if c is None
                else [f"{c.warp_instructions:,}", size(SECTOR * c.global_sectors), f"{c.atomics:,}"]
            )
        rows.append(row)
    return heads, rows


def _notes(results: list[Result], recorded: Recorded | None) -> list[str]:
    here = device()
    told = []
    if here.virtual:
        timed = [r.name for r in results if r.seconds is not None]
        if timed:
            told.append(f"Times are from this machine's processor: {', '.join(timed)}.")
        counted = [r.name for r in results if r.launches]
        if counted:
            told.append(
                "The virtual GPU, which measures no time, counts the warps' instructions and "
                "the sectors of global memory that their loads and stores move: "
                f"{', '.join(counted)}."
            )
        if recorded:
            versions = ", ".join(f"{k} {v}" for k, v in recorded.versions.items())
            told.append(f"Recorded on {recorded.machine}, {recorded.date}; {versions}.")
        else:
            told.append(NO_RECORD)
    else:
        told.append(
            f"Times are from this machine with the {here.name} and include the wait for the "
            "answer. Nothing was counted."
        )
    return told


def _markup(results: list[Result], recorded: Recorded | None) -> str:
    heads, rows = _rows(results, recorded)
    cells = "".join(
        f"<th{' class=n' if i > 1 else ''}>{escape(text)}</th>" for i, text in enumerate(heads)
    )
    body = []
    for result, row in zip(results, rows, strict=True):
        sign = '<b class="good">✓</b> ' if result.agrees else '<b class="costly">✗</b> '
        tds = [
            f'<td class="whole"><b>{escape(row[0])}</b></td>',
            f'<td class="whole">{sign}{escape(row[1])}</td>',
        ]
        tds += [f'<td class="n">{escape(text)}</td>' for text in row[2:]]
        body.append(f"<tr>{''.join(tds)}</tr>")
    table = wide(
        f"<table><thead><tr>{cells}</tr></thead><tbody>{''.join(body)}</tbody></table>",
        "implementations",
    )
    table += "".join(
        f'<div class="found"><b>{escape(r.name)}</b>: {escape(r.trouble)}</div>'
        for r in results
        if r.trouble
    )
    agree = sum(r.agrees for r in results)
    fact = "all agree" if agree == len(results) else f"{agree} of {len(results)} agree"
    title = f"{many(len(results), 'implementation')} of one problem"
    return box(
        head(title, fact),
        table,
        _plot(results, recorded),
        *(note(line) for line in _notes(results, recorded)),
        label=title,
    )


def _text(results: list[Result], recorded: Recorded | None) -> str:
    heads, rows = _rows(results, recorded)
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    lines = [
        "  ".join(
            text.ljust(w) if i < 2 else text.rjust(w)
            for i, (text, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [heads, *rows]
    ]
    lines += [f"✗ {r.name}: {r.trouble}" for r in results if r.trouble]
    return "\n".join([*lines, "", *_notes(results, recorded)])


def _plot(results: list[Result], recorded: Recorded | None) -> str:
    """Draw bars: times in one panel, counts in another; never both on one axis."""
    times = {r.name: r.seconds for r in results if r.seconds is not None}
    elsewhere = (
        {r.name: recorded.seconds[r.name] for r in results if r.name in recorded.seconds}
        if recorded
        else {}
    )
    counts = {r.name: r.counters.warp_instructions for r in results if r.counters}
    panels = [
        p
        for p in (
            ("time", [("here", COLOURS[0], times), ("recorded", COLOURS[1], elsewhere)]),
            ("warp instructions, virtual GPU", [("", COLOURS[2], counts)]),
        )
        if any(values for _, _, values in p[1])
    ]
    if not panels:
        return ""
    tall = 0.55 + 0.34 * max(
        len(set().union(*(values for _, _, values in series))) for _, series in panels
    )
    figure, axes = canvas(8.6, tall, columns=len(panels))
    for ax, (title, series) in zip(np.atleast_1d(axes), panels, strict=True):
        _bars(ax, title, [s for s in series if s[2]], [r.name for r in results])
    alt = "; ".join(
        f"{title}{f' ({words})' if words else ''}: "
        + ", ".join(f"{name} {number(v) if v >= 1 else f'{v:.2g}'}" for name, v in values.items())
        for title, series in panels
        for words, _, values in series
        if values
    )
    return themed_svg(figure, f"Bars. {alt}")


def _bars(ax, title: str, series: list, order: list[str]) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator, NullFormatter

    names = [name for name in order if any(name in values for _, _, values in series)]
    high = 0.8 / len(series)
    for number_, (words, colour, values) in enumerate(series):
        at = [names.index(name) + (number_ - (len(series) - 1) / 2) * high for name in values]
        ax.barh(at, list(values.values()), high * 0.92, color=colour, label=words)
    every = [v for _, _, values in series for v in values.values() if v > 0]
    if every and max(every) > 30 * min(every):
        ax.set_xscale("log")
        ax.set_xlim(10 ** math.floor(math.log10(min(every) * 0.9)), 2 * max(every))
        ax.xaxis.set_minor_formatter(NullFormatter())
        title += ", logarithmic"
    else:
        ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.xaxis.set_major_formatter(EngFormatter("s" if title.startswith("time") else ""))
    ax.set_xlabel(title, fontsize=9)
    ax.tick_params(labelsize=9)
    ax.spines[["top", "right"]].set_visible(False)
    if len(series) > 1:
        ax.legend(fontsize=8, frameon=False)
