"""A race, replayed: two threads, one place in memory, in an order that really ran.

The threads and lines are those that the race check names. The order is recorded under seeds of
``virtualgpu.schedule``: every order that it picks is one that hardware may choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpucourse.views.page import View, box, escape, head, note, stepper
from gpucourse.views.runs import Observed, Place, check_kernel, observe, traced
from virtualgpu import sources
from virtualgpu.machine.memory import POISON
from virtualgpu.observers.findings import Finding
from virtualgpu.observers.trace import Step

#: Orders that are tried, and the largest launch for which that is quick.
SEEDS = range(1, 25)
MOST_THREADS = 2048
#: Steps of a replay that are shown.
MOST_STEPS = 24


@dataclass(frozen=True, slots=True)
class Event:
    """What one of the two threads (0 or 1), or both at once (2), did at the place they share."""

    who: int
    kind: str
    line: int | None
    code: str
    value: object  # what the place holds afterwards


@dataclass(frozen=True, slots=True)
class Replay:
    """Events in the order of one recording; ``seed`` is None for the default order."""

    events: tuple[Event, ...]
    seed: int | None
    cell: str

    def lost(self) -> tuple[int, int] | None:
        """(the event that overwrites, the event that is lost): a thread writes what it computed
        from a value that the other has replaced meanwhile."""
        read = {}
        for at, event in enumerate(self.events):
            if event.kind == "load":
                for who in (0, 1) if event.who == 2 else (event.who,):
                    read[who] = at
            elif event.kind == "store" and event.who == 2:
                return at, at
            elif event.kind == "store" and event.who in read:
                for other in range(read[event.who] + 1, at):
                    if self.events[other].kind == "store" and self.events[other].who != event.who:
                        return at, other
        return None

    def order(self) -> tuple:
        """What tells one order from another: who did what first, where threads ran apart."""
        return tuple((event.who, event.kind) for event in self.events)


def race(kernel: object, grid: object = None, block: object = None, *arguments: object) -> View:
    """Launch a kernel on copies of its arguments; where it has a race, replay it step by step.

    Parameters
    ----------
    kernel, grid, block, *arguments
        As for :func:`gpucourse.report`. Small launches (at most 2,048 threads) are run in other
        orders too, until one shows how an update is lost.

    Returns
    -------
    View
        The steps of two threads, side by side with the memory between them.
    """
    check_kernel(kernel)
    observed = observe(kernel, grid, block, arguments)
    races = [found for found in observed.findings if found.kind == "race"]
    title = f"{observed.kernel}: "
    if not races:
        text = ("Whatever two threads do to one place in memory, a barrier, an atomic or the end "
                "of a launch puts it in order: there is nothing to replay.")
        if observed.findings:
            text = f"Nothing to replay, but there is this: {observed.findings[0].message}"
        return View(box(head(title + "no race"), f"<p>{escape(text)}</p>"),
                    f"{title}no race\n{text}")
    # An update that is lost reads and writes on one line: that tells the story best.
    races.sort(key=lambda f: f.other is None or f.other.line != f.line)
    found = next((f for f in races if f.other and None not in (f.thread, f.other.thread)), None)
    if found is None:
        text = f"{races[0].message} (which thread the other was is no longer known)"
        return View(box(head(title + "a race"), note(text)), f"{title}{text}")
    replays = _replays(kernel, observed, arguments, found)
    return _view(observed, found, replays)


# -- recordings ---------------------------------------------------------------------------------


def _replays(kernel, observed: Observed, arguments: tuple, found: Finding) -> list[Replay]:
    """One recording in which an update is lost; or else two that differ in the order."""
    pair = np.array([_number(observed, found.block, found.thread),
                     _number(observed, found.other.block, found.other.thread)])
    threads = int(np.prod(observed.grid)) * int(np.prod(observed.block))
    seeds = [*SEEDS, None] if threads <= MOST_THREADS else [None]
    at_once: list[Replay] = []
    best: list[Replay] = []
    for seed in seeds:
        run = traced(kernel, observed.grid, observed.block, arguments, seed=seed,
                     threads=np.unique(pair), values=True)
        replay = _replay(run, pair, found, seed)
        if replay is None:
            continue
        if lost := replay.lost():
            if lost[0] != lost[1]:
                return [replay]
            at_once = at_once or [replay]
        elif not best or (len(best) == 1 and replay.order() != best[0].order()):
            best.append(replay)
    return at_once or best


def _number(observed: Observed, block: tuple, thread: tuple) -> int:
    """A thread's number in the grid."""
    (gx, gy, _), (bx, by, bz) = observed.grid, observed.block
    in_grid = block[0] + gx * (block[1] + gy * block[2])
    return in_grid * bx * by * bz + thread[0] + bx * (thread[1] + by * thread[2])


