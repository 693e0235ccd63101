"""Proof that no thread order can change the result of a kernel without races.

Threads of such a kernel learn of each other only through ordinary loads. If a thread stores to
memory or changes it by an atomic, no other thread loads it or stores to it before a barrier has
separated the two, because that would be a race (:mod:`.racecheck`). So each load gives the same
value in any order. By induction over the barriers, each thread does the same in every order, and
one launch without a race stands for all of them.

The proof holds only for instructions that are known to satisfy these assumptions (PTX ISA, "Memory
Consistency Model"). Any other instruction may depend on the order, so a kernel that contains one is
not accepted. The accepted instructions are:

- arithmetic, branches, calls of known functions, and reads of the special registers that identify
  the thread;
- weak loads and stores, in all memory except local memory;
- ``bar.sync 0`` of the whole block: the n-th one of a thread meets the n-th ones of the others.
  Barriers of some threads, votes and shuffles are not accepted, because the threads that take part
  may depend on the order;
- commutative integer atomics, of one kind and type in the whole kernel, whose result is not used.
  Their sum is the same in any order. Sums of floats are not accepted, because they are rounded.
"""

from __future__ import annotations

from virtualgpu.lanes.events import Observer
from virtualgpu.lanes.special import SPECIAL
from virtualgpu.program.program import Program
from virtualgpu.program.steps import registers_in
from virtualgpu.ptx import Immediate, Instruction, Symbol, Vector
from virtualgpu.ptx.opcodes import BARRIERS, FENCES, JUMPS, traits
from virtualgpu.watch.race_loop import MAXIMUM_THREAD

WHO = frozenset(f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz")
TELLING = frozenset(SPECIAL) - WHO - {"%laneid"}
STRONG = frozenset(["volatile", "relaxed", "acquire", "release", "mmio"])
COMMUTES = frozenset(["add", "min", "max", "and", "or", "xor"])
INTEGERS = frozenset(["u32", "s32", "b32", "u64", "s64", "b64"])
ANYWHERE = frozenset(["relaxed", "gpu", "sys", "global", "shared"])


class Orderless(Observer):
    """Observer that records in ``holds`` if every launch so far ran an orderless kernel."""

    def __init__(self) -> None:
        self.holds = True

    def launch_started(self, launch) -> None:
        # The race detector does not check larger launches.
        self.holds = (
            self.holds
            and launch.blocks * launch.threads <= MAXIMUM_THREAD
            and (_known(launch.program))
        )

    def has_found(self) -> bool:
        return False  # it needs no events


def _known(program: Program) -> bool:
    """Return the result of :func:`is_orderless`, computed once per program."""
    if program.orderless is None:
        program.orderless = is_orderless(program)
    return program.orderless


def is_orderless(program: Program) -> bool:
    """Return True if the thread order cannot change the result of ``program``.

    This holds for launches without a race, a barrier that some threads miss, or a read of
    unwritten memory.
    """
    atomics: set[tuple[str, ...]] = set()
    if any(
        variable.space == "local"
        for code in program.functions.values()
        for variable in code.function.variables.values()
    ):
        return False
    steps = [step for block in program.blocks for step in block.steps]
    if any(one.name in TELLING for step in steps for one in registers_in(step.sources)):
        return False
    read = {slot for step in steps for slot in step.reads} | {
        block.guard[0] for block in program.blocks if block.guard is not None
    }
    for step in steps:
        instruction = step.instruction
        if traits(instruction).counted == "atomic":
            if read.intersection(step.writes):
                return False
            atomics.add(tuple(m for m in instruction.modifiers if m not in ANYWHERE))
        elif not _silent(instruction, program):
            return False
    return not atomics or (len(atomics) == 1 and all(map(_commutes, atomics)))


def _commutes(kind: tuple[str, ...]) -> bool:
    return len(kind) == 2 and kind[0] in COMMUTES and kind[1] in INTEGERS


def _silent(instruction: Instruction, program: Program) -> bool:
    """Return True if the instruction shows a thread only the stores of others."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode in ("ld", "ldu", "st"):
        return not STRONG.intersection(modifiers) and "local" not in modifiers
    if opcode in BARRIERS:
        return (
            "sync" in modifiers
            and not {"warp", "red"}.intersection(modifiers)
            and (instruction.operands == (Immediate(0),))
        )
    if opcode == "call":
        target = next(o for o in instruction.operands if not isinstance(o, Vector))
        return isinstance(target, Symbol) and target.name in program.functions
    return traits(instruction).pure or opcode in JUMPS or opcode in FENCES
