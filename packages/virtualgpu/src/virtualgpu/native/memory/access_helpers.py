"""Native functions, shared by all kernels, for memory accesses that are not emitted inline.

A kernel's own code has the simple cases: one address for all lanes, or neighbouring addresses in
the variable that the instruction used last. These functions handle everything else: scattered
addresses, inactive lanes, several allocations, generic addresses, local memory and atomics. Each
is compiled when first needed, which takes 10 to 30 ms, and is then loaded from disk.

They are built with llvmlite's builder, because the loop language
(:mod:`virtualgpu.compilers.loops`) has no vectors for a warp's addresses and values.

Every function checks all lanes before it touches memory, and returns 1 if a lane's access is
illegal. The Python functions here return the name by which a kernel calls it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from llvmlite import ir

from virtualgpu.compilers.building import (
    count_to,
    each_bit,
    function,
    intrinsic,
    item,
    variable,
)
from virtualgpu.compilers.llvm import linkable
from virtualgpu.lanes.atomics import ATOMICS, atomic_kind
from virtualgpu.memory.mapping import BASE
from virtualgpu.native.context import (
    ADDRESSES,
    APART,
    COMPARES,
    DELTA,
    HOSTS,
    LANES,
    LOW,
    ROW,
    ROWS,
    SAME,
    SPAN,
    VALUES,
)
from virtualgpu.native.flow.block_order import COMMUTATIVE
from virtualgpu.native.locate import locate
from virtualgpu.native.values import (
    EVERYONE,
    I32,
    I64,
    IOTA,
    POINTER,
    Context,
    alike,
    any_bits,
    constant_vector,
    first_lane,
    mask_of_bits,
    out_of,
    pointer_to,
    splat,
)
from virtualgpu.operations.expression import Value, llvm_type, select


@cache
def mover(kind: str, size: int) -> str:
    """Return the shared function that loads or stores elements of ``size`` bytes.

    ``(context, site, space, mask, width)`` moves the elements between memory and the values in the
    context. It returns 0, or 1 for an illegal access.
    """
    name = f"native_{kind}_{size}"
    element = ir.IntType(8 * size)
    build, (pointer, site, space, mask, width) = function(name, [POINTER, POINTER, I64, I32, I64])
    context, nbytes = Context(build, pointer), build.mul(width, I64(size))
    hosts, known = _known(context, site, mask, nbytes)
    with build.if_then(known, likely=True):
        _move_at_once(context, site, hosts, mask, width, kind, element)
    table = _table(build, hosts)
    with build.if_then(build.not_(known), likely=kind == "load"):
        _locate_each(context, site, space, mask, nbytes, table)
    with count_to(build, width) as number:
        row = build.gep(context.at(VALUES), [build.mul(number, I64(LANES))], source_etype=element)
        with each_bit(build, mask) as lane:
            host = item(build, table, lane, I64)
            place = pointer_to(build, build.add(host, build.mul(number, I64(size))))
            value = build.gep(row, [lane], source_etype=element)
            origin, target = (place, value) if kind == "load" else (value, place)
            build.store(build.load(origin, typ=element, align=1), target, align=1)
    build.ret(I64(0))
    return linkable(str(build.module), name, "few")


def _move_at_once(
    context: Context,
    site: ir.Value,
    hosts: ir.Value,
    mask: ir.Value,
    width: ir.Value,
    kind: str,
    element: ir.IntType,
) -> None:
    """Emit one load or store of the active lanes if they are neighbours.

    Other loads are gathered, and inactive lanes fetch an element too. Without AVX-512 the
    alternative is a branch for each lane, which is often mispredicted.
    """
    build, size = context.build, element.width // 8
    vector, pointers = ir.VectorType(element, LANES), ir.VectorType(POINTER, LANES)
    lanes, align, room = mask_of_bits(build, mask), I32(size), context.at(VALUES)
    suffix, nothing = f"v{LANES}i{element.width}", ir.Constant(vector, None)
    number = first_lane(build, mask)
    start = build.add(
        Context(build, site).load(DELTA),
        build.sub(item(build, context.at(ADDRESSES), number, I64), build.mul(number, I64(size))),
    )
    line = build.add(splat(build, start), constant_vector(size * IOTA, 64))
    differing = any_bits(
        build, build.select(lanes, build.xor(hosts, line), ir.Constant(line.type, None))
    )
    with build.if_then(
        build.and_(
            build.icmp_unsigned("==", differing, I64(0)), build.icmp_unsigned("==", width, I64(1))
        )
    ):
        place = pointer_to(build, start)
        if kind == "load":
            build.store(
                intrinsic(
                    build, f"llvm.masked.load.{suffix}.p0", vector, [place, align, lanes, nothing]
                ),
                room,
                align=8,
            )
        else:
            intrinsic(
                build,
                f"llvm.masked.store.{suffix}.p0",
                ir.VoidType(),
                [build.load(room, typ=vector, align=8), place, align, lanes],
            )
        build.ret(I64(0))
    if kind == "load":
        everyone = ir.Constant(lanes.type, [1] * LANES)
        with count_to(build, width) as number:
            places = build.add(hosts, splat(build, build.mul(number, I64(size))))
            build.store(
                intrinsic(
                    build,
                    f"llvm.masked.gather.{suffix}.v{LANES}p0",
                    vector,
                    [build.inttoptr(places, pointers), align, everyone, nothing],
                ),
                build.gep(room, [number], source_etype=vector),
                align=8,
            )
        build.ret(I64(0))


def _known(
    context: Context, site: ir.Value, mask: ir.Value, size: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return the lanes' host addresses, and True if all are in the variable used last.

    Inactive lanes have the address of the first active one.
    """
    build, words = context.build, Context(context.build, site)
    table = context.at(ADDRESSES)
    addresses = build.select(
        mask_of_bits(build, mask),
        build.load(table, typ=ir.VectorType(I64, LANES), align=8),
        splat(build, item(build, table, first_lane(build, mask), I64)),
    )
    far = build.sub(addresses, splat(build, words.load(LOW)))
    beyond = any_bits(build, out_of(build, far, words.load(SPAN)))
    odd = build.and_(any_bits(build, addresses), build.sub(size, I64(1)))
    known = build.and_(
        build.icmp_signed(">=", beyond, I64(0)), build.icmp_unsigned("==", odd, I64(0))
    )
    return build.add(addresses, splat(build, words.load(DELTA))), known


