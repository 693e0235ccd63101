"""Register types that an instruction's operand type permits.

PTX ISA, "Operand Type Checking": the sizes must be equal. Integers go with integers and floats
with floats, and untyped bits (.b32) go with everything of their size. ``ld``, ``st`` and ``cvt``
also take wider registers ("Operand Size Exceeding Instruction-Type Size").
"""

from __future__ import annotations

from collections.abc import Mapping

from virtualgpu.errors import PTXSyntaxError
from virtualgpu.operations.types import DTYPES, REGISTER_DTYPES
from virtualgpu.ptx import Address, Immediate, Instruction, Label, Register, Symbol, Vector
from virtualgpu.ptx.module import Operand

_SIZES = {name: dtype.itemsize for name, dtype in (DTYPES | REGISTER_DTYPES).items()} | {"pred": 0}


def agree(declared: str, wanted: str, wider: bool = False) -> bool:
    """Return True if a register of type ``declared`` may be used as an operand of ``wanted``."""
    have, want = _SIZES[declared], _SIZES[wanted]
    if have != want and not (wider and have > want > 0):
        return False
    if wanted in ("bf16", "bf16x2"):
        return declared[0] == "b"
    if "b" in (declared[0], wanted[0]) or declared == "f16x2":
        return True
    return declared == wanted or "f" not in (declared[0], wanted[0])


def check(
    registers: Mapping[str, str],
    instruction: Instruction,
    operand: Operand,
    *wanted: str,
    wider: bool = False,
) -> str:
    """Return an operand's type, one of ``wanted``; the first of these if none is declared.

    Raises PTXSyntaxError if the operand has no allowed type.
    """
    if isinstance(operand, Address | Vector | Label):
        raise mismatch(instruction, f"{shown(operand)} where it takes {_listed(wanted)}")
    floats = wanted[0] in ("f32", "f64") or wanted[0] in ("b16", "b32", "b64")
    if isinstance(operand, Immediate) and operand.type is not None and not floats:
        raise mismatch(instruction, f"a float literal where it takes {_listed(wanted)}")
    if not isinstance(operand, Register):
        return wanted[0]
    name = operand.name.removeprefix("!")
    declared = registers.get(name)
    if name != operand.name and (declared != "pred" or "pred" not in wanted):
        raise PTXSyntaxError(f"{operand.name}: only predicates can be negated with !")
    if declared is None:  # a special register, or a parameter that is kept in a register
        return wanted[0]
    for one in wanted:
        if agree(declared, one, wider):
            return one
    raise mismatch(
        instruction, f"{shown(Register(name))} is .{declared} where it takes {_listed(wanted)}"
    )


def mismatch(instruction: Instruction, why: str) -> PTXSyntaxError:
    """Return the error for an instruction whose operands do not fit, in the words of ptxas."""
    return PTXSyntaxError(
        f"arguments mismatch for instruction '{instruction.name}': {why}, in "
        f"`{instruction.text[:200]}`"
    )


def shown(operand: Operand) -> str:
    """Return a description of an operand: the name of a register, otherwise its kind."""
    if isinstance(operand, Register | Symbol):
        return operand.name.split("@")[0]  # without the scope that makes it unique
    if isinstance(operand, Immediate):
        return "a number"
    return {Address: "an address", Vector: "a vector", Label: "a label"}[type(operand)]


def _listed(types: tuple[str, ...]) -> str:
    return " or ".join(f".{one}" for one in types)
