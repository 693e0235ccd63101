"""Forms of a warp's addresses, determined once for all accesses that share them.

If the addresses of several accesses of a place differ only by constants (an unrolled loop, ``x +=
y``), they have the same form. They are in the same variable if the lowest and the highest are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from llvmlite import ir

from virtualgpu.compilers.building import intrinsic
from virtualgpu.native.context import (
    ADDRESSES,
    DELTA,
    HOSTS,
    LANES,
    LINE,
    LOW,
    ROW,
    SPAN,
    site_at,
)
from virtualgpu.native.memory import access_helpers
from virtualgpu.native.values import (
    EVERYONE,
    I32,
    I64,
    IOTA,
    Context,
    alike,
    constant_vector,
    splat,
)
from virtualgpu.operations.expression import Value
from virtualgpu.program.program import FunctionCode
from virtualgpu.program.steps import Data, MemoryAccess, Move, Parameter, Step
from virtualgpu.ptx import Register

MOST = 16  # loads that are fetched together; their results occupy registers or stack slots


@dataclass(slots=True, eq=False)
class AddressGroup:
    """Accesses that add constants from ``lowest`` to ``highest`` to one address.

    ``form`` (APART … SAME) and the host addresses of lanes 0, 8, 16 and 24, without the constants,
    are computed at the first of the accesses. ``runs`` are groups of loads with nothing between
    them that could change memory, by the ``id`` of the first load's step.
    """

    lowest: int
    highest: int
    runs: dict[int, list[MemoryAccess]] = field(default_factory=dict)
    form: ir.Value | None = None
    hosts: list[ir.Value] = field(default_factory=list)
    # Affine addresses: the address of each row (`rows`), and a flag that a row has one element.
    rows: list[ir.Value] = field(default_factory=list)
    same: bool = False
    ahead: set[int] = field(default_factory=set)  # offsets whose next iteration is prefetched
    brief: bool = False  # forms other than LINE are handled by shared functions


def address_groups(steps: list[Step], code: FunctionCode) -> dict[int, AddressGroup]:
    """Return the group of each load and store of a place, by its step's ``id``."""
    found: dict[int, AddressGroup] = {}
    shared: dict[object, AddressGroup] = {}
    times: dict[int, int] = {}  # number of writes to a register so far
    runs: dict[AddressGroup, list[MemoryAccess]] = {}
    for step in steps:
        if isinstance(step, MemoryAccess) and step.site.kind in ("load", "store"):
            site, base = step.site, step.sources[0]
            slot = code.slots.get(base.name, -1) if isinstance(base, Register) else -1
            key = (
                (slot, times.get(slot), site.space, site.size, site.width, site.offset % site.size)
                if slot >= 0
                else id(step)
            )
            group = found[id(step)] = shared.setdefault(key, AddressGroup(site.offset, site.offset))
            group.lowest = min(group.lowest, site.offset)
            group.highest = max(group.highest, site.offset)
            if site.kind == "load" and not site.strong:
                run = runs.setdefault(group, [])
                if len(run) % MOST == 0:
                    run = runs[group] = group.runs[id(step)] = []
                run.append(step)
        a_load = (
            isinstance(step, MemoryAccess) and step.site.kind == "load" and not step.site.strong
        )
        if not a_load and not isinstance(step, Data | Move | Parameter):
            runs.clear()
        for slot in step.writes:
            times[slot] = times.get(slot, 0) + 1
    return found


class Forms:
    """Code generator for the detection of address forms and of the memory that they are in."""

    def __init__(self, context: Context):
        self.context, self.build = context, context.build

    def inside(self, number: int, address: ir.Value, more: int) -> ir.Value:
        """Return the condition that elements are in the variable that site ``number`` used last.

        The elements are from ``address`` to ``more`` bytes above it.
        """
        build, context = self.build, self.context
        low, span = (context.load(site_at(number) + word) for word in (LOW, SPAN))
        far = build.sub(address, low)
        good = build.icmp_unsigned("<", far, span)
        if more:
            last = build.icmp_unsigned("<", build.add(far, I64(more)), span)
            good = build.and_(good, last)
        return good

    def aligned(self, address: ir.Value, size: int) -> ir.Value:
        odd = self.build.and_(address, I64(size - 1))
        return self.build.icmp_unsigned("==", odd, I64(0))

    def host(self, number: int, address: ir.Value) -> ir.Value:
        """Return the host address, if it is in the site's variable."""
        return self.build.add(self.context.load(site_at(number) + DELTA), address)

    def hosts(
        self, group: AddressGroup, number: int, start: Value, nbytes: int, size: int
    ) -> ir.Value:
        """Emit the host addresses of rows that begin at ``start`` and are ``nbytes`` long.

        Returns the condition that all accesses of ``reach`` are legal there.
        """
        build, context = self.build, self.context
        low, span, delta = (
            Value(build, context.load(site_at(number) + word), "u64") for word in (LOW, SPAN, DELTA)
        )
        if start.lanes is not None:
            low, span, delta = (
                Value(build, splat(build, one.node, start.lanes), "u64")
                for one in (low, span, delta)
            )
        lowest = start + group.lowest
        far = lowest - low
        last = far + (nbytes - size + group.highest - group.lowest)
        good = (far < span) & (last < span) & ((lowest & (size - 1)) == 0)
        hosts = start + delta
        if start.lanes is None:
            group.rows = [hosts.node]
            return good.node
        group.rows = [build.extract_element(hosts.node, I32(row)) for row in range(start.lanes)]
        bits = build.bitcast(good.node, ir.IntType(start.lanes))
        return build.icmp_unsigned("==", bits, bits.type((1 << start.lanes) - 1))

    def find(
        self,
        group: AddressGroup,
        step: MemoryAccess,
        number: int,
        address: ir.Value,
        mask: ir.Value,
        rows_too: bool,
    ) -> None:
        """Emit the form of ``reach`` for the ``address`` of each lane, at site ``number``.

        With ``rows_too``, forms other than LINE and APART are also detected.
        """
        build, size = self.build, step.site.size
        between = group.highest - group.lowest
        first = build.extract_element(address, I32(0))
        line = build.add(splat(build, first), constant_vector(size * IOTA, 64))
        good = build.and_(build.icmp_unsigned("==", mask, EVERYONE), alike(build, address, line))
        lowest = build.add(first, I64(group.lowest))
        good = build.and_(good, self.inside(number, lowest, size * (LANES - 1) + between))
        good = build.and_(good, self.aligned(lowest, size))
        if not rows_too:
            group.form = build.zext(good, I32)
            group.hosts = [self.host(number, first)]
            return
        look, done = (build.append_basic_block(name) for name in ("look", "form"))
        in_line = build.block
        build.cbranch(good, done, look)
        build.position_at_end(look)
        build.store(address, self.context.at(ADDRESSES), align=8)
        form = build.trunc(
            intrinsic(
                build,
                access_helpers.form(),
                I64,
                [
                    self.context.pointer,
                    self.context.at(site_at(number)),
                    mask,
                    I64(size),
                    I64(group.lowest),
                    I64(between),
                ],
            ),
            I32,
        )
        hosts = [self.context.load(HOSTS + row) for row in range(1, LANES // ROW)]
        build.branch(done)
        build.position_at_end(done)
        group.form = build.phi(I32)
        group.form.add_incoming(I32(LINE), in_line)
        group.form.add_incoming(form, look)
        for host in hosts:
            phi = build.phi(I64)
            phi.add_incoming(ir.Constant(I64, ir.Undefined), in_line)
            phi.add_incoming(host, look)
            group.hosts.append(phi)
        group.hosts.insert(0, self.host(number, first))
