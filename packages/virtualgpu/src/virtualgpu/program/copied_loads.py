"""Loaded bytes that are only copied elsewhere and never used in a computation.

A copy of a struct or record includes its padding, which no program can write. Compilers copy it
with wide loads or byte by byte. The bits of a loaded value are followed through moves, shifts,
masks and truncating conversions, until they are stored, shifted out, or used for anything else.
"""

from __future__ import annotations

from collections.abc import Callable

from virtualgpu.program.program import FunctionCode, Program
from virtualgpu.program.steps import Data, MemoryAccess, Move, Step, registers_in
from virtualgpu.ptx import Immediate, Instruction, Register, Symbol, Vector
from virtualgpu.ptx.module import Operand

ALL = (1 << 64) - 1
WIDTHS = {"8": 8, "16": 16, "32": 32, "64": 64}
MOST = 64  # steps through which one value is followed


class Travels:
    """Answers for one program; each load and pattern is analysed once."""

    def __init__(self, program: Program):
        self.program = program
        self.loads: dict[int, tuple[FunctionCode, MemoryAccess]] = {}
        self.readers: dict[int, list[Step]] = {}
        for code in program.functions.values():
            for step in (step for block in code.blocks for step in block.steps):
                for slot in step.reads:
                    self.readers.setdefault(slot, []).append(step)
                if isinstance(step, MemoryAccess) and step.site.kind == "load":
                    self.loads[id(step.instruction)] = code, step
        self.known: dict[tuple[int, bytes], bool] = {}
        self.companions: dict[int, tuple[int, int]] = {}

    def only(self, instruction: Instruction, unwritten: bytes) -> bool:
        """Return True if the bytes of a load that are 1 in ``unwritten`` are at most stored.

        A load of which nothing is used counts as a use.
        """
        key = (id(instruction), unwritten)
        if key not in self.known:
            self.known[key] = self._follow(instruction, unwritten)
        return self.known[key]

    def record(self, instruction: Instruction) -> tuple[int, int]:
        """Return the bytes that are copied together with this load, relative to its address.

        They are the bytes that loads at the same base copy to another base without a gap:
        ``(first, past the last)``.
        """
        key = id(instruction)
        if key not in self.companions:
            self.companions[key] = self._record(*self.loads[key])
        return self.companions[key]

    def is_unused(self, instruction: Instruction, unwritten: bytes) -> bool:
        """Return True if the compiler says that the program does not use these bytes of a load.

        The compiler may say so at this load, or at another load of the same bytes at the same
        base.
        """
        code, load = self.loads[id(instruction)]
        base, at = _base(load)
        unused = {
            offset + byte
            for place, other in self.loads.values()
            for found, offset in [_base(other)]
            if place is code and found == base and other.instruction.used_bytes is not None
            for byte in range(other.site.size)
            if not other.instruction.used_bytes >> byte & 1
        }
        return all(at + byte in unused for byte, missing in enumerate(unwritten) if missing)

    def _record(self, code: FunctionCode, load: MemoryAccess) -> tuple[int, int]:
        own, (base, here) = self._target(load), _base(load)
        spans = sorted(
            (offset - here, offset - here + other.site.size)
            for place, other in self.loads.values()
            for found, offset in [_base(other)]
            if own is not None and place is code and found == base and self._target(other) == own
        )
        first, last = 0, load.site.size
        for start, end in spans:
            if start <= last:
                last = max(last, end)
        for start, end in reversed(spans):
            if end >= first:
                first = min(first, start)
        return first, last

    def _target(self, load: MemoryAccess) -> tuple[Operand, int] | None:
        """Return the base to which a load is copied and the distance; None if it is not."""
        stores = [step for slot in load.writes for step in self.readers.get(slot, [])]
        places = {
            _base(step)
            for step in stores
            if isinstance(step, MemoryAccess) and step.site.kind == "store"
        }
        if not places or len({base for base, _ in places}) > 1 or len(stores) > len(load.targets):
            return None
        base, offset = min(places, key=lambda place: place[1])
        return base, offset - _base(load)[1]

    # -- bits ----------------------------------------------------------------------------------

    def _follow(self, instruction: Instruction, unwritten: bytes) -> bool:
        if id(instruction) not in self.loads:
            return False
        code, load = self.loads[id(instruction)]
        if not any(self.readers.get(slot) for slot in load.writes):
            return False
        each = load.site.dtype.itemsize
        bits: dict[int, int] = {}
        todo = []
        for position, slot in enumerate(load.targets):
            part = unwritten[position * each : (position + 1) * each]
            mask = int.from_bytes(bytes(255 * byte for byte in part), "little")
            if slot is not None and mask:
                bits[slot] = mask
                todo.append(slot)
        followed = 0
        while todo:
            slot = todo.pop()
            for step in self.readers.get(slot, []):
                followed += 1
                found = self._through(code, step, bits)
                if found is None or followed > MOST:
                    return False
                for target, mask in found:
                    if mask & ~bits.get(target, 0):
                        bits[target] = bits.get(target, 0) | mask
                        todo.append(target)
        return True

    def _through(
        self, code: FunctionCode, step: Step, bits: dict[int, int]
    ) -> list[tuple[int, int]] | None:
        """Return the bits that a step passes on, by register, or None if it uses them."""

        def mask(operand: Operand) -> int:
            if not isinstance(operand, Register):
                return 0
            return bits.get(code.slots.get(operand.name, -1), 0)

        if isinstance(step, MemoryAccess):
            address = registers_in(step.sources[:1])
            used = step.site.kind != "store" or any(map(mask, address))
            return None if used else []
        if isinstance(step, Move):
            return _moved(step, mask)
        if not isinstance(step, Data) or len(step.targets) != 1 or step.targets[0] is None:
            return None
        target, opcode = step.targets[0], step.instruction.opcode
        width = WIDTHS.get(step.instruction.modifiers[-1].lstrip("bsu"), 0)
        values = [*step.sources, Immediate(0)]
        first, second = mask(values[0]), mask(values[1])
        literal = values[1].value if isinstance(values[1], Immediate) else None
        whole = (1 << width) - 1
        if opcode == "or" and width:
            return [(target, first | second)]
        if opcode == "and" and literal is not None:
            return [(target, first & literal & whole)]
        if opcode == "shl" and literal is not None:
            return [(target, (first << literal) & whole)]
        if opcode == "shr" and literal is not None and "s" not in step.instruction.modifiers[-1]:
            return [(target, (first & whole) >> literal)]
        if opcode == "cvt" and width and not {"f", "b"} & set(step.instruction.modifiers[-2][:1]):
            given = WIDTHS.get(step.instruction.modifiers[-1].lstrip("su"), 0)
            sign = step.instruction.modifiers[-1].startswith("s")
            top = first >> (given - 1) & 1 if given and sign else 0
            return [(target, (first & whole) | (ALL ^ whole if top else 0))]
        return None


def _base(access: MemoryAccess) -> tuple[Operand, int]:
    """Return the base of an address, and the number of bytes that are added to it."""
    base, offset = access.sources[0], access.site.offset
    if isinstance(base, Symbol):
        return Symbol(base.name), base.offset + offset
    return base, offset


def _moved(step: Move, mask: Callable[[Operand], int]) -> list[tuple[int, int]]:
    """Return the bits that a copy, packing or unpacking passes on."""
    each = 8 * step.dtype.itemsize
    sources = [
        part for one in step.sources for part in (one.items if isinstance(one, Vector) else (one,))
    ]
    targets = [slot for slot in step.targets if slot is not None]
    if len(sources) == len(step.targets) == 1:
        return [(targets[0], mask(sources[0]))] if targets else []
    if len(step.targets) == 1:
        part, whole = each // len(sources), 0
        for position, one in enumerate(sources):
            whole |= mask(one) << position * part
        return [(targets[0], whole)] if targets else []
    part = each // len(step.targets)
    return [
        (slot, mask(sources[0]) >> position * part & ((1 << part) - 1))
        for position, slot in enumerate(step.targets)
        if slot is not None
    ]
