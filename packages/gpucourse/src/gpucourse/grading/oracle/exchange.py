"""Values that the device gets in place of those that the student's host code hands over.

A result that was computed on the host and given to a kernel to copy does not change when the
inputs change on the device alone; one that kernels computed becomes that of the new inputs. So
that the host learns nothing of these, the function is called twice. The first call exchanges
nothing and writes down what the host reads. In the second, whatever the host reads before its last
launch is what it read in the first, in whatever form it is: only what no kernel can get any more is
read as it stands on the device.

A function that checks its own result on the host then finds another than it expects, and says so
with an exception. It is called once more, *blind*: whatever the host reads is what it read in the
first call, and where its result shows that, what stands on the device at this place is taken
instead.
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
    blind
        Whether the host reads what is in `shown` after its last launch too.

    Attributes
    ----------
    done : int
        How often something was exchanged.
    as_many : bool
        Whether an array of as many numbers as one of a pair was handed over.
    """

    def __init__(self, pairs: Sequence[tuple[Any, Any]] = (), shown: Sequence[np.ndarray] = (),
                 room: int = 0, blind: bool = False) -> None:
        self.done = 0
        self.as_many = False
        self.blind = blind
        # What the host read in place of what stands on the device, and that.
        self._replaced: list[tuple[np.ndarray, np.ndarray]] = []
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

    @property
    def everything_heard(self) -> list[np.ndarray]:
        """What the host has read, after its last launch too."""
        return self._heard

    def to_device(self, data: np.ndarray) -> np.ndarray:
        """Bytes that the host hands over, uint8, exchanged where they are the first of a pair."""
        for known, by in self._tables:
            self.as_many |= len(data) == known.nbytes
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
        if self.blind:
            self._replaced.append((self._shown[number], data))
        return self._shown[number]

    def launched(self) -> None:
        """A kernel starts, or the host has data copied on the device. Raises Diverged."""
        self._before_last_launch = self._reads
        if self._shown is not None and self._reads > len(self._shown):
            raise Diverged

    def seen(self, value: Any) -> Any:
        """A result, with what stands on the device in place of what the blind host read of it."""
        if isinstance(value, (list, tuple)) and not _numbers(value):
            return type(value)(map(self.seen, value))
        if isinstance(value, dict):
            return {key: self.seen(item) for key, item in value.items()}
        if value is None or isinstance(value, (bool, str)):
            return value
        array = np.asarray(value)
        there = self._there(np.ascontiguousarray(array).reshape(-1))
        if there is None:
            return value
        if isinstance(value, (list, tuple)):
            return type(value)(there.tolist())
        there = there.reshape(array.shape)
        return there if isinstance(value, np.ndarray) else there.item() if isinstance(
            value, (int, float)) else there[()]

    def _there(self, wanted: np.ndarray) -> np.ndarray | None:
        """What stands on the device where the host read `wanted`, the whole of a copy or a part.

        The type may be another than the device's.
        """
        for shown, data in reversed(self._replaced):
            for code in dict.fromkeys((wanted.dtype.str, *(c for kind in CASTS.values()
                                                           for c in kind))):
                if len(shown) == len(wanted) * np.dtype(code).itemsize and wanted.size:
                    with np.errstate(over="ignore", invalid="ignore"):
                        if np.array_equal(shown.view(code).astype(wanted.dtype), wanted):
                            there: np.ndarray = data.view(code).astype(wanted.dtype)
                            return there
        text = wanted.tobytes()
        for shown, data in reversed(self._replaced):
            if len(text) > wanted.itemsize and (at := shown.tobytes().find(text)) >= 0:
                part: np.ndarray = data[at : at + len(text)].copy().view(wanted.dtype)
                return part
        return None

    def parameter(self, raw: bytes) -> bytes:
        """The same as :meth:`to_device` for an argument of a launch."""
        return self.to_device(np.frombuffer(raw, np.uint8)).tobytes() if self._tables else raw


def _numbers(value: Sequence[Any]) -> bool:
    return bool(value) and all(
        isinstance(item, (int, float)) and not isinstance(item, bool) for item in value)


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
