"""Parser of PTX text into functions, instructions and source lines."""

from virtualgpu.ptx.module import (
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    PTXModule,
    Register,
    Symbol,
    Variable,
    Vector,
)
from virtualgpu.ptx.parser import parse
from virtualgpu.sources import SourceLine

__all__ = [
    "Address",
    "Function",
    "Immediate",
    "Instruction",
    "Label",
    "PTXModule",
    "Register",
    "SourceLine",
    "Symbol",
    "Variable",
    "Vector",
    "parse",
]
