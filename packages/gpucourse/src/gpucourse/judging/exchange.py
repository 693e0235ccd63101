"""Replacement of the values that a student's host code passes to the device.

The inputs are changed on the device only. A result that was computed on the host does not change,
but one computed by kernels becomes that of the new inputs. So that the host learns nothing about
the new inputs, the function is called twice. The first call exchanges nothing and records what the
host reads. In the second call, the host reads the recorded data again, by whatever method. The
value that it returns shows which part of these copies it contains (``grading.oracle.provenance``),
and the result is taken from that part of the device's memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

# Types to which an array of numbers may have been cast on its way to the device.
CASTS = {"f": ("f8", "f4"), "i": ("i8", "i4"), "u": ("u8", "u4")}


# An array is not exchanged if its numbers could be known by chance in one of so many launches.
ODDS = 1e-4
# Up to this many numbers are looked up one by one, and more in a sorted table. Sorting 100,000
# numbers takes 7 ms. When each lookup sorted again, that was a third of the time of grading the
# first project.
FEW = 8


class Diverged(Exception):
    """The second call reads data from the device that the first call did not read."""


class Exchange:
    """Exchange of values in one call of a host function.

    It replaces the first array of each pair by the second; see
    :func:`gpucourse.grading.testing.verbs.call`.

    Elements are recognised by their values, which should be random so that they occur nowhere
    else.

    Parameters
    ----------
    shown
        Data that the host read in a call without exchange, each as uint8.
    room
        Number of bytes that may be recorded when the host reads; 0 records nothing.

    Attributes
    ----------
    done : int
        Number of exchanges.
    as_many : bool
        True if the host passed an array with as many numbers as one of a pair.
    heard : list of np.ndarray
        Data that the host has read, if there was `room`.
    """

    def __init__(
        self, pairs: Sequence[tuple[Any, Any]] = (), shown: Sequence[np.ndarray] = (), room: int = 0
    ) -> None:
        self.done = 0
        self.as_many = False
        self._any = [_bytes(by) for what, by in pairs if what is None]
        self._tables = [
            table
            for what, by in pairs
            if what is not None
            for table in _tables(np.atleast_1d(what), np.atleast_1d(by))
        ]
        self._shown = shown if pairs else None
        self.heard: list[np.ndarray] = []
        self._reads = 0
        self._room = room

    def to_device(self, data: np.ndarray) -> np.ndarray:
        """Return the bytes for the device as uint8, exchanged if they match the first array."""
        for table in self._tables:
            self.as_many |= len(data) == table.known.nbytes
            if (changed := table.exchanged(data)) is not None:
                self.done += 1
                return changed
        for other in self._any:
            if data.nbytes == other.nbytes and data.any():
                self.done += 1
                return other
        return data

    @property
    def replays(self) -> bool:
        """Return True if the host reads the recorded data, so that the device is not needed."""
        return self._shown is not None

    def to_host(self, data: np.ndarray) -> np.ndarray:
        """Return the host's data for bytes that it reads; raise MemoryError or Diverged."""
        if self._shown is not None:
            return self.again(len(data))
        self._reads += 1
        if self._room:
            if sum(map(len, self.heard)) + len(data) > self._room:
                raise MemoryError
            self.heard.append(data)
        return data

    def again(self, nbytes: int) -> np.ndarray:
        """Return the host's data in a call that :attr:`replays`; raise Diverged."""
        assert self._shown is not None
        number = self._reads
        self._reads += 1
        if number >= len(self._shown) or nbytes != len(self._shown[number]):
            raise Diverged
        return self._shown[number]

    def parameter(self, raw: bytes) -> bytes:
        """Exchange an argument of a launch, as :meth:`to_device` does."""
        return self.to_device(np.frombuffer(raw, np.uint8)).tobytes() if self._tables else raw


class _Table:
    """A pair as flat arrays of one type; elements of `known` are replaced by those of `by`."""

    def __init__(self, known: np.ndarray, by: np.ndarray) -> None:
        self.known, self._by = known, by

    @cached_property
    def _order(self) -> np.ndarray:
        return np.argsort(self.known)

    @cached_property
    def _chance(self) -> float:
        """Return an upper bound on the chance that numbers match those of `known` by accident.

        For 400,000 float32 it is 5%, because the second half of the float64 8.0 is the float32
        2.5.
        """
        known = self.known[np.isfinite(self.known)]
        if known.size < 2:
            return 0.0
        low, high = known.min(), known.max()
        step = np.spacing(max(abs(low), abs(high))) if known.dtype.kind == "f" else 1
        return min(known.size * float(step) / max(float(high) - float(low), float(step)), 1 / 8)

    def exchanged(self, data: np.ndarray) -> np.ndarray | None:
        """Return `data` as uint8 with known elements exchanged.

        Return None if fewer than half of the non-zero elements are known, or so few that they may
        match by accident.
        """
        known = self.known
        if not len(data) or len(data) % known.itemsize or not known.size or not data.any():
            return None
        if np.array_equal(data, _bytes(known)):
            return _bytes(self._by)
        values = np.frombuffer(data.tobytes(), known.dtype)
        place = self._places(values)
        found = known[place] == values
        hits = np.count_nonzero(found & (values != 0))
        # Each position is one of the matches or not, so there are at most 4 ** hits ways.
        if 2 * hits < np.count_nonzero(values) or (4 * self._chance) ** hits > ODDS:
            return None
        return _bytes(np.where(found, self._by[place], values))

    def _places(self, values: np.ndarray) -> np.ndarray:
        """Return each value's position in `known`, if it is there."""
        if len(values) <= FEW:
            return np.array([np.argmax(self.known == value) for value in values])
        after = np.searchsorted(self.known, values, sorter=self._order)
        return self._order[after.clip(max=self.known.size - 1)]


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _tables(what: np.ndarray, by: np.ndarray) -> list[_Table]:
    """Return a pair in each type to which its elements may be cast."""
    return [
        _Table(what.reshape(-1).astype(code), by.reshape(-1).astype(code))
        for code in CASTS[what.dtype.kind]
    ]
