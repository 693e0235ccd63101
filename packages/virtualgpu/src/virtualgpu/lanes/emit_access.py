"""Code generation for loads, stores and atomics."""

from __future__ import annotations

import numpy as np

from virtualgpu.errors import PTXSyntaxError
from virtualgpu.lanes import access
from virtualgpu.lanes.b128 import halves, join
from virtualgpu.lanes.emitter import Emitter
from virtualgpu.program.site import Site
from virtualgpu.program.speculation import Condition
from virtualgpu.program.steps import WIDE, MemoryAccess
from virtualgpu.ptx import Address, Immediate, Register, Symbol
from virtualgpu.ptx.module import Operand

U64 = np.dtype("u8")
_FUNCTIONS = {"load": access.load, "store": access.store, "atomic": access.atomic}


def emit(emitter: Emitter, step: MemoryAccess) -> None:
    """Add the lines of a memory instruction to the block of ``emitter``."""
    site = step.site
    address, *values = step.sources
    arguments = [emitter.put(site, "site"), "group", emitter.get(address, U64)]
    for value in values:
        arguments.append(
            f"*{emitter.put(halves, 'f')}({emitter.get(value, WIDE)})"
            if site.whole
            else emitter.get(value, site.dtype)
        )
    if (condition := emitter.program.wanted.get(id(step.instruction))) is not None:
        emitter.lines.append(f" group.wanted = {_predicate(emitter, condition)}")
    call = f"{emitter.put(_FUNCTIONS[site.kind], 'f')}({', '.join(arguments)})"
    if not step.targets:
        emitter.lines.append(f" {call}")
    elif site.whole:
        emitter.give(step.targets[0], f"{emitter.put(join, 'f')}(*{call})", WIDE)
    else:
        emitter.give_each(step.targets, call, site.dtype)


def _predicate(emitter: Emitter, condition: Condition) -> str:
    """Return an expression for a condition: bool, shape (n,) or (1,)."""
    if isinstance(condition, tuple):
        how = {"and": "&", "or": "|"}[condition[0]]
        return f"({how.join(f' {_predicate(emitter, part)} ' for part in condition[1:])})"
    predicate: str = emitter.get(Register(str(condition)), np.dtype("?"))
    return predicate


def address_of(emitter: Emitter, site: Site, where: Operand) -> str:
    """Return the address operand as u64; a constant offset goes to the site."""
    if not isinstance(where, Address):
        raise PTXSyntaxError(f"expected an address, found {where}")
    base = where.base
    if isinstance(base, Immediate):
        base = Immediate(base.value + where.offset)
    elif isinstance(base, Symbol):
        base = Symbol(base.name, base.offset + where.offset)
    else:
        site.offset = where.offset
    address: str = emitter.get(base, U64)
    return address
