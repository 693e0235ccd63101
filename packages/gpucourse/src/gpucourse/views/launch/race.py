"""Replay of a race: two threads that access one address, in an order that ran.

The race check names the threads and the lines. The order is recorded under seeds of
``virtualgpu.schedule``; hardware may choose any order that these produce.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpucourse.views.launch.replays import MOST_THREADS, Replay, record
from gpucourse.views.launch.runs import Launch, Observed, observe
from gpucourse.views.page import View, box, escape, head, note, stepper, wide
from virtualgpu.findings import Finding


def race(
    kernel: object,
    grid: object = None,
    block: object = None,
    *arguments: object,
    shared_bytes: int = 0,
) -> View:
    """Launch a kernel on copies of its arguments; where it has a race, replay it step by step.

    Parameters
    ----------
    kernel, grid, block, *arguments, shared_bytes
        As for :func:`gpucourse.report`. Small launches (at most 2,048 threads) are run in other
        orders too, until one shows how an update is lost.

    Returns
    -------
    View
        The steps of two threads, side by side with the memory between them.
    """
    launch = Launch.of(kernel, grid, block, arguments, shared_bytes)
    observed = observe(launch)
    races = [found for found in observed.findings if found.kind == "race"]
    title = f"{observed.kernel}: "
    if not races:
        text = (
            "There is nothing to replay. Whenever two threads use one place in memory, a "
            "barrier, an atomic or the end of a launch orders them."
        )
        if observed.findings:
            text = (
                "There is no race to replay, but there is another finding: "
                f"{observed.findings[0].message}"
            )
        return View(
            box(head(title + "no race"), f"<p>{escape(text)}</p>"), f"{title}no race\n{text}"
        )
    # The clearest example is a lost update that reads and writes on one line.
    races.sort(key=lambda f: f.other is None or f.other.line != f.line)
    found = next((f for f in races if f.other and None not in (f.thread, f.other.thread)), None)
    if found is None:
        text = f"{races[0].message} (the index of the other thread was not kept)"
        return View(box(head(title + "a race"), note(text)), f"{title}{text}")
    replays = record(launch, observed, found)
    return _view(observed, found, replays)


# -- the picture --------------------------------------------------------------------------------


def _view(observed: Observed, found: Finding, replays: Sequence[Replay]) -> View:
    title = f"{observed.kernel}: a race"
    names = (
        _name(found.block, found.thread, found.other.block),
        _name(found.other.block, found.other.thread, found.block),
    )
    if not replays:
        text = f"{found.message} (no recording of these two threads shows the race)"
        return View(box(head(title), note(text)), f"{title}\n{text}")
    markup, lines = [], [title]
    alike = _alike(replays)
    for number, replay in enumerate(replays):
        rows = _rows(replay)
        moral = _moral(replay, names, alike)
        heading = f"Order {number + 1}. " if len(replays) > 1 else ""
        if len(replays) == 1 and replay.lost() is None:
            moral = _by_chance(replay, names, found) or moral
            moral += " Nothing enforces this order: in another one, the other thread comes first."
        # Only the last step shows the outcome, so that readers can guess until then.
        first, last = ("Step by step:", moral) if replay.lost() else (moral, "")
        frames = [
            _frame(rows, shown, names, replay.cell, last) for shown in range(1, len(rows) + 1)
        ]
        markup.append(
            f"<p>{escape(heading)}{escape(first)}</p>"
            + stepper(frames, [f"step {n + 1}" for n in range(len(rows))])
        )
        lines += ["", f"{heading}{moral}", *_text_rows(rows, names, replay.cell)]
    how = {replay.seed for replay in replays}
    told = (
        "Recorded under "
        + " and ".join(
            "the default order" if seed is None else f"virtualgpu.schedule({seed})"
            for seed in sorted(how, key=str)
        )
        + ". Hardware may choose it as well."
    )
    if len(replays) == 1 and how == {None}:
        told += f" In launches of at most {MOST_THREADS:,} threads, other orders are also tried."
    advice = found.message.rsplit(": ", 1)[-1]
    return View(
        box(
            head(title, "two threads, step by step"),
            *markup,
            f"<p><b>To fix it:</b> {escape(advice)}.</p>",
            note(told),
            label=title,
        ),
        "\n".join([*lines, "", f"To fix it: {advice}.", told]),
    )


def _name(block: tuple, thread: tuple, other: tuple) -> str:
    """Return ``thread 3``, with its block if the other thread is in another one."""
    where = "" if block == other else f" of block {block}"
    return f"thread {thread}{where}"


@dataclass(frozen=True, slots=True)
class _Row:
    does: tuple[str, str]
    registers: tuple[str, str]
    memory: str
    line: int | None
    code: str
    mark: str = ""


def _rows(replay: Replay) -> list[_Row]:
    registers = ["", ""]
    rows: list[_Row] = []
    lost = replay.lost()
    known = None
    for at, event in enumerate(replay.events):
        value = (
            "?"
            if event.value is None
            else f"{event.value:g}"
            if isinstance(event.value, float)
            else str(event.value)
        )
        does = ["", ""]
        if event.kind == "load" and known is not None and value != known:
            rows.append(
                _Row(
                    ("", ""),
                    (registers[0], registers[1]),
                    value,
                    None,
                    "",
                    "other threads wrote in between",
                )
            )
        for who in (0, 1) if event.who == 2 else (event.who,):
            does[who] = {"load": "reads", "store": "writes", "atomic": "updates"}[event.kind]
            # If two threads write at once, the recording has only the value that remains.
            does[who] += "" if (event.who, event.kind) == (2, "store") else f" {value}"
            registers[who] = value if event.kind == "load" else ""
        known = value
        mark = ""
        if lost and at == lost[0]:
            mark = "overwrites the other thread's value, so that update is lost"
            if lost[0] == lost[1]:
                mark = f"both write at once: one {_written(replay)} is lost"
        rows.append(
            _Row(
                (does[0], does[1]),
                (registers[0], registers[1]),
                value,
                event.line,
                event.code,
                mark,
            )
        )
    return rows


def _written(replay: Replay) -> str:
    """Return ``update`` if the threads write a value derived from a read, else ``value``."""
    return "update" if any(event.kind == "load" for event in replay.events) else "value"


def _by_chance(replay: Replay, names: tuple[str, str], found: Finding) -> str:
    """Describe the chance order of two named accesses without a barrier between them."""
    lines = found.line, found.other.line if found.other else None
    raced = [event for event in replay.events if event.who != 2 and event.line == lines[event.who]]
    for one, other in pairwise(raced):
        apart = found.other and found.block == found.other.block and one.phase != other.phase
        if one.who != other.who and "store" in (one.kind, other.kind) and not apart:
            first, then = (
                f"{names[event.who]} {'reads' if event.kind == 'load' else 'writes'}"
                for event in (one, other)
            )
            return f"Here {first} {replay.cell} before {then} it."
    return ""


def _alike(replays: Sequence[Replay]) -> int:
    """Return the number of steps that two orders share at the start; 0 for equal orders."""
    if len(replays) != 2:
        return 0
    pairs = zip(replays[0].events, replays[1].events, strict=False)
    parted = ((one.who, one.kind) != (other.who, other.kind) for one, other in pairs)
    return next((at for at, apart in enumerate(parted) if apart), 0)


def _moral(replay: Replay, names: tuple[str, str], alike: int) -> str:
    """Describe what an order shows, and where it differs from a similar order."""
    lost = replay.lost()
    if lost is not None and lost[0] == lost[1] and _written(replay) == "value":
        return (
            f"Both threads write {replay.cell} in one step, and the value that remains "
            "is undefined."
        )
    if lost is not None and lost[0] == lost[1]:
        return (
            f"Both threads read {replay.cell} before either wrote, so both write a value "
            "computed from the same old one, and one update is lost."
        )
    if lost is not None:
        victim = replay.events[lost[1]].who
        return (
            f"{_capital(names[1 - victim])} works on a value of {replay.cell} that "
            f"{names[victim]} has replaced in the meantime, so that update is lost."
        )
    first = replay.events[alike]
    verb = {"load": "reads", "store": "writes", "atomic": "updates"}[first.kind]
    begin = f"Up to step {alike} both orders are the same; then" if alike else "Here"
    if first.who == 2:
        return f"{begin} both threads {verb.rstrip('s')} {replay.cell} at once."
    return f"{begin} {names[first.who]} {verb} {replay.cell} first."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _frame(rows: list[_Row], shown: int, names: tuple[str, str], cell: str, last: str) -> str:
    body = []
    for number, row in enumerate(rows, start=1):
        style = ' style="background:rgba(0,114,178,.22)"' if number == shown else ""
        if row.mark:
            style = ' style="background:rgba(213,94,0,.32)"'
        if number > shown:  # a hidden row keeps its space, so that the table does not move
            style = ' style="visibility:hidden"'
        where = f"<code>{escape(row.code)}</code> (line {row.line})" if row.line else ""
        mark = f"<br><b>{escape(row.mark)}</b>" if row.mark else ""
        cells = "".join(
            f"<td{' class=n' if n else ''}>{escape(text)}</td>"
            for text, n in (
                (row.does[0], 0),
                (row.registers[0], 1),
                (row.memory, 1),
                (row.registers[1], 1),
                (row.does[1], 0),
            )
        )
        body.append(
            f'<tr{style}><td class="n faint">{number}</td>{cells}'
            f'<td class="small">{where}{mark}</td></tr>'
        )
    hidden = "" if shown == len(rows) else ' style="visibility:hidden"'
    end = f"<p{hidden}><b>{escape(last)}</b></p>" if last else ""
    heads = "".join(
        f"<th{' class=n' if n else ''}>{escape(text)}</th>"
        for text, n in ((names[0], 0), ("its value", 1), (cell, 1), ("its value", 1), (names[1], 0))
    )
    table = (
        f'<table><thead><tr><th class="n">step</th>{heads}<th></th></tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table>"
    )
    return wide(table, "steps") + end


def _text_rows(rows: list[_Row], names: tuple[str, str], cell: str) -> list[str]:
    wide = max(len(names[0]), len(names[1]), 12)
    lines = [f"step  {names[0]:{wide}}  {cell:>12}  {names[1]:{wide}}"]
    for number, row in enumerate(rows, start=1):
        mark = f"   {row.mark}" if row.mark else ""
        lines.append(
            f"{number:>4}  {row.does[0]:{wide}}  {row.memory:>12}  {row.does[1]:{wide}}"
            f"{mark}".rstrip()
        )
    return lines
