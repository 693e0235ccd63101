"""Loads, stores and atomics by the lanes of a group.

PTX ISA, "Data Movement", "ld", "st", "atom", "red".

Every access is checked before it takes effect: it must be inside a live allocation and aligned to
its size. Generic addresses are classified as global, shared or local by the window that contains
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from virtualgpu.errors import MemoryAccessError
from virtualgpu.lanes import access_messages, atomics, b128, clusters
from virtualgpu.lanes.events import Access
from virtualgpu.lanes.group import ALL, Group
from virtualgpu.lanes.registers import Registers
from virtualgpu.lanes.wave import Wave
from virtualgpu.memory import windows
from virtualgpu.memory.mapping import BASE
from virtualgpu.memory.windows import WINDOW
from virtualgpu.program.site import Site

_BASE = np.uint64(BASE)


def load(site: Site, group: Group, address: np.ndarray) -> Any:
    """Load from ``address`` (uint64, shape (1,) or (n,)): one array, or ``width`` arrays."""
    space, address = place(site, group, address)
    if space is None:
        return _mixed(site, group, address)
    view, index = locate(site, group, space, address)
    if site.strong:
        group.waited = ALL
    if site.width == 1:
        return view.take(index)
    return tuple(view.take(index + element) for element in range(site.width))


def store(site: Site, group: Group, address: np.ndarray, *values: np.ndarray) -> None:
    """Write ``values`` (``width`` arrays). If lanes write to one address, the last lane wins."""
    watch = group.wave.launch.standstill
    space, address = place(site, group, address)
    if space is None:
        _mixed(site, group, address, values)
        return
    view, index = locate(site, group, space, address)
    # One thread of a block may read a flag and store it for the others, the same in each round.
    group.changed = group.changed or not group.waited or not _has(view, index, values)
    for element, value in enumerate(values):
        if len(index) == 1 and len(value) > 1:
            value = value[-1:]
        at = index + element if element else index
        before = None if watch is None else view[at]
        view[at] = value
        if watch is not None:
            watch.wrote(
                group, space, address + np.uint64(element * site.dtype.itemsize), before, view[at]
            )


def _has(view: np.ndarray, index: np.ndarray, values: tuple[np.ndarray, ...]) -> bool:
    """Return True if memory already holds the values to store; never for a NaN."""
    return all(bool((view[index + element] == value).all()) for element, value in enumerate(values))


def atomic(site: Site, group: Group, address: np.ndarray, *values: np.ndarray) -> Any:
    """Read, modify and write in lane order; return the old values, shape (n,).

    For a vector, ``values`` is a tuple of ``width`` arrays, and each element is a separate atomic
    (PTX ISA, "atom").
    """
    space, address = place(site, group, address)
    if space is None:
        return _mixed(site, group, address, values)
    if site.whole:
        return b128.atomic(
            site, group, space, address, *locate(site, group, space, address), values
        )
    if site.width == 1:
        view, index = locate(site, group, space, address)
        return _update(site, group, space, address, view, index, values)
    if space != "global":
        _wrong_space(site, group, space)
    view, index = locate(site, group, space, address)
    size = np.uint64(site.dtype.itemsize)
    return tuple(
        _update(site, group, space, address + np.uint64(i) * size, view, index + i, (value,))
        for i, value in enumerate(values)
    )


def _update(
    site: Site,
    group: Group,
    space: str,
    address: np.ndarray,
    view: np.ndarray,
    index: np.ndarray,
    values: tuple[np.ndarray, ...],
) -> np.ndarray:
    index = group.spread(index)
    watch = group.wave.launch.standstill
    before = None if watch is None else view[index]
    spread = [group.spread(value) for value in values]
    operation = site.operation
    if operation == "add" and space == "global" and view.dtype == np.float32:
        # PTX ISA, "atom": float32 additions flush subnormal numbers in global memory, not in
        # shared.
        operation = "add_ftz"
    old, changed = atomics.run(operation, view, index, *spread)
    if changed:
        group.changed = True
        if watch is not None:
            watch.wrote(group, space, address, before, view[index])
    elif site.instruction.opcode != "red":  # red returns nothing that a lane could wait for
        group.waited = ALL
    return old


def _wrong_space(site: Site, group: Group, space: str) -> NoReturn:
    raise MemoryAccessError(
        f"a vector atomic ({site.instruction.name}) at an address of {space} memory; vector "
        "atomics exist only for global memory. Update the elements one by one",
        site.location(group, int(group.lanes[0])),
        space=space,
    )


def place(site: Site, group: Group, address: np.ndarray) -> tuple[str | None, np.ndarray]:
    """Return the space of a generic address, and the address within it.

    The space is None if lanes differ.
    """
    if site.offset:
        address = address + np.uint64(site.offset & 0xFFFF_FFFF_FFFF_FFFF) & np.uint64(site.mask)
    if site.space != "generic":
        return site.space, address
    low, high = int(address.min()), int(address.max())
    if low >= BASE:
        return "global", address
    for space, nbytes in windows.SPANS.items():
        if windows.STARTS[space] <= low and windows.reaches(high, space, nbytes):
            return space, windows.within(address, space)
    if high < windows.SHARED_BASE:
        return "global", address  # null and similar addresses: the check below names the fault
    return None, address


def _mixed(
    site: Site, group: Group, address: np.ndarray, values: tuple[np.ndarray, ...] = ()
) -> Any:
    """Access memory through generic addresses in different spaces."""
    address = group.spread(address)
    results = [np.zeros(group.count, site.dtype) for _ in range(site.width)]
    spaces = {
        space: windows.reaches(address, space, nbytes) for space, nbytes in windows.SPANS.items()
    }
    spaces["global"] = ~(spaces["shared"] | spaces["local"])
    functions: dict[str, Callable[..., Any]] = {"load": load, "store": store, "atomic": atomic}
    function = functions[site.kind]
    offset, site.offset = site.offset, 0
    try:
        for space, chosen in spaces.items():
            # With a named space, the addresses are not classified again; those in no window count
            # as global.
            site.space = space
            chosen = np.flatnonzero(chosen)
            if not len(chosen):
                continue
            part = group.subset(chosen, group.block)
            picked = [group.spread(v)[chosen] for v in values]
            got = function(site, part, windows.within(address[chosen], space), *picked)
            group.changed |= part.changed
            group.waited = max(group.waited, part.waited)
            if site.kind != "store":
                for result, value in zip(
                    results, got if isinstance(got, tuple) else (got,), strict=True
                ):
                    result[chosen] = value
    finally:
        site.offset, site.space = offset, "generic"
    return results[0] if site.width == 1 else tuple(results)


def checked(site: Site, group: Group, address: np.ndarray, tell: bool = True) -> np.ndarray:
    """Return the checked addresses within the site's space, shape (1,) or (n,).

    Observers are notified of the access, unless ``tell`` is false because it happens later.
    """
    space, address = place(site, group, address)
    assert space is not None  # the site names it
    locate(site, group, space, address, tell)
    # The site accesses only its own block, whichever of the block's addresses it has.
    return address & np.uint64(WINDOW - 1) if space == "shared" else address


def some_lanes(wave: Wave, lanes: np.ndarray) -> Group:
    """Return lanes without registers, for events of lanes that are not running."""
    return Group(wave, lanes, 0, Registers.of({}, lanes, wave.lanes))


def locate(
    site: Site, group: Group, space: str, address: np.ndarray, tell: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Check ``address`` and turn it into an index of a typed view of the memory."""
    wave, blocks = group.wave, None
    if len(address) == 1:
        low = high = merged = int(address[0])
    else:
        low, high = int(address.min()), int(address.max())
        merged = int(np.bitwise_or.reduce(address)) if site.size > 1 else 0
    if merged & (site.size - 1):
        access_messages.misaligned(site, group, space, address)
    if space == "global":
        memory = wave.launch.memory
        if not (site.low <= low and high <= site.high and site.version == memory.version):
            extent = memory.extent(low)
            if extent is not None and high + site.size <= extent[1]:
                site.low, site.high = extent[0], extent[1] - site.size
                site.version = memory.version
            else:
                bad = memory.bad_lanes(address, site.size)
                if bad.any():
                    access_messages.illegal(site, group, space, address, bad)
        index = ((address - _BASE) >> site.shift).view(np.int64)
        view = memory.views[site.dtype]
    elif space == "shared":
        if high >= WINDOW:
            address, blocks = clusters.reach(site, group, address)
            low, high = int(address.min()), int(address.max())
        bad = wave.launch.shared_layout.outside(address, low, high, site.size)
        if bad is not None:
            access_messages.illegal(site, group, space, address, bad)
        index = address.view(np.int64)
        if wave.blocks > 1:
            owner = group.take(wave.block_of) if blocks is None else blocks
            index = index + owner * wave.shared_stride
        index = index >> np.int64(site.shift)
        view = wave.shared_view(site.dtype)
    else:
        limit = group.frame + wave.launch.program.frame_limit(group.block)
        if high + site.size > limit:
            last = limit - site.size
            bad = address > np.uint64(last) if last >= 0 else np.ones(address.shape, bool)
            if wave.stack_bytes:
                address = group.spread(address)
                bad = bad & ~wave.on_stack(address, group.lanes, site.size)
            if bad.any():
                access_messages.illegal(site, group, space, address, bad)
        wave.grow_local(limit)
        own = wave.local_offset(address).view(np.int64)
        index = (group.lanes * wave.local_stride + own) >> np.int64(site.shift)
        view = wave.local_view(site.dtype)
    if tell:
        _tell(site, group, space, address, blocks)
    return view, index


def _tell(
    site: Site, group: Group, space: str, address: np.ndarray, blocks: np.ndarray | None
) -> None:
    """Notify observers of a legal access."""
    launch = group.wave.launch
    told, watch = launch.listeners.accessed, launch.standstill
    wanted, group.wanted = group.wanted, None
    if watch is not None and site.kind != "store":
        watch.looked(site, group, space, address, blocks)
    if not told:
        return
    if site.quiet and (
        space in ("local", "param")
        or (site.kind == "load" and launch.is_constant(int(address.min()), int(address.max())))
    ):
        return
    if space == "local":
        address = group.wave.local_offset(address)
    event = Access(
        site.kind,
        space,
        group,
        site.instruction,
        group.lanes,
        group.spread(address),
        site.size,
        site.strong,
        site.order,
        site.scope,
        blocks,
        wanted,
    )
    for tell in told:
        tell(event)
