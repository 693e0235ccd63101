"""Accesses with affine addresses: rows of lanes, without a check of each lane.

A place is emitted twice (:mod:`.lowering`). One version contains these accesses, and runs when the
conditions of :meth:`AffineAccesses.plan` hold. The other version does not contain them.
"""

from __future__ import annotations

from collections.abc import Container

from llvmlite import ir

from virtualgpu.compilers.building import intrinsic
from virtualgpu.native.affine.lines import AffineRegisters, Term
from virtualgpu.native.context import LANES, LAST, site_at
from virtualgpu.native.flow.control_flow import Place
from virtualgpu.native.memory.address_forms import AddressGroup, Forms
from virtualgpu.native.operands import U64, LoweredRegisters
from virtualgpu.native.values import (
    EVERYONE,
    I1,
    I32,
    I64,
    IOTA,
    Context,
    constant_vector,
    pointer_to,
    splat,
    spread,
)
from virtualgpu.operations.expression import Value, adapt, llvm_type
from virtualgpu.operations.types import kind
from virtualgpu.program.steps import MemoryAccess, Step

LINE_BYTES = 64  # bytes of a cache line


class AffineAccesses:
    """Code generator for affine accesses, with the parts that other accesses share."""

    def __init__(self, registers: LoweredRegisters, context: Context):
        self.registers, self.context, self.build = registers, context, context.build
        self.sites: list[tuple[MemoryAccess, Place]] = []
        self.numbers: dict[int, int] = {}
        self.planned: dict[int, AddressGroup] = {}  # steps of accesses in rows
        self.groups: dict[int, AddressGroup] = {}
        self.forms = Forms(context)
        self.looping = False

    def plan(
        self, steps: list[Step], affine: AffineRegisters, bases: dict[int, Term]
    ) -> tuple[dict[int, AddressGroup], dict[ir.Value, None]]:
        """Return the address group of each affine access of this place, and their conditions.

        All these accesses are legal and affine if the conditions hold. The result is empty if
        there are none.
        """
        found: dict[int, AddressGroup] = {}
        needed: dict[ir.Value, None] = {}
        for step in steps:
            term = bases.get(id(step))
            if (
                term is None
                or not isinstance(step, MemoryAccess)
                or not self._fits(step, term, affine)
            ):
                continue
            group = found[id(step)] = self.groups[id(step)]
            if not group.rows:
                built, size = term.built, step.site.size
                start = adapt(built.start, built.dtype, U64)
                here = self.forms.hosts(
                    group,
                    self._number(step),
                    start,
                    size if (term.stride == 0) else size * affine.row_length,
                    size,
                )
                group.same = term.stride == 0
                needed |= dict.fromkeys((*built.flags, here))
        return found, needed

    @staticmethod
    def _fits(step: MemoryAccess, term: Term, affine: AffineRegisters) -> bool:
        site, whole = step.site, affine.row_length == LANES
        if site.space == "local" or (site.width > 1 and not whole):
            return False
        return term.stride == site.size or (
            term.stride == 0 and site.kind == "load" and site.width == 1
        )

    @staticmethod
    def suits_some(steps: list[Step], planned: Container[int]) -> bool:
        """Return True if planned accesses may run for all lanes while only some are active.

        Loads may. Stores may if they put back the elements of the inactive lanes, which is
        possible in the block's own memory, because no other core can have changed them meanwhile.
        """
        return all(
            step.site.kind == "load" or (step.site.space, step.site.width) == ("shared", 1)
            for step in steps
            if isinstance(step, MemoryAccess) and id(step) in planned
        )

    def in_rows(self, step: MemoryAccess, group: AddressGroup, mask: ir.Value) -> None:
        """Emit an access by rows of lanes to neighbouring elements or one element, as planned."""
        build, site = self.build, step.site
        element, width, rows = site.dtype.itemsize, site.width, len(group.rows)
        lanes = LANES // rows
        places = [pointer_to(build, build.add(host, I64(site.offset))) for host in group.rows]
        if site.kind == "store":
            values = [spread(self.registers.get(value, site.dtype)) for value in step.sources[1:]]
            node = self._interleaved(values)
            for row, place in enumerate(places):
                part = (
                    node
                    if rows == 1
                    else build.shuffle_vector(
                        node,
                        ir.Constant(node.type, ir.Undefined),
                        constant_vector(range(lanes * row, lanes * (row + 1))),
                    )
                )
                if mask is not EVERYONE:
                    bits = build.trunc(build.lshr(mask, I32(lanes * row)), ir.IntType(lanes))
                    here = build.bitcast(bits, ir.VectorType(I1, lanes))
                    part = build.select(here, part, build.load(place, typ=part.type, align=element))
                build.store(part, place, align=element)
        elif group.same:
            ones = [build.load(place, typ=self._element(step, None)) for place in places]
            self._results(step, [self._joined([splat(build, one, lanes) for one in ones])])
        else:
            whole = self._element(step, lanes * width)
            node = self._joined([build.load(place, typ=whole, align=element) for place in places])
            self._results(step, self._parts(node, width))
        if (
            self.looping
            and rows == 1
            and site.space != "shared"
            and not group.same
            and (site.offset not in group.ahead)
        ):
            group.ahead.add(site.offset)
            self._fetch_ahead(self._number(step), places[0], site.size * LANES)

    def _fetch_ahead(self, number: int, here: ir.Value, nbytes: int) -> None:
        """Prefetch, in a loop, the address that lies ahead by the last iteration's stride.

        The iterations of a grid-stride loop are too far apart for the processor's own prefetcher:
        without this, 90 % of the time was spent waiting for memory.
        """
        build, context = self.build, self.context
        last, now = site_at(number) + LAST, build.ptrtoint(here, I64)
        ahead = build.sub(build.shl(now, I64(1)), context.load(last))
        context.store(last, now)
        for line in range(0, nbytes, LINE_BYTES):
            place = pointer_to(build, build.add(ahead, I64(line)))
            intrinsic(build, "llvm.prefetch.p0", ir.VoidType(), [place, I32(0), I32(3), I32(1)])

    # -- pieces --------------------------------------------------------------------------------

    def _number(self, step: MemoryAccess) -> int:
        """Return the number of the step's site; a place may be emitted twice."""
        if id(step) not in self.numbers:
            self.numbers[id(step)] = len(self.sites)
            self.sites.append((step, self.registers.place))
        return self.numbers[id(step)]

    def _element(self, step: MemoryAccess, lanes: int | None) -> ir.Type:
        name = kind(step.site.dtype)
        return llvm_type("u8" if name == "pred" else name, lanes)

    def _results(self, step: MemoryAccess, nodes: list[ir.Value]) -> None:
        for slot, node in zip(step.targets, nodes, strict=True):
            self.registers.write(
                slot, Value(self.build, node, kind(step.site.dtype)), step.site.dtype
            )

    def _parts(self, node: ir.Value, width: int) -> list[ir.Value]:
        """Return the elements of each lane, which has ``width`` contiguous ones, as vectors."""
        return (
            [node]
            if width == 1
            else [
                self.build.shuffle_vector(
                    node, ir.Constant(node.type, ir.Undefined), constant_vector(width * IOTA + part)
                )
                for part in range(width)
            ]
        )

    def _joined(self, nodes: list[ir.Value]) -> ir.Value:
        """Concatenate the elements of one, two or four vectors."""

        def pair(a: ir.Value, b: ir.Value) -> ir.Value:
            return self.build.shuffle_vector(a, b, constant_vector(range(2 * a.type.count)))

        if len(nodes) == 1:
            return nodes[0]
        row = [pair(a, b) for a, b in zip(nodes[::2], nodes[1::2], strict=True)]
        return row[0] if len(row) == 1 else pair(*row)

    def _interleaved(self, values: list[Value]) -> ir.Value:
        """Interleave ``width`` vectors, so that the values of each lane are contiguous."""
        nodes = [value.node for value in values]
        if len(nodes) == 1:
            return nodes[0]
        whole = self._joined(nodes)
        order = [LANES * part + int(lane) for lane in IOTA for part in range(len(nodes))]
        return self.build.shuffle_vector(
            whole, ir.Constant(whole.type, ir.Undefined), constant_vector(order)
        )
