"""Static analysis of registers whose values may have a constant stride across the lanes.

A register is *affine* if the lanes of each row of a warp hold ``start``, ``start + stride``,
``start + 2 stride`` and so on. Thread indices are affine, as are values computed from them, and
uniform values (stride 0). This is the affine part of Sampaio et al., "Divergence Analysis", TOPLAS
2013. If a register is affine at a given moment is only known when the kernel runs, because a sum
may wrap, an index may be negative, or lanes may have diverged. A row is the warp, or eight lanes
in a kernel that reads ``tid.y``, whose blocks may be 8 or 16 threads wide.
"""

from __future__ import annotations

from virtualgpu.native.affine.uniformity import SPECIALS
from virtualgpu.native.context import LANES, ROW
from virtualgpu.native.flow.control_flow import Place
from virtualgpu.operations.types import UNSIGNED
from virtualgpu.program.program import Program
from virtualgpu.program.steps import Data, MemoryAccess, Move, Step
from virtualgpu.ptx import Immediate, Register, Symbol
from virtualgpu.ptx.module import Operand

THREAD = {"%tid.x": 1, "%tid.y": 0, "%tid.z": 0}
# By name, because pairs of halves and bfloat16 are stored in registers as integers.
INTEGERS = {f"{sign}{bits}" for sign in "bsu" for bits in (8, 16, 32, 64)} | {"pred"}
SMALL = 1 << 20  # with such a stride, a row spans less than half of the range of 32 bits


def row_length(steps: list[list[Step]]) -> int:
    """Return the number of lanes in a row (see the module)."""
    several = any(
        isinstance(source, Register) and source.name in ("%tid.y", "%tid.z")
        for some in steps
        for step in some
        for source in step.sources
    )
    return ROW if several else LANES


def rule(step: Step, strides: list[int]) -> tuple[int, str] | None:
    """Return the stride of a step's result from the strides of its operands.

    It also returns the condition on the first operand, if there is one:

    - ``extends``: no row of it wraps,
    - ``sign``: all its values have the same sign,
    - ``yes`` or ``no``: all rows choose the same side.

    Returns None if nothing is known.
    """
    name = step.instruction.opcode
    if isinstance(step, Data):
        sources = (*step.operation.sources, *step.operation.destinations)
        if (
            step.operation.carry_in
            or step.operation.carry_out
            or any(dtype.kind not in "iub" for dtype in sources)
        ):
            return None
    elif (
        not (name == "cvta" or isinstance(step, Move))
        or len(step.sources) != 1
        or (len(step.targets) != 1)
    ):
        return None
    if not any(strides):
        return 0, ""
    if not isinstance(step, Data):
        return strides[0], ""
    modifiers, last = step.instruction.modifiers, step.sources[-1]
    narrow, wide = step.operation.sources[0].itemsize, step.operation.destinations[0].itemsize
    number = last.value if isinstance(last, Immediate) else None
    types = modifiers[-2:] if name == "cvt" else modifiers[-1:]
    if "sat" in modifiers or not INTEGERS.issuperset(types):
        return None
    if name in ("add", "sub"):
        return strides[0] + (strides[1] if name == "add" else -strides[1]), ""
    small = abs(strides[0]) < SMALL
    if name in ("mul", "mad") and "hi" not in modifiers:
        factor, plus = step.sources[1], strides[2] if name == "mad" else 0
        if not strides[0] and not strides[1]:
            return plus, ""
        if isinstance(factor, Immediate) and 0 <= factor.value < SMALL and small:
            return strides[0] * factor.value + plus, "extends" if wide > narrow else ""
    elif name == "cvt" and (small or wide <= narrow):
        return strides[0], "extends" if wide > narrow else ""
    elif name == "shl" and number is not None and 0 <= number < 8 * wide:
        return strides[0] << number, ""
    elif small and name == "shr" and number == 8 * wide - 1:
        return 0, "sign"
    elif (
        small
        and name == "and"
        and number is not None
        and (number & ((1 << 8 * wide) - 1) == 1 << 8 * wide - 1)
    ):
        return 0, "sign"
    elif name == "selp" and not strides[2]:
        return (strides[0], "yes") if strides[0] else (strides[1], "no")
    elif name in ("neg", "not"):
        return -strides[0], ""
    return None


