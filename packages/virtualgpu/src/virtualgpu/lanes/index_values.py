"""Indices of a bad access as in its source, such as ``a[3, 14]`` if ``a`` has 7 columns.

An address alone does not determine them, because in an array of 5 by 7 element [3, 14] has the
same address as [5, 0]. They are recovered from the instructions that computed the address. Each
instruction is computed again for one thread, and each value keeps the multiples of the array's
lengths and strides separate. If their sum does not give the address again, no indices are
reported.

Nothing in this module runs during a launch without errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from virtualgpu.lanes.group import Group
from virtualgpu.lanes.special import SPECIAL
from virtualgpu.memory.array_names import ArrayParameter
from virtualgpu.program.literals import literal
from virtualgpu.program.program import BasicBlock, Program
from virtualgpu.program.site import Site
from virtualgpu.program.steps import Data, MemoryAccess, Move, Parameter
from virtualgpu.ptx import Immediate, Register
from virtualgpu.ptx.module import Operand

Factors = tuple[int, ...]  # sorted numbers of the kernel parameters that were multiplied

_MOST_STEPS = 400  # an address takes about ten steps per index


@dataclass(frozen=True, slots=True)
class _Value:
    """Register bits, and their number as a sum of multiples of parameters.

    The number is the sum of ``parts``; terms without a factor are under ``()``. ``factors`` is set
    if the value is only a product of parameters and constants; a constant has the factors ``()``.
    """

    bits: np.ndarray
    parts: dict[Factors, int] = field(default_factory=dict)
    factors: Factors | None = None

    @property
    def number(self) -> int:
        return int(self.bits.view(f"i{self.bits.itemsize}")[0])


class _Unknown(Exception):
    """Value that cannot be computed again."""


def indices(
    site: Site, group: Group, position: int, array: ArrayParameter, address: int
) -> list[int] | None:
    """Return the indices of ``array`` with which the lane at ``position`` accesses ``address``.

    Returns None if the instructions before ``site`` do not determine them.
    """
    tracer = _Tracer(group, position)
    block = group.basic_block
    at = next((n for n, step in enumerate(block.steps) if getattr(step, "site", None) is site), -1)
    if at < 0:
        return None
    try:
        base = tracer.operand(block.steps[at].sources[0], np.dtype("u8"), block, at)
    except _Unknown:
        return None
    if base.number + site.offset != address:
        return None
    n, first, unit = array.dimensions, array.position, array.itemsize or 1
    start = tracer.parameter(first)
    if array.itemsize:  # an offset follows, and both count elements
        first += 1
        start += unit * tracer.parameter(first)
    shape = [tracer.parameter(first + 1 + k) for k in range(n)]
    strides = [unit * tracer.parameter(first + 1 + n + k) for k in range(n)]
    if 0 in shape or 0 in strides:
        return None
    parts = dict(base.parts)
    parts[()] = parts.get((), 0) + site.offset - start
    lengths = range(first + 1, first + 1 + n)
    # The parameters by which an index is multiplied: the lengths after its own (C order), those
    # before it (Fortran order), or its stride, which may be known to be one element.
    orders: list[list[Factors]] = [
        [tuple(lengths[k + 1 :]) for k in range(n)],
        [tuple(lengths[:k]) for k in range(n)],
    ]
    if abs(strides[0]) < abs(strides[-1]):
        orders.reverse()
    by_stride: list[Factors] = [(number,) for number in range(first + 1 + n, first + 1 + 2 * n)]
    orders += [by_stride, [*by_stride[:-1], ()], [(), *by_stride[1:]]]
    for keys in orders:
        left = {key: part for key, part in parts.items() if part}
        pairs = [(left.pop(key, 0), stride) for key, stride in zip(keys, strides, strict=True)]
        if not left and all(part % stride == 0 for part, stride in pairs):
            found = [part // stride for part, stride in pairs]
            # Numba adds the length to a negative index before the multiplication.
            return [i - n * (i < 0) for i, n in zip(found, shape, strict=True)]
    return None


class _Tracer:
    """Recomputation of one lane's registers from their definitions."""

    def __init__(self, group: Group, position: int):
        self.group, self.position = group, position
        self.launch = group.wave.launch
        self.program: Program = self.launch.program
        self.left = _MOST_STEPS
        self.known: dict[int, _Value] = {}
        self.numbers = {
            self.program.parameter_offsets[one.name]: number
            for number, one in enumerate(self.program.entry_code.function.parameters)
        }
        self.definitions: dict[int, list[tuple[BasicBlock, int]]] = {}
        for block in self.program.blocks:
            for at, step in enumerate(block.steps):
                for slot in step.writes:
                    self.definitions.setdefault(slot, []).append((block, at))

    def parameter(self, number: int) -> int:
        name = self.program.entry_code.function.parameters[number].name
        value = self.launch.parameter(self.program.parameter_offsets[name], np.dtype("i8"))
        return int(value[0])

    def operand(self, operand: Operand, want: np.dtype, block: BasicBlock, at: int) -> _Value:
        if isinstance(operand, Immediate):
            value = _plain(literal(operand, want))
            return _Value(value.bits, value.parts, ())
        if not isinstance(operand, Register):
            raise _Unknown
        name = operand.name
        if name in SPECIAL:
            return _plain(self._mine(SPECIAL[name](self.group)))
        slot = block.function.slots.get(name)
        if slot is None:
            raise _Unknown
        value = self._register(slot, block, at)
        have = value.bits
        if have.dtype.kind == "b" or want.kind == "b" or have.itemsize < want.itemsize:
            if have.dtype.kind == want.kind == "b":
                return value
            raise _Unknown
        bits = have.view(f"u{have.itemsize}").astype(f"u{want.itemsize}").view(want)
        return _Value(bits, value.parts, value.factors)

    def _mine(self, values: np.ndarray) -> np.ndarray:
        return values if len(values) == 1 else values[self.position : self.position + 1]

    def _register(self, slot: int, block: BasicBlock, at: int) -> _Value:
        if slot in self.known:
            return self.known[slot]
        self.left -= 1
        if self.left < 0:
            raise _Unknown
        here = [n for n in range(at) if slot in block.steps[n].writes]
        places = [(block, here[-1])] if here else self.definitions.get(slot, [])
        value = None
        if len(places) == 1 and places[0][0].function is block.function:
            try:
                value = self._computed(slot, *places[0])
            except _Unknown:
                value = None
        held = None if here else self.group.registers.get(slot)
        if held is not None:
            value = _corrected(value, _plain(self._mine(held)))
        if value is None:
            raise _Unknown
        self.known[slot] = value
        return value

    def _computed(self, slot: int, block: BasicBlock, at: int) -> _Value:
        step = block.steps[at]
        if len(step.targets) != 1:
            raise _Unknown
        if isinstance(step, Parameter):
            bits = self.launch.parameter(step.offset, step.dtype)
            number = self.numbers.get(step.offset)
            value = _plain(bits)
            return _Value(value.bits, value.parts, None if number is None else (number,))
        if isinstance(step, Move) and len(step.sources) == 1:
            return self.operand(step.sources[0], step.dtype, block, at)
        if isinstance(step, MemoryAccess):
            return self._loaded(step, block, at)
        if step.instruction.opcode == "cvta" and len(step.sources) == 1:  # global: the same address
            return self.operand(step.sources[0], np.dtype("u8"), block, at)
        if isinstance(step, Data) and not step.operation.carry_in:
            return self._result(step, block, at)
        raise _Unknown

    def _loaded(self, step: MemoryAccess, block: BasicBlock, at: int) -> _Value:
        """Return a number that was loaded from memory, if memory still holds it."""
        site = step.site
        if site.kind != "load" or site.space != "global" or site.width != 1:
            raise _Unknown
        address = self.operand(step.sources[0], np.dtype("u8"), block, at).number + site.offset
        if self.launch.memory.extent(address) is None or address % site.size:
            raise _Unknown
        return _plain(np.frombuffer(self.launch.memory.read(address, site.size), site.dtype))

    def _result(self, step: Data, block: BasicBlock, at: int) -> _Value:
        given = [
            self.operand(source, want, block, at)
            for source, want in zip(step.sources, step.operation.sources, strict=True)
        ]
        with np.errstate(all="ignore"):
            bits = np.atleast_1d(step.operation.function(*(one.bits for one in given)))
        value = _plain(bits)
        combine = _COMBINE.get(step.instruction.opcode)
        if combine is None or "hi" in step.instruction.modifiers:
            return value
        made = combine(*given)
        if made is None or sum(made.parts.values()) != value.number:
            return value
        return _Value(bits, made.parts, made.factors)


