"""Messages for races: the two accesses, their lines, and a way to order them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from virtualgpu import sources
from virtualgpu.errors import Location
from virtualgpu.lanes.events import Access
from virtualgpu.lanes.wave import WARP, indices
from virtualgpu.languages import TRITON, language_of
from virtualgpu.memory import array_names
from virtualgpu.program import shared_names
from virtualgpu.program.one_value import stores_one_value
from virtualgpu.ptx import Address, Register, Vector
from virtualgpu.watch import race_loop
from virtualgpu.watch.checking import Checker
from virtualgpu.watch.shadow_memory import Shadow
from virtualgpu.wording import many

_DOES = {"load": "reads", "store": "writes", "atomic": "updates"}


@dataclass(slots=True)
class Party:
    """One side of a race: an access and the thread that made it.

    ``thread`` is block number × threads per block + thread number, or None where only the
    instruction is known; ``address`` is a device address or an offset into shared memory.
    """

    access: Access
    thread: int | None
    address: int | None

    @property
    def line(self) -> int | None:
        source = self.access.instruction.source
        return source.line if source else None

    @property
    def writes(self) -> bool:
        return self.access.kind != "load"

    @property
    def volatile(self) -> bool:
        return "volatile" in self.access.instruction.modifiers

    def verb(self) -> str:
        return _DOES[self.access.kind] + (" (volatile)" if self.volatile else "")

    def where(self, launch) -> Location:
        source = self.access.instruction.source
        block = thread = None
        if self.thread is not None:
            block, thread = indices(launch, self.thread)
        return Location.of(launch.kernel, source, block, thread)

    def key(self, older: Access):
        """Return the key of a race: its two lines."""
        return (
            self.access.space,
            *sorted(a.instruction.source or ("", 0) for a in (self.access, older)),
        )


class Races(Checker):
    """The races of one launch, one for each pair of lines."""

    def tell(self, key: tuple, now: Party, older: Party, area, count: int) -> None:
        """Keep a race of these two, unless it is known."""
        if self.again(key, count):
            return
        first, second = (older, now) if older.writes and not now.writes else (now, older)
        self.add(
            key,
            _message(self.launch, first, second, now, area),
            first.where(self.launch),
            second.where(self.launch),
            count,
            _advice(self.launch, first, second),
        )


def element(launch, access: Access, address: int) -> str:
    """Return a phrase that names the array and element of an address."""
    known = None
    if access.space == "shared":
        extents = launch.shared_layout.extents
        inside = [one for one in extents if one[0] <= address < one[1]]
        start, end, name = inside[0] if inside else (0, launch.shared_bytes, "")
        what = "a shared array"
        if known := shared_names.find(launch.program, name):
            what = f"{known.name}, a shared array"
    else:
        if named := array_names.element(launch, address):
            return named
        start, end = launch.memory.extent(address) or (address, address)
        what = "an array"
    offset, nbytes, size = address - start, end - start, access.size
    if offset % size or nbytes % size:
        return f"byte {offset:,} of {what} of {many(nbytes, 'byte')}"
    if known and (named := shared_names.element(known, offset // size, nbytes // size)):
        return named
    elements = many(nbytes // size, "element")
    return f"element {offset // size:,} of {what} of {elements} of {many(size, 'byte')}"


def _message(launch, first: Party, second: Party, now: Party, area) -> str:
    access = now.access
    assert now.address is not None
    size = f"{first.access.size} byte{'' if first.access.size == 1 else 's'}"
    where = element(launch, access, now.address)
    text = f"race: {_who(launch, first)} {first.verb()} {size} of {access.space} memory ({where})"
    text += f" at line {first.line} while " if first.line else " while "
    text += f"{_who(launch, second, first)} {second.verb()} {'it' if size[0:2] == '1 ' else 'them'}"
    same = second.line == first.line
    text += f" {'at the same line' if same else f'at line {second.line}'}" if second.line else ""
    return f"{text}, and nothing orders the two"


def _who(launch, party: Party, besides: Party | None = None) -> str:
    if language_of(party.access.instruction.source) is TRITON:
        return _program(launch, party, besides)
    if party.thread is None:
        return "another thread"
    block, thread = indices(launch, party.thread)
    if besides is None or besides.thread is None:
        return f"thread {thread} of block {block}"
    same = besides.thread // launch.threads == party.thread // launch.threads
    return f"thread {thread} of " + ("the same block" if same else f"block {block}")


def _program(launch, party: Party, besides: Party | None) -> str:
    """Return a phrase for a Triton program; its threads are the compiler's, so none is named."""
    if party.thread is None:
        return "another program"
    block = party.thread // launch.threads
    if besides is not None and besides.thread is not None:
        if besides.thread // launch.threads == block:
            return "the same program, in another of its warps or lanes,"
    x, y, z = indices(launch, party.thread)[0]
    return f"program {x}" if y == z == 0 else f"program ({x}, {y}, {z})"


