"""Proof that no order of threads can change a kernel's result, if it does not race.

Threads of such a kernel learn of each other through ordinary loads alone. What a thread stores or
changes by an atomic, no other loads or stores before a barrier has come between the two: anything
else is a race (:mod:`.racecheck`). So each load gives the same in any order, by induction over the
barriers each thread does the same, and one launch without a race stands for all orders.

For that to be a proof, only what is known to keep to it counts (PTX ISA, "Memory Consistency
Model"); everything else may tell threads of an order, and is refused. What is known:

- arithmetic, branches, calls of functions that are there; of the special registers those that say
  which thread it is;
- loads and stores that are weak, in all memory but local;
- ``bar.sync 0`` of the whole block: the n-th one of a thread meets the n-th ones of the others.
  Barriers of some threads, votes and shuffles are not among it: who comes may be chance;
- atomics that commute, of one kind and type in the whole kernel, on integers, whose result is not
  looked at: the sum is the same, whatever comes first. Sums of floats are not, by their rounding.
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
    """Record of whether every launch so far was of an orderless kernel: ``holds``."""

    def __init__(self) -> None:
        self.holds = True

    def launch_started(self, launch) -> None:
        # Races are not looked for in larger launches.
        self.holds = (
            self.holds
            and launch.blocks * launch.threads <= MAXIMUM_THREAD
            and (_known(launch.program))
        )

    def has_found(self) -> bool:
        return False  # it needs no events


def _known(program: Program) -> bool:
    """Look up :func:`is_orderless` once for all launches of a program."""
    if program.orderless is None:
        program.orderless = is_orderless(program)
    return program.orderless


def is_orderless(program: Program) -> bool:
    """Return True if the order of threads cannot change the result of ``program``.

    That holds for a launch in which no race, no barrier that some threads miss and no read of
    unwritten memory is found.
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
    """Return True if it tells a thread nothing of others but their stores."""
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
