"""Functions of watched kernels for full warps that access neighbouring elements.

All 32 lanes are neighbours, or rows of eight are. The functions are built like those of
:mod:`.accesses`, and the records of neighbours are compared as one vector.
"""

from __future__ import annotations

from functools import cache

from llvmlite import ir

from virtualgpu.compilers.building import count_to
from virtualgpu.compilers.llvm import linkable
from virtualgpu.memory import windows
from virtualgpu.native.context import LANES, ROW
from virtualgpu.native.values import EVERYONE, I32, I64, IOTA, constant_vector, splat
from virtualgpu.native.watched.accesses import RECORD, reached, watching
from virtualgpu.native.watched.allocations import prepare
from virtualgpu.native.watched.granules import Kind, Looker
from virtualgpu.native.watched.rules import Rules, lanes_of
from virtualgpu.operations.expression import Value


@cache
def line(kind: Kind) -> str:
    """Return the function for 32 lanes that access neighbouring elements of one variable.

    ``(context, site number, address)``; the elements begin at ``address``.
    """
    name = f"watch_line_{kind.name}"
    with watching(name, [I64]) as (context, (site, address)):
        build = context.build

        generic = Value(build, address, "u64")

        def one(space: str) -> None:
            look = Looker(context, kind, space, site)
            own = (windows.within(generic, space) if kind.space == "generic" else generic).node
            if space == "global":
                prepare(look, own, kind)
            if kind.size < 1 << look.shift:
                lanes = constant_vector(kind.size * IOTA, 64)
                reached(
                    context,
                    kind,
                    space,
                    site,
                    Value(build, build.add(splat(build, own), lanes), "u64"),
                    EVERYONE,
                    context.pointer,
                )
                return
            first = build.lshr(own, I64(look.shift))
            for part in range(look.width):
                _line_part(look, build.add(first, I64(part * LANES)), part)

        if kind.space == "generic":
            with build.if_else(windows.reaches(generic, "shared").node) as (yes, no):
                with yes:
                    one("shared")
                with no:
                    one("global")
        else:
            one(kind.space)
    return linkable(str(build.module), name, "few")


def _line_part(look: Looker, first: ir.Value, part: int, lanes: range | None = None) -> None:
    """Check 32 granules from ``first`` on, or one for each lane in ``lanes``."""
    numbers = lanes_of(part, look.width) if lanes is None else lanes
    thread = Value(look.build, splat(look.build, look.first.node, len(numbers)), "u32")
    lane = Value(look.build, constant_vector(numbers, 32), "u32")
    _side_by_side(look, look.rules(thread + lane), first)


def _side_by_side(look: Looker, rules: Rules, first: ir.Value) -> None:
    """Check one granule for each lane of the rules, from ``first`` on."""
    assert rules.lanes is not None
    build, vector = look.build, ir.VectorType(I32, rules.lanes)
    at = {
        which: look.at(which, first)
        for which in ("writes", "reads", *(["strong"] if look.kind.grain.strong else []))
    }

    def fetch(which: str) -> Value:
        return Value(build, build.load(at[which], typ=vector, align=RECORD), "u32")

    with look.unless_known(rules, lambda: [fetch("reads")]):
        wrong, unwritten = look.look(
            rules,
            fetch,
            lambda which, record, before: build.store(record.node, at[which], align=RECORD),
        )
        look.leave_if(wrong)
        if unwritten is not None:
            bits = build.bitcast(unwritten.node, ir.IntType(rules.lanes))
            look.demand_written(bits, lambda lane: build.add(first, lane))


@cache
def rows(kind: Kind) -> str:
    """Return the function for rows of eight lanes that access neighbouring elements.

    ``(context, site number, addresses, count, stride)``: from each of four addresses on, eight
    lanes access neighbouring elements, each a granule. This is repeated ``count`` times at
    intervals of ``stride`` bytes, within one variable. Rows are handled one after the other,
    because two may be the same.
    """
    name = f"watch_rows_{kind.name}"
    with watching(name, [I64] * (LANES // ROW + 2)) as (context, values):
        site, *addresses, count, stride = values
        build, vector = context.build, ir.VectorType(I32, ROW)
        look = Looker(context, kind, kind.space, site)
        if kind.space == "global":
            prepare(look, addresses[0], kind)
        rules = look.rules(Value(build, splat(build, look.first.node, ROW), "u32"))
        with count_to(build, count) as number:
            more = build.mul(number, stride)
            firsts = [
                build.lshr(build.add(address, more), I64(look.shift)) for address in addresses
            ]
            with look.unless_known(
                rules,
                lambda: [
                    Value(
                        build, build.load(look.at("reads", first), typ=vector, align=RECORD), "u32"
                    )
                    for first in firsts
                ],
            ):
                for row, first in enumerate(firsts):
                    _line_part(look, first, 0, range(row * ROW, (row + 1) * ROW))
    return linkable(str(build.module), name, "few")


@cache
def same_rows(kind: Kind, count: int) -> str:
    """Return the function for rows of eight lanes that load the same granules.

    ``(context, site number, addresses)``: all eight lanes of a row load ``count`` neighbouring
    granules. Each row begins at one of four addresses, and all are in one variable.
    """
    name = f"watch_same{count}_{kind.name}"
    with watching(name, [I64] * (LANES // ROW)) as (context, (site, *addresses)):
        build = context.build
        look = Looker(context, kind, kind.space, site)
        if kind.space == "global":
            prepare(look, addresses[0], kind)
        rules = look.rules(look.several(count), together=True)
        for before, address in zip([None, *addresses], addresses, strict=False):
            new = (
                ir.IntType(1)(1) if before is None else (build.icmp_unsigned("!=", address, before))
            )
            with build.if_then(new):
                _side_by_side(look, rules, build.lshr(address, I64(look.shift)))
    return linkable(str(build.module), name, "few")
