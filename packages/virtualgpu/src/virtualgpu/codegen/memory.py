"""Loads, stores and atomics of a warp, each checked before it takes effect.

Two cases are written out where they stand: one address for all lanes, and a full warp whose lanes
reach neighbouring elements of the allocation that the instruction used last (for shared memory:
of the variable). They take a few instructions more than the access alone. All others are calls
of :mod:`virtualgpu.codegen.helpers`.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from virtualgpu.codegen import helpers
from virtualgpu.codegen.context import (
    ADDRESSES,
    COMPARES,
    DELTA,
    LANES,
    LOW,
    SPAN,
    VALUES,
    site_at,
)
from virtualgpu.codegen.control_flow import Place
from virtualgpu.codegen.counting import Counting
from virtualgpu.codegen.decode import Access
from virtualgpu.codegen.lanes import (
    EVERYONE,
    I32,
    I64,
    IOTA,
    Context,
    bits_of_mask,
    constant_vector,
    pointer_to,
    splat,
    spread,
)
from virtualgpu.codegen.operands import Registers
from virtualgpu.compilers.building import intrinsic
from virtualgpu.machine.emit import U64
from virtualgpu.machine.fuse import kind
from virtualgpu.operations.expression import Value, llvm_type


class Accesses:
    """Writes the accesses of one kernel. ``stop(number)`` gives the block to jump to where site
    ``number`` may not go on."""

    def __init__(self, registers: Registers, context: Context,
                 stop: Callable[[int, ir.Value], ir.Block]):
        self.registers, self.context, self.stop = registers, context, stop
        self.build = context.build
        self.sites: list[tuple[Access, Place]] = []
        self.counting: Counting | None = None

    def emit(self, step: Access, mask: ir.Value) -> None:
        """The step's access by the lanes in ``mask`` (a word)."""
        number = len(self.sites)
        self.sites.append((step, self.registers.place))
        site = step.site
        address = self.registers.get(step.sources[0], U64)
        if site.offset:
            address = address + (site.offset & 0xFFFF_FFFF_FFFF_FFFF)
        values = [self.registers.get(value, site.dtype) for value in step.sources[1:]]
        if site.kind == "atomic":
            self._atomic(step, number, address, values, mask)
        elif address.lanes is None and site.space in ("global", "shared"):
            self._single(step, number, address, values, mask)
        else:
            self._vector(step, number, spread(address), [spread(v) for v in values], mask)

    # -- pieces --------------------------------------------------------------------------------

    def _element(self, step: Access, lanes: int | None) -> ir.Type:
        name = kind(step.site.dtype)
        return llvm_type("u8" if name == "pred" else name, lanes)

    def _host(self, number: int, address: ir.Value) -> ir.Value:
        """The host's address, where the site knows the variable."""
        return self.build.add(self.context.load(site_at(number) + DELTA), address)

    def _inside(self, number: int, address: ir.Value, reach: int) -> ir.Value:
        """Whether elements at ``address`` to ``reach`` bytes above it lie inside."""
        build, context = self.build, self.context
        low, span = (context.load(site_at(number) + word) for word in (LOW, SPAN))
        far = build.sub(address, low)
        good = build.icmp_unsigned("<", far, span)
        if reach:
            last = build.icmp_unsigned("<", build.add(far, I64(reach)), span)
            good = build.and_(good, last)
        return good

    def _aligned(self, address: ir.Value, size: int) -> ir.Value | None:
        if size == 1:
            return None
        odd = self.build.and_(address, I64(size - 1))
        return self.build.icmp_unsigned("==", odd, I64(0))

    def _ask(self, step: Access, number: int, helper: str, mask: ir.Value, *more: ir.Value) -> None:
        """Call a helper; where it refuses, leave the kernel."""
        build, context = self.build, self.context
        answer = intrinsic(build, helper, I64, [
            context.pointer, context.at(site_at(number)),
            I64(helpers.SPACES[step.site.space]), mask, *more])
        onward = build.append_basic_block()
        build.cbranch(build.icmp_unsigned("!=", answer, I64(0)), self.stop(number, mask), onward)
        build.position_at_end(onward)

    def _results(self, step: Access, nodes: list[ir.Value]) -> None:
        for slot, node in zip(step.targets, nodes, strict=True):
            self.registers.write(
                slot, Value(self.build, node, kind(step.site.dtype)), step.site.dtype)

    # -- one address for all lanes -------------------------------------------------------------

    def _single(self, step: Access, number: int, address: Value, values: list[Value],
                mask: ir.Value) -> None:
        build, site = self.build, step.site
        near = self._inside(number, address.node, 0)
        aligned = self._aligned(address.node, site.size)
        if aligned is not None:
            near = build.and_(near, aligned)
        known, search, onward = (build.append_basic_block() for _ in range(3))
        build.cbranch(near, known, search)
        build.position_at_end(known)
        plain = self._host(number, address.node)
        build.branch(onward)
        build.position_at_end(search)
        build.store(splat(build, address.node), self.context.at(ADDRESSES), align=8)
        found = intrinsic(build, helpers.locate(), I64, [
            self.context.pointer, self.context.at(site_at(number)),
            I64(helpers.SPACES[site.space]), I64(0), address.node, I64(site.size)])
        searched = build.block
        build.cbranch(build.icmp_unsigned("==", found, I64(0)), self.stop(number, mask), onward)
        build.position_at_end(onward)
        place = build.phi(I64)
        place.add_incoming(plain, known)
        place.add_incoming(found, searched)
        if self.counting is not None:
            self.counting.same(step, number, mask)
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

    def _vector(self, step: Access, number: int, address: Value, values: list[Value],
                mask: ir.Value) -> None:
        build, site = self.build, step.site
        size, width, element = site.size, site.width, site.dtype.itemsize
        vector = self._element(step, LANES)
        whole = self._element(step, LANES * width)
        apart, onward = build.append_basic_block(), build.append_basic_block()
        plain = None
        if site.space != "local":
            plain = build.append_basic_block()
            first = build.extract_element(address.node, I32(0))
            line = build.add(splat(build, first), constant_vector(size * IOTA, 64))
            same = bits_of_mask(build, build.icmp_unsigned("==", address.node, line))
            good = build.icmp_unsigned("==", build.and_(same, mask), EVERYONE)
            good = build.and_(good, self._inside(number, first, size * (LANES - 1)))
            aligned = self._aligned(first, size)
            if aligned is not None:
                good = build.and_(good, aligned)
            build.cbranch(good, plain, apart)
            build.position_at_end(plain)
            if self.counting is not None:
                self.counting.line(step, number, first)
            at = pointer_to(build, self._host(number, first))
            if step.site.kind == "load":
                node = build.load(at, typ=whole, align=element)
                lines = [node] if width == 1 else [
                    build.shuffle_vector(node, ir.Constant(whole, ir.Undefined), ir.Constant(
                        ir.VectorType(I32, LANES), [width * int(i) + part for i in IOTA]))
                    for part in range(width)]
            else:
                build.store(self._interleaved(values), at, align=element)
            build.branch(onward)
        if plain is None:
            build.branch(apart)
        build.position_at_end(apart)
        build.store(address.node, self.context.at(ADDRESSES), align=8)
        if self.counting is not None:
            self.counting.apart(step, number, mask)
        bytes_ = LANES * element
        places = [
            build.gep(self.context.at(VALUES), [I64(part * bytes_)], source_etype=ir.IntType(8))
            for part in range(width)]
        if step.site.kind == "store":
            for place, value in zip(places, values, strict=True):
                build.store(value.node, place, align=8)
        self._ask(step, number, helpers.mover(step.site.kind, element), mask, I64(width))
        if step.site.kind == "load":
            fetched = [build.load(place, typ=vector, align=8) for place in places]
        done = build.block
        build.branch(onward)
        build.position_at_end(onward)
        if step.site.kind == "store":
            return
        if plain is None:
            self._results(step, fetched)
            return
        nodes = []
        for part in range(width):
            node = build.phi(vector)
            node.add_incoming(lines[part], plain)
            node.add_incoming(fetched[part], done)
            nodes.append(node)
        self._results(step, nodes)

    def _interleaved(self, values: list[Value]) -> ir.Value:
        """``width`` values of each lane, lane after lane."""
        nodes = [value.node for value in values]
        build = self.build

        def joined(a: ir.Value, b: ir.Value) -> ir.Value:
            count = a.type.count
            return build.shuffle_vector(a, b, ir.Constant(
                ir.VectorType(I32, 2 * count), list(range(2 * count))))
        if len(nodes) == 1:
            return nodes[0]
        row = [joined(a, b) for a, b in zip(nodes[::2], nodes[1::2], strict=True)]
        whole = row[0] if len(row) == 1 else joined(*row)
        order = [LANES * part + int(lane) for lane in IOTA for part in range(len(nodes))]
        return build.shuffle_vector(
            whole, ir.Constant(whole.type, ir.Undefined),
            ir.Constant(ir.VectorType(I32, len(order)), order))

    # -- atomics -------------------------------------------------------------------------------

    def _atomic(self, step: Access, number: int, address: Value, values: list[Value],
                mask: ir.Value) -> None:
        build, site = self.build, step.site
        build.store(spread(address).node, self.context.at(ADDRESSES), align=8)
        if self.counting is not None:
            self.counting.apart(step, number, mask)
        # Of `cas`, operand b is what is compared with, and comes first.
        value, compare = (values[0], values[0]) if len(values) == 1 else (values[1], values[0])
        build.store(spread(value).node, self.context.at(VALUES), align=8)
        if len(values) == 2:
            build.store(spread(compare).node, self.context.at(COMPARES), align=8)
        self._ask(step, number, helpers.atomic(site.operation, site.dtype, site.space), mask)
        if step.writes:
            old = build.load(self.context.at(VALUES), typ=self._element(step, LANES), align=8)
            self._results(step, [old])