def _replay(run: Observed, pair: np.ndarray, found: Finding, seed: int | None) -> Replay | None:
    """What both threads did at the first place that both touch and one writes, at these lines."""
    lines = {found.line, found.other.line}
    accesses = [step for step in run.trace.steps if step.space in ("global", "shared")]
    touched: dict[tuple, dict[int, set]] = {}
    for step in accesses:
        if step.line not in lines:
            continue
        for thread, address in zip(step.threads.tolist(), step.addresses.tolist(), strict=True):
            touched.setdefault((step.space, address), {}).setdefault(thread, set()).add(step.kind)
    shared = [place for place, who in touched.items() if len(who) == 2
              and any(kinds - {"load"} for kinds in who.values())]
    if not shared:
        return None
    # The place that the finding speaks of: there its first thread writes.
    shared.sort(key=lambda p: ("load" in touched[p][int(pair[0])], p))
    space, address = shared[0]
    place = next((p for p in run.places
                  if space == "global" and p.address <= address < p.end), None)
    steps = [step for step in accesses if step.space == space and (step.addresses == address).any()]
    dtype = _dtype(run, place, steps[0])
    events = [_event(step, address, pair, dtype) for step in steps]
    cell = _cell(run, place, space, address, steps[0].size)
    return Replay(tuple(events[:MOST_STEPS]), seed, cell)


def _event(step: Step, address: int, pair: np.ndarray, dtype: np.dtype | None) -> Event:
    mine = step.addresses == address
    threads = step.threads[mine]
    who = 2 if len(threads) > 1 else int(threads[0] == pair[1])
    value = None
    if step.values is not None and (step.values[mine][-1] == POISON).all():
        value = "unwritten"
    elif dtype is not None and step.values is not None and dtype.itemsize == step.size:
        value = np.ascontiguousarray(step.values[mine][-1]).view(dtype)[0].item()
    return Event(who, step.kind, step.line, sources.text(step.filename, step.line), value)


def _dtype(run: Observed, place: Place | None, step: Step) -> np.dtype | None:
    if place is not None:
        return place.dtype
    return next((p.dtype for p in run.places if p.dtype.itemsize == step.size), None)


def _cell(run: Observed, place: Place | None, space: str, address: int, size: int) -> str:
    """``total[0]`` or ``shared[3]``."""
    if place is not None:
        element = (address - place.address) // place.dtype.itemsize
        return f"{place.name}[{element}]"
    # Shared arrays have no names in the compiled kernel.
    start = next((s for s, e, _ in run.trace.shared if s <= address < e), 0)
    return f"shared[{(address - start) // size}]"


# -- the picture --------------------------------------------------------------------------------


def _view(observed: Observed, found: Finding, replays: Sequence[Replay]) -> View:
    title = f"{observed.kernel}: a race"
    names = (_name(found.block, found.thread, found.other.block),
             _name(found.other.block, found.other.thread, found.block))
    if not replays:
        text = f"{found.message} (no recording of these two threads shows it)"
        return View(box(head(title), note(text)), f"{title}\n{text}")
    markup, text = [], [title]
    for number, replay in enumerate(replays):
        rows = _rows(replay)
        moral = _moral(replay, names)
        heading = f"Order {number + 1}. " if len(replays) > 1 else ""
        if len(replays) == 1 and replay.lost() is None:
            moral += " Nothing makes it so: in another order the other comes first."
        # What becomes of it is told at the last step: until then a reader may guess.
        first, last = ("Step by step:", moral) if replay.lost() else (moral, "")
        frames = [_frame(rows, shown, names, replay.cell, last)
                  for shown in range(1, len(rows) + 1)]
        markup.append(f"<p>{escape(heading)}{escape(first)}</p>"
                      + stepper(frames, [f"step {n + 1}" for n in range(len(rows))]))
        text += ["", f"{heading}{moral}", *_text_rows(rows, names, replay.cell)]
    how = {replay.seed for replay in replays}
    told = ("Recorded under " + " and ".join(
        "the default order" if seed is None else f"virtualgpu.schedule({seed})"
        for seed in sorted(how, key=str)) + "; hardware is as free to choose it.")
    if len(replays) == 1 and how == {None}:
        told += f" In launches of at most {MOST_THREADS:,} threads, other orders are tried too."
    advice = found.message.rsplit(": ", 1)[-1]
    return View(box(head(title, "two threads, step by step"), *markup,
                    f"<p><b>To mend it:</b> {escape(advice)}.</p>", note(told), label=title),
                "\n".join([*text, "", f"To mend it: {advice}.", told]))


