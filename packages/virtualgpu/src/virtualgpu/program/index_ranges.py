"""Ranges of a launch's integer registers, which prove that most indices cannot wrap.

Grid, block and scalar parameters are known when a kernel is launched, so most indices have a range
from the start: ``blockIdx.x * blockDim.x + threadIdx.x`` is below the number of threads. Ranges are
propagated along the program's blocks, and a branch narrows them: after ``if (i < n)``, ``i`` is
below ``n`` (interval analysis, Cousot and Cousot 1977). Only indices that this cannot prove safe
are followed exactly while the kernel runs (:mod:`.exact_indices`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from virtualgpu.operations.types import DTYPES
from virtualgpu.program.index_arithmetic import INT32, INT64, INTEGERS, IndexArithmetic, signed
from virtualgpu.program.liveness import successors
from virtualgpu.program.program import BasicBlock, Program
from virtualgpu.program.speculation import writes
from virtualgpu.ptx import Address, Immediate, Instruction, Register, Symbol
from virtualgpu.ptx.module import Operand

Range = tuple[int, int]
State = dict[str, Range]
Triple = tuple[int, int, int]

LOW, HIGH = -(1 << 31), (1 << 31) - 1
ANY = {32: (LOW, HIGH), 64: (-(1 << 63), (1 << 63) - 1)}
NARROW = {"u8": (0, 255), "s8": (-128, 127), "u16": (0, 65535), "s16": (-32768, 32767)}
PATIENT, MOST = 3, 12  # visits of a block: then ranges leap, then are given up
KEPT = 64  # number of launches whose results are kept
POINTER = 1 << 33  # a parameter from here on is an address, not a number

PLAIN = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
FLIPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
NEGATED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


class Indices:
    """Chains of one program, and the results for its launches."""

    def __init__(self, program: Program):
        self.program = program
        self.arithmetic = IndexArithmetic(program)
        self.known: dict[tuple[object, ...], int] = {}
        self.parameters: list[tuple[str, str, int]] = []
        for one in self.arithmetic.body if self.arithmetic.sinks else ():
            if (at := _parameter(program, one)) is not None:
                assert isinstance(one.operands[0], Register)
                kind = "u64" if self.arithmetic.is_half(one) else one.modifiers[-1]
                self.parameters.append((one.operands[0].name, kind, at))

    def that_may_wrap(self, grid: Triple, block: Triple, parameters: bytes) -> int:
        """Return a bit for each candidate that is not proved to be safe in a launch."""
        if not self.arithmetic.sinks:
            return 0
        given = {}
        for name, kind, at in self.parameters:
            size = DTYPES[kind].itemsize
            raw = int.from_bytes(parameters[at : at + size], "little")
            number = signed(Immediate(raw), 8 * size)
            if abs(number) < POINTER:
                given[name] = number
        key = grid, block, tuple(given.items())
        if key not in self.known:
            if len(self.known) >= KEPT:
                self.known.clear()
            self.known[key] = _RangeFlow(self, grid, block, given).unproved()
        return self.known[key]


def indices(program: Program) -> Indices:
    """Return the chains of a program, computed once for all its launches."""
    known: Indices | None = program.indices
    if known is None:
        known = program.indices = Indices(program)
    return known


def _parameter(program: Program, one: Instruction) -> int | None:
    """Return the offset of the scalar parameter that an instruction loads, or None."""
    if one.opcode != "ld" or "param" not in one.modifiers or one.modifiers[-1] not in INTEGERS:
        return None
    target, where = one.operands
    if not isinstance(where, Address) or not isinstance(where.base, Symbol) or one.guard:
        return None
    offset = program.parameter_offsets.get(where.base.name)
    if offset is None or not isinstance(target, Register):
        return None
    return offset + where.offset + where.base.offset


class _RangeFlow:
    """Ranges of all integer registers, for each block of the entry function."""

    def __init__(self, indices: Indices, grid: Triple, block: Triple, given: dict[str, int]):
        self.arithmetic, self.program = indices.arithmetic, indices.program
        self.blocks = {one.index: one for one in self.program.entry_code.blocks}
        self.declared = self.arithmetic.declared
        self.widths = {
            name: 32 if kind in INT32 else 64
            for name, kind in self.declared.items()
            if kind in INTEGERS
        }
        self.given = given
        self.special: State = {"%laneid": (0, 31)}
        for axis, blocks, threads in zip("xyz", grid, block, strict=True):
            self.special |= {
                f"%tid.{axis}": (0, threads - 1),
                f"%ntid.{axis}": (threads, threads),
                f"%ctaid.{axis}": (0, blocks - 1),
                f"%nctaid.{axis}": (blocks, blocks),
            }
        self.bits = {id(one): 1 << at for at, one in enumerate(self.arithmetic.candidates)}
        self.found = 0

    def unproved(self) -> int:
        """Return the candidates that may be out of range at the fixed point."""
        first = self.program.entry_code.entry
        entry: dict[int, State] = {first: {}}
        visits: dict[int, int] = {}
        pending = {first}
        while pending:
            index = min(pending)
            pending.remove(index)
            visits[index] = visits.get(index, 0) + 1
            for after, state in self._run(self.blocks[index], dict(entry[index])):
                before = entry.get(after)
                made = state if before is None else _join(before, state, visits.get(after, 0))
                if made != before:
                    entry[after] = made
                    pending.add(after)
        self.found = 0
        for index, state in entry.items():
            for _ in self._run(self.blocks[index], dict(state)):
                pass
        return self.found

    def _run(self, block: BasicBlock, state: State) -> Iterator[tuple[int, State]]:
        """Yield the blocks that may come next, each with the ranges there."""
        facts = _Facts(self)
        for one in block.instructions:
            for name in writes(one):
                found = self._result(one, name, state)
                if one.guard is not None and found is not None:
                    before = state.get(name)
                    found = None if before is None else _union(found, before)
                if found is None:
                    state.pop(name, None)
                else:
                    state[name] = found
                facts.written(one, name)
        last = block.last
        if block.kind == "branch" and last is not None and last.guard is not None:
            predicate, negated = last.guard
            for after, holds in ((block.target, not negated), (block.index + 1, negated)):
                narrowed = dict(state)
                if facts.narrow(predicate.name, holds, narrowed):
                    yield after, narrowed
            return
        for after in successors(block):
            yield after, dict(state)

    # -- results -------------------------------------------------------------------------------

    def value(self, operand: Operand, kind: str, state: State) -> Range:
        bits = int(kind[1:])
        if isinstance(operand, Immediate):
            number = signed(operand, bits)
            return number, number
        if isinstance(operand, Register):
            known = state.get(operand.name) or self.special.get(operand.name)
            return known or ANY[self.widths.get(operand.name, bits)]
        return ANY[bits]

    def _result(self, one: Instruction, name: str, state: State) -> Range | None:
        """Return the range of an integer result, or None if nothing is known about it."""
        width = self.widths.get(name)
        found = None if width is None else self._computed(one, name, state)
        if (bit := self.bits.get(id(one), 0)) and (
            found is None or found[0] < LOW or found[1] > HIGH
        ):
            self.found |= bit
            return None
        if found is None or width is None:
            return None
        if one.opcode == "shr" and bit:  # the lower half, shifted back by less than 32
            assert isinstance(one.operands[2], Immediate)
            found = found[0] << 32 - one.operands[2].value, found[1] << 32 - one.operands[2].value
        low, high = ANY[width]
        return found if low <= found[0] and found[1] <= high and found != (low, high) else None

    def _computed(self, one: Instruction, name: str, state: State) -> Range | None:
        opcode, modifiers = one.opcode, one.modifiers
        kind = modifiers[-1] if modifiers else ""
        if _parameter(self.program, one) is not None:
            number = self.given.get(name)
            return None if number is None else (number, number)
        if opcode in ("ld", "ldu", "cvt") and kind in NARROW:
            return NARROW[kind]
        if kind not in INTEGERS or {"hi", "cc", "sat"} & set(modifiers):
            return None
        if opcode == "shr" and id(one) in self.bits:
            (given,) = self.arithmetic.through(one) or ()
            return self.value(given, "s64", state)
        values = [self.value(operand, kind, state) for operand in one.operands[1:]]
        if opcode == "cvt":
            if len(modifiers) != 2 or modifiers[0] not in INTEGERS:
                return None
            extends = kind == "u32" and modifiers[0] in INT64
            return _unsigned(values[0]) if extends else values[0]
        if "wide" in modifiers:
            if kind == "u32":
                values[:2] = map(_unsigned, values[:2])
            if opcode == "mad":
                values[2] = self.value(one.operands[3], "s64", state)
        if opcode in ("shr", "rem", "div", "and") and kind[0] != "s":
            values[:1] = [_unsigned(values[0], int(kind[1:]))]
        rule = RULES.get(opcode)
        return None if rule is None else rule(*values)


class _Facts:
    """Comparisons in one block whose operands have not changed since."""

    def __init__(self, flow: _RangeFlow):
        self.flow = flow
        self.known: dict[str, tuple[Any, ...]] = {}
        self.copies: dict[str, str] = {}

    def written(self, one: Instruction, name: str) -> None:
        """Discard facts about a register, and record those that ``one`` establishes."""
        self.known = {
            predicate: fact
            for predicate, fact in self.known.items()
            if predicate != name and name not in _names(fact)
        }
        self.copies = {to: of for to, of in self.copies.items() if name not in (to, of)}
        if one.guard is not None:
            return
        given = one.operands[1:]
        if one.opcode == "mov" and isinstance(given[0], Register):
            self.copies[name] = given[0].name
        elif one.opcode == "setp" and len(one.modifiers) == 2 and one.modifiers[1] in INTEGERS:
            how, kind = one.modifiers
            self.known[name] = (PLAIN.get(how, how), kind, *given)
        elif one.opcode in ("and", "or") and one.modifiers == ("pred",):
            parts = [self.known.get(part.name) for part in given if isinstance(part, Register)]
            if None not in parts:
                self.known[name] = (one.opcode, *parts)

    def narrow(self, name: str, holds: bool, state: State) -> bool:
        """Narrow the ranges for a true or false predicate; return False if that is impossible."""
        fact = self.known.get(name.removeprefix("!"))
        return fact is None or self._apply(fact, holds != name.startswith("!"), state)

    def _apply(self, fact: tuple[Any, ...], holds: bool, state: State) -> bool:
        how, *rest = fact
        if how in ("and", "or"):
            if holds != (how == "and"):
                return True
            return all(self._apply(part, holds, state) for part in rest)
        kind, one, other = rest
        how = how if holds else NEGATED[how]
        unsigned = kind[0] == "u" and how not in ("eq", "ne")
        if unsigned and how in ("gt", "ge"):
            one, other, how = other, one, FLIPPED[how]
        first, second = (self.flow.value(each, kind, state) for each in (one, other))
        if unsigned:
            if second[0] < 0:  # a large number as unsigned, so nothing is known
                return True
            first = max(0, first[0]), first[1]
        for operand, own, against, sense in (
            (one, first, second, how),
            (other, second, first, FLIPPED[how]),
        ):
            made = _narrowed(own, against, sense)
            if made[0] > made[1]:
                return False
            if isinstance(operand, Register) and operand.name in self.flow.widths:
                names = {operand.name, self.copies.get(operand.name, operand.name)}
                names |= {to for to, of in self.copies.items() if of == operand.name}
                state |= dict.fromkeys(names, made)
        return True


def _names(fact: tuple[Any, ...]) -> set[str]:
    """Return the registers that occur in a fact."""
    found: set[str] = set()
    for part in fact[1:]:
        if isinstance(part, Register):
            found.add(part.name)
        elif type(part) is tuple:
            found |= _names(part)
    return found


# -- ranges --------------------------------------------------------------------------------------


def _union(one: Range, other: Range) -> Range:
    return min(one[0], other[0]), max(one[1], other[1])


def _join(before: State, state: State, visits: int) -> State:
    """Return ranges that contain both states; after some visits, moving ends leap.

    They leap to the next end of a range that no longer moves, such as the length with which a
    loop's counter is compared.
    """
    made = {name: _union(before[name], state[name]) for name in before.keys() & state.keys()}
    if visits < PATIENT:
        return made
    moving = {name for name, each in made.items() if each != before[name]}
    if visits >= MOST:
        return {name: each for name, each in made.items() if name not in moving}
    ends = sorted({end for name, each in made.items() if name not in moving for end in each})
    for name in moving:
        low, high = made[name]
        if low < before[name][0]:
            low = max((end for end in ends if end <= low), default=LOW)
        if high > before[name][1]:
            high = min((end for end in ends if end >= high), default=HIGH)
        made[name] = low, high
    return made


def _narrowed(own: Range, other: Range, how: str) -> Range:
    low, high = own
    if how == "lt":
        high = min(high, other[1] - 1)
    elif how == "le":
        high = min(high, other[1])
    elif how == "gt":
        low = max(low, other[0] + 1)
    elif how == "ge":
        low = max(low, other[0])
    elif how == "eq":
        low, high = max(low, other[0]), min(high, other[1])
    elif other[0] == other[1]:
        low, high = low + (low == other[0]), high - (high == other[0])
    return low, high


def _unsigned(value: Range, bits: int = 32) -> Range:
    return value if value[0] >= 0 else (0, (1 << bits) - 1)


def _times(a: Range, b: Range) -> Range:
    products = [one * other for one in a for other in b]
    return min(products), max(products)


def _shl(a: Range, b: Range) -> Range | None:
    return (a[0] << b[0], a[1] << b[0]) if b[0] == b[1] and 0 <= b[0] < 64 else None


def _shr(a: Range, b: Range) -> Range | None:
    return (a[0] >> b[0], a[1] >> b[0]) if b[0] == b[1] and 0 <= b[0] < 64 else None


def _rem(a: Range, b: Range) -> Range | None:
    if b[0] < 1:
        return None
    return (0 if a[0] >= 0 else 1 - b[1]), min(max(a[1], 0), b[1] - 1)


def _and(a: Range, b: Range) -> Range | None:
    most = [each[1] for each in (a, b) if each[0] >= 0]
    return (0, min(most)) if most else None


def _or(a: Range, b: Range) -> Range | None:
    if a[0] < 0 or b[0] < 0:
        return None
    return max(a[0], b[0]), (1 << max(a[1], b[1]).bit_length()) - 1


# For data instructions with integer results: the range of the result from those of the operands.
RULES: dict[str, Callable[..., Range | None]] = {
    "mov": lambda a: a,
    "neg": lambda a: (-a[1], -a[0]),
    "not": lambda a: (-1 - a[1], -1 - a[0]),
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _times,
    "mad": lambda a, b, c: (_times(a, b)[0] + c[0], _times(a, b)[1] + c[1]),
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "selp": lambda a, b, _: _union(a, b),
    "shl": _shl,
    "shr": _shr,
    "rem": _rem,
    "div": lambda a, b: (0, a[1] // b[0]) if a[0] >= 0 and b[0] > 0 else None,
    "and": _and,
    "or": _or,
}
