"""Values that the device gets in place of those that the student's host code hands over.

A result that was computed on the host and given to a kernel to copy does not change when the
inputs change on the device alone; one that kernels computed becomes that of the new inputs. So
that the host learns nothing of these, the function is called twice. The first call exchanges
nothing and writes down what the host reads. In the second, whatever the host reads before its last
launch is what it read in the first, in whatever form it is: only what no kernel can get any more is
read as it stands on the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

# What an array of numbers may have been cast to on its way to the device.
CASTS = {"f": ("f8", "f4"), "i": ("i8", "i4"), "u": ("u8", "u4")}


class Diverged(Exception):
    """The second call does on the device what the first did not."""


class Exchange:
    """One call of a host function: exchanges the first of each pair for the second; see
    :func:`gpucourse.grading.testing.verbs.call`.

    Elements are recognised by their values, which should occur nowhere else: random numbers.

    Parameters
    ----------
    shown
        What the host read before its last launch in a call without exchange, uint8 each.
    room
        Bytes to write down what the host reads; 0 for not at all.

    Attributes
    ----------
    done : int
        How often something was exchanged.
    """

    def __init__(self, pairs: Sequence[tuple[Any, Any]] = (), shown: Sequence[np.ndarray] = (),
                 room: int = 0) -> None:
        self.done = 0
        self._any = [_bytes(by) for what, by in pairs if what is None]
        self._tables = [table for what, by in pairs if what is not None
                        for table in _tables(np.atleast_1d(what), np.atleast_1d(by))]
        self._shown = shown if pairs else None
        self._heard: list[np.ndarray] = []
        self._reads = self._before_last_launch = 0
        self._room = room

    @property
    def heard(self) -> list[np.ndarray]:
        """What the host has read before its last launch."""
        return self._heard[: self._before_last_launch]

    def to_device(self, data: np.ndarray) -> np.ndarray:
        """Bytes that the host hands over, uint8, exchanged where they are the first of a pair."""
        for known, by in self._tables:
            if (changed := _exchanged(data, known, by)) is not None:
                self.done += 1
                return changed
        for other in self._any:
            if data.nbytes == other.nbytes and data.any():
                self.done += 1
                return other
        return data

    def to_host(self, data: np.ndarray) -> np.ndarray:
        """What the host gets for bytes that it reads. Raises MemoryError, Diverged."""
        number = self._reads
        self._reads += 1
        if self._room:
            if sum(map(len, self._heard)) + len(data) > self._room:
                raise MemoryError
            self._heard.append(data)
        if self._shown is None or number >= len(self._shown):
            return data
        if len(data) != len(self._shown[number]):
            raise Diverged
        return self._shown[number]

    def launched(self) -> None:
        """A kernel starts, or the host has data copied on the device. Raises Diverged."""
        self._before_last_launch = self._reads
        if self._shown is not None and self._reads > len(self._shown):
            raise Diverged

    def parameter(self, raw: bytes) -> bytes:
        """The same as :meth:`to_device` for an argument of a launch."""
        return self.to_device(np.frombuffer(raw, np.uint8)).tobytes() if self._tables else raw


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _tables(what: np.ndarray, by: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """A pair in each type that its elements may be cast to, flat."""
    return [(what.reshape(-1).astype(code), by.reshape(-1).astype(code))
            for code in CASTS[what.dtype.kind]]


def _exchanged(data: np.ndarray, known: np.ndarray, by: np.ndarray) -> np.ndarray | None:
    """`data` with elements of `known` replaced by those of `by`; None if it has few of them."""
    if not len(data) or len(data) % known.itemsize or not known.size:
        return None
    values = np.frombuffer(data.tobytes(), known.dtype)
    order = np.argsort(known)
    place = order[np.searchsorted(known, values, sorter=order).clip(max=known.size - 1)]
    found = known[place] == values
    if 2 * np.count_nonzero(found) < len(values):
        return None
    return _bytes(np.where(found, by[place], values))
