"""Comparisons of an index, or a value from it, with the exact one (:mod:`.exact_indices`)."""

from __future__ import annotations

from dataclasses import dataclass

from virtualgpu.ptx import Immediate, Instruction, Register

OPCODE = "%exact"  # no PTX has it: the parser takes no such word


@dataclass(frozen=True, slots=True)
class Suspect:
    """An instruction that may have wrapped, and where ``%exact`` has its exact numbers.

    ``operands`` are places among the values, or literals.
    """

    instruction: Instruction
    operands: tuple[int | Immediate, ...]
    result: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The two registers that one ``%exact`` compares, and the instructions that can part them.

    Attributes
    ----------
    user : Instruction
        The access or the branch.
    is_address : bool
        Whether they are its address; else they are its guard.
    where : tuple of Register and bool, or None
        The access's own guard, and whether it is negated.
    values : tuple of Register
        The numbers of ``suspects``.
    """

    user: Instruction
    is_address: bool
    wrapped: Register
    exact: Register
    where: tuple[Register, bool] | None
    values: tuple[Register, ...]
    suspects: tuple[Suspect, ...]
