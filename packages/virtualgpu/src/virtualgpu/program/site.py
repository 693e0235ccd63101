"""Decoded memory instruction: space, type, offset and order, for accesses and messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from virtualgpu.errors import Location, PTXSyntaxError, UnsupportedInstruction
from virtualgpu.operations.types import DTYPES, UNSIGNED
from virtualgpu.ptx import Instruction

SPACES = {"global", "shared", "local", "const", "param"}
_CACHE_HINTS = {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "unified", "noftz", "aligned"}
_ORDERS = {"relaxed", "acquire", "release", "acq_rel", "sc"}
_SCOPES = {"cta": "cta", "cluster": "gpu", "gpu": "gpu", "sys": "sys"}
_BITWISE = {"b32", "b64", "u32", "s32", "u64", "s64"}
# Atomic operations and the types that they support (PTX ISA, "atom", "red").
_ATOMICS = {
    "add": {"u32", "s32", "u64", "s64", "f32", "f64", "f16", "f16x2", "bf16", "bf16x2"},
    "min": {"u32", "s32", "u64", "s64"},
    "max": {"u32", "s32", "u64", "s64"},
    "inc": {"u32"},
    "dec": {"u32"},
    "exch": {"b32", "b64", "u32", "s32", "u64", "s64", "f32", "f64"},
    "cas": {"b16", "b32", "b64", "u16", "u32", "s32", "u64", "s64"},
    "and": _BITWISE,
    "or": _BITWISE,
    "xor": _BITWISE,
}


class Standing(Protocol):
    """Lanes that run an instruction; their wave knows the block and thread of each lane."""

    wave: Any


@dataclass(slots=True, eq=False)
class Site:
    """Decoded load, store or atomic instruction.

    ``dtype`` is the dtype of one element and ``width`` the number of vector elements.
    """

    instruction: Instruction
    kernel: str
    kind: str
    space: str
    dtype: np.dtype
    width: int = 1
    offset: int = 0
    strong: bool = False
    order: str = ""
    scope: str = ""
    quiet: bool = False  # named .const or .param: no event if it reads such memory
    operation: str = ""  # operation of an atomic
    whole: bool = False  # .b128: both elements are one value, also for an atomic
    cluster: bool = False  # may reach the shared memory of other blocks of its cluster
    shift: np.uint64 = field(init=False)
    size: int = field(init=False)
    # Allocation of the last access, because most accesses of a site are in one allocation.
    low: int = field(init=False, default=1)
    high: int = field(init=False, default=0)
    version: int = field(init=False, default=-1)

    def __post_init__(self) -> None:
        self.shift = np.uint64(self.dtype.itemsize.bit_length() - 1)
        self.size = self.dtype.itemsize * self.width

    @property
    def mask(self) -> int:
        """Return the significant bits of an address after the constant is added.

        Shared and local memory have 32-bit addresses, so a negative register plus a constant may
        be a valid address (PTX ISA, "Addresses as Operands": truncated to the width of the state
        space).
        """
        return 0xFFFF_FFFF if self.space in ("shared", "local") else 0xFFFF_FFFF_FFFF_FFFF

    def location(self, group: Standing, lane: int | None = None) -> Location:
        block, thread = (None, None) if lane is None else group.wave.where(lane)
        return Location.of(self.kernel, self.instruction.source, block, thread)


def site_of(kernel: str, instruction: Instruction) -> Site:
    """Return the decoded site of a memory instruction of ``kernel``."""
    opcode, modifiers = instruction.opcode, list(instruction.modifiers)
    kind = {"ld": "load", "ldu": "load", "st": "store"}.get(opcode, "atomic")
    whole = modifiers[-1:] == ["b128"]
    if whole:
        modifiers[-1] = "b64"  # the type of its halves
    if not modifiers or modifiers[-1] not in DTYPES:
        raise UnsupportedInstruction(f"{instruction.name}: its type is not supported")
    element = modifiers.pop()
    space, width, order, scope, operation = "generic", 1, "", "", ""
    strong, cluster = kind == "atomic", False
    for modifier in modifiers:
        plain = modifier.split(":")[0]
        if plain in SPACES and not operation:
            space, cluster = plain, modifier == "shared:cluster"
        elif modifier in ("v2", "v4") or (modifier == "v8" and kind == "atomic"):
            width = int(modifier[1:])
        elif modifier in ("volatile", "mmio"):
            strong, order = True, "relaxed"
        elif modifier == "weak" or modifier in _CACHE_HINTS:
            pass
        elif plain in ("L1", "L2", "level"):
            pass  # cache hints change no result
        elif modifier in _ORDERS:
            strong, order = True, modifier
        elif modifier in _SCOPES:
            scope = _SCOPES[modifier]
        elif kind == "atomic" and modifier in _ATOMICS and not operation:
            operation = modifier
        else:
            raise UnsupportedInstruction(f"{instruction.name}: .{modifier}")
    dtype = DTYPES[element]
    if kind == "atomic":
        if width > 1:
            _check_vector(instruction, operation, element, space, width)
        if whole and (operation not in ("exch", "cas") or opcode == "red"):
            raise UnsupportedInstruction(
                f"{instruction.name}: the only atomics of 128 bits are atom.exch and atom.cas"
            )
        dtype, operation = _atomic_type(instruction, operation, element, dtype)
        order = order or "relaxed"
        scope = scope or "gpu"
    if whole:
        if width > 1:
            raise PTXSyntaxError(f"{instruction.name}: there are no vectors of .b128")
        width = 2
    quiet = space in ("const", "param")
    if kind != "load" and space == "const":
        raise PTXSyntaxError(f"{instruction.name}: nothing writes to .const")
    return Site(
        instruction,
        kernel,
        kind,
        "global" if space == "const" else space,
        dtype,
        width,
        strong=strong,
        order=order,
        scope=scope,
        quiet=quiet,
        operation=operation,
        cluster=cluster or space == "generic",
        whole=whole,
    )


def _atomic_type(
    instruction: Instruction, operation: str, element: str, dtype: np.dtype
) -> tuple[np.dtype, str]:
    if not operation or element not in _ATOMICS[operation]:
        raise UnsupportedInstruction(f"{instruction.name}: an atomic of this type is not supported")
    if element in ("f16", "bf16", "f16x2", "bf16x2"):
        return UNSIGNED[dtype.itemsize], f"{operation}_{element}"
    return dtype, operation


def _check_vector(
    instruction: Instruction, operation: str, element: str, space: str, width: int
) -> None:
    """Refuse atomic vectors of over 16 bytes, or not in global memory (PTX ISA, "atom")."""
    most = {"f32": 4, "f16x2": 4, "bf16x2": 4, "f16": 8, "bf16": 8}.get(element, 0)
    if operation != "add" or width > most:
        raise UnsupportedInstruction(
            f"{instruction.name}: vector atomics add two or four of .f32, .f16x2 and .bf16x2, and "
            "two, four or eight of .f16 and .bf16"
        )
    if space not in ("global", "generic"):
        raise PTXSyntaxError(f"{instruction.name}: vector atomics exist only for global memory")