def _name(block: tuple, thread: tuple, other: tuple) -> str:
    """``thread 3``, with its block where the other thread is of another one."""
    def short(index: tuple) -> str:
        return str(index[0]) if not any(index[1:]) else str(index)

    where = "" if block == other else f" of block {short(block)}"
    return f"thread {short(thread)}{where}"


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
        value = "?" if event.value is None else f"{event.value:g}" if isinstance(
            event.value, float) else str(event.value)
        does = ["", ""]
        if event.kind == "load" and known is not None and value != known:
            rows.append(_Row(("", ""), tuple(registers), value, None, "", "others wrote meanwhile"))
        for who in (0, 1) if event.who == 2 else (event.who,):
            does[who] = {"load": "reads", "store": "writes", "atomic": "updates"}[event.kind]
            does[who] += f" {value}"
            registers[who] = value if event.kind == "load" else ""
        known = value
        mark = ""
        if lost and at == lost[0]:
            mark = "both write at once: one update is lost" if lost[0] == lost[1] else \
                "overwrites what the other wrote: that update is lost"
        rows.append(_Row(tuple(does), tuple(registers), value, event.line, event.code, mark))
    return rows


def _moral(replay: Replay, names: tuple[str, str]) -> str:
    lost = replay.lost()
    if lost is not None and lost[0] == lost[1]:
        return (f"Both threads read {replay.cell} before either wrote, so both write what they "
                "made of the same old value: two updates count as one.")
    if lost is not None:
        victim = replay.events[lost[1]].who
        return (f"{_capital(names[1 - victim])} works on a value of {replay.cell} that "
                f"{names[victim]} has replaced meanwhile: the update between is lost.")
    first = replay.events[0]
    verb = {"load": "reads", "store": "writes", "atomic": "updates"}[first.kind]
    if first.who == 2:
        return f"Both threads {verb.rstrip('s')} {replay.cell} at once."
    return f"Here {names[first.who]} {verb} {replay.cell} first."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _frame(rows: list[_Row], shown: int, names: tuple[str, str], cell: str, last: str) -> str:
    body = []
    for number, row in enumerate(rows, start=1):
        style = ' style="background:rgba(0,114,178,.22)"' if number == shown else ""
        if row.mark:
            style = ' style="background:rgba(213,94,0,.32)"'
        if number > shown:  # it keeps its place, so that nothing jumps
            style = ' style="visibility:hidden"'
        where = f'<code>{escape(row.code)}</code> (line {row.line})' if row.line else ""
        mark = f'<br><b>{escape(row.mark)}</b>' if row.mark else ""
        cells = "".join(f"<td{' class=n' if n else ''}>{escape(text)}</td>" for text, n in (
            (row.does[0], 0), (row.registers[0], 1), (row.memory, 1), (row.registers[1], 1),
            (row.does[1], 0)))
        body.append(f'<tr{style}><td class="n faint">{number}</td>{cells}'
                    f'<td class="small">{where}{mark}</td></tr>')
    hidden = "" if shown == len(rows) else ' style="visibility:hidden"'
    end = f"<p{hidden}><b>{escape(last)}</b></p>" if last else ""
    heads = "".join(f"<th{' class=n' if n else ''}>{escape(text)}</th>" for text, n in (
        (names[0], 0), ("its value", 1), (cell, 1), ("its value", 1), (names[1], 0)))
    return (f'<div class="scroll"><table><thead><tr><th class="n">step</th>{heads}<th></th></tr>'
            f"</thead><tbody>{''.join(body)}</tbody></table></div>{end}")


def _text_rows(rows: list[_Row], names: tuple[str, str], cell: str) -> list[str]:
    wide = max(len(names[0]), len(names[1]), 12)
    lines = [f"step  {names[0]:{wide}}  {cell:>12}  {names[1]:{wide}}"]
    for number, row in enumerate(rows, start=1):
        mark = f"   {row.mark}" if row.mark else ""
        lines.append(f"{number:>4}  {row.does[0]:{wide}}  {row.memory:>12}  {row.does[1]:{wide}}"
                     f"{mark}".rstrip())
    return lines
