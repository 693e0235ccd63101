"""Picture of a puzzle: input and output arrays, their dependencies, and the threads.

One function draws every puzzle. It finds the sources of each result by changing each input number
in turn and evaluating the line of NumPy. A launch of the solution shows which threads write which
results.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpucourse.course.puzzles import Puzzle
from gpucourse.puzzles.inputs import Case, spec
from gpucourse.puzzles.judge import pictured
from gpucourse.puzzles.writers import Threads, writers
from gpucourse.system.language import _
from gpucourse.views.page import ORANGE, SKY, View, box, head, label, note, rect, svg

#: Width and height of a cell, the space for an array's name, and the gap between arrays.
_WIDE, _HIGH, _NAME, _GAP = 36, 24, 96, 34
_FILLS = (SKY, ORANGE)
#: A longer array is drawn in rows of this length.
_LONGEST, _ROW = 20, 16

Index = tuple[int, ...]
Sources = dict[tuple[str, Index], list[tuple[str, Index]]]


def draw_spec(puzzle: Puzzle) -> View:
    """Draw the puzzle's example: its arrays, two coloured results, and their sources."""
    case = pictured(puzzle)
    sources, threads = _sources(case), writers(case)
    chosen = _chosen(case, sources)
    places, height, width = _layout(case)
    tiles = _tiles(case, threads, sources)
    fills: dict[tuple[str, str, Index], str] = {}
    for colour, result in zip(_FILLS, chosen, strict=False):
        cells = [("out", *result), *(("in", *one) for one in sources[result])]
        fills |= dict.fromkeys(cells, colour)
    parts = [*_lines(places, sources, chosen)]
    for (side, name), (top, array) in places.items():
        parts += _array(side, name, array, top, fills, sources)
        parts += _frames(array, top, [tile for tile in tiles if tile[0] == (side, name)])
    row, below, wide = _thread_row(places, threads, chosen, height)
    if len(case.block) > 1:  # a row would show only the first threads, so words say who writes
        row, below, wide = [], 0, 0
    parts += row
    written = " ".join(_written(case, threads, chosen))
    if tiles:
        written += " " + _("A frame surrounds what one block reads or writes.")
    alt = f"{_words(case, sources, chosen)} {written}".rstrip()
    scalars = [
        f"{name} = {value}"
        for name, value in case.values.items()
        if not isinstance(value, np.ndarray)
    ]
    return View(
        box(
            head(puzzle.spec, *scalars),
            svg(max(width, wide), height + below, parts, alt),
            note(written),
        ),
        f"{puzzle.spec}\n{alt}",
    )


def _sources(case: Case) -> Sources:
    """Return, for each result, the input numbers on which it depends."""
    base = {name: case.values[name] for name in case.puzzle.inputs}
    found: Sources = {
        (name, place): []
        for name, array in case.expected.items()
        for place in np.ndindex(array.shape)
    }
    for name, array in base.items():
        if not isinstance(array, np.ndarray):
            continue
        for place in np.ndindex(array.shape):
            changed = set()
            for other in _others(array, place):
                trial = array.copy()
                trial[place] = other
                try:
                    after = spec(case.puzzle, {**case.sizes, **base, name: trial})
                except (ValueError, IndexError):
                    continue
                for one, results in after.items():
                    if results.shape == case.expected[one].shape:
                        changed |= {
                            (one, tuple(map(int, at)))
                            for at in np.argwhere(results != case.expected[one])
                        }
            for result in changed:
                found[result].append((name, place))
    return found


def _others(array: np.ndarray, place: Index) -> Iterator[Any]:
    """Return values to replace a number: a small one, a large one and its neighbours."""
    if array.dtype.kind == "f":
        yield from (array[place] + 1, 1000, -1000)
    else:
        yield from (value for value in np.unique(array) if value != array[place])


def _chosen(case: Case, sources: Sources) -> list[tuple[str, Index]]:
    """Return a result in the middle, and another that has no source in common with it."""
    results = [one for one in sources if sources[one]] or list(sources)
    if not results:
        return []
    first = results[min(len(results) - 1, 2)]
    apart = [one for one in results if not set(sources[one]) & set(sources[first]) and one != first]
    return [first, *apart[-2:][:1]]


def _layout(case: Case) -> tuple[dict[tuple[str, str], tuple[float, np.ndarray]], float, float]:
    places: dict[tuple[str, str], tuple[float, np.ndarray]] = {}
    top, widest = 4.0, 0
    shown = [
        ("in", name, case.values[name])
        for name in case.puzzle.inputs
        if isinstance(case.values[name], np.ndarray)
    ]
    shown += [("out", name, array) for name, array in case.expected.items()]
    lined = all(_shape(array)[0] == 1 for _, _, array in shown)  # room for the lines between
    for side, name, array in shown:
        places[side, name] = top, array
        rows, columns = _shape(array)
        top += rows * _HIGH + 14 + (_GAP if lined else 4) * (side == "in")
        widest = max(widest, columns)
    return places, top, _NAME + widest * _WIDE + 8


