"""Global memory: one address space of allocations with guard zones and poison.

Device addresses are offsets into one anonymous mapping, whose untouched pages take no memory, so
allocations can be far apart. Nothing outside a live allocation can be read or written.

New memory is filled with :data:`POISON`, so that a result that depends on unwritten memory is
visibly wrong (int32 -16843010, float32 -1.7e38) and not zero by chance.
"""

from __future__ import annotations

import bisect
import math
import os
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from virtualgpu.errors import OutOfMemory, VirtualGPUError
from virtualgpu.memory.huge import Huge, Rule
from virtualgpu.memory.mapping import BASE, PAGE, Mapping
from virtualgpu.memory.plain_dtypes import demand_plain
from virtualgpu.memory.written import Written
from virtualgpu.wording import many

ALIGN = 512  # cudaMalloc guarantees at least 256
# Bytes on either side of each allocation that belong to none. This is not a power of two, because
# arrays of one size would then use the same lines of the processor's caches.
GUARD = (1 << 20) + 3 * ALIGN
POISON = 0xFE
HEAP = 8 << 20  # bytes for malloc in kernels (the default of cudaLimitMallocHeapSize)
_LARGE = 4 << 20  # bytes from which an array gets pages of 2 MiB (as in NumPy)


class GlobalMemory:
    """Allocations of one device.

    Parameters
    ----------
    capacity : int
        Bytes that may be allocated at once (the guard zones do not count).
    before : GlobalMemory, optional
        Memory of the previous device. The addresses of this one follow it in the same mapping
        (CUDA's "unified virtual addressing"), so that no address exists twice.
    share : int
        Number of devices that share the mapping's addresses.
    apart : bool
        Place the mapping at a random address, so that no device address is a host address.

    Attributes
    ----------
    all : list of GlobalMemory
        Memories that share the mapping, by the number of their device.
    huge_from : float
        Size in bytes from which an allocation takes memory only for touched pages.
    """

    huge_from = math.inf

    def __init__(
        self, capacity: int, before: GlobalMemory | None = None, share: int = 1, apart: bool = False
    ):
        self.capacity = capacity
        self.allocated = 0
        self.mapping: Mapping = Mapping(apart) if before is None else before.mapping
        self.all: list[GlobalMemory] = [] if before is None else before.all
        self.all.append(self)
        self._bytes = raw = self.mapping.raw
        self.host = self.mapping.host
        self.views = {
            np.dtype(code): raw.view(code)
            for code in ("u1", "i1", "?", "u2", "i2", "f2", "u4", "i4", "f4", "u8", "i8", "f8")
        }
        self.first: int = BASE if before is None else before.limit
        self.limit: int = self.first + len(raw) // share
        # Sorted starts of the live allocations, and their ends. Each change assigns two new lists
        # in one statement, in which Python runs no other thread and no signal handler. Code that
        # needs both lists must also read both in one statement.
        self.starts: list[int] = []
        self.ends: list[int] = []
        self._freed: list[tuple[int, int]] = []  # the latest ones, for use-after-free messages
        self._next = self.first + GUARD
        self._holes: dict[int, list[int]] = {}  # span → starts that can be reused
        self._lock = threading.RLock()
        self.heap: dict[int, int] = {}  # allocations of malloc in kernels: start → bytes
        self.heap_used = 0
        # Allocations (by start) that have unwritten bytes.
        self.unwritten: dict[int, Written] = {}
        self.version = 0  # changes whenever the set of allocations does
        self.records: object = None  # last accesses (virtualgpu.native.watched_launch)
        self.huge: dict[int, Huge] = {}  # allocations with memory for touched pages only, by start
        self._retired: dict[int, int] = {}  # start → bytes, kept for a memory pool
        # For other processes (virtualgpu.memory.interprocess): start → file with the pages, and
        # handle → address and number of times it was opened.
        self.shown: dict[int, int] = {}
        self.opened: dict[bytes, tuple[int, int]] = {}
        self.objects: dict[int, object] = {}  # handle → texture or surface (memory.textures)
        # Live allocations whose bytes the host can access as an array, and the host threads that
        # have used this memory (virtualgpu.memory.snapshot).
        self.seen_by_host: set[int] = set()
        self.callers: set[threading.Thread] = set()

    def allocate(
        self,
        nbytes: int,
        *,
        poison: bool = True,
        in_page: int | None = None,
        huge: tuple[Any, Rule | None] | None = None,
    ) -> int:
        """Reserve ``nbytes`` and return their address.

        0 bytes give a unique address that nothing may access. ``in_page`` requests an address at
        that byte of a page. ``huge`` is the dtype and rule of an array that takes memory only for
        touched pages (:mod:`virtualgpu.memory.huge`). An allocation of ``huge_from`` bytes or more
        always becomes one.

        Raises OutOfMemory beyond the device's capacity. Huge arrays do not count.
        """
        nbytes = int(nbytes)
        if nbytes < 0:
            raise ValueError(f"cannot allocate {many(nbytes, 'byte')}")
        if huge is None and in_page is None and nbytes >= self.huge_from:
            huge = np.uint8, None
        with self._lock:
            if huge is None and self.allocated + nbytes > self.capacity:
                raise OutOfMemory(
                    f"{many(nbytes, 'byte')} requested, but {self.capacity - self.allocated:,} of "
                    f"the device's {self.capacity:,} are free; free arrays you no longer need"
                )
            span = -(-max(nbytes, 1) // ALIGN) * ALIGN + GUARD
            if in_page is not None or huge:
                self._next += ((in_page or 0) - self._next) % PAGE
            holes = None if in_page is not None else self._holes.get(span)
            # A freed address is reused only after eight younger ones, so that a dangling pointer is
            # more likely to be caught than to hit another array.
            if holes and len(holes) > 8:
                start = holes.pop(0)
            else:
                start = self._next
                if start + span > self.limit:
                    if in_page is not None:
                        raise OutOfMemory("the device's address space is used up")
                    if span > self.limit - self.first - GUARD:
                        raise OutOfMemory(
                            f"{many(nbytes, 'byte')} requested, but the virtual GPU has addresses "
                            f"only for {self.limit - self.first:,}"
                        )
                    start = self._largest_hole(span)
                else:
                    self._next += span
            self._freed = [one for one in self._freed if one[0] != start]
            if huge:
                # Cover the whole span, which a memory pool may reuse (`revive`).
                self.huge[start] = Huge(self.mapping, start, span - GUARD, *huge)
            self._put_in(start, nbytes, nbytes)
        if huge:
            return start
        if nbytes >= _LARGE:
            self.mapping.use_huge_pages(start, start + nbytes)
        if poison and nbytes:
            self._bytes[start - BASE : start - BASE + nbytes] = POISON
        return start

    def _largest_hole(self, span: int) -> int:
        for size in sorted(self._holes):
            if size >= span and self._holes[size]:
                return self._holes[size].pop(0)
        raise OutOfMemory("the device's address space is used up; free arrays you no longer need")

    def free(self, address: int) -> None:
        """Free an allocation, also a retired one.

        Raises VirtualGPUError if none starts at ``address``.
        """
        with self._lock:
            if address in self._retired:
                start, end = address, address + self._retired.pop(address)
            else:
                start, end = self._take_out(address)
            span = -(-max(end - start, 1) // ALIGN) * ALIGN + GUARD
            self._holes.setdefault(span, []).append(start)
            huge = self.huge.pop(start, None)
            self.allocated -= 0 if huge else end - start
            if start in self.shown:
                self.mapping.hide(self.mapping.pages(start, end))
                os.close(self.shown.pop(start))
            elif huge:
                huge.forget()
            else:
                self.mapping.forget(start, end)

    def _put_in(self, start: int, nbytes: int, more: int) -> None:
        """Add an allocation, which increases the allocated bytes by ``more``."""
        written = Written(nbytes)
        at = bisect.bisect(self.starts, start)
        starts, ends = [*self.starts], [*self.ends]
        starts.insert(at, start)
        ends.insert(at, start + nbytes)
        self.starts, self.ends = starts, ends
        self.allocated += 0 if start in self.huge else more
        self.version += 1
        if nbytes:
            self.unwritten[start] = written

    def _take_out(self, address: int) -> tuple[int, int]:
        """End the allocation at ``address``, so that it can no longer be accessed.

        Returns its start and end.
        """
        at = bisect.bisect_left(self.starts, address)
        if at == len(self.starts) or self.starts[at] != address:
            raise VirtualGPUError(f"free of {address:#x}: no live allocation starts there")
        starts, ends = [*self.starts], [*self.ends]
        start, end = starts.pop(at), ends.pop(at)
        self.starts, self.ends = starts, ends
        self.version += 1
        self._freed = [*self._freed[-63:], (start, end)]
        self.unwritten.pop(start, None)
        self.seen_by_host.discard(start)
        return start, end

    def retire(self, address: int) -> None:
        """Free an allocation for its users, while its owner (a memory pool) keeps its memory.

        The bytes still count as allocated, and accessing them is an error, until :meth:`revive`
        reuses the memory or :meth:`free` releases it.
        """
        with self._lock:
            start, end = self._take_out(address)
            self._retired[start] = end - start
            if start in self.huge:
                self.huge[start].forget()

    def revive(self, address: int, nbytes: int, *, poison: bool = True) -> None:
        """Reuse a retired allocation, with as many bytes as fit in its memory."""
        with self._lock:
            before = self._retired.pop(address)
            if -(-nbytes // ALIGN) > -(-before // ALIGN):
                self._retired[address] = before
                raise VirtualGPUError(f"{many(nbytes, 'byte')} requested of an area with {before}")
            self._freed = [one for one in self._freed if one[0] != address]
            self._put_in(address, nbytes, nbytes - before)
        if poison and address not in self.huge:
            self._bytes[address - BASE : address - BASE + nbytes] = POISON

    def heap_allocate(self, nbytes: int) -> int:
        """Allocate for a kernel's ``malloc``; return the address, or 0 if the heap is full."""
        with self._lock:
            if nbytes > HEAP - self.heap_used:
                return 0
            try:
                address = self.allocate(nbytes)
            except OutOfMemory:
                return 0
            self.heap[address] = nbytes
            self.heap_used += nbytes
            return address

    def heap_free(self, address: int) -> None:
        """Free for a kernel's ``free``. Raises VirtualGPUError unless from ``malloc``."""
        with self._lock:
            nbytes = self.heap.pop(address, None)
            if nbytes is None:
                raise VirtualGPUError(
                    f"free({address:#x}) in a kernel: malloc in a kernel has not returned this "
                    "address, or it was already freed"
                )
            self.heap_used -= nbytes
            self.free(address)

    def extent(self, address: int) -> tuple[int, int] | None:
        """Return ``(start, end)`` of the live allocation that holds ``address``, or None."""
        starts, ends = self.starts, self.ends
        at = bisect.bisect(starts, address) - 1
        if at >= 0 and (address < ends[at] or address == starts[at]):
            return starts[at], ends[at]
        return None

    def bad_lanes(self, addresses: np.ndarray, size: int) -> np.ndarray:
        """Return a mask of the ``addresses`` (uint64) whose access is outside memory.

        An access has ``size`` bytes.
        """
        live = self.starts, self.ends
        if not live[0]:
            return np.ones(addresses.shape, bool)
        starts, ends = (np.array(one, np.uint64) for one in live)
        at = np.searchsorted(starts, addresses, side="right").astype(np.int64) - 1
        inside = at >= 0
        at = np.maximum(at, 0)
        room = ends[at] - addresses
        bad: np.ndarray = ~(inside & (addresses < ends[at]) & (room >= np.uint64(size)))
        return bad

    def freed(self, address: int) -> int:
        """Return the size of the recently freed array at ``address``, or 0."""
        if self.extent(address) is None:
            for start, end in reversed(self._freed):
                if start <= address < end:
                    return end - start
        return 0

    def elsewhere(self, address: int) -> str:
        """Describe another device's array that holds ``address``; empty if there is none."""
        for number, other in enumerate(self.all):
            if other is not self and (extent := other.extent(address)):
                return (
                    f"in an array of {many(extent[1] - extent[0], 'byte')} on device {number}, and "
                    f"this is device {self.all.index(self)}"
                )
        return ""

    def describe(self, address: int, size: int) -> str:
        """Describe the position of an illegal ``address`` relative to the allocations."""
        if nbytes := self.freed(address):
            return f"in an array of {many(nbytes, 'byte')} that was freed (use after free)"
        starts, ends = self.starts, self.ends
        at = bisect.bisect(starts, address) - 1
        near = []
        if at >= 0:
            start, end = starts[at], ends[at]
            if address < end:
                whole = many(end - start, "byte")
                return f"{many(size, 'byte')} that run past the end of an array of {whole}"
            near.append((address - end, f"{many(address - end, 'byte')} after", start, end))
        if at + 1 < len(starts):
            start, end = starts[at + 1], ends[at + 1]
            near.append((start - address, f"{many(start - address, 'byte')} before", start, end))
        if near and min(near)[0] < GUARD:
            _, words, start, end = min(near)
            side = "the end" if "after" in words else "the start"
            return f"{words} {side} of an array of {many(end - start, 'byte')}"
        if address < 4096:
            return "a null pointer: the array is empty or was never given memory"
        if other := self.elsewhere(address):
            return other
        return "far from every array"

    # -- the host's side -----------------------------------------------------------------------

    def demand(self, address: int, nbytes: int, what: str) -> None:
        """Raise VirtualGPUError unless the bytes are in one live allocation."""
        extent = self.extent(address)
        if nbytes and (extent is None or address + nbytes > extent[1]):
            raise VirtualGPUError(
                f"{what} of {many(nbytes, 'byte')} at {address:#x}: "
                f"{self.describe(address, nbytes)}"
            )

    def _span(self, address: int, nbytes: int, what: str) -> slice:
        self.demand(address, nbytes, what)
        if self.huge and (huge := self.huge_at(address)):
            huge.demand_part(nbytes, what)
            huge.fill(address - huge.start, address - huge.start + nbytes)
        return slice(address - BASE, address - BASE + nbytes)

    def huge_at(self, address: int) -> Huge | None:
        """Return the huge allocation that holds ``address``, or None."""
        extent = self.extent(address)
        return self.huge.get(extent[0]) if extent else None

    def reaches_huge(self, parameters: Iterable[bytes]) -> bool:
        """Return True if a parameter of a launch is an address in a huge allocation."""
        return bool(self.huge) and any(
            len(raw) == 8 and self.huge_at(int.from_bytes(raw, "little")) for raw in parameters
        )

    def wrote(self, address: int, nbytes: int) -> None:
        """Record that the host wrote these bytes."""
        extent = self.extent(address)
        known = self.unwritten.get(extent[0]) if extent else None
        if extent is not None and known is not None:
            known.add(address - extent[0], address - extent[0] + nbytes)
            if not known.left:
                self.unwritten.pop(extent[0], None)

    def write(self, address: int, data: np.ndarray) -> None:
        """Copy a host array's bytes (C order) to the device; Python objects raise TypeError."""
        demand_plain(data.dtype)
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        self._bytes[self._span(address, flat.size, "copy to the device")] = flat
        self.wrote(address, flat.size)

    def read(self, address: int, nbytes: int) -> np.ndarray:
        """Copy ``nbytes`` from the device into a new uint8 array."""
        return self._bytes[self._span(address, nbytes, "copy from the device")].copy()

    def copy(self, target: int, origin: int, nbytes: int) -> None:
        self._bytes[self._span(target, nbytes, "copy on the device")] = self.read(origin, nbytes)
        to, of = self.extent(target), self.extent(origin)
        if to and of and (known := self.unwritten.get(to[0])) is not None:
            known.copy_from(self.unwritten.get(of[0]), target - to[0], origin - of[0], nbytes)
            if not known.left:
                self.unwritten.pop(to[0], None)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        huge = self.huge_at(address)
        if huge and not byte:
            self.demand(address, nbytes, "fill")
            huge.clear(address - huge.start, address - huge.start + nbytes)
        else:
            self._bytes[self._span(address, nbytes, "fill")] = byte
        self.wrote(address, nbytes)

    def host_view(self, address: int, nbytes: int) -> np.ndarray:
        """Return mapped or managed memory, which the host shares, without a copy."""
        view = self._bytes[self._span(address, nbytes, "view")]
        # The host may write it at any time.
        start, _ = self.extent(address) or (0, 0)
        self.unwritten.pop(start, None)
        self.seen_by_host.add(start)
        return view
