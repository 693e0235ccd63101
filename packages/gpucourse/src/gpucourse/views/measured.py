"""Pictures of measurements on a real GPU, drawn from the recorded run.

Each function draws from :func:`.results.recorded`. If there is no recorded run, or it lacks the
rows, the function returns a sentence that says so, and never an empty plot or an unmeasured
number.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from gpucourse.exercises.outcomes import show
from gpucourse.views import results
from gpucourse.views.page import View, box, note
from gpucourse.views.picture import COLOURS, GREY, INK, Picture, canvas
from gpucourse.views.results import IN_WORDS, NotMeasured, Results, Row, common_clock
from gpucourse.views.words import duration

SKY, ORANGE, GREEN, YELLOW, PURPLE, BLUE, VERMILION = COLOURS
#: Library that each contender belongs to.
MADE_BY = {
    "course": VERMILION,
    "tuned": PURPLE,
    "C++": GREEN,
    "CuPy": SKY,
    "JAX": ORANGE,
    "CPU": "#8A8A8A",
}
MARKERS = "osD^vP*X"


def _from_the_record(draw: Callable) -> Callable:
    """Pass the recorded run to the decorated function, or return a sentence if there is none."""

    @functools.wraps(draw)
    def drawn(*arguments, **options) -> Picture | View:
        found = results.recorded()
        if found is None:
            return View(box(note(results.NOT_YET)), results.NOT_YET)
        try:
            return draw(found, *arguments, **options)
        except NotMeasured as missing:
            said = f"There is nothing to draw, because {missing}. `make bench-gpu` measures it."
            return View(box(note(said)), said)

    return drawn


@_from_the_record
def recorded_times(
    found: Results, group: str, contenders: Sequence[str] = (), size: int | None = None
) -> Picture:
    """Draw a group's times as bars with quartiles, the shortest first.

    Parameters
    ----------
    group : str
        As ``quadratic.float64``.
    contenders : sequence of str
        Which of them; all by default.
    size : int, optional
        By default the largest.
    """
    rows = [row for row in found.of(group, size) if not contenders or row.contender in contenders]
    if not rows:
        raise NotMeasured(f"the recorded run has none of {', '.join(contenders)} in {group!r}")
    clock = common_clock(*rows)
    rows.sort(key=lambda row: row.median(clock))
    figure, axes = canvas(9, 0.9 + 0.36 * len(rows))
    medians = [row.median(clock) for row in rows]
    quartiles = [row.quartiles(clock) for row in rows]
    errors = [
        [m - low for m, (low, _) in zip(medians, quartiles, strict=True)],
        [high - m for m, (_, high) in zip(medians, quartiles, strict=True)],
    ]
    axes.barh(
        range(len(rows)),
        medians,
        0.74,
        xerr=errors,
        capsize=2.5,
        color=[MADE_BY.get(row.made_by, SKY) for row in rows],
        ecolor=GREY,
    )
    told = [_told(found, row, clock) for row in rows]
    most, least = max(medians), min(medians)
    if most > 30 * least:
        axes.set_xscale("log")
        axes.set_xlim(10 ** math.floor(math.log10(least * 0.7)), most * 60)
    else:
        axes.set_xlim(0, most * 1.55)
    for at, (row, high, words) in enumerate(zip(rows, quartiles, told, strict=True)):
        axes.annotate(
            words,
            (max(high[1], row.median(clock)), at),
            (5, 0),
            va="center",
            textcoords="offset points",
            fontsize=8,
        )
    axes.set_yticks(range(len(rows)), [row.label for row in rows], fontsize=9)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(f"{IN_WORDS[clock]} [ms]", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    items = f": {rows[0].items:,} {rows[0].unit}" if rows[0].items > 1 else ""
    title = f"{rows[0].title}{items}"
    axes.set_title(f"{title}\n{found.where}", fontsize=9)
    listed = "; ".join(f"{row.label}: {words}" for row, words in zip(rows, told, strict=True))
    return Picture(
        figure, f"Bars: {title}. {found.where}. Medians of the {IN_WORDS[clock]}: {listed}."
    )


def recorded(*drawn: Picture | View) -> None:
    """Show plots of the record one below the other; repeat no caption."""
    for one in {repr(one): one for one in drawn}.values():
        show(one)


def _told(found: Results, row: Row, clock: str) -> str:
    """Describe a bar: its time, and its share of the copy bandwidth if its bytes are known."""
    words = duration(1e-3 * row.median(clock))
    if row.bytes and clock != "call":
        share = row.bytes / (1e-3 * row.median(clock)) / found.copy_bandwidth()
        words += f", {share:.0%} of the copy bandwidth" if share >= 0.005 else ""
    return words


@_from_the_record
def recorded_scaling(found: Results, group: str) -> Picture:
    """Draw times against sizes on logarithmic axes, with a line for each contender.

    Parameters
    ----------
    group : str
        A scan, as ``scaling.quadratic``.
    """
    lines: dict[str, list[Row]] = {}
    for row in found.rows.values():
        if row.group == group and row.measured and row.samples("call"):
            lines.setdefault(row.contender, []).append(row)
    if not lines:
        raise NotMeasured(f"the recorded run has no times of {group!r}")
    figure, axes = canvas(9, 4)
    styles: dict[str, int] = {}
    ends = []
    for marker, rows in zip(MARKERS, lines.values(), strict=False):
        rows.sort(key=lambda row: row.items or 0)
        kind = rows[0].made_by
        dashes = ("-", "--", ":", "-.")[styles.setdefault(kind, 0) % 4]
        styles[kind] += 1
        medians = [row.median("call") for row in rows]
        axes.loglog(
            [row.items for row in rows],
            medians,
            dashes,
            marker=marker,
            markersize=4,
            color=GREY if kind == "CPU" else MADE_BY.get(kind, SKY),
            label=rows[0].label,
        )
        ends.append(
            f"{rows[0].label} from {duration(1e-3 * medians[0])} to {duration(1e-3 * medians[-1])}"
        )
    some = next(iter(lines.values()))
    l2 = (found.document.get("gpu") or {}).get("l2_bytes")
    if l2 and some[0].bytes:
        full = l2 * some[0].items / some[0].bytes
        axes.axvline(full, color="#8A8A8A", linestyle=":", linewidth=1)
        axes.annotate(
            "fits into the GPU's cache",
            (full, 0.02),
            (-4, 0),
            fontsize=8,
            ha="right",
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
        )
    title = f"{some[0].title}\n{found.where}"
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(some[0].unit)
    axes.set_ylabel("time [ms]")
    axes.legend(fontsize=8)
    crossings = "; ".join(_crossings(lines)) or "no contender becomes faster than the CPU"
    return Picture(
        figure,
        f"Lines: {some[0].title}, from {some[0].items:,} to {some[-1].items:,} "
        f"{some[0].unit}. {found.where}. Medians of the {IN_WORDS['call']}: "
        f"{'; '.join(ends)}. {crossings}.",
    )


def _crossings(lines: dict[str, list[Row]]) -> list[str]:
    """Return in words the sizes from which each contender is faster than the CPU."""
    cpu = {
        row.size: row.median("call")
        for rows in lines.values()
        for row in rows
        if row.made_by == "CPU"
    }
    said = []
    for rows in lines.values():
        if not cpu or rows[0].made_by == "CPU":
            continue
        wins = [row.items or 0 for row in rows if row.median("call") < cpu.get(row.size, 0.0)]
        said.append(
            f"{rows[0].label} is faster than the CPU from {min(wins):,} upwards"
            if wins
            else f"{rows[0].label} is not faster than the CPU at any size"
        )
    return said


#: Points of the roofline: (group, contender, True if its arithmetic is in float64).
ON_THE_ROOFLINE = (
    ("reduction", "shuffle"),
    ("quadratic.float64", "cupy-arrays"),
    ("quadratic.float64", "numba"),
    ("mandelbrot.picture", "cupy-arrays"),
    ("mandelbrot.picture", "numba"),
    ("lesson.product", "naive"),
    ("lesson.product", "tiled"),
    ("lesson.product", "cupy"),
)


@_from_the_record
def recorded_roofline(found: Results) -> Picture:
    """Draw measured operations per second under the measured slope and ceilings.

    The intensity of a point is its operations divided by the *least* bytes that the work needs, so
    that two implementations of the same work are drawn one above the other.
    """
    bandwidth = found.copy_bandwidth()
    ceilings = {}
    for precision in ("float32", "float64"):
        (row,) = found.of(f"peak.{precision}")
        ceilings[precision] = row.flops / (1e-3 * row.median("device"))
    points = []
    for group, contender in ON_THE_ROOFLINE:
        try:
            row = found.row(group, contender)
        except NotMeasured:
            continue
        clock = row.clocks[0]
        points.append((row, row.flops / row.bytes, row.flops / (1e-3 * row.median(clock))))
    if not points:
        raise NotMeasured("the recorded run has no rows for the roofline")
    figure, axes = canvas(9.5, 4.2)
    low = min(0.05, *(intensity for _, intensity, _ in points)) / 2
    high = max(100.0, *(intensity for _, intensity, _ in points)) * 4
    for (precision, peak), style in zip(ceilings.items(), ("-", "--"), strict=True):
        corner = peak / bandwidth
        axes.loglog(
            [low, corner, high],
            [low * bandwidth / 1e12, peak / 1e12, peak / 1e12],
            style,
            color=GREY,
            linewidth=1.2,
            label=f"copy {bandwidth / 1e12:.2f} TB/s, {precision} {peak / 1e12:.1f} TFLOPS",
        )
    for (row, intensity, rate), marker in zip(points, MARKERS, strict=False):
        axes.plot(
            intensity,
            rate / 1e12,
            marker,
            markersize=7,
            label=row.id.rpartition("/")[0],
            color=MADE_BY.get(row.made_by, SKY),
            markeredgecolor=INK,
            markeredgewidth=0.6,
        )
    axes.set_title(f"Roofline, measured\n{found.where}", fontsize=9)
    axes.set_xlabel("operations per byte of the least data that the work needs")
    axes.set_ylabel("TFLOPS")
    axes.legend(fontsize=7.5, loc="center left", bbox_to_anchor=(1.01, 0.5))
    told = "; ".join(
        f"{row.label} ({row.group}): {rate / 1e12:.3g} TFLOPS at {intensity:.2g} operations "
        "per byte"
        for row, intensity, rate in points
    )
    roofs = " and ".join(f"{peak / 1e12:.1f} TFLOPS in {p}" for p, peak in ceilings.items())
    return Picture(
        figure,
        f"Roofline. {found.where}. Measured slope {bandwidth / 1e12:.2f} TB/s, "
        f"ceilings {roofs}. Points: {told}.",
    )
