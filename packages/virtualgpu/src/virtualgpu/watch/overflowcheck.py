"""32-bit indices that wrapped, where they became part of an address or decided a branch.

``row * pitch`` of two ints is an int: from 2**31 on it is another number, and no GPU says so. The
kernel computes such indices exactly as well (:mod:`virtualgpu.program.exact_indices`), unless its
grid, its block and its parameters show that none can wrap (:mod:`.index_ranges` there).
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
# Of an opcode, its sign and what its result is called.
WORDS = {
    "add": ("+", "sum"),
    "sub": ("-", "difference"),
    "mul": ("*", "product"),
    "mad": ("*", "product"),
    "shl": ("<<", "shift"),
}


class Overflowcheck(Checker):
    """Adds them to a report, one finding for each instruction that wraps."""

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
        # A parameter is loaded where the compiler likes.
        source = use if instruction.opcode == "ld" else instruction.source or use
        at = self.location(group.wave, source, int(group.lanes[place]))
        who = f"thread {at.thread} of block {at.block}"
        if at.filename in triton_files:  # whose threads are the compiler's
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
    """Return the instruction that wrapped first: its operands are in range, its result is not."""

    def is_out(suspect: Suspect) -> bool:
        return abs(2 * numbers[suspect.result] + 1) > 2 * HALF

    out = [one for one in comparison.suspects if is_out(one)]
    for one in out:
        if all(-HALF <= number < 2 * HALF for number in operands(one, numbers)):
            return one
    return (out or comparison.suspects)[0]


def operands(suspect: Suspect, numbers: list[int]) -> list[int]:
    """Return the numbers that an instruction was given.

    A counter has changed since: ``i += step`` has the sum in ``i``.
    """
    given = [one.value if isinstance(one, Immediate) else numbers[one] for one in suspect.operands]
    if suspect.result in suspect.operands[:1]:
        before = _before(suspect.instruction.opcode, numbers[suspect.result], given[1:])
        given[0] = given[0] if before is None else before
    return given


def _before(opcode: str, result: int, others: list[int]) -> int | None:
    """Return the first operand of which a result was made, with the other ones."""
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

    Compilers shift where a line multiplies.
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
    """Return True if a launch's indices are followed.

    They are not where an observer counts instructions, or lists them: those of the program alone
    count.
    """
    if not any(observer.follows_indices for observer in observers):
        return False
    return not Listeners.of(list(observers)).executed