@cache
def form() -> str:
    """Return the function that classifies the addresses of a warp.

    ``(context, site, mask, size, lowest, between)`` returns ROWS, SAME or APART, the form of the
    addresses in the context. It returns APART unless all accesses at ``lowest`` to ``lowest +
    between`` bytes above them are legal in the variable that was used last. The host address of
    each row's start is stored in the context.
    """
    build, (pointer, site_pointer, mask, size, lowest, between) = function(
        "form", [POINTER, POINTER, I32, I64, I64, I64]
    )
    context, site = Context(build, pointer), Context(build, site_pointer)
    with build.if_then(build.icmp_unsigned("!=", mask, EVERYONE)):
        build.ret(I64(APART))
    address = build.load(context.at(ADDRESSES), typ=ir.VectorType(I64, LANES), align=8)
    starts = [build.extract_element(address, I32(lane)) for lane in range(0, LANES, ROW)]
    heads = build.shuffle_vector(
        address, ir.Constant(address.type, ir.Undefined), constant_vector(IOTA // ROW * ROW)
    )
    above = build.sub(address, heads)
    line = build.mul(splat(build, size), constant_vector(IOTA % ROW, 64))
    rows, same = (
        alike(build, above, expected) for expected in (line, constant_vector(0 * IOTA, 64))
    )
    low, high, odd = starts[0], starts[0], I64(0)
    for start in starts:
        low = build.select(build.icmp_unsigned("<", start, low), start, low)
        high = build.select(build.icmp_unsigned(">", start, high), start, high)
        odd = build.or_(odd, build.add(start, lowest))
    row = build.select(rows, build.mul(size, I64(ROW - 1)), I64(0))
    first, span = build.sub(build.add(low, lowest), site.load(LOW)), site.load(SPAN)
    more = build.add(build.add(build.sub(high, low), row), between)
    good = build.icmp_unsigned("==", build.and_(odd, build.sub(size, I64(1))), I64(0))
    for far in (first, more, build.add(first, more)):  # the sum of two large numbers may wrap
        good = build.and_(good, build.icmp_unsigned("<", far, span))
    for number, start in enumerate(starts):
        context.store(HOSTS + number, build.add(start, site.load(DELTA)))
    found = build.select(rows, I64(ROWS), build.select(same, I64(SAME), I64(APART)))
    build.ret(build.select(good, found, I64(APART)))
    return linkable(str(build.module), "form", "few")


@cache
def atomic(operation: str, dtype: np.dtype, width: int, space: str, kept: bool) -> str:
    """Return the shared function of an atomic.

    ``(context, site, space, mask)`` returns 0, or 1 for an illegal access. Values and comparands
    are in the context; if the old values are ``kept``, they replace the values. Lanes are executed
    one by one, the lowest first, as in the interpreter. Each element of a vector is an atomic, and
    the vector has to be in global memory.
    """
    name = (
        f"native_atomic_{operation}_{dtype.kind}{dtype.itemsize}_{width}_{space}" + "_kept" * kept
    )
    kind = atomic_kind(operation, dtype)
    element = llvm_type(kind, None)
    build, (pointer, site, number, mask) = function(name, [POINTER, POINTER, I64, I32])
    context = Context(build, pointer)
    if width > 1 and space == "generic":
        with each_bit(build, mask) as lane:
            address = item(build, context.at(ADDRESSES), lane, I64)
            with build.if_then(build.icmp_unsigned("<", address, I64(BASE)), likely=False):
                build.ret(I64(1))
    hosts = _places(context, site, number, mask, I64(width * dtype.itemsize))
    if space != "shared" and operation in COMMUTATIVE and kind[0] != "f":
        _across_cores(context, hosts, mask, operation, kind)
    with count_to(build, I64(width)) as part, each_bit(build, mask) as lane:
        place = pointer_to(
            build, build.add(item(build, hosts, lane, I64), build.mul(part, I64(dtype.itemsize)))
        )
        row = build.gep(context.at(VALUES), [build.mul(part, I64(LANES))], source_etype=element)
        old = Value(build, build.load(place, typ=element), kind)
        value, compare = (
            Value(build, item(build, where, lane, element), kind)
            for where in (row, context.at(COMPARES))
        )
        new = ATOMICS[operation](old, value, compare)
        # PTX ISA, "atom": float32 additions flush subnormal numbers in global memory, not in
        # shared.
        if operation == "add" and dtype == np.float32 and space != "shared":
            flushed = ATOMICS["add_ftz"](old, value, compare)
            address = Value(build, item(build, context.at(ADDRESSES), lane, I64), "u64")
            new = flushed if space == "global" else select(address >= BASE, flushed, new)
        build.store(new.node, place)
        if kept:
            build.store(old.node, build.gep(row, [lane], source_etype=element))
    build.ret(I64(0))
    return linkable(str(build.module), name, "few")


def _across_cores(
    context: Context, hosts: ir.Value, mask: ir.Value, operation: str, kind: str
) -> None:
    """Emit the processor's own atomics, for memory that other cores also update.

    They take four times as long. Kernels that use the old values never run on several cores
    (:mod:`.block_order`).
    """
    build, element = context.build, llvm_type(kind, None)
    signless = operation not in ("min", "max") or kind[0] == "s"
    with build.if_then(build.icmp_unsigned("!=", context.load("several"), I64(0))):
        if operation == "add":
            _to_own_sums(context, hosts, mask, element)
        with each_bit(build, mask) as lane:
            place = pointer_to(build, item(build, hosts, lane, I64))
            value = item(build, context.at(VALUES), lane, element)
            build.atomic_rmw(operation if signless else f"u{operation}", place, value, "monotonic")
        build.ret(I64(0))


def _to_own_sums(context: Context, hosts: ir.Value, mask: ir.Value, element: ir.IntType) -> None:
    """Add to the core's private sums if all lanes add to the array that has them.

    See :mod:`.privatisation`.
    """
    build = context.build
    places = build.load(hosts, typ=ir.VectorType(I64, LANES), align=8)
    start = context.load("own_start")
    far = build.sub(places, splat(build, start))
    beyond = any_bits(build, out_of(build, far, context.load("own_span")))
    with build.if_then(build.icmp_signed(">=", beyond, I64(0))):
        away = build.sub(context.load("own_room"), start)
        with each_bit(build, mask) as lane:
            place = pointer_to(build, build.add(item(build, hosts, lane, I64), away))
            value = item(build, context.at(VALUES), lane, element)
            build.store(build.add(build.load(place, typ=element), value), place)
        build.ret(I64(0))


# -- host addresses -----------------------------------------------------------------------------


def _places(
    context: Context, site: ir.Value, space: ir.Value, mask: ir.Value, size: ir.Value
) -> ir.Value:
    """Return a table of the host addresses of all lanes of the mask.

    The generated function returns 1 if a lane's address is illegal.
    """
    build = context.build
    hosts, known = _known(context, site, mask, size)
    table = _table(build, hosts)
    with build.if_then(build.not_(known), likely=False):
        _locate_each(context, site, space, mask, size, table)
    return table


def _locate_each(
    context: Context,
    site: ir.Value,
    space: ir.Value,
    mask: ir.Value,
    size: ir.Value,
    table: ir.Value,
) -> None:
    """Look up the addresses one by one, for lanes without a usable entry in the ``table``."""
    build = context.build
    with each_bit(build, mask) as lane:
        address = item(build, context.at(ADDRESSES), lane, I64)
        host = intrinsic(
            build, locate.symbol, I64, [context.pointer, site, space, lane, address, size]
        )
        with build.if_then(build.icmp_unsigned("==", host, I64(0)), likely=False):
            build.ret(I64(1))
        build.store(host, build.gep(table, [lane], source_etype=I64))


def _table(build: ir.IRBuilder, values: ir.Value) -> ir.Value:
    """Store the elements of a vector in memory, so that they can be indexed by number."""
    return pointer_to(build, build.ptrtoint(variable(build, values), I64))
