"""Origin of the data in the student's device memory: a kernel or the host."""

from __future__ import annotations

import numpy as np

from virtualgpu.api import Access, Observer


class Origins(Observer):
    """Record of the bytes in the student's device memory that a kernel has written."""

    def __init__(self) -> None:
        # start address of an allocation → one bool per byte
        self._written: dict[int, np.ndarray] = {}
        # start addresses of allocations that were passed to a launch
        self.launched: set[int] = set()

    def allocated(self, address: int, nbytes: int) -> None:
        self._written[address] = np.zeros(nbytes, bool)

    def freed(self, address: int) -> None:
        self._written.pop(address, None)
        self.launched.discard(address)

    def find(self, address: int) -> int | None:
        """Return the start of the allocation that contains `address`, or None."""
        for start, mask in self._written.items():
            if start <= address < start + max(len(mask), 1):
                return start
        return None

    def holds(self, address: int, nbytes: int) -> bool:
        start = self.find(address)
        return start is not None and address + nbytes <= start + len(self._written[start])

    def host_wrote(self, address: int, nbytes: int) -> None:
        if (start := self.find(address)) is not None:
            self._written[start][address - start : address - start + nbytes] = False

    def host_copied(self, target: int, origin: int, nbytes: int) -> None:
        into, out_of = self.find(target), self.find(origin)
        if into is not None and out_of is not None:
            mask = self.mask(origin, nbytes)
            self._written[into][target - into : target - into + nbytes] = mask
            if out_of in self.launched:
                self.launched.add(into)

    def accessed(self, access: Access) -> None:
        if access.space != "global" or access.kind == "load" or not len(access.addresses):
            return
        addresses = access.addresses.astype(np.int64)
        for start, mask in self._written.items():
            inside = addresses[(addresses >= start) & (addresses < start + len(mask))] - start
            for byte in range(access.size):
                mask[np.minimum(inside + byte, len(mask) - 1)] = True

    def mask(self, address: int, nbytes: int) -> np.ndarray:
        """Return True for each byte whose latest write was a launch's."""
        start = self.find(address)
        if start is None:
            return np.zeros(nbytes, bool)
        return self._written[start][address - start : address - start + nbytes].copy()

    def from_launch(self, address: int, data: np.ndarray) -> np.ndarray:
        """Return True for each byte of `data`, read at `address`, that may be a kernel's result.

        These are bytes that a launch wrote, and zeros in an array that was passed to a launch,
        because a bin without events is never written and still correct.
        """
        start = self.find(address)
        if start is None or start not in self.launched:
            return np.zeros(len(data), bool)
        mask: np.ndarray = self.mask(address, len(data)) | (data == 0)
        return mask
