"""Views of a launch over tiles: bytes moved, and the tiles that each block accessed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpucourse.views.picture import COLOURS, INK, PALE, canvas, themed_svg
from gpucourse.views.words import COSTLY, GOOD, Remark, number, size
from gpucourse.wording import many
from virtualgpu.api import TileProfile

#: Most arrays drawn side by side, most tiles of each, and most tiles labelled with block numbers.
MOST_PANELS, MOST_DRAWN, MOST_NAMED = 4, 512, 64
_PAST = {"load": "loaded", "store": "stored", "atomic": "updated"}


def geometry(grid: Sequence[int]) -> str:
    """Describe a grid: ``6 blocks in a grid of 2 × 3``."""
    used = _used(grid)
    text = many(math.prod(grid), "block")
    return text if len(used) == 1 else f"{text} in a grid of {_times(used)}"


def remarks(profile: TileProfile) -> list[Remark]:
    """Return remarks on a launch's counts, the most important first."""
    counts, found = profile.counters, []
    if profile.tiles:
        found.append(Remark("tiles", "; ".join(_of(panel) for panel in _panels(profile))))
    for column, kind in enumerate(("load", "store")):
        moved = profile.bytes_by_block[:, column]
        sectors = getattr(counts, f"global_{kind}_sectors")
        if not sectors:
            continue
        ideal = getattr(counts, f"global_{kind}_ideal_sectors")
        text = (
            f"{size(int(moved.sum()))} {_PAST[kind]}, at most {size(int(moved.max()))} by one "
            f"block, in {many(sectors, 'sector')} of 32 bytes"
        )
        good = sectors <= 1.1 * ideal
        found.append(
            Remark(
                f"{kind}s",
                f"{text}: as few as would do"
                if sectors == ideal
                else f"{text}; {ideal:,} would do",
                GOOD if good else COSTLY,
            )
        )
    if profile.distinct_loaded:
        often = number(profile.redundancy)
        text = "each byte that was loaded was loaded "
        found.append(
            Remark("redundancy", f"{text}once", GOOD)
            if often == "1"
            else Remark(
                "redundancy", f"{text}{often} times on average; larger tiles load it less often"
            )
        )
    if counts.global_atomics:
        found.append(
            Remark(
                "atomics",
                f"{many(counts.global_atomics, 'update')}; one address took "
                f"{counts.atomic_hottest:,} of them",
            )
        )
    return found


def picture(profile: TileProfile) -> tuple[str, str]:
    """Return SVG of the arrays with their tiles, each with its blocks, and a description.

    Both are empty if no block accessed a tile of an array with one or two dimensions.
    """
    panels = [
        panel for panel in _panels(profile) if len(panel[0].sizes) in (1, 2) and all(panel[0].sizes)
    ][:MOST_PANELS]
    if not panels:
        return "", ""
    figure, axes = canvas(2.7 * len(panels), 2.6, columns=len(panels))
    words = []
    for one, panel in zip(axes if len(panels) > 1 else [axes], panels, strict=True):
        _draw(one, panel, profile.grid)
        words.append(_told(panel, profile.grid))
    if profile.tiles_left_out:
        words.append(f"{many(profile.tiles_left_out, 'further tile')} left out.")
    text = "\n".join(words)
    return themed_svg(figure, text), text


def _panels(profile: TileProfile) -> list[list]:
    """Return the tiles grouped by array and by the line that loads or stores them."""
    found: dict[tuple, list] = {}
    for one in profile.tiles:
        found.setdefault((one.kind, one.line, one.base, one.sizes), []).append(one)
    return list(found.values())


def _of(panel: list) -> str:
    one = panel[0]
    line = f"line {one.line} {one.kind}s" if one.line else f"{one.kind}s"
    return (
        f"{line} {many(len({(t.first, t.shape) for t in panel}), 'tile')} of "
        f"{_times(_used(one.shape, len(one.sizes)))} of an array of {_times(one.sizes)}"
    )


