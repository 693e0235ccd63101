"""Short branches without parting: what compilers call if-conversion.

    @%p bra Skip;
    (a few data instructions)
  Skip:

Parting a group and joining it again costs more than the few instructions. Where no observer watches
the launch, all lanes compute them, and the lanes that jumped keep the registers they had. What a
kernel computes is the same to the bit; observers see every branch, because nothing is converted
under them. (Measured on float32 sine, two such branches: 0.6 of the time.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from virtualgpu import operations
from virtualgpu.machine.group import Group
from virtualgpu.machine.program import Block, Program
from virtualgpu.machine.special import SPECIAL
from virtualgpu.operations import compiler
from virtualgpu.operations.expression import select
from virtualgpu.operations.types import UNSIGNED
from virtualgpu.ptx import Immediate, Instruction, Register

LONGEST = 16  # instructions that may be worth computing for nothing
CHEAP = 4  # ... and that are, even if few lanes need them
WORTH = 4  # longer ones: where at least one lane in this many needs them


def skipped_block(program: Program, block: Block) -> Block | None:
    """The block that a branch jumps over, if every lane may run it without harm."""
    if block.kind != "branch" or block.target != block.index + 2:
        return None
    skipped = program.blocks[block.index + 1]
    if skipped.kind != "next" or skipped.guard is not None or skipped.warp_mask is not None:
        return None
    if len(skipped.instructions) > LONGEST or not all(map(_is_harmless, skipped.instructions)):
        return None
    return skipped


def _is_harmless(instruction: Instruction) -> bool:
    """Whether an instruction does nothing but give registers a value that depends on registers."""
    opcode = instruction.opcode
    if opcode != "mov" and opcode not in operations.opcodes():
        return False
    if "cc" in instruction.modifiers or opcode in ("addc", "subc", "madc"):
        return False  # the carry flag is a register that no operand names
    return all(
        isinstance(operand, Immediate)
        or (isinstance(operand, Register) and operand.name not in SPECIAL)
        for operand in instruction.operands)


def run_for_all(group: Group, skipped: Block, jumps: np.ndarray) -> None:
    """Take the group past ``skipped``; lanes in ``jumps``, shape (n,), keep their registers."""
    before = group.registers
    skipped.run(group)
    after = group.registers
    program = group.wave.launch.program
    kept = {}
    for slot in skipped.writes & program.blocks[skipped.index + 1].live_in:
        old = before.get(slot)
        if old is None:
            old = np.zeros(1, program.dtypes[slot])
        kept[slot] = _choose(program.dtypes[slot])(jumps, old, after.get(slot))
    group.registers = after.updated(kept)
    group.block = skipped.index + 1


@cache
def _choose(dtype: np.dtype) -> Callable[..., np.ndarray]:
    """``np.where`` as a compiled loop: without a branch, it takes a tenth of the time."""
    kind = "pred" if dtype.kind == "b" else f"u{8 * dtype.itemsize}"
    plain = np.dtype(bool) if dtype.kind == "b" else UNSIGNED[dtype.itemsize]
    loop = compiler.ufunc(
        f"choose {plain}", select, ["pred", kind, kind], [kind],
        [np.dtype(bool), plain, plain, plain])
    return lambda condition, a, b: loop(condition, a.view(plain), b.view(plain)).view(dtype)


def is_worth(skipped: Block, needed: int, count: int) -> bool:
    """Whether ``needed`` of ``count`` lanes are enough to compute the block for all."""
    return len(skipped.instructions) <= CHEAP or needed * WORTH >= count
