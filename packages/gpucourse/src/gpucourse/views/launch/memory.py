"""Picture of the threads that touched each element of an array, request by request.

An array in global memory is drawn as sectors of 32 bytes, which are the units of transfer; four of
them form a line. Shared memory is drawn as its 32 banks, with a row for each wavefront of a
request. The pictures agree with the counters, which :mod:`virtualgpu.watch.counters` defines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpucourse.views.launch.runs import ArrayArgument, Launch, Observed, traced
from gpucourse.views.launch.timeline import ranges, warp_starts
from gpucourse.views.page import (
    FILLS,
    View,
    box,
    escape,
    head,
    label,
    note,
    rect,
    stepper,
    svg,
)
from gpucourse.views.words import WARP
from gpucourse.wording import many
from virtualgpu import sources
from virtualgpu.api import ThreadStep

#: Default and largest number of requests drawn.
STEPS, MOST_STEPS = 16, 40
#: Bytes of pictures after which none is added, so that two views side by side stay small.
MOST_BYTES = 120_000
#: Number of warps whose requests are drawn.
WARPS = 2
SECTOR, BANKS, WORD = 32, 32, 4


@dataclass(frozen=True, slots=True)
class Request:
    """One instruction of one warp, with the bytes that each of its threads touched.

    ``offsets`` count from the start of the array or of the block's shared memory.
    """

    step: ThreadStep
    block: int
    warp: int
    threads: np.ndarray  # indices of threads in the block
    offsets: np.ndarray

    @property
    def size(self) -> int:
        """Return the number of bytes that each thread accesses."""
        return self.step.size

    @property
    def verb(self) -> str:
        return {"load": "reads", "store": "writes", "atomic": "updates"}[self.step.kind]


def memory(
    kernel: object,
    grid: object = None,
    block: object = None,
    *arguments: object,
    array: str | int | None = None,
    steps: int = STEPS,
    title: str = "",
    shared_bytes: int = 0,
) -> View:
    """Launch a kernel on copies of its arguments and draw how its first warps reach one array.

    Parameters
    ----------
    kernel, grid, block, *arguments, shared_bytes
        As for :func:`gpucourse.report`.
    array : str or int, optional
        The name or number of the kernel's parameter, or ``"shared"`` for shared memory by its
        banks. By default the first array.
    steps : int
        How many requests to draw, at most 40; a slider moves through them.
    title : str
        Text above the picture, such as ``"coalesced"``.

    Returns
    -------
    View
        ``gpucourse.beside(memory(…), memory(…))`` shows two of them side by side.
    """
    launch = Launch.of(kernel, grid, block, arguments, shared_bytes)
    starts = warp_starts(launch.threads, launch.blocks, WARPS)
    observed = traced(launch, threads=int(starts[-1]))
    steps = min(max(1, steps), MOST_STEPS)
    if array == "shared":
        return _view(observed, list(requests(observed, None)), "shared memory", banks, steps, title)
    place = _choose(observed.places, array)
    found = list(requests(observed, place))
    return _view(observed, found, place.name, lambda r: sectors(r, place), steps, title)


def requests(observed: Observed, place: ArrayArgument | None) -> Iterator[Request]:
    """Yield the requests to one array, by warp; ``place=None`` means shared memory."""
    in_block = int(np.prod(observed.block))
    for step in observed.trace.accesses("shared" if place is None else "global"):
        offsets = step.addresses.astype(np.int64)
        threads = step.threads
        if place is not None:
            inside = place.holds(offsets)
            offsets, threads = offsets[inside] - place.address, threads[inside]
        number = threads // in_block * (-(-in_block // WARP)) + threads % in_block // WARP
        for warp in np.unique(number):
            mine = number == warp
            own = threads[mine]
            yield Request(
                step,
                int(own[0]) // in_block,
                int(own[0]) % in_block // WARP,
                own % in_block,
                offsets[mine],
            )


def _choose(places: list[ArrayArgument], array: str | int | None) -> ArrayArgument:
    if not places:
        raise ValueError(
            'the kernel has no array among its arguments. For shared memory, pass array="shared"'
        )
    if array is None:
        return places[0]
    for place in places:
        if array in (place.name, place.number) and not isinstance(array, bool):
            return place
    names = ", ".join(f'"{place.name}"' for place in places)
    raise ValueError(
        f'there is no array {array!r} among the arguments. Pass array= one of {names}, or "shared"'
    )


def _view(
    observed: Observed, found: list[Request], name: str, draw, steps: int, title: str
) -> View:
    heading = title or f"{observed.kernel}: {name}"
    told = [] if title == "" else [f"{observed.kernel}: {name}"]
    if not found:
        told.append(f"The first {WARPS} warps do not touch {name}.")
    if observed.error is not None:
        told.append(f"The launch was stopped: {observed.error.message}")
    drawn: list[tuple[str, str]] = []
    for request in found[:steps]:
        drawn.append(draw(request))
        if sum(len(picture) for picture, _ in drawn) > MOST_BYTES:
            break
    captions = [_caption(request) for request in found[: len(drawn)]]
    if left := len(found) - len(drawn):
        told.append(f"{many(left, 'further request')} of these warps left out.")
    frames = [
        f"<p><b>{number}.</b> {escape(caption)}<br><code>{escape(_code(request))}</code><br>"
        f"{escape(words)}</p>{picture}"
        for number, (request, caption, (picture, words)) in enumerate(
            zip(found, captions, drawn, strict=False), start=1
        )
    ]
    markup = box(
        head(heading, told[0] if title and told else ""),
        stepper(frames, captions) if frames else "",
        *(note(line) for line in told[bool(title) :]),
        label=heading,
    )
    text = (
        [heading]
        + [
            f"{number}. {caption}: {_code(request)}\n   {words}\n   {_who(request)}"
            for number, (request, caption, (_, words)) in enumerate(
                zip(found, captions, drawn, strict=False), start=1
            )
        ]
        + told
    )
    return View(markup, "\n".join(text))


def _caption(request: Request) -> str:
    return (
        f"line {request.step.line}: warp {request.warp} of block {request.block} "
        f"{request.verb}, {many(len(request.threads), 'thread')}"
    )


def _code(request: Request) -> str:
    return sources.text(request.step.filename, request.step.line)


def _who(request: Request) -> str:
    """Return ``threads 0-31 at 0, 32, 64, …``, with elements in the order of the threads."""
    elements = request.offsets // request.size
    shown = ", ".join(map(str, elements[:6].tolist())) + (", …" if len(elements) > 6 else "")
    return f"threads {ranges(request.threads)} at elements {shown}"


# -- global memory ------------------------------------------------------------------------------

_PER_ROW, _SECTOR_WIDTH, _CELL, _GAP = 4, 102, 17, 6


def sectors(request: Request, place: ArrayArgument) -> tuple[str, str]:
    """Draw the whole sectors that a request touches, and describe them."""
    item = min(place.dtype.itemsize, SECTOR)
    base = place.address % SECTOR  # arrays start at a sector, views may not
    first, last = ((request.offsets + base + more) // SECTOR for more in (0, request.size - 1))
    touched = np.unique(np.concatenate([first, last]))
    held: dict[int, list[int]] = {}
    for thread, offset in zip(request.threads.tolist(), request.offsets.tolist(), strict=True):
        for part in range(0, request.size, item):
            held.setdefault((offset + base + part) // item, []).append(thread)
    parts, x, y = [], 0.0, 0.0
    row_of = touched // _PER_ROW
    rows = {row: at for at, row in enumerate(np.unique(row_of).tolist())}
    # Sectors that are far apart are drawn in one row, with a gap between them.
    packed = len(rows) > 8
    for at, sector in enumerate(touched.tolist()):
        column, row = (
            (at % _PER_ROW, at // _PER_ROW)
            if packed
            else (sector % _PER_ROW, rows[sector // _PER_ROW])
        )
        x, y = column * (_SECTOR_WIDTH + _GAP), row * (_CELL + 22) + 12
        parts += _sector(sector, x, y, item, base, held, place)
    height = y + _CELL + 6
    wanted = len(held) * item
    least = -(-wanted // SECTOR)
    moved = len(touched) * SECTOR
    words = (
        f"{many(len(touched), 'sector')} touched, {many(moved, 'byte')} moved for {wanted:,} "
        "requested bytes"
        + (f": {least} would do" if len(touched) > least else ": as few as would do")
    )
    alt = f"{_caption(request)}: {words}. {_who(request)}."
    return svg(_PER_ROW * (_SECTOR_WIDTH + _GAP), height, parts, alt), words


def _sector(
    sector: int, x: float, y: float, item: int, base: int, held: dict, place: ArrayArgument
):
    per = SECTOR // item
    width = _SECTOR_WIDTH / per
    begin = sector * SECTOR - base
    ticks = "".join(f"M{x + k * width:g} {y:g}v{_CELL}" for k in range(1, per) if width > 2)
    yield rect(
        x,
        y,
        _SECTOR_WIDTH,
        _CELL,
        'fill="currentColor" fill-opacity=".1" '
        'stroke="currentColor" stroke-opacity=".35" stroke-width=".5"',
    )
    yield f'<path d="{ticks}" stroke="currentColor" stroke-opacity=".35" stroke-width=".5"/>'
    yield label(x, y - 3, f"{begin // place.dtype.itemsize:,}", 9, style='class="dim"')
    for k in range(per):
        threads = held.get(sector * per + k)
        left = x + k * width
        if threads is None:
            continue
        element = (begin + k * item) // place.dtype.itemsize
        who = ranges(np.unique(threads))
        yield rect(
            left,
            y,
            width,
            _CELL,
            f'fill="{FILLS[threads[0] // WARP % len(FILLS)]}" stroke="#1a1a1a" stroke-width=".5"',
            f"{place.name}[{element}]: thread {who}",
        )
        if width > 10:
            text = threads[0] if len(threads) == 1 else f"×{len(threads)}"
            yield label(
                left + width / 2,
                y + 12,
                text,
                9 if width < 20 else 10,
                "middle",
                'class="ink" pointer-events="none"',
            )


# -- shared memory ------------------------------------------------------------------------------

_BANK = 18


def banks(request: Request) -> tuple[str, str]:
    """Draw the banks that a request needs, a row for each wavefront, and describe them."""
    wavefronts: list[dict[int, tuple[int, list[int]]]] = []  # of each: bank → (word, threads)
    lanes_at_once = WARP if request.size <= WORD else BANKS * WORD // request.size
    least = 0
    for start in range(0, WARP, lanes_at_once):
        chosen = request.threads % WARP // lanes_at_once == start // lanes_at_once
        if not chosen.any():
            continue
        least += 1
        queues: dict[int, dict[int, list[int]]] = {}
        for thread, offset in zip(
            request.threads[chosen].tolist(), request.offsets[chosen].tolist(), strict=True
        ):
            for word in range(offset // WORD, (offset + request.size - 1) // WORD + 1):
                queues.setdefault(word % BANKS, {}).setdefault(word, []).append(thread)
        longest = max(map(len, queues.values()))
        for place in range(longest):
            wavefronts.append(
                {
                    bank: list(words.items())[place]
                    for bank, words in queues.items()
                    if len(words) > place
                }
            )
    parts = [
        label(bank * _BANK + _BANK / 2, 10, bank, 9, "middle", 'class="dim"')
        for bank in range(BANKS)
    ]
    for row, wanted in enumerate(wavefronts):
        y = 15 + row * (_CELL + 1)
        parts.append(rect(0, y, BANKS * _BANK - 1, _CELL, 'fill="currentColor" fill-opacity=".08"'))
        for bank, (word, threads) in wanted.items():
            fill = FILLS[0] if row < least else FILLS[6]
            hover = f"bank {bank}, byte {word * WORD}: thread {ranges(np.array(threads))}"
            parts.append(rect(bank * _BANK, y, _BANK - 1, _CELL, f'fill="{fill}"', hover))
            text = threads[0] if len(threads) == 1 else f"×{len(threads)}"
            parts.append(
                label(
                    bank * _BANK + _BANK / 2 - 0.5,
                    y + 12,
                    text,
                    10,
                    "middle",
                    'class="ink" pointer-events="none"',
                )
            )
    words = f"{many(len(wavefronts), 'wavefront')}" + (
        f"; {least} would do, because threads access different words of one bank"
        if len(wavefronts) > least
        else ", because no bank is accessed twice"
        if least == 1
        else ": as few as this size allows"
    )
    alt = f"{_caption(request)}: {words}."
    return svg(BANKS * _BANK, 18 + len(wavefronts) * (_CELL + 1), parts, alt), words
