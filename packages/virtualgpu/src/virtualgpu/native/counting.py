"""Counters of native kernels for ``profile()``.

The counting variant of a kernel adds to tables. They hold, for each place, its executions, its
lanes and its branches; for each memory instruction, its accesses; for each thread, its
instructions; and for each warp, its work between two barriers. Accesses to neighbouring elements,
or of all lanes to one element, are counted here. For all others, the lanes' addresses are passed
to the observer's own loop, which also counts for the interpreter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from llvmlite import ir

from virtualgpu.compilers.building import intrinsic, item
from virtualgpu.memory import windows
from virtualgpu.native.context import ADDRESSES, LANES
from virtualgpu.native.flow.control_flow import Place
from virtualgpu.native.refusal import Refused
from virtualgpu.native.spaces import by_space
from virtualgpu.native.values import (
    I32,
    I64,
    Context,
    bits_of_mask,
    mask_of_bits,
    pointer_to,
    splat,
)
from virtualgpu.operations.expression import Value, select
from virtualgpu.program.site import Site
from virtualgpu.program.steps import MemoryAccess, Step

SPACES = ("global", "shared", "local")
# Words of a place: warps that ran it, their lanes, conditional branches, divergent branches.
WARPS, HERE, BRANCHES, PARTED = range(4)
PLACE_WORDS = 4
# Words of a memory instruction in one space: lanes, warps, sectors or wavefronts, and the smallest
# possible number of them. For atomics, the last three are passes, the largest number of lanes on
# one address, and the updates of one word.
ACCESSES, REQUESTS, MOVED, LEAST, HOTTEST = range(5)
SITE_WORDS = 5
WORD = 4  # bytes of a shared-memory bank
POINTERS = 12  # number of pointer arguments of the observer's loop


@dataclass(slots=True)
class Counts:
    """The tables of one run, and the functions that count all other accesses.

    ``places`` is int64, shape (places, PLACE_WORDS). ``sites`` is int64, shape (memory
    instructions, spaces, SITE_WORDS). ``instructions`` and ``accesses`` are uint32, with one
    element for each thread of the grid from ``first`` on, and LANES more. ``passes`` (int64)
    counts how often blocks passed each barrier; barriers are numbered from 1.

    ``warp_instructions`` and ``warp_accesses`` (int64) hold the counts of each warp of a block
    since its last barrier. ``span`` (int64) holds both counts of the block so far, and both of the
    block with the largest. ``stretch`` is the address of a function of these three arrays, the
    number of warps, and a flag that the block has ended.

    ``loop`` is the address of a function. Its pointer arguments are those of ``data``, except that
    the second points to the lanes' addresses. Its integer arguments are the row in ``sites``, the
    space (an index of SPACES), the mask of the lanes, the bytes, a flag for atomics, and the
    block.
    """

    places: np.ndarray
    sites: np.ndarray
    instructions: np.ndarray
    accesses: np.ndarray
    passes: np.ndarray
    warp_instructions: np.ndarray
    warp_accesses: np.ndarray
    span: np.ndarray
    first: int
    data: list[np.ndarray]
    loop: int
    stretch: int


def _is_silent(site: Site) -> bool:
    """Return True if an access is not counted.

    ``ld.const`` may read an address of any memory, and is counted only if that memory is not
    constant. The interpreter checks each access.
    """
    if site.quiet and site.space == "global":
        raise Refused("ld.const, under profile()")
    return site.quiet


class Counting:
    """Code generator for the counters of a watched kernel."""

    def __init__(self, context: Context, steps: list[list[Step]]):
        self.context, self.build, self.steps = context, context.build, steps

    def _add(self, field: str, offset: ir.Value | int, more: ir.Value | int) -> None:
        build = self.build
        if isinstance(offset, int):
            offset = I64(offset)
        at = pointer_to(build, build.add(self.context.load(field), offset))
        more = I64(more) if isinstance(more, int) else more
        build.store(build.add(build.load(at, typ=I64), more), at)

    def _place(self, place: Place, word: int, more: ir.Value | int) -> None:
        self._add("place_counts", 8 * (PLACE_WORDS * place.index + word), more)

    def _lanes(self, mask: ir.Value) -> ir.Value:
        return self.build.zext(self.build.ctpop(mask), I64)

    def executed(self, place: Place, mask: ir.Value) -> None:
        """Count one execution of a place by a warp."""
        build, context = self.build, self.context
        count = len(place.block.instructions)
        if not count:
            return
        self._place(place, WARPS, 1)
        self._place(place, HERE, self._lanes(mask))
        accesses = sum(
            isinstance(step, MemoryAccess)
            and step.site.space in ("global", "shared")
            and not _is_silent(step.site)
            for step in self.steps[place.index]
        )
        thread = build.add(
            build.mul(context.load("block"), context.load("threads")),
            build.shl(context.load("warp"), I64(5)),
        )
        for field, more in (("thread_instructions", count), ("thread_accesses", accesses)):
            if more:
                self._threads(field, thread, mask, more)

    def _threads(self, field: str, thread: ir.Value, mask: ir.Value, more: int) -> None:
        build, vector = self.build, ir.VectorType(I32, LANES)
        at = pointer_to(build, build.add(self.context.load(field), build.shl(thread, I64(2))))
        here = Value(build, mask_of_bits(build, mask), "pred")
        amount = Value(build, splat(build, I32(more)), "u32")
        some = select(here, amount, 0)
        old = build.load(at, typ=vector, align=4)
        build.store(build.add(old, some.node), at, align=4)
        warp = build.shl(self.context.load("warp"), I64(3))
        self._add(field.replace("thread", "warp"), warp, more)

    def branched(self, place: Place, mask: ir.Value, taken: Value) -> None:
        build = self.build
        self._place(place, BRANCHES, 1)
        if taken.lanes is not None:
            went = build.and_(bits_of_mask(build, taken.node), mask)
            both = build.and_(
                build.icmp_unsigned("!=", went, I32(0)), build.icmp_unsigned("!=", went, mask)
            )
            self._place(place, PARTED, build.zext(both, I64))

    # -- memory --------------------------------------------------------------------------------

    def _site(self, row: ir.Value, words: tuple[ir.Value | int, ...]) -> None:
        for word, more in enumerate(words):
            at = self.build.mul(row, I64(8 * SITE_WORDS))
            self._add("site_counts", self.build.add(at, I64(8 * word)), more)

    def line(self, step: MemoryAccess, number: int, first: ir.Value) -> None:
        """Count an access of a full warp to neighbouring elements from ``first`` on.

        The elements belong to one variable.
        """
        build, site = self.build, step.site
        if _is_silent(site):
            return
        space = I64(SPACES.index(site.space) if site.space in SPACES else 0)
        if site.space == "generic":
            window = windows.reaches(Value(build, first, "u64"), "shared")
            space = build.zext(window.node, I64)
            self._count_threads(I32(0xFFFF_FFFF))
        last = build.add(first, I64(site.size * (LANES - 1)))
        sectors = build.add(build.sub(build.lshr(last, I64(5)), build.lshr(first, I64(5))), I64(1))
        turns = I64(max(1, site.size // 4))
        shared = build.icmp_unsigned("==", space, I64(1))
        row = build.add(I64(len(SPACES) * number), space)
        self._site(
            row,
            (
                LANES,
                1,
                build.select(shared, turns, sectors),
                build.select(shared, turns, I64(site.size)),
            ),
        )

    def same(self, step: MemoryAccess, number: int, mask: ir.Value, address: ir.Value) -> None:
        """Count an access in which all lanes of ``mask`` use one address."""
        build, site = self.build, step.site
        if _is_silent(site):
            return
        space, turns = SPACES.index(site.space), I64(1)
        if site.space == "shared" and site.size > 4:
            turns, share = I64(0), 128 // site.size
            for start in range(0, LANES, share):
                part = build.and_(mask, I32(((1 << share) - 1) << start))
                some = build.icmp_unsigned("!=", part, I32(0))
                turns = build.add(turns, build.zext(some, I64))
        self._site(I64(len(SPACES) * number + space), (self._lanes(mask), 1, turns, turns))

    def apart(self, step: MemoryAccess, number: int, mask: ir.Value) -> None:
        """Count an access of lanes to the addresses that are in the context."""
        build, site = self.build, step.site
        if _is_silent(site):
            return
        if site.space == "local":
            self._site(I64(len(SPACES) * number + SPACES.index("local")), (self._lanes(mask),))
            return
        if site.space == "shared" and site.kind != "atomic" and site.size <= WORD:
            self._near(step, number, mask)
            return
        if site.space != "generic":
            self._loop(step, number, SPACES.index(site.space), mask)
            return
        addresses = Value(
            build,
            build.load(self.context.at(ADDRESSES), typ=ir.VectorType(I64, LANES), align=8),
            "u64",
        )
        for space, _, lanes in by_space(build, addresses, mask):
            self._some(step, number, space, lanes)

    def _near(self, step: MemoryAccess, number: int, mask: ir.Value) -> None:
        """Count no bank conflict: adjacent words are in different banks, in any lane order."""
        build = self.build
        words = (
            Value(
                build,
                build.load(self.context.at(ADDRESSES), typ=ir.VectorType(I64, LANES), align=8),
                "u64",
            )
            >> 2
        )
        here = Value(build, mask_of_bits(build, mask), "pred")
        lowest, highest = (
            intrinsic(
                build,
                f"llvm.vector.reduce.u{which}.v{LANES}i64",
                I64,
                [select(here, words, other).node],
            )
            for which, other in (("min", (1 << 64) - 1), ("max", 0))
        )
        near = build.icmp_unsigned("<", build.sub(highest, lowest), I64(LANES))
        space = SPACES.index("shared")
        with build.if_else(near) as (yes, no):
            with yes:
                self._site(I64(len(SPACES) * number + space), (self._lanes(mask), 1, 1, 1))
            with no:
                self._loop(step, number, space, mask)

    def _some(self, step: MemoryAccess, number: int, space: str, mask: ir.Value) -> None:
        build = self.build
        with build.if_then(build.icmp_unsigned("!=", mask, I32(0))):
            if space != "local":
                self._count_threads(mask)
            self._loop(step, number, SPACES.index(space), mask)

    def _count_threads(self, mask: ir.Value) -> None:
        build, context = self.build, self.context
        thread = build.add(
            build.mul(context.load("block"), context.load("threads")),
            build.shl(context.load("warp"), I64(5)),
        )
        self._threads("thread_accesses", thread, mask, 1)

    def _loop(self, step: MemoryAccess, number: int, space: int, mask: ir.Value) -> None:
        build, context = self.build, self.context
        signature = ir.FunctionType(I64, [I64] * (POINTERS + 6)).as_pointer()
        table = pointer_to(build, context.load("count_data"))
        pointers = [item(build, table, I64(i), I64) for i in range(POINTERS - 1)]
        pointers.insert(1, build.ptrtoint(context.at(ADDRESSES), I64))
        build.call(
            build.inttoptr(context.load("count_apart"), signature),
            [
                *pointers,
                I64(len(SPACES) * number + space),
                I64(space),
                build.zext(mask, I64),
                I64(step.site.size),
                I64(int(step.site.kind == "atomic")),
                context.load("block"),
            ],
        )