def _shape(array: np.ndarray) -> tuple[int, int]:
    """Return the rows and columns of cells; a long one-dimensional array takes several rows."""
    if array.ndim == 2:
        return array.shape[0], array.shape[1]
    return (1, array.size) if array.size <= _LONGEST else (-(-array.size // _ROW), _ROW)


def _corner(array: np.ndarray, top: float, place: Index) -> tuple[float, float]:
    row, column = place if len(place) == 2 else divmod(place[0], _shape(array)[1])
    return _NAME + column * _WIDE, top + row * _HIGH


def _lines(places, sources: Sources, chosen) -> Iterator[str]:
    for colour, result in zip(_FILLS, chosen, strict=False):
        below, there = places["out", result[0]]
        x, y = _corner(there, below, result[1])
        for name, place in sources[result]:
            above, array = places["in", name]
            if max(_shape(array)[0], _shape(there)[0]) > 1:
                continue  # a line would cross numbers, so only the colours show it
            from_x, from_y = _corner(array, above, place)
            to_x, to_y = x, y
            if between := [one for one, (top, _) in places.items() if above < top < below]:
                # A line across an array would cross numbers. If each array contributes one number
                # to the result, the line ends at the lower array. Otherwise only the colours show
                # the sources.
                next_one = between[0][1]
                made_of = [one for one in sources[result] if one[0] in (name, next_one)]
                if made_of != [(name, place), (next_one, place)]:
                    continue
                to_x, to_y = from_x, places["in", next_one][0]
            yield (
                f'<line x1="{from_x + _WIDE / 2 - 1:g}" y1="{from_y + _HIGH + 11:g}" '
                f'x2="{to_x + _WIDE / 2 - 1:g}" y2="{to_y:g}" stroke="{colour}" stroke-width="2"/>'
            )


Tile = tuple[tuple[str, str], tuple[int, int, int, int]]


def _tiles(case: Case, threads: Threads, sources: Sources) -> list[Tile]:
    """Return the tiles that the blocks write, and the tiles from which these are computed.

    A tile is part of a two-dimensional array, given by its first and last row and column. An array
    has no tiles if the elements of a block do not form separate rectangles.
    """
    blocks: dict[int, set[tuple[str, Index]]] = {}
    for result, writing in threads.of.items():
        blocks.setdefault(writing[0] // threads.per_block, set()).add(result)
    if len(case.block) < 2 or len(blocks) < 2:
        return []
    found: dict[tuple[str, str], list[set[Index]]] = {}
    for results in blocks.values():
        parts: dict[tuple[str, str], set[Index]] = {}
        for name, place in results:
            parts.setdefault(("out", name), set()).add(place)
            for origin, at in sources[name, place]:
                parts.setdefault(("in", origin), set()).add(at)
        for array, part in parts.items():
            if all(len(place) == 2 for place in part):
                found.setdefault(array, []).append(part)
    return [
        (array, (*map(min, zip(*part, strict=True)), *map(max, zip(*part, strict=True))))
        for array, several in found.items()
        if sum(map(len, several)) == len(set().union(*several)) and all(map(_is_full, several))
        for part in several
    ]


def _is_full(part: set[Index]) -> bool:
    """Return True if the positions form a full rectangle of the array."""
    rows, columns = ({place[axis] for place in part} for axis in (0, 1))
    height, width = (max(some) - min(some) + 1 for some in (rows, columns))
    return len(part) == height * width


def _frames(array: np.ndarray, top: float, tiles: list[Tile]) -> Iterator[str]:
    for _array, (row, column, last_row, last_column) in tiles:
        x, y = _corner(array, top, (row, column))
        wide, high = (last_column - column + 1) * _WIDE, (last_row - row + 1) * _HIGH
        frame = 'fill="none" stroke="currentColor" stroke-width="1.5" rx="3"'
        yield rect(x - 1.5, y - 1.5, wide, high, frame)


def _array(
    side: str, name: str, array: np.ndarray, top: float, fills: dict, sources: Sources
) -> Iterator[str]:
    yield label(_NAME - 8, top + 16, name, 13, "end", 'font-weight="600"')
    for place in np.ndindex(array.shape):
        x, y = _corner(array, top, place)
        fill = fills.get((side, name, place))
        style = (
            f'fill="{fill}"' if fill else 'fill="currentColor" fill-opacity="0.07"'
        ) + ' rx="2"'
        tip = _from(name, place, sources) if side == "out" else f"{name}[{_place(place)}]"
        yield rect(x, y, _WIDE - 3, _HIGH - 3, style, tip)
        text = _number(array[place])
        yield label(
            x + _WIDE / 2 - 1,
            y + 15,
            text,
            min(11, 48 / len(text)),  # the longest text must not touch its neighbours
            "middle",
            'class="ink"' if fill else "",
        )
        if _shape(array)[0] == 1 and array.ndim == 1:
            yield label(x + _WIDE / 2 - 1, y + _HIGH + 8, place[0], 9, "middle", 'class="dim"')


#: Number of threads drawn. A thread's box is as wide as an element's, so that thread 3 is below
#: element 3.
_THREADS = 16


def _thread_row(
    places, threads: Threads, chosen: list[tuple[str, Index]], top: float
) -> tuple[list[str], float, float]:
    """Return the row of threads below the arrays, its height and its right end.

    A frame surrounds each block. A thread has the colour of the result that it writes, and is
    faint if it writes nothing.
    """
    count = min(threads.count, _THREADS)
    if not count or len(threads.of) == 0:
        return [], 0, 0
    parts = [label(_NAME - 8, top + 34, _("threads"), 13, "end", 'font-weight="600"')]
    colours = {
        thread: colour
        for colour, result in zip(_FILLS, chosen, strict=False)
        for thread in threads.of.get(result, ())
    }
    for colour, result in zip(_FILLS, chosen, strict=False):
        above, array = places["out", result[0]]
        if _shape(array)[0] > 1 or any(below > above for below, _ in places.values()):
            continue  # the line would cross numbers, so only the colours show it
        x, y = _corner(array, above, result[1])
        for thread in threads.of.get(result, ()):
            if thread < count:
                parts.append(
                    f'<line x1="{x + _WIDE / 2 - 1:g}" y1="{y + _HIGH + 11:g}" '
                    f'x2="{_NAME + thread * _WIDE + _WIDE / 2 - 1:g}" y2="{top + 16:g}" '
                    f'stroke="{colour}" stroke-width="2"/>'
                )
    for block in range(-(-count // threads.per_block)):
        first = block * threads.per_block
        inside = min(threads.per_block, count - first)
        left = _NAME + first * _WIDE
        frame = 'fill="none" stroke="currentColor" stroke-opacity="0.6" rx="3"'
        parts.append(rect(left - 2, top + 16, inside * _WIDE + 1, 26, frame))
        parts.append(
            label(left, top + 54, _("block {number}").format(number=block), 10, "start", "")
        )
    for thread in range(count):
        x = _NAME + thread * _WIDE
        fill = colours.get(thread)
        faint = 0.12 if thread in threads.busy else 0.02
        style = f'fill="{fill}"' if fill else f'fill="currentColor" fill-opacity="{faint}"'
        parts.append(rect(x, top + 19, _WIDE - 3, 20, f'{style} rx="2"'))
        ink = 'class="ink"' if fill else "" if thread in threads.busy else 'class="dim"'
        number = thread % threads.per_block
        parts.append(label(x + _WIDE / 2 - 1, top + 33, number, 10, "middle", ink))
    end = _NAME + count * _WIDE + 8
    if threads.count > count:
        more = _("… {count:,} in all").format(count=threads.count)
        parts.append(label(end, top + 33, more, 10, "start", 'class="dim"'))
        end += 80
    return parts, 60, end


def _written(case: Case, threads: Threads, chosen: list[tuple[str, Index]]) -> Iterator[str]:
    """Yield sentences on which threads write the chosen results and which write nothing."""
    block, grid = case.block, case.grid
    for name, place in chosen:
        writing = threads.of.get((name, place), ())
        for thread in writing[:1]:
            said = _("{result} is written by thread {thread} of block {block}.")
            if writing[1:]:
                said = _(
                    "{result} is written by {count} threads, thread {thread} of block {block} "
                    "first."
                )
            yield said.format(
                result=f"{name}[{_place(place)}]",
                thread=_within(thread % threads.per_block, block),
                block=_within(thread // threads.per_block, grid),
                count=len(writing),
            )
    if threads.busy and (idle := threads.count - len(threads.busy)):
        yield _("{idle:,} of {count:,} threads write no result.").format(
            idle=idle, count=threads.count
        )


def _within(number: int, shape: tuple[int, ...]) -> str:
    """Return the index of a thread or block, as (x, y) if the shape has several dimensions."""
    if math.prod(shape) == shape[0]:
        return str(number)
    index = np.unravel_index(number, shape[::-1])[::-1]
    return f"({', '.join(str(int(one)) for one in index)})"


def _number(value: Any) -> str:
    return f"{value:.0f}" if value == round(value) else f"{value:.{3 if abs(value) >= 10 else 2}g}"


def _place(place: Index) -> str:
    return ", ".join(map(str, place))


def _from(name: str, place: Index, sources: Sources) -> str:
    found = [f"{one}[{_place(at)}]" for one, at in sources[name, place]]
    few = ", ".join(found[:6])
    if len(found) > 6:
        few += " " + _("and {count} more").format(count=len(found) - 6)
    return _("{result} comes from {inputs}").format(
        result=f"{name}[{_place(place)}]", inputs=few or _("only its position, not from an array")
    )


def _words(case: Case, sources: Sources, chosen) -> str:
    arrays = [
        _("{name} holds {numbers}").format(name=name, numbers=" ".join(map(_number, array.ravel())))
        for name, array in [
            *((one, case.values[one]) for one in case.puzzle.inputs),
            *case.expected.items(),
        ]
        if isinstance(array, np.ndarray) and array.size <= 40
    ]
    return ". ".join([*arrays, *(_from(name, place, sources) for name, place in chosen)]) + "."