class AffineAnalysis:
    """Result of the affine analysis of a kernel, before it runs.

    Attributes
    ----------
    row_length : int
        Lanes of a row.
    strides : dict
        Of the registers that lanes have for themselves and on which addresses depend.
    """

    def __init__(
        self, program: Program, varying: set[int], places: list[Place], steps: list[list[Step]]
    ):
        self.program, self.varying, self.row_length = program, varying, row_length(steps)
        self.places, self.steps = places, steps
        self.strides: dict[int, int] = {}
        self._solve()

    def _solve(self) -> None:
        defined: dict[int, list[tuple[Place, Step]]] = {}
        todo: list[tuple[Place, Operand]] = []
        for place in self.places:
            for step in self.steps[place.index]:
                if isinstance(step, MemoryAccess) and step.site.kind in ("load", "store"):
                    todo.append((place, step.sources[0]))
                for slot in step.writes:
                    defined.setdefault(slot, []).append((place, step))
        wanted: set[int] = set()
        while todo:
            found_in, operand = todo.pop()
            base = self.slot(found_in, operand)
            if base is None or base in wanted or base not in self.varying:
                continue
            wanted.add(base)
            todo += [
                (where, source)
                for where, step in defined.get(base, ())
                if isinstance(step, Data | Move) or step.instruction.opcode == "cvta"
                for source in step.sources
            ]
        changed = True
        bad: set[int] = set()
        opaque: set[int] = set()  # nothing is known about the result, as for a division
        while changed:
            changed = False
            for slot in sorted(wanted - bad):
                for place, step in defined.get(slot, ()):
                    strides = [self.stride(place, source) for source in step.sources]
                    known = [stride for stride in strides if stride is not None]
                    whole = len(known) == len(strides) and (
                        isinstance(step, Data | Move) or step.instruction.opcode == "cvta"
                    )
                    found = self.rule(step, known) if whole else None
                    before = self.strides.get(slot)
                    if whole and found is None:
                        opaque.add(slot)
                    if found is None or found[0] == before or (before and not found[0]):
                        continue
                    changed = True
                    if before:  # two strides, neither of which is 0
                        bad.add(slot)
                        del self.strides[slot]
                        break
                    self.strides[slot] = found[0]
            if not changed:
                # A value about which nothing is known may still be uniform, so that is checked at
                # run time.
                for slot in wanted & opaque - bad - self.strides.keys():
                    self.strides[slot], changed = 0, True

    def rule(self, step: Step, strides: list[int]) -> tuple[int, str] | None:
        """Apply :func:`rule` to results that are as wide as their register."""
        dtype = (
            step.operation.destinations[0]
            if isinstance(step, Data)
            else (step.dtype if isinstance(step, Move) else UNSIGNED[8])
        )
        size = self.program.dtypes[step.writes[0]].itemsize
        return rule(step, strides) if len(step.writes) == 1 and dtype.itemsize == size else None

    def slot(self, place: Place, operand: Operand) -> int | None:
        if not isinstance(operand, Register):
            return None
        return place.block.function.slots.get(operand.name.removeprefix("!"))

    def stride(self, place: Place, operand: Operand) -> int | None:
        slot = self.slot(place, operand)
        if slot is not None:
            return self.strides.get(slot) if slot in self.varying else 0
        if isinstance(operand, Immediate | Symbol):
            return 0
        name = operand.name if isinstance(operand, Register) else ""
        return 1 if name == "%laneid" else THREAD.get(name, 0 if name in SPECIALS else None)

    def to_look(self, steps: list[Step], slots: set[int]) -> set[int]:
        """Return the registers that may be affine although no rule proves it."""
        last = {slot: step for step in steps for slot in step.writes}
        return {
            slot
            for slot in slots & self.strides.keys()
            if self.strides[slot] == 0
            and isinstance(last[slot], Data | Move)
            and self.program.dtypes[slot].kind in "iu"
        }
