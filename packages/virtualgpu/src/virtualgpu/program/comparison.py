"""Comparisons of an index, or a value from it, with the exact value (:mod:`.exact_indices`)."""

from __future__ import annotations

from dataclasses import dataclass

from virtualgpu.ptx import Immediate, Instruction, Register

OPCODE = "%exact"  # not a PTX opcode: the parser accepts no such word


@dataclass(frozen=True, slots=True)
class Suspect:
    """Instruction that may have wrapped, and the positions of its exact numbers.

    ``operands`` are positions among the values of ``%exact``, or literals.
    """

    instruction: Instruction
    operands: tuple[int | Immediate, ...]
    result: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two registers that one ``%exact`` compares, and the instructions that make them differ.

    Attributes
    ----------
    user : Instruction
        The access or branch that uses the value.
    is_address : bool
        True if the registers are its address, False if they are its guard.
    where : tuple of Register and bool, or None
        The guard of the access, and True if it is negated.
    values : tuple of Register
        Registers with the numbers of ``suspects``.
    """

    user: Instruction
    is_address: bool
    wrapped: Register
    exact: Register
    where: tuple[Register, bool] | None
    values: tuple[Register, ...]
    suspects: tuple[Suspect, ...]
