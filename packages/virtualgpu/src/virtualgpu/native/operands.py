"""Operands as LLVM values: registers, literals, addresses and special registers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from llvmlite import ir

from virtualgpu.lanes.wave import WARP
from virtualgpu.native.context import LANES
from virtualgpu.native.flow.control_flow import Place
from virtualgpu.native.refusal import Refused
from virtualgpu.native.values import (
    I1,
    I32,
    I64,
    IOTA,
    Context,
    constant_vector,
    pointer_to,
    spread,
    zero,
)
from virtualgpu.operations.expression import Value, adapt, llvm_type, opaque, select
from virtualgpu.operations.types import UNSIGNED, kind
from virtualgpu.program.literals import literal
from virtualgpu.program.program import Program
from virtualgpu.ptx import Immediate, Register, Symbol
from virtualgpu.ptx.module import Operand
from virtualgpu.wording import a_or_an

U32, U64, BOOL = np.dtype("u4"), np.dtype("u8"), np.dtype("?")
_FIELDS = {
    "%nwarpid": "warps",
    "%warpid": "warp",
    "%dynamic_smem_size": "dynamic_smem_size",
    "%total_smem_size": "total_smem_size",
    **{
        f"%{name}.{axis}": f"{name}_{axis}"
        for name in ("ntid", "nctaid", "ctaid")
        for axis in "xyz"
    },
}
_BY_LANE = {
    "%laneid": IOTA,
    "%lanemask_eq": 1 << IOTA,
    "%lanemask_lt": (1 << IOTA) - 1,
    "%lanemask_le": (2 << IOTA) - 1,
    "%lanemask_gt": ~((2 << IOTA) - 1),
    "%lanemask_ge": ~((1 << IOTA) - 1),
}
CLOCKS = {"%clock", "%clock_hi", "%clock64"}


HOME_ALIGN = 64


def stored(own: ir.Type) -> ir.Type:
    """Return the type in which a register is stored.

    Predicates are a mask, or a byte if one value serves all lanes.
    """
    if own == I1:
        return ir.IntType(8)
    return I32 if own == ir.VectorType(I1, LANES) else own


def _adapted(value: Value, have: np.dtype, want: np.dtype) -> Value:
    """Adapt as :func:`adapt` does, but hide from LLVM a float64 that is made of integers.

    If LLVM knew the integers, it could omit an operation that makes a NaN quiet
    (:func:`~.formats.passed_on`).
    """
    adapted = adapt(value, have, want)
    return opaque(adapted) if adapted.kind == "f64" != value.kind else adapted


class LoweredRegisters:
    """A kernel's registers during code generation.

    A register's home is a stack slot, which LLVM's first pass turns into SSA values, or it is in
    the state that a warp keeps at barriers (``kept``). Within a block, ``current`` holds the
    latest values, as the lanes that run the block see them.
    """

    def __init__(
        self,
        program: Program,
        build: ir.IRBuilder,
        context: Context,
        varying: set[int],
        slots: set[int],
        first: Place,
        zeros: bool,
    ):
        self.place = first
        self.program, self.build, self.context = program, build, context
        self.varying = varying
        self.homes: dict[int, ir.Value] = {}
        self.kept: set[int] = set()
        self.current: dict[int, tuple[Value, np.dtype]] = {}
        # Functions that build the values of registers that are in neither `current` nor their
        # homes.
        self.later: dict[int, Callable[[], tuple[Value, np.dtype]]] = {}
        self.written: set[int] = set()
        self.given: set[str] = set()  # words of the context that a launch has to fill
        self.variables: dict[str, int] = {}  # variables whose addresses are constants in the code
        for slot in sorted(slots):
            name = kind(program.dtypes[slot])
            lanes = LANES if slot in varying else None
            self.homes[slot] = build.alloca(llvm_type(name, lanes))
            self.homes[slot].align = HOME_ALIGN
            # Registers that are read before they are written. In a kernel with parked lanes these
            # are all, because the result of the grid barrier is 0 and no instruction writes it.
            if zeros or slot in first.live_in:
                build.store(zero(name, lanes), self.homes[slot])

    def start(self, place: Place) -> None:
        """Begin the block of ``place``."""
        self.place, self.current, self.later, self.written = place, {}, {}, set()

    def read(self, slot: int) -> tuple[Value, np.dtype]:
        if slot in self.later:
            self.current[slot] = self.later.pop(slot)()
        if slot not in self.current:
            dtype = self.program.dtypes[slot]
            self.current[slot] = Value(self.build, self.at_home(slot), kind(dtype)), dtype
        return self.current[slot]

    def write(self, slot: int | None, value: Value, have: np.dtype) -> None:
        """Write a register's new value.

        A narrower value is sign-extended or zero-extended according to its own type, as
        :meth:`Emitter.write_slot` does.
        """
        if slot is None:
            return
        declared = self.program.dtypes[slot]
        if have.itemsize > declared.itemsize:
            raise Refused(f"{a_or_an(have)} result for a register of {declared}")
        if have.itemsize < declared.itemsize:
            if have.kind == "b":
                value, have = value.to("u8"), UNSIGNED[1]
            if have.kind == "f":
                have = UNSIGNED[have.itemsize]
                value = value.view(kind(have))
            wide = np.dtype(f"{'i' if have.kind == 'i' else 'u'}{declared.itemsize}")
            value, have = value.to(kind(wide)), wide
        self.later.pop(slot, None)
        self.current[slot] = value, have
        self.written.add(slot)

    def store_back(self, live: frozenset[int], mask: ir.Value | None, needed: set[int]) -> None:
        """Store live registers at the end of a block for the next one.

        Waiting lanes keep the values that they need.
        """
        for slot in sorted(self.written & live):
            value, have = self.read(slot)
            declared = self.program.dtypes[slot]
            value = _adapted(value, have, declared)
            if slot in self.varying:
                value = spread(value)
                if mask is not None and slot in needed:
                    old = Value(self.build, self.at_home(slot), value.kind)
                    value = select(Value(self.build, mask, "pred"), value, old)
            self.put_home(slot, value.node)

    # -- homes ---------------------------------------------------------------------------------

    def _type(self, slot: int) -> ir.Type:
        lanes = LANES if slot in self.varying else None
        return llvm_type(kind(self.program.dtypes[slot]), lanes)

    def at_home(self, slot: int) -> ir.Value:
        """Return the contents of a register's home."""
        build, own = self.build, self._type(slot)
        if slot not in self.kept:
            return build.load(self.homes[slot])
        value = build.load(self.homes[slot], typ=stored(own), align=HOME_ALIGN)
        if stored(own) is own:
            return value
        return (build.trunc if own == I1 else build.bitcast)(value, own)

    def put_home(self, slot: int, node: ir.Value) -> None:
        build = self.build
        if slot not in self.kept:
            build.store(node, self.homes[slot])
            return
        if stored(node.type) is not node.type:
            node = (build.zext if node.type == I1 else build.bitcast)(node, stored(node.type))
        build.store(node, self.homes[slot], align=HOME_ALIGN)

    def keep(self, slot: int, home: ir.Value) -> None:
        """Give a register a home in memory that outlasts the function, aligned to HOME_ALIGN.

        It is set to zero only by :meth:`clear`.
        """
        self.homes[slot] = home
        self.kept.add(slot)

    def clear(self, slots: frozenset[int]) -> None:
        for slot in sorted(slots & self.kept):
            own = self._type(slot)
            lanes = own.count if isinstance(own, ir.VectorType) else None
            self.put_home(slot, zero(kind(self.program.dtypes[slot]), lanes))

    # -- operands ------------------------------------------------------------------------------

    def get(self, operand: Operand, want: np.dtype) -> Value:
        """Return an operand's bits as the type ``want``."""
        if isinstance(operand, Immediate):
            return self._literal(literal(operand, want))
        if isinstance(operand, Symbol):
            return adapt(self._symbol(operand), U64, want)
        if not isinstance(operand, Register):
            raise Refused(f"an operand that is {operand}")
        name = operand.name
        if name.startswith("!"):
            return ~self.get(Register(name[1:]), want)
        code = self.place.block.function
        if name in code.function.registers:
            return _adapted(*self.read(self.program.register(code, operand)), want)
        if name in code.slots:  # a function's parameter
            return _adapted(*self.read(code.slots[name]), want)
        value = self._special(name)
        return adapt(value, U32 if value.kind == "u32" else U64, want)

    def _number(self, number: int, bits: int) -> Value:
        node = ir.Constant(ir.IntType(bits), number & ((1 << bits) - 1))
        return Value(self.build, node, f"u{bits}")

    def _literal(self, array: np.ndarray) -> Value:
        if array.dtype.kind == "b":
            return Value(self.build, ir.Constant(ir.IntType(1), int(array[0])), "pred")
        if array.dtype == np.float64 and np.isfinite(array[0]):
            return Value(self.build, ir.Constant(ir.DoubleType(), float(array[0])), "f64")
        bits = int(array.view(UNSIGNED[array.itemsize])[0])
        value = self._number(bits, 8 * array.itemsize).view(kind(array.dtype))
        return opaque(value) if value.kind == "f64" else value

    def _symbol(self, symbol: Symbol) -> Value:
        program, code = self.program, self.place.block.function
        if symbol.name in program.parameter_offsets and code is program.entry_code:
            at = program.parameter_offsets[symbol.name] + symbol.offset
            return self._given("parameter_address") + at
        return self._number(self._address(symbol), 64)

    def _address(self, symbol: Symbol) -> int:
        program = self.program
        if symbol.name == "WARP_SZ":
            return WARP + symbol.offset
        if symbol.name in program.shared.addresses:
            return program.shared.addresses[symbol.name] + symbol.offset
        code = self.place.block.function
        if symbol.name in code.frame:
            return self.place.frame + code.frame[symbol.name] + symbol.offset
        address = self.variables[symbol.name] = program.module.address(symbol.name)
        return address + symbol.offset

    def _special(self, name: str) -> Value:
        context = self.context
        if name in _FIELDS:
            return context.word32(_FIELDS[name])
        if name == "%clock64":
            return Value(self.build, context.load("clock"), "u64")
        if name.startswith("%envreg"):
            return self._environment(name)
        if name in CLOCKS:
            count = self._special("%clock64")
            return (count >> 32 if name == "%clock_hi" else count).to("u32")
        if name in ("%smid", "%nsmid"):
            return self._number(name == "%nsmid", 32)
        if name in _BY_LANE:
            return Value(self.build, constant_vector(_BY_LANE[name], 32), "u32")
        if name.startswith("%tid."):
            table = context.load(f"tid_{name[-1]}")
            at = self.build.add(table, self.build.shl(context.load("warp"), I64(7)))
            node = self.build.load(
                pointer_to(self.build, at), typ=ir.VectorType(I32, LANES), align=4
            )
            return Value(self.build, node, "u32")
        raise Refused(f"the special register {name}")

    def _given(self, field: str) -> Value:
        self.given.add(field)
        return Value(self.build, self.context.load(field), "u64")

    def _environment(self, name: str) -> Value:
        """Return a driver register (``%envreg``) as :mod:`virtualgpu.lanes.special` defines it."""
        if name not in ("%envreg1", "%envreg2"):
            return self._number(0, 32)
        address = self._given("workspace")
        return (address >> 32 if name == "%envreg1" else address).to("u32")
