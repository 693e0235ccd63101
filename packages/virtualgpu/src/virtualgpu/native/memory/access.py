"""Loads, stores and atomics of a warp, each checked before it takes effect.

Some cases are emitted inline: one address for all lanes, and a full warp whose lanes access memory
in one of the forms of :mod:`.address_forms`, in the allocation (or shared variable) that the
instruction used last. They take only a few instructions more than the access itself. All other
cases call a function of :mod:`.access_helpers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from llvmlite import ir

from virtualgpu.compilers.building import intrinsic
from virtualgpu.lanes.emitter import U64
from virtualgpu.native import locate
from virtualgpu.native.context import (
    ADDRESSES,
    COMPARES,
    LANES,
    LINE,
    ROW,
    ROWS,
    SAME,
    VALUES,
    site_at,
)
from virtualgpu.native.counting import Counting
from virtualgpu.native.flow.control_flow import Place
from virtualgpu.native.memory import access_helpers
from virtualgpu.native.memory.address_forms import AddressGroup, address_groups
from virtualgpu.native.memory.affine_access import AffineAccesses
from virtualgpu.native.operands import LoweredRegisters
from virtualgpu.native.values import (
    I32,
    I64,
    Context,
    constant_vector,
    pointer_to,
    splat,
    spread,
)
from virtualgpu.native.watched.watching import WatchEmitter
from virtualgpu.operations.expression import Value
from virtualgpu.program.site import Site
from virtualgpu.program.steps import MemoryAccess, Step


class Accesses(AffineAccesses):
    """Code generator for the memory accesses of one kernel.

    ``stop(number)`` returns the block to jump to if site ``number`` may not continue. ``used``
    holds the registers that some instruction reads.
    """

    def __init__(
        self,
        registers: LoweredRegisters,
        context: Context,
        stop: Callable[[int, ir.Value], ir.Block],
        used: set[int],
    ):
        super().__init__(registers, context)
        self.stop, self.used = stop, used
        self.counting: Counting | WatchEmitter | None = None
        self.fetched: dict[int, list[ir.Value]] = {}  # results of loads, by the id of their step

    def start(
        self, place: Place, steps: list[Step], looping: bool, brief: Iterable[int] = ()
    ) -> None:
        """Begin the accesses of a place, which may be in a loop.

        Of the steps in ``brief``, given by their ``id``, only the form LINE is emitted inline.
        """
        self.looping = looping
        self.groups, self.fetched = address_groups(steps, place.block.function), {}
        self.planned = {}
        for step in brief:
            self.groups[step].brief = True

    def emit(self, step: MemoryAccess, mask: ir.Value) -> None:
        """Emit the step's access by the lanes in ``mask`` (a word)."""
        if id(step) in self.fetched:
            self._results(step, self.fetched[id(step)])
            return
        site = step.site
        if id(step) in self.planned:
            self.in_rows(step, self.planned[id(step)], mask)
            return
        base = self.registers.get(step.sources[0], U64)
        values = [self.registers.get(value, site.dtype) for value in step.sources[1:]]
        if site.kind == "atomic":
            self._atomic(step, self._number(step), _address(site, base), values, mask)
        elif base.lanes is None and site.space in ("global", "shared"):
            self._single(step, self._number(step), _address(site, base), values, mask)
        else:
            self._vector(step, spread(base), [spread(v) for v in values], mask)

    # -- pieces --------------------------------------------------------------------------------

    def _ask(
        self, step: MemoryAccess, number: int, helper: str, mask: ir.Value, *more: ir.Value
    ) -> None:
        """Call a helper, and leave the kernel if it refuses."""
        build, context = self.build, self.context
        answer = intrinsic(
            build,
            helper,
            I64,
            [
                context.pointer,
                context.at(site_at(number)),
                I64(locate.SPACES[step.site.space]),
                mask,
                *more,
            ],
        )
        onward = build.append_basic_block()
        build.cbranch(build.icmp_unsigned("!=", answer, I64(0)), self.stop(number, mask), onward)
        build.position_at_end(onward)

    # -- one address for all lanes -------------------------------------------------------------

    def _single(
        self, step: MemoryAccess, number: int, address: Value, values: list[Value], mask: ir.Value
    ) -> None:
        build, site = self.build, step.site
        near = self.forms.inside(number, address.node, 0)
        near = build.and_(near, self.forms.aligned(address.node, site.size))
        known, search, onward = (build.append_basic_block() for _ in range(3))
        build.cbranch(near, known, search)
        build.position_at_end(known)
        plain = self.forms.host(number, address.node)
        build.branch(onward)
        build.position_at_end(search)
        build.store(splat(build, address.node), self.context.at(ADDRESSES), align=8)
        found = intrinsic(
            build,
            locate.locate.symbol,
            I64,
            [
                self.context.pointer,
                self.context.at(site_at(number)),
                I64(locate.SPACES[site.space]),
                I64(0),
                address.node,
                I64(site.size),
            ],
        )
        searched = build.block
        build.cbranch(build.icmp_unsigned("==", found, I64(0)), self.stop(number, mask), onward)
        build.position_at_end(onward)
        place = build.phi(I64)
        place.add_incoming(plain, known)
        place.add_incoming(found, searched)
        if self.counting is not None:
            self.counting.same(step, number, mask, address.node)
        nodes = []
        for part in range(site.width):
            at = pointer_to(build, build.add(place, I64(part * site.dtype.itemsize)))
            if step.site.kind == "load":
                nodes.append(build.load(at, typ=self._element(step, None)))
                continue
            node = values[part].node
            if values[part].lanes is not None:  # the last lane wins
                ctlz = build.ctlz(mask, ir.Constant(ir.IntType(1), 1))
                node = build.extract_element(node, build.sub(I32(31), ctlz))
            build.store(node, at)
        if step.site.kind == "load":
            self._results(step, nodes)

    # -- an address for each lane --------------------------------------------------------------

    def _vector(self, step: MemoryAccess, base: Value, values: list[Value], mask: ir.Value) -> None:
        """Emit the accesses of all lanes at ``base`` plus the site's offset.

        Loads are fetched together if they share the base and nothing between them could change
        memory.
        """
        build, site = self.build, step.site
        group = self.groups[id(step)]
        run = group.runs.get(id(step), [step])
        numbers = [self._number(one) for one in run]
        ways: dict[int, list[Callable[[], list[ir.Value]]]] = {}
        if site.space != "local" and not group.brief:
            if group.form is None:
                self.forms.find(group, step, numbers[0], base.node, mask, self._has_rows(step))
            for one, number in zip(run, numbers, strict=True):
                for form, write in self._plain_ways(one, number, group, values).items():
                    ways.setdefault(form, []).append(write)
        onward = build.append_basic_block()
        results: list[tuple[list[ir.Value], ir.Block]] = []
        for form, writers in ways.items():
            block, other = build.append_basic_block(), build.append_basic_block()
            build.cbranch(build.icmp_unsigned("==", group.form, I32(form)), block, other)
            build.position_at_end(block)
            self._tell(form, run, numbers, base)
            nodes = [node for write in writers for node in write()]
            results.append((nodes, build.block))
            build.branch(onward)
            build.position_at_end(other)
        nodes = [
            node
            for one, number in zip(run, numbers, strict=True)
            for node in self._apart(one, number, base, values, mask)
        ]
        results.append((nodes, build.block))
        build.branch(onward)
        build.position_at_end(onward)
        merged = []
        for number, node in enumerate(nodes):
            merged.append(build.phi(node.type))
            for some, block in results:
                merged[-1].add_incoming(some[number], block)
        for number, one in enumerate(run):
            self.fetched[id(one)] = merged[number * site.width :][: site.width]
        if site.kind == "load":
            self._results(step, self.fetched[id(step)])

    def _has_rows(self, step: MemoryAccess) -> bool:
        """Return True if forms other than LINE are emitted inline."""
        if isinstance(self.counting, WatchEmitter):
            return self.counting.has_rows(step)
        return self.counting is None and not self.groups[id(step)].brief

    def _tell(self, form: int, run: list[MemoryAccess], numbers: list[int], base: Value) -> None:
        """Pass accesses of one form to the code that counts or checks them."""
        build, counting = self.build, self.counting
        if counting is None:
            return
        starts = [build.extract_element(base.node, I32(row)) for row in range(0, LANES, ROW)]
        if form == LINE:
            for step, number in zip(run, numbers, strict=True):
                counting.line(step, number, build.add(starts[0], I64(step.site.offset)))
        elif isinstance(counting, WatchEmitter):
            (counting.rows if form == ROWS else counting.same_rows)(run, numbers[0], starts)

    def _plain_ways(
        self, step: MemoryAccess, number: int, group: AddressGroup, values: list[Value]
    ) -> dict[int, Callable[[], list[ir.Value]]]:
        """Return the emitters of the address forms that are emitted inline.

        Each emits the access and returns a load's results.
        """
        build, site = self.build, step.site
        element, width = site.dtype.itemsize, site.width

        def at(row: int) -> ir.Value:
            return pointer_to(build, build.add(group.hosts[row], I64(site.offset)))

        def line() -> list[ir.Value]:
            if self.looping and site.space != "shared" and site.offset not in group.ahead:
                group.ahead.add(site.offset)
                self._fetch_ahead(number, at(0), element * width * LANES)
            if site.kind == "store":
                build.store(self._interleaved(values), at(0), align=element)
                return []
            whole = self._element(step, LANES * width)
            return self._parts(build.load(at(0), typ=whole, align=element), width)

        def rows() -> list[ir.Value]:
            if site.kind == "load":
                return [
                    self._joined(
                        [
                            build.load(at(row), typ=self._element(step, ROW), align=element)
                            for row in range(LANES // ROW)
                        ]
                    )
                ]
            node = values[0].node
            for row in range(LANES // ROW):
                part = build.shuffle_vector(
                    node,
                    ir.Constant(node.type, ir.Undefined),
                    constant_vector(range(ROW * row, ROW * (row + 1))),
                )
                build.store(part, at(row), align=element)
            return []

        def same() -> list[ir.Value]:
            ones = [
                build.load(at(row), typ=self._element(step, None)) for row in range(LANES // ROW)
            ]
            return [self._joined([splat(build, one, ROW) for one in ones])]

        ways: dict[int, Callable[[], list[ir.Value]]] = {LINE: line}
        if self._has_rows(step) and width == 1:
            ways[ROWS] = rows
            if site.kind == "load":
                ways[SAME] = same
        return ways

    def _apart(
        self, step: MemoryAccess, number: int, base: Value, values: list[Value], mask: ir.Value
    ) -> list[ir.Value]:
        """Emit a call of a shared function for any other addresses; return a load's results."""
        build, site = self.build, step.site
        element = site.dtype.itemsize
        build.store(_address(site, base).node, self.context.at(ADDRESSES), align=8)
        if self.counting is not None:
            self.counting.apart(step, number, mask)
        places = self._value_places(step)
        for place, value in zip(places, values, strict=False):
            build.store(value.node, place, align=8)
        self._ask(step, number, access_helpers.mover(site.kind, element), mask, I64(site.width))
        if site.kind == "store":
            return []
        return [build.load(place, typ=self._element(step, LANES), align=8) for place in places]

    def _value_places(self, step: MemoryAccess) -> list[ir.Value]:
        """Return the addresses of each element's values, of all lanes, for a shared function."""
        nbytes = LANES * step.site.dtype.itemsize
        return [
            self.build.gep(
                self.context.at(VALUES), [I64(part * nbytes)], source_etype=ir.IntType(8)
            )
            for part in range(step.site.width)
        ]

    # -- atomics -------------------------------------------------------------------------------

    def _atomic(
        self, step: MemoryAccess, number: int, address: Value, values: list[Value], mask: ir.Value
    ) -> None:
        build, site = self.build, step.site
        build.store(spread(address).node, self.context.at(ADDRESSES), align=8)
        if self.counting is not None:
            self.counting.apart(step, number, mask)
        kept = bool(self.used & set(step.writes))
        if site.operation == "cas":  # operand b is the value to compare with, and comes first
            compare, *values = values
            build.store(spread(compare).node, self.context.at(COMPARES), align=8)
        places = self._value_places(step)
        for place, value in zip(places, values, strict=True):
            build.store(spread(value).node, place, align=8)
        self._ask(
            step,
            number,
            access_helpers.atomic(site.operation, site.dtype, site.width, site.space, kept),
            mask,
        )
        if kept:
            self._results(
                step,
                [build.load(place, typ=self._element(step, LANES), align=8) for place in places],
            )


def _address(site: Site, base: Value) -> Value:
    """Return ``base`` plus the site's constant.

    For a form that is emitted inline, the sum is an address within the variable.
    """
    address = base + site.offset
    return address & site.mask if site.offset and site.space in ("shared", "local") else address
