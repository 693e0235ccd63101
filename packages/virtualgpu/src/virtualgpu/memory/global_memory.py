"""Global memory: one address space of allocations with guard zones and poison.

Device addresses are offsets into one anonymous mapping whose untouched pages cost nothing, so
allocations can lie far apart. Nothing outside a live allocation can be read or written.

Fresh memory is filled with :data:`POISON`: a result that depends on unwritten memory is
visibly wrong (int32 -16843010, float32 -1.7e38) instead of luckily zero.
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

ALIGN = 512  # cudaMalloc promises at least 256
# Bytes that no allocation covers, on either side of each: no power of two, or arrays of one size
# would fall on the same lines of the processor's caches.
GUARD = (1 << 20) + 3 * ALIGN
POISON = 0xFE
HEAP = 8 << 20  # bytes for malloc in kernels (cudaLimitMallocHeapSize's default)
_LARGE = 4 << 20  # bytes from which an array is worth pages of 2 MiB (as NumPy does)


class GlobalMemory:
    """Allocations of one device.

    Parameters
    ----------
    capacity : int
        Bytes that may be allocated at once (the guard zones do not count).
    before : GlobalMemory, optional
        The memory of the device before this one. Its addresses go on where that one's end, in one
        mapping (CUDA's "unified virtual addressing"): no number means two places.
    share : int
        How many devices share the mapping's addresses.
    apart : bool
        Whether the mapping lies at a random place, so that no device address is one of the host.

    Attributes
    ----------
    all : list of GlobalMemory
        Those that share the mapping, by the number of their device.
    huge_from : float
        Bytes from which an allocation takes memory for touched pages alone.
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
        # Sorted starts of the live allocations, and their ends: new lists at each change, put in
        # place by one statement, between whose halves Python runs no other thread and no signal's
        # handler. What takes both has to read both in one statement too.
        self.starts: list[int] = []
        self.ends: list[int] = []
        self._freed: list[tuple[int, int]] = []  # the latest ones, for use-after-free messages
        self._next = self.first + GUARD
        self._holes: dict[int, list[int]] = {}  # span → starts free to be used again
        self._lock = threading.RLock()
        self.heap: dict[int, int] = {}  # what kernels' malloc gave out: start → bytes
        self.heap_used = 0
        # Allocations (by start) of which some bytes were never written.
        self.unwritten: dict[int, Written] = {}
        self.version = 0  # changes whenever the set of allocations does
        self.records: object = None  # of who touched it last (virtualgpu.native.watched_launch)
        self.huge: dict[int, Huge] = {}  # allocations that are only said to be large, by start
        self._retired: dict[int, int] = {}  # start → bytes, kept for a memory pool
        # For other processes (virtualgpu.memory.interprocess): start → the file of its pages, and
        # handle → address and how often it was opened.
        self.shown: dict[int, int] = {}
        self.opened: dict[bytes, tuple[int, int]] = {}
        self.objects: dict[int, object] = {}  # handle → texture or surface (memory.textures)
        # Live allocations whose bytes the host has as an array of its own, and the threads of the
        # host that have used this memory (virtualgpu.memory.snapshot).
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

        0 bytes give a unique address that nothing may touch. ``in_page`` asks for an address at
        that byte of a page. ``huge`` is the dtype and rule of an array that is only said to be
        large (:mod:`virtualgpu.memory.huge`); ``huge_from`` bytes make any allocation one.

        Raises OutOfMemory past the device's capacity, which huge arrays do not count for.
        """
        nbytes = int(nbytes)
        if nbytes < 0:
            raise ValueError(f"cannot allocate {many(nbytes, 'byte')}")
        if huge is None and in_page is None and nbytes >= self.huge_from:
            huge = np.uint8, None
        with self._lock:
            if huge is None and self.allocated + nbytes > self.capacity:
                raise OutOfMemory(
                    f"{many(nbytes, 'byte')} asked for, {self.capacity - self.allocated:,} of the "
                    f"device's {self.capacity:,} are free; free arrays you no longer need"
                )
            span = -(-max(nbytes, 1) // ALIGN) * ALIGN + GUARD
            if in_page is not None or huge:
                self._next += ((in_page or 0) - self._next) % PAGE
            holes = None if in_page is not None else self._holes.get(span)
            # A freed address is used again only after eight younger ones, so that a dangling
            # pointer is more likely to be caught than to hit another array.
            if holes and len(holes) > 8:
                start = holes.pop(0)
            else:
                start = self._next
                if start + span > self.limit:
                    if in_page is not None:
                        raise OutOfMemory("the device's address space is used up")
                    if span > self.limit - self.first - GUARD:
                        raise OutOfMemory(
                            f"{many(nbytes, 'byte')} asked for, and the virtual GPU has addresses "
                            f"for {self.limit - self.first:,}"
                        )
                    start = self._largest_hole(span)
                else:
                    self._next += span
            self._freed = [one for one in self._freed if one[0] != start]
            if huge:
                # As large as the place, which a memory pool may hand out again (`revive`).
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
        """Give an allocation back, a retired one too.

        Raises VirtualGPUError where none starts at ``address``.
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
        """Begin an allocation, by which ``more`` bytes than before count as allocated."""
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
        """End the allocation at ``address``: it can no longer be touched. Its start and end."""
        at = bisect.bisect_left(self.starts, address)
        if at == len(self.starts) or self.starts[at] != address:
            raise VirtualGPUError(f"free of {address:#x}, where no live allocation starts")
        starts, ends = [*self.starts], [*self.ends]
        start, end = starts.pop(at), ends.pop(at)
        self.starts, self.ends = starts, ends
        self.version += 1
        self._freed = [*self._freed[-63:], (start, end)]
        self.unwritten.pop(start, None)
        self.seen_by_host.discard(start)
        return start, end

    def retire(self, address: int) -> None:
        """Free an allocation for its users, while its owner (a memory pool) keeps the place.

        Its bytes still count as allocated, and touching them is an error, until :meth:`revive`
        hands them out again or :meth:`free` gives them back.
        """
        with self._lock:
            start, end = self._take_out(address)
            self._retired[start] = end - start
            if start in self.huge:
                self.huge[start].forget()

    def revive(self, address: int, nbytes: int, *, poison: bool = True) -> None:
        """Hand out a retired allocation again, with as many bytes as fit in its place."""
        with self._lock:
            before = self._retired.pop(address)
            if -(-nbytes // ALIGN) > -(-before // ALIGN):
                self._retired[address] = before
                raise VirtualGPUError(f"{many(nbytes, 'byte')} asked of a place with {before}")
            self._freed = [one for one in self._freed if one[0] != address]
            self._put_in(address, nbytes, nbytes - before)
        if poison and address not in self.huge:
            self._bytes[address - BASE : address - BASE + nbytes] = POISON

    def heap_allocate(self, nbytes: int) -> int:
        """Allocate for a kernel's ``malloc``: an address, or 0 where the heap is full."""
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
        """Free for a kernel's ``free``. Raises VirtualGPUError if not from ``malloc``."""
        with self._lock:
            nbytes = self.heap.pop(address, None)
            if nbytes is None:
                raise VirtualGPUError(
                    f"free({address:#x}) in a kernel: malloc in a kernel gave no such address, "
                    "or it was freed before"
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
        """Return a mask of the ``addresses`` (uint64) that start an access outside memory.

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
        """Return the size of the recently freed array at ``address``; 0 for none."""
        if self.extent(address) is None:
            for start, end in reversed(self._freed):
                if start <= address < end:
                    return end - start
        return 0

    def elsewhere(self, address: int) -> str:
        """Return the name of another device's array that holds ``address``; empty for none."""
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
        """Raise VirtualGPUError unless the bytes lie in one live allocation."""
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
        """Return the allocation that holds ``address`` if it is only said to be large."""
        extent = self.extent(address)
        return self.huge.get(extent[0]) if extent else None

    def reaches_huge(self, parameters: Iterable[bytes]) -> bool:
        """Return True if a parameter of a launch is an address in such an allocation."""
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
        """Copy a host array's bytes (C order) to the device. TypeError for Python objects."""
        demand_plain(data.dtype)
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        self._bytes[self._span(address, flat.size, "copy to the device")] = flat
        self.wrote(address, flat.size)

    def read(self, address: int, nbytes: int) -> np.ndarray:
        """Copy ``nbytes`` from the device: a new uint8 array."""
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
        """Return the bytes themselves, for mapped and managed memory, which the host shares."""
        view = self._bytes[self._span(address, nbytes, "view")]
        # The host may write it at any time.
        start, _ = self.extent(address) or (0, 0)
        self.unwritten.pop(start, None)
        self.seen_by_host.add(start)
        return view
