"""Code generation for asynchronous copies and for barriers in shared memory.

PTX ISA, "cp.async", "mbarrier".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from virtualgpu.lanes.emit_access import address_of
from virtualgpu.lanes.emitter import Emitter
from virtualgpu.lanes.families import copies, mbarrier
from virtualgpu.program.site import Site
from virtualgpu.program.steps import Formed
from virtualgpu.ptx import Immediate

U32, U64, BOOL = np.dtype("u4"), np.dtype("u8"), np.dtype("?")


# -- copies ----------------------------------------------------------------------------------------


def copy(emitter: Emitter, step: Formed) -> None:
    """Emit a form of ``cp.async``, or an instruction that waits for one."""
    form = step.instruction.modifiers[1]
    if form in ("ca", "cg"):
        call = _copy(emitter, step)
    elif form == "bulk":  # from global to shared memory; an mbarrier counts the bytes
        sites, places = _ends(emitter, step, 16)
        nbytes = emitter.get(step.sources[2], U32)
        object_ = _object(emitter, step, "atomic", "shared", 3)
        call = f"{emitter.put(copies.bulk, 'f')}({sites}, {places}, {nbytes}, {object_})"
    elif form == "mbarrier":  # with .noinc the phase has already counted the arrival
        silent, space = step.words
        function = emitter.put(partial(copies.arrive, not silent), "f")
        call = f"{function}({_object(emitter, step, 'atomic', space)})"
    elif form == "commit_group":
        call = f"{emitter.put(copies.commit, 'f')}(group)"
    else:
        most = getattr(step.sources[0], "value", None) if step.sources else None
        call = f"{emitter.put(partial(copies.wait, most), 'f')}(group)"
    emitter.lines.append(f" {call}")


def _copy(emitter: Emitter, step: Formed) -> str:
    hinted = "L2:cache_hint" in step.instruction.modifiers  # a cache policy is the last operand
    _, _, size, *more = step.sources[: len(step.sources) - hinted]
    assert isinstance(size, Immediate)
    read = emitter.constant(np.array([size.value], U32))
    if more and step.kinds[3] == BOOL:  # ignore-src
        none = emitter.constant(np.zeros(1, U32))
        read = f"np.where({emitter.get(more[0], BOOL)}, {none}, {read})"
    elif more:
        read = emitter.get(more[0], U32)
    sites, places = _ends(emitter, step, size.value)
    return f"{emitter.put(copies.start, 'f')}({sites}, group, {places}, {read})"


def _ends(emitter: Emitter, step: Formed, size: int) -> tuple[str, str]:
    """Return both ends of a copy as arguments: the sites and the addresses."""
    to, source = (
        Site(step.instruction, emitter.program.display, kind, space, U32, size // 4)
        for kind, space in (("store", "shared"), ("load", "global"))
    )
    target, origin = (
        address_of(emitter, site, where)
        for site, where in zip((to, source), step.sources[:2], strict=True)
    )
    return f"{emitter.put(to, 'site')}, {emitter.put(source, 'site')}", f"{target}, {origin}"


# -- barriers --------------------------------------------------------------------------------------


def barrier(emitter: Emitter, step: Formed) -> None:
    """Emit any form of ``mbarrier``."""
    what, modifiers = step.instruction.modifiers[0], step.instruction.modifiers
    _, *more = step.sources
    if what == "pending_count":
        call = f"{emitter.put(mbarrier.pending_count, 'f')}({emitter.get(step.sources[0], U64)})"
        emitter.give(step.targets[0], call, U32)
        return
    space = next((word for word in step.words if word.startswith("shared")), "")
    # The last thread of a pipeline invalidates what others have used, and libcu++ orders the two by
    # one lane's atomic for several lanes. So the end of use counts as an atomic update, and the
    # start of use as a write.
    kind = {"init": "store", "test_wait": "load", "try_wait": "load"}.get(what, "atomic")
    arguments = [_object(emitter, step, kind, space)]
    arguments += [
        emitter.get(one, dtype) for one, dtype in zip(more[:1], step.kinds[1:], strict=False)
    ]
    functions: dict[str, Callable[..., Any]] = {
        "init": mbarrier.init,
        "inval": mbarrier.invalidate,
        "expect_tx": mbarrier.expect,
        "complete_tx": mbarrier.complete,
    }
    if what in functions:
        emitter.lines.append(f" {emitter.put(functions[what], 'f')}({', '.join(arguments)})")
        return
    function: Callable[..., Any]
    if what in ("arrive", "arrive_drop"):
        one = emitter.constant(np.ones(1, U32))
        if "expect_tx" in modifiers:
            arguments.insert(1, one)
        elif not more:
            arguments.append(one)
        function = partial(mbarrier.arrive, what == "arrive_drop", "noComplete" not in modifiers)
    else:
        function = partial(mbarrier.test, "parity" in modifiers)
    call = f"{emitter.put(function, 'f')}({', '.join(arguments)})"
    emitter.give(step.targets[0], call, step.results[0])


def _object(emitter: Emitter, step: Formed, kind: str, space: str, at: int = 0) -> str:
    """Return the first arguments: site, group, address."""
    memory = "shared" if space else "generic"
    site = Site(step.instruction, emitter.program.display, kind, memory, U64)
    site.cluster = space == "shared:cluster"
    if kind != "store":  # waiting and arriving are not races
        site.strong, site.order, site.scope = True, "relaxed", "cta"
    return f"{emitter.put(site, 'site')}, group, {address_of(emitter, site, step.sources[at])}"
