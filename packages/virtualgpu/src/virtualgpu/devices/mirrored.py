"""Remote device with a local copy of its memory, for array operations.

NumPy sees this process's copy of an allocation. Bytes that the host wrote are sent before the
device does anything else, and bytes that a launch changed are fetched after it. In this way, the
CuPy stand-in works with a device whose memory this process cannot access.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any

import numpy as np

from virtualgpu.devices.protocol import Triple
from virtualgpu.devices.remote import Ask, RemoteDevice
from virtualgpu.errors import VirtualGPUError
from virtualgpu.memory.global_memory import POISON
from virtualgpu.memory.plain_dtypes import demand_plain
from virtualgpu.wording import many


class _Copy:
    """Host copy of an allocation.

    Attributes
    ----------
    written : list of (start, end)
        Bytes that the host wrote and has not sent yet.
    before : ndarray, optional
        The device's contents, for mapped and managed memory, which the host writes without notice.
    """

    def __init__(self, data: np.ndarray) -> None:
        self.data = data
        self.host: int = data.__array_interface__["data"][0]
        self.written: list[tuple[int, int]] = []
        self.before: np.ndarray | None = None

    def wrote(self, start: int, end: int) -> None:
        if self.written and self.written[-1][1] == start:  # an array that is filled in pieces
            start = self.written.pop()[0]
        self.written.append((start, end))

    def unsent(self) -> list[tuple[int, int]]:
        """Return the bytes that the device lacks, and mark them as sent."""
        if self.before is not None:
            changed = np.flatnonzero(self.data != self.before)
            if changed.size:
                self.wrote(int(changed[0]), int(changed[-1]) + 1)
            self.before[:] = self.data
        found, self.written = self.written, []
        return found


class MirroredDevice(RemoteDevice):
    """Device that answers through `ask`, with the methods of a shared device.

    It is a :class:`~virtualgpu.devices.protocol.SharedDevice`. The arguments are those of
    :class:`~virtualgpu.devices.remote.RemoteDevice`. It sends two more verbs, ``retire`` and
    ``revive``.
    """

    shares_memory = True
    heeds_writes = True  # the host's writes must be sent

    def __init__(
        self, ask: Ask, name: str, compute_capability: tuple[int, int], total_memory: int
    ) -> None:
        super().__init__(ask, name, compute_capability, total_memory)
        self._starts: list[int] = []  # live allocations and variables of modules, sorted
        self._sizes: dict[int, int] = {}
        self._retired: set[int] = set()
        self._untouched: set[int] = set()  # allocated since the device's last operation
        self._copies: dict[int, _Copy] = {}
        # Finalisers free memory at any time, even while an answer is awaited.
        self._given_back: list[tuple[str, int]] = []

    def _request(
        self, verb: str, arrays: Sequence[np.ndarray] = (), **fields: Any
    ) -> tuple[dict, list[np.ndarray]]:
        while self._given_back:
            late, address = self._given_back.pop(0)
            super()._request(late, address=address)
        return super()._request(verb, arrays, **fields)

    # -- memory --------------------------------------------------------------------------------

    @property
    def allocated(self) -> int:
        return sum(self._sizes.values())

    def allocate(self, nbytes: int, *, poison: bool = True) -> int:
        return self._know(super().allocate(nbytes), int(nbytes))

    def free(self, address: int) -> None:
        self._give_back("free", int(address))
        self._retired.discard(int(address))

    def retire(self, address: int) -> None:
        self._give_back("retire", int(address))
        self._retired.add(int(address))

    def _give_back(self, verb: str, address: int) -> None:
        if address not in self._sizes and address not in self._retired:
            raise VirtualGPUError(f"{verb} of {address:#x}: no live allocation starts there")
        self._given_back.append((verb, address))
        if self._sizes.pop(address, None) is not None:
            self._starts.remove(address)
        self._copies.pop(address, None)

    def revive(self, address: int, nbytes: int, *, poison: bool = True) -> None:
        self._request("revive", address=int(address), nbytes=int(nbytes))
        self._retired.discard(int(address))
        self._know(int(address), int(nbytes))

    def _know(self, address: int, nbytes: int) -> int:
        if address not in self._sizes:
            bisect.insort(self._starts, address)
        self._sizes[address] = nbytes
        self._untouched.add(address)
        return address

    def symbol(self, module: Any, name: str) -> tuple[int, int]:
        address, nbytes = super().symbol(module, name)
        if address not in self._sizes:
            self._know(address, nbytes)
            self._untouched.discard(address)
        return address, nbytes

    def extent(self, address: int) -> tuple[int, int] | None:
        at = bisect.bisect(self._starts, address) - 1
        if at >= 0:
            start = self._starts[at]
            if address < start + max(self._sizes[start], 1):
                return start, start + self._sizes[start]
        return None

    def demand(self, address: int, nbytes: int, what: str) -> None:
        extent = self.extent(address)
        if nbytes and (extent is None or address + nbytes > extent[1]):
            raise VirtualGPUError(
                f"{what} of {many(nbytes, 'byte')} at {address:#x}: not inside one allocation"
            )

    # -- the copy ------------------------------------------------------------------------------

    def _copy_of(self, address: int) -> tuple[int, _Copy]:
        """Return the start of the allocation that holds an address, and the host copy of it."""
        self.demand(address, 1, "view")
        start = self._starts[bisect.bisect(self._starts, address) - 1]
        if start not in self._copies:
            nbytes = self._sizes[start]
            self._copies[start] = _Copy(
                np.full(nbytes, POISON, np.uint8)
                if start in self._untouched
                else super().read(start, nbytes)
            )
        return start, self._copies[start]

    def view(
        self,
        address: int,
        shape: tuple[int, ...],
        dtype: Any,
        strides: tuple[int, ...] | None = None,
    ) -> np.ndarray:
        demand_plain(dtype)
        start, copy = self._copy_of(address)
        return np.ndarray(shape, dtype, copy.data, address - start, strides)

    def host_view(self, address: int, nbytes: int) -> np.ndarray:
        start, copy = self._copy_of(address)
        if copy.before is None:
            copy.wrote(0, len(copy.data))
            copy.before = copy.data.copy()
        return copy.data[address - start : address - start + nbytes]

    def address_of(self, host: int) -> int:
        """Return the device address of a byte of a copy; 0 if it is in no copy."""
        for start, copy in self._copies.items():
            if copy.host <= host < copy.host + len(copy.data):
                return start + host - copy.host
        return 0

    def wrote(self, address: int, nbytes: int) -> None:
        start, copy = self._copy_of(address)
        copy.wrote(address - start, address - start + nbytes)

    def _send(self) -> None:
        """Send all unsent bytes, before the device does anything."""
        for start, copy in list(self._copies.items()):
            for low, high in copy.unsent():
                super().write(start + low, copy.data[low:high])
        self._untouched.clear()

    def _fetch(self, copies: dict[int, _Copy]) -> None:
        """Fetch the contents of copies that have no unsent bytes."""
        for start, copy in copies.items():
            copy.data[:] = super().read(start, len(copy.data))
            if copy.before is not None:
                copy.before[:] = copy.data

    def _changed(self, address: int) -> None:
        start, _ = self.extent(address) or (0, 0)
        self._fetch({start: self._copies[start]} if start in self._copies else {})

    # -- what the device does ------------------------------------------------------------------

    def write(self, address: int, data: np.ndarray) -> None:
        self._send()
        super().write(address, data)
        self._changed(int(address))

    def read(self, address: int, nbytes: int) -> np.ndarray:
        self._send()
        return super().read(address, nbytes)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        self._send()
        super().fill(address, byte, nbytes)
        self._changed(int(address))

    def copy(self, target: int, origin: int, nbytes: int) -> None:
        self._send()
        super().copy(target, origin, nbytes)
        self._changed(int(target))

    def launch(
        self,
        module: Any,
        entry: str,
        grid: Triple,
        block: Triple,
        parameters: list[bytes],
        shared_bytes: int = 0,
        cooperative: bool = False,
        cluster: Triple | None = None,
    ) -> None:
        self._send()
        super().launch(module, entry, grid, block, parameters, shared_bytes, cooperative, cluster)
        self._fetch(dict(self._copies))

    def synchronize(self) -> None:
        self._send()
        super().synchronize()
