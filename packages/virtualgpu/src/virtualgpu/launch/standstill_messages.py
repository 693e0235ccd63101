"""Messages for launches that can never end: the waiting threads, their lines, and the reason."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from virtualgpu.errors import EndlessError
from virtualgpu.lanes import barriers, clusters
from virtualgpu.lanes.group import Group
from virtualgpu.lanes.wave import Wave
from virtualgpu.memory import array_names
from virtualgpu.program.site import Site
from virtualgpu.wording import many


def goes_round(group: Group) -> EndlessError:
    """Return the error for lanes whose loop iteration repeats an earlier state."""
    return EndlessError(
        "the kernel never ends: the thread repeats this loop for ever, because nothing "
        "that ends it changes from iteration to iteration. Does its counter step by "
        "zero, or does it never change?",
        barriers.location(group.wave, group),
    )


def all_wait(
    wave: Wave, resident: Sequence[Wave], turning: list[tuple[Group, str]]
) -> EndlessError:
    """Return the error for lanes that all wait for something that no other lane will do.

    The lanes in ``turning``, which belong to ``wave``, repeat a state.
    """
    block = int(np.flatnonzero(wave.exited < wave.threads)[0])
    parts: dict[str, int] = {}
    firsts: dict[str, Group] = {}
    for group, what in [*turning, *barriers.held_up(wave)]:
        chosen = np.flatnonzero(group.take(wave.block_of) == block)
        if not len(chosen):
            continue
        group = group.subset(chosen, group.block)
        place = f"at line {_line(group)} {what}"
        parts[place] = parts.get(place, 0) + len(chosen)
        if place not in firsts or group.lanes[0] < firsts[place].lanes[0]:
            firsts[place] = group
    words = [
        f"{many(count, 'thread')} (the first is "
        f"{wave.where(int(firsts[place].lanes[0]))[1]}) {place}"
        for place, count in parts.items()
    ]
    if wave.exited[block]:
        ended = int(wave.exited[block])
        words.append("1 has ended" if ended == 1 else f"{ended} have ended")
    others = sum(int(np.count_nonzero(one.exited < one.threads)) for one in resident) - 1
    more = (
        f"; {others} more block{'s also wait' if others > 1 else ' also waits'}" if others else ""
    )
    return EndlessError(
        f"deadlock: no thread can go on. In block {wave.where(block * wave.threads)[0]} "
        f"{'; '.join(words)}{more}. Look for a constant loop "
        "counter, an unreleased lock, a late flag or a missing block",
        barriers.location(wave, next(iter(firsts.values()))),
    )


def _line(group: Group) -> object:
    source = group.basic_block.source
    return source.line if source else "unknown"


def until(site: Site, space: str, group: Group, addresses: np.ndarray) -> str:
    """Return a phrase such as ``wait for flag[0] of 1, which stays 0``."""
    wave, blocks = group.wave, None
    if space == "shared":
        addresses, blocks, _ = clusters.split(group, addresses)
        blocks = blocks[:1]
    at = int(addresses[0])
    held = wave.bytes_at(space, addresses[:1], group.lanes[:1], site.size, blocks)
    value = held.view(site.dtype)[0, 0]
    if space == "global":
        number = array_names.argument(wave.launch, at, site.size)
        name = array_names.element(wave.launch, at) or (
            f"element {number}"
            if number
            else f"{many(site.size, 'byte')} of global memory at {at:#x}"
        )
    else:
        name = f"{many(site.size, 'byte')} of {space} memory at offset {at}"
    return f"wait for {name}, which stays {value:{'.6g' if site.dtype.kind == 'f' else ''}}"
