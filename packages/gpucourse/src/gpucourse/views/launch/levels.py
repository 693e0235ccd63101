"""Levels of a reduction in one block, reconstructed from its reads and writes.

A value that a thread writes into the array is one level above the highest value that the thread
has read from the array since its last write. This rule works for every method of reduction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from gpucourse.views.launch.memory import _choose
from gpucourse.views.launch.runs import ArrayArgument, Launch, Observed, traced
from gpucourse.views.launch.timeline import ranges
from gpucourse.views.page import (
    ORANGE,
    SKY,
    VERMILION,
    View,
    box,
    head,
    label,
    note,
    rect,
    svg,
    wide,
)
from gpucourse.wording import many
from virtualgpu.api import ThreadStep

#: Elements that fit side by side.
WIDEST = 64
_WIDTH, _LEFT, _ROW = 810, 78, 46


@dataclass(slots=True, eq=False)
class Node:
    """One value that an element held; ``came`` are the values that it was computed from."""

    element: int
    level: int
    thread: int | None
    line: int | None
    value: float | None
    came: list[Node] = field(default_factory=list)
    used: bool = False


def tree(
    kernel: object,
    grid: object = None,
    block: object = None,
    *arguments: object,
    array: str | int = "shared",
    dtype: object = None,
    shared_bytes: int = 0,
) -> View:
    """Launch a reduction on copies of its arguments and draw how its first block added up.

    Parameters
    ----------
    kernel, grid, block, *arguments, shared_bytes
        As for :func:`gpucourse.report`. At most 64 elements are drawn: launch small blocks.
    array : str or int
        Where the values are combined: ``"shared"``, or the name or number of a parameter.
    dtype : data type, optional
        Of the values in shared memory. By default that of the first array argument whose elements
        are as many bytes wide as the kernel's accesses.

    Returns
    -------
    View
        A row for each level, the input below. Values that never reach the top are marked.
    """
    launch = Launch.of(kernel, grid, block, arguments, shared_bytes)
    observed = traced(launch, threads=launch.threads, values=True)
    place = None if array == "shared" else _choose(observed.places, array)
    nodes = list(_nodes(observed, place, dtype))
    widest = max((node.element for node in nodes), default=0) + 1
    if widest > WIDEST:
        raise ValueError(
            f"{widest} elements are too many to draw; {WIDEST} is the most. Launch blocks of "
            f"at most {WIDEST} threads to see the levels"
        )
    return _view(observed, nodes, widest, "shared memory" if place is None else place.name)


def _nodes(observed: Observed, place: ArrayArgument | None, dtype: object) -> Iterator[Node]:
    """Yield every value that was written to the array, in the order of writing.

    An input that is only read counts as written before the launch.
    """
    steps = [
        step
        for step in observed.trace.accesses("shared" if place is None else "global")
        if place is None or place.holds(step.addresses).any()
    ]
    if not steps:
        return
    start = place.address if place else min(int(step.addresses.min()) for step in steps)
    size = steps[0].size
    dtype = observed.dtype(place, size) if dtype is None else np.dtype(dtype)
    latest: dict[int, Node] = {}
    read: dict[int, list[Node]] = {}
    for step in steps:
        assert step.addresses is not None
        inside = np.ones(len(step.threads), bool) if place is None else place.holds(step.addresses)
        elements = (step.addresses[inside].astype(np.int64) - start) // size
        values = _values(step, inside, dtype)
        rows = zip(step.threads[inside].tolist(), elements.tolist(), values, strict=True)
        if step.kind == "load":
            for thread, element, value in rows:
                node = latest.get(element)
                if node is None:
                    node = latest[element] = Node(element, 0, None, None, value)
                    yield node
                read.setdefault(thread, []).append(node)
            continue
        made = []
        for thread, element, value in rows:
            came = read.pop(thread, [])
            before = latest.get(element)
            if (
                before
                and before not in came
                and (step.kind == "atomic" or (came and before.thread == thread))
            ):
                came = [before, *came]  # a running sum stays in a register
            for node in came:
                node.used = True
            level = 1 + max((node.level for node in came), default=-1)
            made.append(Node(element, level, thread, step.line, value, came))
            if step.kind == "atomic":
                latest[element] = made[-1]
        for node in made:
            latest[node.element] = node
        yield from made


def _values(step: ThreadStep, inside: np.ndarray, dtype: np.dtype | None) -> list:
    if step.values is None or dtype is None or dtype.itemsize != step.size:
        return [None] * int(inside.sum())
    return np.ascontiguousarray(step.values[inside]).view(dtype).ravel().tolist()


# -- the picture --------------------------------------------------------------------------------


def _view(observed: Observed, nodes: list[Node], widest: int, name: str) -> View:
    title = f"{observed.kernel}: the levels in {name}"
    told = []
    if observed.error is not None:
        told.append(f"The launch was stopped: {observed.error.message}")
    top = max((node.level for node in nodes), default=0)
    if not top:
        told.insert(
            0,
            f"No thread of the first block wrote to {name} a value computed from other values "
            "in it, so there is no level to draw.",
        )
        return View(box(head(title), *(note(line) for line in told)), "\n".join([title, *told]))
    lost = [node for node in nodes if not node.used and node.level < top and not _is_filling(node)]
    levels = [[node for node in nodes if node.level == level] for level in range(top + 1)]
    rows = [
        f"level {level}: {many(len(row), 'value')}"
        + (
            f", {_shown(row[0].value)} at the end"
            if level == top and len(row) == 1
            else f" by threads {ranges(np.unique([n.thread for n in row if n.thread is not None]))}"
            if row[0].thread is not None
            else ""
        )
        + _line_of(row)
        for level, row in enumerate(levels)
    ]
    if lost:
        values = ", ".join(f"element {n.element} ({_shown(n.value)})" for n in lost[:6])
        verb = "reaches" if len(lost) == 1 else "reach"
        more = ", …" if len(lost) > 6 else ""
        told.insert(0, f"{many(len(lost), 'value')} never {verb} the top: {values}{more}.")
    if int(np.prod(observed.grid)) > 1:
        told.append(f"The first of {many(int(np.prod(observed.grid)), 'block')}.")
    alt = f"{title}. {'; '.join(rows)}. {' '.join(told)}"
    markup = box(
        head(title, f"{many(top, 'level')} above the input"),
        wide(_picture(levels, widest, lost, alt), title),
        *(note(line) for line in told),
        label=title,
    )
    return View(markup, "\n".join([title, *rows, *told]))


def _is_filling(node: Node) -> bool:
    """Return True for a zero of the input that only pads a block; losing it is no fault."""
    return node.level == 0 and node.value == 0


def _line_of(row: list[Node]) -> str:
    lines = sorted({node.line for node in row if node.line})
    return f", line {', '.join(map(str, lines))}" if lines else ""


def _shown(value: float | None) -> str:
    if value is None:
        return "?"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _picture(levels: list[list[Node]], widest: int, lost: list[Node], alt: str) -> str:
    pitch = min(44.0, (_WIDTH - _LEFT) / widest)
    height = len(levels) * _ROW
    missing = {id(node) for node in lost}

    def place(node: Node) -> tuple[float, float]:
        return _LEFT + (node.element + 0.5) * pitch, height - 26 - node.level * _ROW

    lines, boxes = [], []
    for level, row in enumerate(levels):
        line = height - 26 - level * _ROW
        apart = np.diff(sorted(node.element for node in row)).min() if len(row) > 1 else WIDEST
        width = min(apart * pitch - 2, 38)
        name = f"level {level}" if level else "input"
        boxes.append(label(_LEFT - 14, line + 4, name, 11, "end"))
        for node in row:
            x, y = place(node)
            for origin in node.came:
                ox, oy = place(origin)
                own = origin.element == node.element
                lines.append(
                    f'<path d="M{ox:g} {oy - 9:g}L{x:g} {y + 9:g}" stroke="currentColor" '
                    f'stroke-opacity="{0.25 if own else 0.6}" stroke-width="1.2"/>'
                )
            boxes += _node(node, x, y, width, id(node) in missing)
    for element in range(0, widest, 1 if pitch > 18 else 8):
        boxes.append(
            label(_LEFT + (element + 0.5) * pitch, height - 3, element, 9, "middle", 'class="dim"')
        )
    return svg(_LEFT + widest * pitch + 6, height, [*lines, *boxes], alt)


def _node(node: Node, x: float, y: float, width: float, lost: bool):
    code = f"thread {node.thread}, line {node.line}" if node.thread is not None else "input"
    style = f'fill="{SKY if node.level == 0 else ORANGE}" rx="3"'
    if lost:
        style = (
            f'fill="var(--jp-layout-color0, Canvas)" stroke="{VERMILION}" stroke-width="2" '
            'stroke-dasharray="3 2" rx="3"'
        )
    yield rect(
        x - width / 2,
        y - 9,
        width,
        18,
        style,
        f"element {node.element}: {_shown(node.value)} ({code})",
    )
    text = _shown(node.value)
    if len(text) * 6 < width:
        yield label(
            x, y + 4, text, 10, "middle", 'pointer-events="none"' + ("" if lost else ' class="ink"')
        )