def _advice(launch, first: Party, second: Party) -> str:
    if first.volatile or second.volatile:
        return (
            "volatile makes the compiler load and store each time, but it neither orders "
            f"threads nor makes an update atomic; {_remedy(launch, first, second)}"
        )
    return _remedy(launch, first, second)


def _remedy(launch, first: Party, second: Party) -> str:
    language = language_of(first.access.instruction.source)
    one = "program" if language is TRITON else "thread"
    if one == "program" and not _blocks_differ(launch, first, second):
        return (
            "the lanes of a program are not ordered unless one value depends on another; put "
            f"{language.barrier} between the two accesses"
        )
    kinds = {first.access.kind, second.access.kind}
    if "atomic" in kinds and kinds != {"atomic"}:
        plain = first if first.access.kind != "atomic" else second
        if _blocks_differ(launch, first, second):
            return (
                f"the plain {'write' if plain.writes else 'read'} must be atomic too, or be done "
                "in another launch"
            )
        return (
            f"put {_barrier(launch, first, second)} between, or make the plain "
            f"{'write' if plain.writes else 'read'} atomic too"
        )
    if kinds == {"atomic"} and first.access.size != second.access.size:
        return (
            f"atomics of {first.access.size} and of {second.access.size} bytes are not atomic "
            "with respect to each other; use one size for these bytes"
        )
    if kinds == {"atomic"}:
        return "an atomic with block scope is not atomic for other blocks; use gpu scope"
    if _tested(launch, first.access, second.access):
        return (
            "testing and writing are separate steps, between which another thread may write; "
            f"use {language.decisive}"
        )
    if first.access.instruction.source == second.access.instruction.source and first.line:
        if kinds == {"store"} and first.access.instruction is second.access.instruction:
            if stores_one_value(launch.program, first.access.instruction):
                return (
                    "all threads store the same value here, so the result is right if no thread "
                    f"stores another value or reads it too early. Let one {one} store it, or "
                    "accept the line with this reason"
                )
            return (
                f"let each {one} write its own element, let only one {one} write, or use "
                f"{language.atomic} for sums and counts"
            )
        if _in_place(first.access, second.access):
            return (
                "reading, computing and writing back are separate steps; use "
                f"{language.atomic}, or let one {one} do it"
            )
        if not _blocks_differ(launch, first, second):
            return (
                f"put {_barrier(launch, first, second)} between the reads and the writes; if "
                "both are on this line, read into a local variable first"
            )
    if _blocks_differ(launch, first, second) and language is TRITON:
        return (
            "no barrier spans the programs of a launch; use a second launch, or let one program "
            f"wait for the other with {language.fence}"
        )
    if _blocks_differ(launch, first, second):
        return (
            "no barrier spans the blocks of a launch; use a second launch, grid.sync() in a "
            f"cooperative launch, or atomics with {language.fence} on both sides"
        )
    return f"put {_barrier(launch, first, second)} between"


def _tested(launch, one: Access, other: Access) -> bool:
    """Return True if a load and a store are the pattern ``if x > a[k]: a[k] = x``.

    This means that the store depends on a test of the loaded value.
    """
    load, store = (one, other) if one.kind == "load" else (other, one)
    if store.kind == "load" or not _in_place(load, store):
        return False
    for code in launch.program.functions.values():
        places = {id(instruction): k for k, instruction in enumerate(code.function.body)}
        start, end = places.get(id(load.instruction)), places.get(id(store.instruction))
        if start is None or end is None:
            continue
        follows = set(_names(load.instruction.operands[:1]))
        for instruction in code.function.body[start + 1 : end]:
            if follows.intersection(_names(instruction.operands[1:])):
                if instruction.opcode == "setp":
                    return True
                follows.update(_names(instruction.operands[:1]))
    return False


def _names(operands: Iterable) -> Iterator[str]:
    """Yield the registers that appear in operands."""
    for operand in operands:
        if isinstance(operand, Register):
            yield operand.name
        elif isinstance(operand, Vector):
            yield from _names(operand.items)