def _told(panel: list, grid: Sequence[int]) -> str:
    """Return ``Line 7 loads 4 tiles …. By first element: (0, 0) by blocks 0, 1; …``."""
    found = _blocks(panel)
    tiles = [
        f"{_index(first)} by {'blocks' if len(blocks) > 1 else 'block'} "
        f"{', '.join(_block(b, grid) for b in blocks[:4])}"
        f"{' and others' if len(blocks) > 4 else ''}"
        for (first, _), blocks in list(found.items())[:8]
    ]
    if len(found) > len(tiles):
        tiles.append(f"{len(found) - len(tiles):,} more")
    text = _of(panel)
    return f"{text[:1].upper()}{text[1:]}. By first element: {'; '.join(tiles)}."


def _blocks(panel: list) -> dict[tuple, list[int]]:
    """Return the blocks that access each tile, by its first element and shape."""
    found: dict[tuple, list[int]] = {}
    for one in panel:
        found.setdefault((one.first, one.shape), []).append(one.block)
    return found


def _draw(axes, panel: list, grid: Sequence[int]) -> None:
    from matplotlib.patches import Rectangle

    rows, columns = _plane(panel[0].sizes)
    tiles = list(_blocks(panel).items())
    axes.add_patch(Rectangle((0, 0), columns, rows, facecolor=PALE, edgecolor="none"))
    for (first, shape), blocks in tiles[:MOST_DRAWN]:
        (y, x), (height, width) = _plane(first, 0), _plane(shape)
        axes.add_patch(
            Rectangle(
                (x, y),
                width,
                height,
                facecolor=COLOURS[blocks[0] % len(COLOURS)],
                edgecolor="white",
                linewidth=0.6 if len(tiles) <= 256 else 0,
            )
        )
        if len(tiles) <= MOST_NAMED:
            label = (
                "\n".join(_block(b, grid) for b in blocks)
                if len(blocks) <= 2
                else (f"{many(len(blocks), 'block')}")
            )
            axes.text(
                (max(x, 0) + min(x + width, columns)) / 2,
                (max(y, 0) + min(y + height, rows)) / 2,
                label,
                size=7,
                ha="center",
                va="center",
                color=INK,
            )
    axes.add_patch(Rectangle((0, 0), columns, rows, fill=False, edgecolor="black", linewidth=1.2))
    ends = [tuple(map(sum, zip(_plane(t.first, 0), _plane(t.shape), strict=True))) for t in panel]
    bottom, right = max(rows, *(e[0] for e in ends)), max(columns, *(e[1] for e in ends))
    axes.set(xlim=(0, right), ylim=(bottom, 0), xlabel="column" if rows > 1 else "element")
    if rows > 1:
        axes.set(ylabel="row")
    else:
        axes.set_yticks([])
    one = panel[0]
    axes.set_title(f"line {one.line} {one.kind}s" if one.line else f"{one.kind}s", size=9)


def _plane(parts: Sequence[int], missing: int = 1) -> tuple[int, int]:
    """Return rows and columns; an array of one dimension is one row."""
    return (missing, parts[0]) if len(parts) == 1 else (parts[0], parts[1])


def _block(place: int, grid: Sequence[int]) -> str:
    x, y, _ = grid
    return _index((place % x, place // x % y, place // (x * y))[: len(_used(grid))])


def _index(index: Sequence[int]) -> str:
    return str(index[0]) if len(index) == 1 else f"({', '.join(map(str, index))})"


def _used(sizes: Sequence[int], least: int = 1) -> tuple[int, ...]:
    """Return the sizes without trailing ones."""
    parts = list(sizes)
    while len(parts) > least and parts[-1] == 1:
        parts.pop()
    return tuple(parts)


def _times(sizes: Sequence[int]) -> str:
    return " × ".join(f"{one:,}" for one in sizes)
