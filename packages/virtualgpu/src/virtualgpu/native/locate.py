"""Where an address lies: in which variable, and where that is for the host.

Asked for a single lane, by :mod:`.access_helpers` and by kernels, where an address is not in the
variable that the instruction used last.
"""

from __future__ import annotations

from functools import cache

from llvmlite import ir

from virtualgpu.compilers.building import function, intrinsic, item, variable, while_
from virtualgpu.compilers.llvm import linkable
from virtualgpu.memory import windows
from virtualgpu.native import privatisation
from virtualgpu.native.context import DELTA, LIMIT, LOW, SPAN
from virtualgpu.native.values import I64, POINTER, Context, pointer_to
from virtualgpu.operations.expression import Value, select

SPACES = {"global": 0, "shared": 1, "local": 2, "generic": 3}


@cache
def locate() -> str:
    """``(context, site, space, lane, address, size)`` → the host address, or 0 for an illegal
    access of ``size`` bytes. What it finds outside local memory stays in the site."""
    build, (pointer, site_pointer, space, lane, node, size_node) = function(
        "locate", [POINTER, POINTER, I64, I64, I64, I64]
    )
    find = search(build.module)
    context, site = Context(build, pointer), Context(build, site_pointer)

    def word(of: Context, field: str | int) -> Value:
        return Value(build, of.load(field), "u64")

    address, size = Value(build, node, "u64"), Value(build, size_node, "u64")
    with build.if_then(((address & (size - 1)) != 0).node, likely=False):
        build.ret(I64(0))
    with build.if_then((address - word(site, LOW) < word(site, SPAN)).node):
        build.ret((address + word(site, DELTA)).node)
    named = Value(build, space, "u64")
    within, base = {}, address.number(0)
    for name, start in windows.STARTS.items():
        window = (named == SPACES["generic"]) & windows.reaches(address, name)
        within[name] = window | (named == SPACES[name])
        base = select(window, start, base)
    own = address - base
    with build.if_then(within["local"].node):
        limit = word(site, LIMIT)
        fits = (own < limit) & (limit - own >= size)
        thread = (word(context, "warp") << 5) + Value(build, lane, "u64")
        host = word(context, "local") + thread * word(context, "local_stride") + own
        build.ret(select(fits, host, 0).node)
    table = build.select(
        within["shared"].node, context.at("shared_starts"), context.at("global_starts")
    )
    number = build.call(find, [table, own.node, size.node])
    with build.if_then(build.icmp_signed("<", number, I64(0)), likely=False):
        build.ret(I64(0))
    low, high = (
        Value(
            build,
            item(build, pointer_to(build, item(build, table, I64(i), I64)), number, I64),
            "u64",
        )
        for i in range(2)
    )
    host = select(within["shared"], word(context, "shared"), word(context, "delta"))
    site.store(LOW, (low + base).node)
    site.store(SPAN, (high - low - size + 1).node)
    site.store(DELTA, (host - base).node)
    shared = build.or_(
        within["shared"].node, build.icmp_unsigned("==", context.load("several"), I64(0))
    )
    with build.if_then(build.not_(shared)):
        intrinsic(
            build, privatisation.claim(), I64, [pointer, site_pointer, low.node, (high - low).node]
        )
    build.ret((own + host).node)
    return linkable(str(build.module), "locate", "few")


def search(module: ir.Module) -> ir.Function:
    """``(table, address, size)`` → the number of the variable in which the bytes lie, or -1. A
    table is three words: where the sorted starts are, where the ends are, how many."""
    build, (table, address, size) = function("search", [POINTER, I64, I64], module)
    starts, ends = (pointer_to(build, item(build, table, I64(i), I64)) for i in range(2))
    low, high = variable(build, I64(0)), variable(build, item(build, table, I64(2), I64))
    with while_(build, lambda: build.icmp_unsigned("<", build.load(low), build.load(high))):
        middle = build.lshr(build.add(build.load(low), build.load(high)), I64(1))
        right = build.icmp_unsigned("<=", item(build, starts, middle, I64), address)
        build.store(build.select(right, build.add(middle, I64(1)), build.load(low)), low)
        build.store(build.select(right, build.load(high), middle), high)
    number = build.sub(build.load(low), I64(1))
    with build.if_then(build.icmp_signed("<", number, I64(0))):
        build.ret(number)
    end = item(build, ends, number, I64)
    fits = build.and_(
        build.icmp_unsigned("<", address, end),
        build.icmp_unsigned(">=", build.sub(end, address), size),
    )
    build.ret(build.select(fits, number, I64(-1)))
    return build.function
