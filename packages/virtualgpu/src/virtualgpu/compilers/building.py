"""Helpers for functions that are built with llvmlite: loops, table look-ups, stack slots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

_WORD = ir.IntType(64)


def function(
    name: str,
    arguments: Sequence[ir.Type],
    module: ir.Module | None = None,
) -> tuple[ir.IRBuilder, tuple[ir.Value, ...]]:
    """Return a builder at the start of a new function, and the function's arguments.

    The function returns an integer. It is internal to ``module``, or alone in a new module.
    """
    made = ir.Function(module or ir.Module(name), ir.FunctionType(_WORD, arguments), name)
    if module is not None:
        made.linkage = "internal"
    return ir.IRBuilder(made.append_basic_block("entry")), made.args


def variable(build: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Return a stack slot that is initialised with ``value``."""
    with build.goto_entry_block():
        place = build.alloca(value.type)
    build.store(value, place)
    return place


def item(
    build: ir.IRBuilder, table: ir.Value, number: ir.Value, kind: ir.Type, align: int | None = None
) -> ir.Value:
    """Load ``table[number]``."""
    return build.load(build.gep(table, [number], source_etype=kind), typ=kind, align=align)


def intrinsic(
    build: ir.IRBuilder, name: str, result: ir.Type, arguments: Sequence[ir.Value]
) -> ir.Value:
    """Call an LLVM intrinsic, or a function that was compiled before, by its full name."""
    known = declare(build.module, name, result, [argument.type for argument in arguments])
    return build.call(known, arguments)


def declare(
    module: ir.Module, name: str, result: ir.Type, arguments: Sequence[ir.Type]
) -> ir.Function:
    """Declare a function of another module by its full name."""
    known = module.globals.get(name)
    return ir.Function(module, ir.FunctionType(result, arguments), name) if known is None else known


@contextmanager
def while_(build: ir.IRBuilder, condition: Callable[[], ir.Value]) -> Iterator[None]:
    """Emit a loop: the code emitted inside repeats while ``condition``'s result is true."""
    test, body, done = (build.append_basic_block(name) for name in ("test", "body", "done"))
    build.branch(test)
    build.position_at_end(test)
    build.cbranch(condition(), body, done)
    build.position_at_end(body)
    yield
    build.branch(test)
    build.position_at_end(done)


@contextmanager
def count_to(build: ir.IRBuilder, end: ir.Value) -> Iterator[ir.Value]:
    """Build a loop over the numbers from 0 to ``end`` - 1."""
    place = variable(build, end.type(0))
    with while_(build, lambda: build.icmp_unsigned("<", build.load(place), end)):
        number = build.load(place)
        yield number
        build.store(build.add(number, end.type(1)), place)


@contextmanager
def each_bit(build: ir.IRBuilder, word: ir.Value) -> Iterator[ir.Value]:
    """Build a loop over the set bits, lowest first, with each bit's number (64 bits)."""
    left = variable(build, word)
    with while_(build, lambda: build.icmp_unsigned("!=", build.load(left), word.type(0))):
        some = build.load(left)
        build.store(build.and_(some, build.sub(some, word.type(1))), left)
        yield build.zext(build.cttz(some, ir.Constant(ir.IntType(1), 1)), _WORD)