def _plain(bits: np.ndarray) -> _Value:
    value = _Value(np.ascontiguousarray(bits))
    return _Value(value.bits, {(): value.number})


def _corrected(value: _Value | None, held: _Value) -> _Value:
    """Return the register's present value, composed in the same way as ``value``.

    A value that was computed before a loop depends on a counter that may have changed since.
    """
    if value is None or (value.number != held.number and len(value.parts) != 1):
        return held
    if value.number == held.number:
        return value
    (key,) = value.parts
    return _Value(held.bits, {key: held.number})


def _added(a: _Value, b: _Value, sign: int = 1) -> _Value:
    parts = dict(a.parts)
    for key, part in b.parts.items():
        parts[key] = parts.get(key, 0) + sign * part
    return _Value(a.bits, parts)


def _times(a: _Value, b: _Value) -> _Value | None:
    if a.factors is not None:
        a, b = b, a
    if b.factors is None:
        return None
    if a.factors is not None:
        factors = tuple(sorted(a.factors + b.factors))
        return _Value(a.bits, {(): a.number * b.number}, factors)
    parts = {tuple(sorted(key + b.factors)): part * b.number for key, part in a.parts.items()}
    return _Value(a.bits, parts)


def _shifted(a: _Value, b: _Value) -> _Value:
    scale = 1 << b.number
    return _Value(a.bits, {key: part * scale for key, part in a.parts.items()}, a.factors)


def _multiplied_and_added(a: _Value, b: _Value, c: _Value) -> _Value | None:
    product = _times(a, b)
    return product and _added(product, c)


#: The composition of each result from the parts of its operands. LLVM writes an addition whose bits
#: do not overlap as `or`. A result whose parts do not give its number has no parts.
_COMBINE: dict[str, Callable[..., _Value | None]] = {
    "add": _added,
    "or": _added,
    "sub": lambda a, b: _added(a, b, -1),
    "mul": _times,
    "mad": _multiplied_and_added,
    "shl": _shifted,
    "cvt": lambda a: a,
}
