"""Checker for 32-bit indices that wrapped before they formed an address or decided a branch.

The product ``row * pitch`` of two ints is an int, so from 2**31 on its value wraps, and a GPU does
not report it. The kernel also computes such indices exactly
(:mod:`virtualgpu.program.exact_indices`), unless its grid, block and parameters show that none can
wrap (:mod:`virtualgpu.program.index_ranges`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from virtualgpu import sources
from virtualgpu.lanes.events import Listeners, Observer
from virtualgpu.languages import language_of, triton_files
from virtualgpu.program.comparison import Comparison, Suspect
from virtualgpu.ptx import Immediate
from virtualgpu.watch.checking import Checker, at_line

HALF = 1 << 31
# Of each opcode, the sign of the operation and the name of its result.
WORDS = {
    "add": ("+", "sum"),
    "sub": ("-", "difference"),
    "mul": ("*", "product"),
    "mad": ("*", "product"),
    "shl": ("<<", "shift"),
}


class Overflowcheck(Checker):
    """Checker that adds them to a report, one finding for each instruction that wraps."""

    follows_indices = True

    def wrapped(
        self, group, comparison: Comparison, differ: np.ndarray, values: Sequence[np.ndarray]
    ) -> None:
        count = len(group.lanes)
        places = np.flatnonzero(np.broadcast_to(differ, (count,)))
        place = int(places[0])
        numbers = [int(each[place if len(each) > 1 else 0]) for each in values]
        suspect = origin(comparison, numbers)
        instruction = suspect.instruction
        key = (instruction.source or id(instruction), instruction.opcode)
        if self.again(key, len(places)):
            return
        use = comparison.user.source
        # The line of a parameter's load is the compiler's choice.
        source = use if instruction.opcode == "ld" else instruction.source or use
        at = self.location(group.wave, source, int(group.lanes[place]))
        who = f"thread {at.thread} of block {at.block}"
        if at.filename in triton_files:  # its threads are assigned by the compiler
            who = f"program {at.block}"
        wide = language_of(source).wide.format("i")
        formula, sign, noun = computed(suspect, numbers, sources.text(at.filename, at.line))
        did = f"computes {formula}" if formula else "cuts an index to 32 bits"
        exact = numbers[suspect.result]
        result = (exact + HALF) % (2 * HALF) - HALF
        where = f" at line {use[1]}" if use is not None and use != source else ""
        outcome = "is part of an address" if comparison.is_address else "decides a condition"
        self.add(
            key,
            f"overflow: {who} {did}{at_line(at)}. That is {exact:,}, which 32 bits cannot "
            f"hold. It becomes {result:,}, which {outcome}{where}",
            at,
            None,
            len(places),
            f"make one operand 64-bit before the {noun}: {wide} {sign} n"
            if noun
            else f"keep it in 64 bits: {wide}",
        )


def origin(comparison: Comparison, numbers: list[int]) -> Suspect:
    """Return the first instruction that wrapped: its operands are in range, its result is not."""

    def is_out(suspect: Suspect) -> bool:
        return abs(2 * numbers[suspect.result] + 1) > 2 * HALF

    out = [one for one in comparison.suspects if is_out(one)]
    for one in out:
        if all(-HALF <= number < 2 * HALF for number in operands(one, numbers)):
            return one
    return (out or comparison.suspects)[0]


def operands(suspect: Suspect, numbers: list[int]) -> list[int]:
    """Return the operands that an instruction had.

    A loop counter has changed since then: after ``i += step``, ``i`` holds the sum.
    """
    given = [one.value if isinstance(one, Immediate) else numbers[one] for one in suspect.operands]
    if suspect.result in suspect.operands[:1]:
        before = _before(suspect.instruction.opcode, numbers[suspect.result], given[1:])
        given[0] = given[0] if before is None else before
    return given


def _before(opcode: str, result: int, others: list[int]) -> int | None:
    """Return the first operand, computed back from the result and the other operands."""
    if len(others) != 1:
        return None
    (other,) = others
    if opcode == "add":
        return result - other
    if opcode == "sub":
        return result + other
    if opcode == "shl":
        return result >> other
    return result // other if opcode == "mul" and other else None


def computed(suspect: Suspect, numbers: list[int], line: str) -> tuple[str, str, str]:
    """Return a computed value, its sign and its name; empty if they are not known.

    Compilers use a shift for some multiplications.
    """
    given = operands(suspect, numbers)
    opcode = suspect.instruction.opcode
    if opcode == "shl" and "<<" not in line:
        opcode, given[1] = "mul", 1 << given[1]
    sign, noun = WORDS.get(opcode, ("", ""))
    if not sign or len(given) < 2:
        return "", "", ""
    more = f" + {given[2]:,}" if given[2:] and given[2] else ""
    return f"{given[0]:,} {sign} {given[1]:,}{more}", sign, noun


def follows_indices(observers: Sequence[Observer]) -> bool:
    """Return True if a launch's exact indices are computed.

    They are not if an observer counts or lists instructions, because only those of the program
    count.
    """
    if not any(observer.follows_indices for observer in observers):
        return False
    return not Listeners.of(list(observers)).executed