def _in_place(one: Access, other: Access) -> bool:
    """Return True if a load and a store on one line are the pattern ``a[k] += …``.

    Both then access one address of a thread.

    ``s[t] += s[t + 1]`` contains such a load too, but it is not the load that races.
    """
    if one.kind == other.kind:
        return False
    places = [
        next((x for x in access.instruction.operands if isinstance(x, Address)), None)
        for access in (one, other)
    ]
    if places[0] == places[1] is not None:
        return True
    _, mine, theirs = np.intersect1d(one.lanes, other.lanes, return_indices=True)
    same = one.addresses[mine] == other.addresses[theirs]
    return bool(len(same)) and bool(same.mean() > 0.5)


def _blocks_differ(launch, first: Party, second: Party) -> bool:
    if first.thread is None or second.thread is None:
        return False
    return first.thread // launch.threads != second.thread // launch.threads


def _barrier(launch, first: Party, second: Party) -> str:
    language = language_of(first.access.instruction.source)
    named = _uncalled(launch, language.barrier)
    if first.thread is not None and second.thread is not None:
        one, other = (p.thread % launch.threads // WARP for p in (first, second))
        if one == other:
            named = named or _uncalled(launch, language.warp_barrier)
            return f"{language.barrier} or, within a warp, {language.warp_barrier}{named}"
    return f"{language.barrier}{named}"


def _uncalled(launch, barrier: str) -> str:
    """Return a note if the kernel's source names a barrier without calling it."""
    bare = barrier.removesuffix("()")
    lines: dict[str, list[int]] = {}
    for instruction in launch.program.entry_code.function.body:
        if instruction.source and instruction.source.line:
            lines.setdefault(instruction.source.filename, []).append(instruction.source.line)
    for filename, known in lines.items():
        for line in range(min(known), max(known) + 1):
            code = re.split("#|//", sources.text(filename, line))[0]
            if code.rstrip(" ;") == bare:
                return (
                    f" ({'' if len(lines) == 1 else sources.name(filename) + ', '}line {line} "
                    f"names {bare} without (), which calls nothing)"
                )
    return ""


def other_thread(
    latest: tuple[Access, np.ndarray] | None,
    me: int,
    example: int,
    several: int,
    area: Shadow,
    granule: int,
) -> int | None:
    """Return one of a record's threads that conflicts with ``me``.

    ``latest`` is the last access of the record's instruction with its addresses, ``example`` the
    thread that the record names, ``several`` its group (:mod:`.race_loop`, bits 28 and 29), and
    ``granule`` the index in ``area``. If the record covers several blocks, a thread of another
    block is returned, because those of the same block may have met ``me`` at a barrier.
    """
    if latest is None:
        return example if example != me else None
    access, addresses = latest
    wave = access.group.wave
    threads = wave.first * wave.threads + access.lanes
    offset = addresses.astype(np.int64) - area.start >> area.shift
    if access.space == "shared" and wave.launch.cluster_size == 1:
        offset += wave.block_of[access.lanes] * (wave.shared_stride >> area.shift)
    width = max(1, access.size >> area.shift)
    there = threads[(offset <= granule) & (granule < offset + width) & (threads != me)]
    others = [*([example] if example != me else []), *there.tolist()]

    def company(thread: int) -> tuple[int, ...]:
        block, number = divmod(thread, wave.threads)
        return {1: (thread,), 2: (block, number // WARP), 3: (block,)}[several]

    apart = (other for other in others if company(other) != company(me))
    return next(apart, others[0] if others else None)


def older_party(
    recent: list, older: Access, record: int, me: int | None, area: Shadow, granule: int
) -> tuple[Access, int | None]:
    """Return the access of a record and one of its threads other than ``me``.

    ``recent`` has the last access of each instruction with its addresses, and ``older`` is an
    access of the record's instruction.
    """
    thread = record & race_loop.MAXIMUM_THREAD
    if me is None or not (several := record >> race_loop.SCOPE & 3):
        return older, thread
    latest = recent[record >> race_loop.SITE & race_loop.MAXIMUM_SITE]
    found = other_thread(latest, me, thread, several, area, granule)
    if found is not None:
        return older, found
    # The recorded instruction was executed by `me`; another thread of the record executed one of
    # its kind.
    for candidate in filter(None, recent):
        if candidate[0].kind == older.kind and candidate[0].space == older.space:
            found = other_thread(candidate, me, me, several, area, granule)
            if found is not None:
                return candidate[0], found
    return older, None
