"""Chains of integer arithmetic that end in an address or in the condition of a branch.

A 32-bit addition, multiplication or shift that wraps does no harm by itself: hashes and random
numbers are computed in this way. It is a fault if the wrapped number becomes part of an address, or
decides a comparison that guards one. So instructions are followed backwards from the addresses of
global memory and from the predicates of branches and guarded instructions, through plain arithmetic
only. Mixing ends a chain: ``xor``, masks, remainders, right shifts, high halves of products, loads.

Compilers use wrapping on purpose in some code, which is recognised here:

- a remainder by a constant is ``x - x / c * c``;
- a constant may have lost its upper bits, where a later shift drops them: ``(n + 0x3fffffff) << 2``
  for ``(n - 1) << 2``;
- a counter that only has to reach a number is compared with ``==``, whatever it counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from virtualgpu.program.loops import cycles
from virtualgpu.program.program import Program
from virtualgpu.program.speculation import writes
from virtualgpu.ptx import Address, Immediate, Instruction, Register, Symbol
from virtualgpu.ptx.module import Operand

INT32 = frozenset(["u32", "s32", "b32"])
INT64 = frozenset(["u64", "s64", "b64"])
INTEGERS = INT32 | INT64
LOGIC = frozenset(["and", "or", "xor", "not", "mov"])  # logic on predicates
SMALL = 1 << 16  # a literal below this is a length, a width or an offset
DIMENSIONS = 3  # more products by the same number than an index has
STEPS = 8  # steps from a quotient back to its dividend


class IndexArithmetic:
    """Chains in the entry function of one program.

    Attributes
    ----------
    candidates : list of Instruction
        Instructions of a chain that may wrap.
    marks : dict
        For each register name, a bit for each candidate that is part of its value.
    sinks : list of (Instruction, Register)
        Instructions that use the end of a chain as their address or guard.
    registers : set of str
        Registers of all chains, including their first operands.
    """

    def __init__(self, program: Program):
        function = program.entry_code.function
        self.declared = function.registers
        self.body = function.body
        self.makers: dict[str, list[Instruction]] = {}
        self.users: dict[str, list[Instruction]] = {}
        for one in self.body:
            for name in writes(one):
                self.makers.setdefault(name, []).append(one)
            for name in _names(one.operands[1:]):
                self.users.setdefault(name, []).append(one)
        self.long_parameters = {
            variable.name
            for variable in function.parameters
            if variable.element in INT64 and not variable.is_array
        }
        self._through: dict[int, tuple[Operand, ...] | None] = {}
        self.sinks = [
            (one, register)
            for one in self.body
            for register in _ends(one)
            if self.declared.get(register.name) in (*INT64, "pred")
        ]
        self.registers: set[str] = set()
        part = {id(one) for one in self._chain(register.name for _, register in self.sinks)}
        chain = [one for one in self.body if id(one) in part]  # in this order, one pass sets marks
        self.candidates = [one for one in chain if self._may_wrap(one)]
        self.marks = self._marks(chain)
        self.sinks = [one for one in self.sinks if self.marks.get(one[1].name)]

    def of(self, bits: int) -> list[Instruction]:
        """Return the candidates in a mark, in program order."""
        return [one for number, one in enumerate(self.candidates) if bits >> number & 1]

    def through(self, one: Instruction) -> tuple[Operand, ...] | None:
        """Return the operands of a result of plain arithmetic, or None for other instructions."""
        if id(one) not in self._through:
            self._through[id(one)] = self._operands(one)
        return self._through[id(one)]

    def _operands(self, one: Instruction) -> tuple[Operand, ...] | None:
        opcode, modifiers, given = one.opcode, one.modifiers, one.operands[1:]
        kind = modifiers[-1] if modifiers else ""
        if self.is_half(one):
            return ()
        if one.second is not None or {"cc", "sat"} & set(modifiers):
            return None
        if not all(isinstance(operand, Register | Immediate) for operand in given):
            return None
        if any(
            isinstance(operand, Register) and operand.name.removeprefix("!") not in self.declared
            for operand in given
        ):
            return None  # a special register
        if kind == "pred":
            return given if opcode in LOGIC else None
        if opcode == "setp" and len(modifiers) == 2 and kind in INTEGERS:
            return None if any(self._is_mixed(operand) for operand in given) else given
        if kind not in INTEGERS:
            return None
        found = {
            "add": given,
            "sub": given,
            "neg": given,
            "not": given,
            "mov": given,
            "selp": given[:2],
            "shl": given[:1],
            "mul": given if {"lo", "wide"} & set(modifiers) else None,
            "mad": given if {"lo", "wide"} & set(modifiers) else None,
            "min": given if kind[0] == "s" else None,
            "max": given if kind[0] == "s" else None,
            "and": given if any(one < 0 for one in literals(given, kind)) else None,
            "or": given if any(0 < one < SMALL for one in literals(given, kind)) else None,
            "cvt": given if self._keeps_number(one) else None,
            "cvta": given if "global" in modifiers else None,
            "shr": self._shifted_back(one),
        }.get(opcode)
        if found is None or (opcode in ("add", "sub", "mad") and self._is_on_purpose(one, kind)):
            return None
        return found

    def is_half(self, one: Instruction) -> bool:
        """Return True for a load of the lower half of a 64-bit parameter, such as ``(int)n``."""
        if one.opcode != "ld" or "param" not in one.modifiers or one.modifiers[-1] not in INT32:
            return False
        where = one.operands[1]
        if not isinstance(where, Address) or not isinstance(where.base, Symbol):
            return False
        at = where.offset + where.base.offset
        return one.guard is None and not at and where.base.name in self.long_parameters

    def _keeps_number(self, one: Instruction) -> bool:
        """Return True for an integer conversion that is not a mask to the lower half of 64 bits."""
        if len(one.modifiers) != 2 or one.modifiers[0] not in INTEGERS:
            return False
        given = one.operands[1]
        wide = isinstance(given, Register) and self.declared.get(given.name) in INT64
        return not (wide and one.modifiers[1] == "u32" and one.modifiers[0] in INT64)

    def _shifted_back(self, one: Instruction) -> tuple[Operand, ...] | None:
        """Return the operand of ``x << 32 >> k``, with which LLVM sign-extends the lower half."""
        if one.modifiers != ("s64",) or not isinstance(one.operands[1], Register):
            return None
        makers = self.makers.get(one.operands[1].name, [])
        if [maker.name for maker in makers] != ["shl.b64"]:
            return None
        if makers[0].operands[2] != Immediate(32) or not isinstance(one.operands[2], Immediate):
            return None
        return makers[0].operands[1:2] if one.operands[2].value <= 32 else None

    # -- wrapping that is meant ----------------------------------------------------------------

    def _is_on_purpose(self, one: Instruction, kind: str) -> bool:
        if kind in INT32 and any(map(_has_lost_bits, literals(one.operands[-1:], kind))):
            return True
        given = one.operands[1:]
        pairs = {
            "add": [(given[0], given[1:]), (given[1], given[:1])],
            "sub": [(given[0], given[1:])],
            "mad": [(given[-1], given[:2])],
        }[one.opcode]
        return any(self._is_remainder(whole, part) for whole, part in pairs)

    def _is_remainder(self, whole: Operand, parts: tuple[Operand, ...]) -> bool:
        """Return True if ``parts`` are computed from a quotient of ``whole``."""
        if not isinstance(whole, Register):
            return False
        roots = {whole.name, self._root(whole.name)}
        pending = [(name, STEPS, False) for name in _names(parts)]
        while pending:
            name, left, divided = pending.pop()
            if divided and roots & {name, self._root(name)}:
                return True
            makers = self.makers.get(name, [])
            if not left or len(makers) != 1:
                continue
            maker = makers[0]
            if maker.opcode not in (
                "mul", "mad", "shr", "shl", "sub", "add", "cvt", "mov", "neg", "div", "and"
            ):  # fmt: skip
                continue
            now = divided or maker.opcode in ("shr", "div", "and") or "hi" in maker.modifiers
            pending += [(made_of, left - 1, now) for made_of in _names(maker.operands[1:])]
        return False

    def _root(self, name: str) -> str:
        """Return the register from which a copy or a conversion was made."""
        for _ in range(STEPS):
            makers = self.makers.get(name, [])
            if len(makers) != 1 or makers[0].opcode not in ("mov", "cvt"):
                break
            names = list(_names(makers[0].operands[1:]))
            if len(names) != 1:
                break
            name = names[0]
        return name

    def _is_mixed(self, operand: Operand) -> bool:
        """Return True if a compared number is a hash or a random number.

        Such a number is multiplied by a large odd literal, often several times by the same one, or
        a loop multiplies it and adds to it.
        """
        if not isinstance(operand, Register) or self.declared.get(operand.name) == "pred":
            return False
        chain = list(self._chain([operand.name], keep=False))
        factors = Counter(
            factor
            for one in chain
            if one.opcode in ("mul", "mad")
            for factor in literals(one.operands[1:3])
            if abs(factor) & (abs(factor) - 1)
        )
        if any(map(_is_magic, factors)) or max(factors.values(), default=0) > DIMENSIONS:
            return True
        onward: dict[str, set[str]] = {}
        for one in chain:
            for name in writes(one):
                onward.setdefault(name, set()).update(_names(self.through(one) or ()))
        nodes = {name: {other for other in to if other in onward} for name, to in onward.items()}
        return any(self._mixes(part) for part in cycles(nodes))

    def _mixes(self, part: set[str]) -> bool:
        grown = added = False
        for name in part:
            for one in self.makers[name]:
                given = self.through(one) or ()
                inside = set(_names(given)) & part
                if not inside:
                    continue
                grown |= one.opcode in ("mul", "mad", "shl")
                added |= one.opcode == "mad" or (
                    one.opcode in ("add", "sub") and len(set(given)) > 1
                )
                if one.opcode in ("add", "sub") and (
                    len(inside) > 1 or any(map(_is_magic, literals(given)))
                ):
                    return True
        return grown and added

    # -- chains --------------------------------------------------------------------------------

    def _chain(self, names: Iterable[str], keep: bool = True) -> Iterator[Instruction]:
        """Yield the instructions that compute registers by plain arithmetic, each once."""
        pending, seen, known = list(names), set(self.registers) if keep else set(), set()
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            for one in self.makers.get(name, []):
                given = self.through(one)
                if given is not None and id(one) not in known:
                    known.add(id(one))
                    pending += _names(given)
                    yield one
        if keep:
            self.registers = seen

    def _may_wrap(self, one: Instruction) -> bool:
        if is_cut(one, self.declared) or self.is_half(one):
            return True
        if not one.modifiers or one.modifiers[-1] not in INT32 or "wide" in one.modifiers:
            return False
        if one.opcode in ("add", "sub"):
            return not self._only_counts(one)
        return one.opcode in ("mul", "mad", "shl", "neg")

    def _only_counts(self, one: Instruction) -> bool:
        """Return True for a counter that a loop compares by ``==`` with its end."""
        target, first, second = one.operands
        if target != first or not isinstance(second, Immediate):
            return False
        assert isinstance(target, Register)
        compared = [user for user in self.users.get(target.name, []) if user.opcode == "setp"]
        return bool(compared) and all(user.modifiers[0] in ("eq", "ne") for user in compared)

    def _marks(self, chain: list[Instruction]) -> dict[str, int]:
        number = {id(one): 1 << place for place, one in enumerate(self.candidates)}
        marks: dict[str, int] = {}
        again = True
        while again:
            again = False
            for one in chain:
                bits = number.get(id(one), 0)
                for name in _names(self.through(one) or ()):
                    bits |= marks.get(name, 0)
                for name in writes(one):
                    if bits & ~marks.get(name, 0):
                        marks[name] = marks.get(name, 0) | bits
                        again = True
        return marks


def is_cut(one: Instruction, declared: dict[str, str]) -> bool:
    """Return True if an instruction keeps the lower half of 64 bits as a separate number."""
    if one.opcode == "shr":
        return True  # the end of `x << 32 >> k`, or not part of a chain
    if one.opcode != "cvt" or len(one.modifiers) != 2 or not isinstance(one.operands[1], Register):
        return False
    wide = declared.get(one.operands[1].name) in INT64
    return wide and (one.modifiers[0] in INT32 or one.modifiers[1] in INT32)


def signed(operand: Immediate, bits: int = 32) -> int:
    """Return a literal as a signed number."""
    half = 1 << (bits - 1)
    return (operand.value + half) % (2 * half) - half


def literals(operands: Iterable[Operand], kind: str = "s32") -> list[int]:
    """Return the literals among operands of a type, as signed numbers."""
    bits = int(kind[1:])
    return [signed(operand, bits) for operand in operands if isinstance(operand, Immediate)]


def _ends(one: Instruction) -> Iterator[Register]:
    """Yield the registers in which a chain ends: an address and a guard."""
    if one.guard is not None:
        yield one.guard[0]
    if one.opcode not in ("ld", "ldu", "st", "atom", "red"):
        return
    if {"shared", "local", "param", "const"} & {word.split(":")[0] for word in one.modifiers}:
        return
    for operand in one.operands[:2]:
        if isinstance(operand, Address) and isinstance(operand.base, Register):
            yield operand.base
            return


def _names(operands: Iterable[Operand]) -> Iterator[str]:
    for operand in operands:
        if isinstance(operand, Register):
            yield operand.name.removeprefix("!")


def _has_lost_bits(value: int) -> bool:
    """Return True for a number just below a large power of two."""
    return value > 1 << 24 and (1 << value.bit_length()) - value <= SMALL


def _is_magic(value: int) -> bool:
    return abs(value) >= SMALL and bool(abs(value) & (abs(value) - 1))
