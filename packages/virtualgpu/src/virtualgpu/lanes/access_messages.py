"""Messages for accesses that are not allowed."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from virtualgpu.errors import MemoryAccessError, MisalignedAddressError
from virtualgpu.lanes.group import Group
from virtualgpu.lanes.wave import STACK_TOP
from virtualgpu.languages import NUMBA, language_of
from virtualgpu.memory import array_names
from virtualgpu.program.site import Site
from virtualgpu.wording import many

_GUARD = "guard the index (if i < array.size, in C++ if (i < n)) or launch fewer threads"


def _verb(site: Site) -> str:
    return {"load": "reads", "store": "writes", "atomic": "updates"}[site.kind]


def illegal(site: Site, group: Group, space: str, address: np.ndarray, bad: np.ndarray) -> NoReturn:
    """Raise a MemoryAccessError for the first of the group's lanes that is ``bad``."""
    position = int(np.flatnonzero(np.broadcast_to(bad, address.shape))[0])
    wrong = int(address[position])
    lane = int(group.lanes[position])
    several = int(np.count_nonzero(bad))
    language = language_of(site.instruction.source)
    launch, named, numbered = group.wave.launch, None, None
    if space == "global":
        where = launch.memory.describe(wrong, site.size)
        other = launch.memory.elsewhere(wrong)
        named = None if other else array_names.element(launch, wrong)
        numbered = None if named else array_names.argument(launch, wrong, site.size)
        help_ = language.guard
        if site.instruction.source is None:  # PTX that names no file
            help_ = _GUARD
        elif numbered and language is NUMBA:
            # An array takes several parameters there: their number is none that its author knows.
            numbered = numbered.partition(" of argument ")[0]
        if other:
            help_ = "copy the array to the device that launches, or launch on the one that has it"
    elif space == "shared":
        where = launch.shared_layout.describe(wrong)
        help_ = f"check the index against the size {language.shared}"
    else:
        where = f"offset {wrong}, outside the thread's local arrays"
        if wrong > STACK_TOP >> 1:
            where = (
                f"offset {wrong}, outside what the thread has of alloca: past its end, or "
                "given back since by stackrestore or a return"
            )
        help_ = f"check the index against the size {language.local}"
    others = (
        ""
        if several == 1
        else " (1 more thread does the same)"
        if several == 2
        else f" ({several - 1} more threads do the same)"
    )
    what = named or f"{many(site.size, 'byte')} of {space} memory, {where}"
    which = f", element {numbered}" if numbered else ""
    raise MemoryAccessError(
        f"illegal address: the thread {_verb(site)} {what}{others}{which}; {help_}",
        site.location(group, lane),
        address=wrong,
        space=space,
    )


def misaligned(site: Site, group: Group, space: str, address: np.ndarray) -> NoReturn:
    """Raise a MisalignedAddressError for the first misaligned lane.

    Its address is no multiple of the site's size.
    """
    position = int(np.flatnonzero(address & np.uint64(site.size - 1))[0])
    wrong = int(address[position])
    raise MisalignedAddressError(
        f"misaligned address: the thread {_verb(site)} {many(site.size, 'byte')} of {space} "
        f"memory at {wrong:#x}, which is not a multiple of {site.size}; records and vector types "
        "must start at a multiple of their alignment",
        site.location(group, int(group.lanes[position])),
        address=wrong,
        space=space,
    )
