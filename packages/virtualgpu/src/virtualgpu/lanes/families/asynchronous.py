"""Decoding of asynchronous copies, barriers in shared memory and dependent launches.

PTX ISA, "cp.async", "mbarrier", "griddepcontrol", "setmaxnreg".
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np

from virtualgpu.errors import PTXSyntaxError, UnsupportedInstruction
from virtualgpu.lanes.emitter import Emitter
from virtualgpu.lanes.families import copies, mbarrier
from virtualgpu.lanes.memory_access import address_of
from virtualgpu.program.site import Site
from virtualgpu.ptx import Immediate, Instruction, Register
from virtualgpu.wording import many

U32, U64, BOOL = np.dtype("u4"), np.dtype("u8"), np.dtype("?")
_SHARED = ("shared", "shared:cta", "shared:cluster")
_NO_BULK = (
    "of the bulk copies the machine has the one from global to shared memory that an "
    "mbarrier waits for; compile for compute_80, where cuda::memcpy_async writes cp.async, "
    "or copy with loads and stores"
)


def _options(
    instruction: Instruction, modifiers: Collection[str], *groups: Collection[str]
) -> list[str | None]:
    """Return the present modifier of each group, in the order of the grammar."""
    left, found = list(modifiers), []
    for group in groups:
        found.append(left.pop(0) if left and left[0] in group else None)
    if left:
        raise UnsupportedInstruction(f"{instruction.name}: .{left[0]} has no meaning there")
    return found


def _operands(instruction: Instruction, operands: tuple[Any, ...], *counts: int) -> None:
    if len(operands) not in counts:
        raise PTXSyntaxError(f"{instruction.name} with {many(len(operands), 'operand')}")


# -- copies ----------------------------------------------------------------------------------------


def copy(emitter: Emitter, instruction: Instruction) -> None:
    """``cp.async`` and what waits for it."""
    modifiers = instruction.modifiers
    if modifiers[:1] != ("async",):
        raise UnsupportedInstruction(f"{instruction.name}: {_NO_BULK}")
    what, *rest = modifiers[1:] or ("",)
    forms: dict[str, Callable[..., None]] = {
        "ca": _copy,
        "cg": _copy,
        "mbarrier": _arrival,
        "bulk": _bulk,
    }
    if what in forms:
        forms[what](emitter, instruction, rest)
        return
    operands = tuple(o for o in instruction.operands if o != Register("_"))
    _options(instruction, rest)
    if what == "commit_group":
        _operands(instruction, operands, 0)
        emitter.lines.append(f" {emitter.put(copies.commit, 'f')}(group)")
    elif what in ("wait_group", "wait_all"):
        _operands(instruction, operands, int(what == "wait_group"))
        most = operands[0] if operands else None
        if most is not None and not (isinstance(most, Immediate) and most.value >= 0):
            raise PTXSyntaxError(f"{instruction.name} takes a number that is written out")
        function = partial(copies.wait, most and most.value)
        emitter.lines.append(f" {emitter.put(function, 'f')}(group)")
    else:
        raise UnsupportedInstruction(instruction.name)


def _copy(emitter: Emitter, instruction: Instruction, rest: list[str]) -> None:
    shared, source, hint, _ = _options(
        instruction,
        rest,
        _SHARED[:2],
        ("global",),
        ("L2:cache_hint",),
        ("L2:64B", "L2:128B", "L2:256B"),
    )
    operands: list[Any] = list(instruction.operands)
    if hint and operands:
        operands.pop()  # the policy of the cache changes no result
    _operands(instruction, tuple(operands), 3, 4)
    _, _, size, *more = operands
    sizes = (16,) if "cg" in instruction.modifiers else (4, 8, 16)
    if not shared or not source:
        raise PTXSyntaxError(f"{instruction.name}: it copies from .global to .shared")
    if not isinstance(size, Immediate) or size.value not in sizes:
        raise PTXSyntaxError(
            f"{instruction.name} copies {' or '.join(map(str, sizes))} bytes, as a literal"
        )
    read = emitter.constant(np.array([size.value], U32))
    if (
        more
        and isinstance(more[0], Register)
        and emitter.code.function.registers.get(more[0].name.removeprefix("!")) == "pred"
    ):  # ignore-src
        none = emitter.constant(np.zeros(1, U32))
        read = f"np.where({emitter.get(more[0], BOOL)}, {none}, {read})"
    elif more:
        read = emitter.get(more[0], U32)
    sites, places = _ends(emitter, instruction, size.value)
    emitter.lines.append(f" {emitter.put(copies.start, 'f')}({sites}, group, {places}, {read})")


def _ends(emitter: Emitter, instruction: Instruction, size: int) -> tuple[str, str]:
    """Both ends of a copy, as arguments: the sites, and the addresses."""
    to, source = (
        Site(instruction, emitter.program.display, kind, space, U32, size // 4)
        for kind, space in (("store", "shared"), ("load", "global"))
    )
    target, origin = (
        address_of(emitter, site, where)
        for site, where in zip((to, source), instruction.operands[:2], strict=True)
    )
    return f"{emitter.put(to, 'site')}, {emitter.put(source, 'site')}", f"{target}, {origin}"


def _arrival(emitter: Emitter, instruction: Instruction, rest: list[str]) -> None:
    """``cp.async.mbarrier.arrive``, with ``.noinc`` as an arrival that the phase counted."""
    arrives, silent, space, bits = _options(
        instruction, rest, ("arrive",), ("noinc",), _SHARED[:2], ("b64",)
    )
    if not arrives or not bits:
        raise UnsupportedInstruction(instruction.name)
    _operands(instruction, instruction.operands, 1)
    function = partial(copies.arrive, silent is None)
    emitter.lines.append(
        f" {emitter.put(function, 'f')}({_object(emitter, instruction, 'atomic', space, 0)})"
    )


def _bulk(emitter: Emitter, instruction: Instruction, rest: list[str]) -> None:
    """Emit a bulk copy from global to the block's own shared memory, as an mbarrier's bytes."""
    known = (_SHARED[1:], ("global",), ("mbarrier:complete_tx:bytes",), ("L2:cache_hint",))
    if len(rest) < 3 or any(word not in group for word, group in zip(rest, known, strict=False)):
        raise UnsupportedInstruction(f"{instruction.name}: {_NO_BULK}")
    _options(instruction, rest, *known)
    _operands(instruction, instruction.operands, 4 + ("L2:cache_hint" in rest))
    sites, places = _ends(emitter, instruction, 16)
    nbytes = emitter.get(instruction.operands[2], U32)
    arguments = _object(emitter, instruction, "atomic", "shared", 3)
    emitter.lines.append(
        f" {emitter.put(copies.bulk, 'f')}({sites}, {places}, {nbytes}, {arguments})"
    )


# -- barriers --------------------------------------------------------------------------------------


def barrier(emitter: Emitter, instruction: Instruction) -> None:
    """``mbarrier`` in all its forms."""
    what, *rest = instruction.modifiers
    if what not in _FORMS:
        raise UnsupportedInstruction(instruction.name)
    _FORMS[what](emitter, instruction, what, rest)


def _object(
    emitter: Emitter, instruction: Instruction, kind: str, space: str | None, at: int
) -> str:
    """Return the first arguments: site, group, address."""
    site = Site(instruction, emitter.program.display, kind, "shared" if space else "generic", U64)
    site.cluster = space == "shared:cluster"
    if kind != "store":  # what waits and arrives does not race
        site.strong, site.order, site.scope = True, "relaxed", "cta"
    where = address_of(emitter, site, instruction.operands[at])
    return f"{emitter.put(site, 'site')}, group, {where}"


def _made(emitter: Emitter, instruction: Instruction, what: str, rest: list[str]) -> None:
    space, bits = _options(instruction, rest, _SHARED[:2], ("b64",))
    _typed(instruction, bits)
    _operands(instruction, instruction.operands, 2 if what == "init" else 1)
    # What the last thread of a pipeline invalidates, others have used; libcu++ orders the two by
    # one lane's atomic for several, so an end of use is an update like those, a start is a write.
    kind = "store" if what == "init" else "atomic"
    arguments = _object(emitter, instruction, kind, space, 0)
    if what == "init":
        count = emitter.get(instruction.operands[1], U32)
        emitter.lines.append(f" {emitter.put(mbarrier.init, 'f')}({arguments}, {count})")
    else:
        emitter.lines.append(f" {emitter.put(mbarrier.invalidate, 'f')}({arguments})")


def _bytes(emitter: Emitter, instruction: Instruction, what: str, rest: list[str]) -> None:
    *_, space, bits = _options(
        instruction, rest, ("relaxed",), ("cta", "cluster"), _SHARED, ("b64",)
    )
    _typed(instruction, bits)
    _operands(instruction, instruction.operands, 2)
    function = mbarrier.expect if what == "expect_tx" else mbarrier.complete
    arguments = _object(emitter, instruction, "atomic", space, 0)
    nbytes = emitter.get(instruction.operands[1], U32)
    emitter.lines.append(f" {emitter.put(function, 'f')}({arguments}, {nbytes})")


def _arrive(emitter: Emitter, instruction: Instruction, what: str, rest: list[str]) -> None:
    form, _, _, space, bits = _options(
        instruction,
        rest,
        ("expect_tx", "noComplete"),
        ("release", "relaxed"),
        ("cta", "cluster"),
        _SHARED,
        ("b64",),
    )
    _typed(instruction, bits)
    _operands(instruction, instruction.operands, 3 if form else 2, 3)
    target, _, *more = instruction.operands
    if space == "shared:cluster" and target != Register("_"):
        raise PTXSyntaxError(f"{instruction.name} at another block's barrier returns no state")
    arguments = _object(emitter, instruction, "atomic", space, 1)
    given = emitter.get(more[0], U32) if more else emitter.constant(np.ones(1, U32))
    if form == "expect_tx":
        given = f"{emitter.constant(np.ones(1, U32))}, {given}"
    function = partial(mbarrier.arrive, what == "arrive_drop", form != "noComplete")
    emitter.set(target, f"{emitter.put(function, 'f')}({arguments}, {given})", U64)


def _wait(emitter: Emitter, instruction: Instruction, what: str, rest: list[str]) -> None:
    parity, _, _, space, bits = _options(
        instruction,
        rest,
        ("parity",),
        ("acquire", "relaxed"),
        ("cta", "cluster"),
        _SHARED[:2],
        ("b64",),
    )
    _typed(instruction, bits)
    _operands(instruction, instruction.operands, 3, *((4,) if what == "try_wait" else ()))
    arguments = _object(emitter, instruction, "load", space, 1)
    state = emitter.get(instruction.operands[2], U32 if parity else U64)
    function = partial(mbarrier.test, parity is not None)
    emitter.set(
        instruction.operands[0], f"{emitter.put(function, 'f')}({arguments}, {state})", BOOL
    )


def _count(emitter: Emitter, instruction: Instruction, what: str, rest: list[str]) -> None:
    _typed(instruction, *_options(instruction, rest, ("b64",)))
    target, state = instruction.operands
    function = emitter.put(mbarrier.pending_count, "f")
    emitter.set(target, f"{function}({emitter.get(state, U64)})", U32)


def _typed(instruction: Instruction, bits: str | None) -> None:
    if bits is None:
        raise UnsupportedInstruction(f"{instruction.name}: its type is .b64")


_FORMS: dict[str, Callable[[Emitter, Instruction, str, list[str]], None]] = {
    "init": _made,
    "inval": _made,
    "expect_tx": _bytes,
    "complete_tx": _bytes,
    "arrive": _arrive,
    "arrive_drop": _arrive,
    "test_wait": _wait,
    "try_wait": _wait,
    "pending_count": _count,
}


# -- what changes nothing here ---------------------------------------------------------------------


def registers(emitter: Emitter, instruction: Instruction) -> None:
    """``setmaxnreg``: registers of a warp are given back or asked for; here each has enough."""
    action, *_ = found = _options(
        instruction, instruction.modifiers, ("inc", "dec"), ("sync",), ("aligned",), ("u32",)
    )
    operands = instruction.operands
    _operands(instruction, operands, 1)
    count = operands[0].value if isinstance(operands[0], Immediate) else -1
    if None in found or not 24 <= count <= 256 or count % 8:
        raise PTXSyntaxError(
            f"{instruction.name} takes a multiple of 8 from 24 to 256, written out"
            if action
            else instruction.name
        )


def dependents(emitter: Emitter, instruction: Instruction) -> None:
    """``griddepcontrol``: launches run one after the other here, so nothing is to wait for."""
    if instruction.modifiers not in (("launch_dependents",), ("wait",)):
        raise UnsupportedInstruction(instruction.name)
    _operands(instruction, instruction.operands, 0)
