"""Provenance of results: which copies to the host a returned number came from.

A number in a result counts as a kernel's if it occurs in a copy to the host at bytes that a kernel
wrote. In a call with exchange (:mod:`gpucourse.judging.exchange`), the host never sees the
device's own values. The values that it returns then only show *where* it took each number from,
and the result is what the device holds there. If the host computes a number itself and then picks
it from a table of all numbers, the result therefore does not follow the device's data.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: Limits of the search for numbers, in bytes: size of one copy, and size of the latest copies
#: together. The copies are searched as numbers of these types.
MAX_SEARCHED = 1 << 20
MAX_TOGETHER = 1 << 22
FLOATS, INTEGERS = ("f8", "f4", "f2"), ("i8", "i4", "u8", "u4", "i2", "u2", "i1", "u1")
#: A result may be joined from MAX_JOINED parts, or from more if the copies are small, for example
#: because a function reads numbers one by one. MAX_SEARCHES limits the bytes searched for all
#: parts.
MAX_JOINED = 8
MAX_SEARCHES = 1 << 26
NUMBERS = (int, float, np.integer, np.floating)


@dataclass(frozen=True)
class Copied:
    """One copy to the host.

    Attributes
    ----------
    shown : np.ndarray
        The bytes that the host received, uint8.
    made : np.ndarray of bool
        True for each byte that a kernel made.
    there : np.ndarray
        The bytes on the device, which differ from `shown` in a call with exchange.
    """

    shown: np.ndarray
    made: np.ndarray
    there: np.ndarray = field(repr=False)


class NotMade(Exception):
    """A result contains a number that is in none of the kernels' data read by the host."""


def made_by_kernels(value: Any, copies: Sequence[Copied]) -> Any:
    """Return the result `value` with the device's data instead of the data shown to the host.

    Parameters
    ----------
    copies
        Copies to the host, the latest first.

    Raises NotMade unless every array and number in it was left by a kernel. Strings, bools and
    None may come from anywhere.
    """
    if value is None or isinstance(value, (bool, np.bool_, str)):
        return value
    if isinstance(value, (list, tuple)):
        # Treat a list of numbers as one array, because single numbers would be found in any table.
        if len(value) > 1 and all(map(_is_number, value)):
            return type(value)(_as_numbers(value, copies))
        return type(value)(made_by_kernels(item, copies) for item in value)
    if isinstance(value, dict):
        return {key: made_by_kernels(item, copies) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _array(value, copies)
    if _is_number(value):
        return _as_numbers([value], copies)[0]
    raise NotMade


def _is_number(value: Any) -> bool:
    return isinstance(value, NUMBERS) and not isinstance(value, bool)


def _as_numbers(values: Sequence, copies: Sequence[Copied]) -> list:
    """Look numbers up as one array; return them in their own types."""
    whole = all(isinstance(value, (int, np.integer)) for value in values)
    try:
        array = np.array(values, np.int64 if whole else np.float64)
    except OverflowError:
        try:
            array = np.array(values, np.uint64)
        except OverflowError:
            raise NotMade from None
    found = _converted(array, copies)
    return [type(value)(one) for value, one in zip(values, found.tolist(), strict=True)]


def _array(value: np.ndarray, copies: Sequence[Copied]) -> np.ndarray:
    if value.size == 0:
        return value
    wanted = np.ascontiguousarray(value).tobytes()
    for one in sorted(copies, key=lambda one: len(one.shown) != len(wanted)):
        text = one.shown.tobytes()
        at = text.find(wanted)
        while at >= 0:
            if one.made[at : at + len(wanted)].all():
                there = one.there[at : at + len(wanted)].tobytes()
                return np.frombuffer(there, value.dtype).reshape(value.shape).copy()
            at = text.find(wanted, at + 1)
    if value.dtype.kind not in "iuf":
        raise NotMade
    return _converted(value.reshape(-1), copies).reshape(value.shape)


# -- converted on the host, or joined ------------------------------------------------------------


def _converted(wanted: np.ndarray, copies: Sequence[Copied]) -> np.ndarray:
    """Return the numbers as found in copies that are converted to their type.

    If numbers occur several times, the most likely place is used: first all of them together in
    one copy, then whole copies in order, and only then the longest adjacent runs anywhere.
    """
    streams = list(_streams(wanted, copies))
    for way in (_Stream.in_one_copy, _Stream.in_whole_copies):
        for stream in streams:
            if (found := way(stream)) is not None:
                return found
    together = sum(len(stream.text) for stream in streams)
    parts = max(MAX_JOINED, min(len(wanted), MAX_SEARCHES // max(together, 1)))
    found = np.empty_like(wanted)
    end = len(wanted)
    # Begin at the end, because a result mostly consists of what was read last.
    for _ in range(parts):
        longest = max(streams, key=lambda stream: stream.longest(end), default=None)
        length = longest.longest(end) if longest else 0
        if not longest or not length:
            break
        found[end - length : end] = longest.take(end - length, end)
        end -= length
        if not end:
            return found
    raise NotMade


class _Stream:
    """Concatenation of all copies, the earliest first, as numbers of one type.

    Each distinct wanted number is represented by a character, because strings are searched in
    linear time. A character that no number has separates the copies.
    """

    def __init__(
        self, code: str, wanted: str, numbers: np.ndarray, copies: Sequence[Copied]
    ) -> None:
        width = int(code[1:])
        self.wanted, self.dtype = wanted, numbers.dtype
        self.lengths = [len(one.shown) // width for one in copies]

        def whole(parts: Iterable[np.ndarray]) -> np.ndarray:
            return np.concatenate(
                [part[: length * width] for part, length in zip(parts, self.lengths, strict=True)]
            )

        ends = np.cumsum(self.lengths)
        made = np.asarray(whole(one.made for one in copies).reshape(-1, width).all(axis=1))
        places = _places(
            _comparable(whole(one.shown for one in copies).view(code), numbers.dtype), numbers, made
        )
        self.text = _text(np.insert(places, ends, -1))
        self.there = np.insert(whole(one.there for one in copies).view(code), ends, 0)
        self.taken = len(self.text)
        self._longest: dict[int, int] = {}

    def in_one_copy(self) -> np.ndarray | None:
        """Return the numbers if they are adjacent in a copy; the latest such copy is used."""
        at = self.text.rfind(self.wanted)
        return None if at < 0 else self._at(at, len(self.wanted))

    def in_whole_copies(self) -> np.ndarray | None:
        """Return the numbers if they are whole copies in order, possibly with others in between."""
        parts: list[np.ndarray] = []
        end, at = len(self.wanted), len(self.text)
        for length in reversed(self.lengths):
            at -= length + 1
            if 0 < length <= end and self.text.startswith(self.wanted[end - length : end], at):
                parts.insert(0, self._at(at, length))
                end -= length
        return np.concatenate(parts) if parts and not end else None

    def longest(self, end: int) -> int:
        """Return the largest count of numbers before `end` that are adjacent somewhere."""
        if end not in self._longest:

            def lacking(length: int) -> bool:
                return self.wanted[end - length : end] not in self.text

            # Every part of an adjacent run is adjacent too, so a binary search works.
            most = 1
            while most < end and not lacking(most):
                most = min(2 * most, end)
            self._longest[end] = bisect.bisect_right(range(1, most + 1), False, key=lacking)
        return self._longest[end]

    def take(self, start: int, end: int) -> np.ndarray:
        """Return these numbers from the device, from the last place that is not yet used."""
        part = self.wanted[start:end]
        at = self.text.rfind(part, 0, self.taken)
        if at < 0:
            at = self.text.rfind(part)
        self.taken = at
        return self._at(at, len(part))

    def _at(self, place: int, length: int) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            return self.there[place : place + length].astype(self.dtype)


def _streams(wanted: np.ndarray, copies: Sequence[Copied]) -> Iterator[_Stream]:
    """Yield one stream for each type that the host may have read, likely types first."""
    small: list[Copied] = []
    room = MAX_TOGETHER
    for one in copies:
        room -= len(one.shown)
        if len(one.shown) <= MAX_SEARCHED and room >= 0:
            small.insert(0, one)
    if not small or not len(wanted):
        return
    known, index = np.unique(_comparable(wanted, wanted.dtype), return_inverse=True)
    if len(known) > len(CHARACTERS):
        return
    text = _text(index.reshape(-1))
    numbers = known.view(wanted.dtype) if wanted.dtype.kind == "f" else known
    for code in (*FLOATS, *INTEGERS) if wanted.dtype.kind == "f" else (*INTEGERS, *FLOATS):
        yield _Stream(code, text, numbers, small)


# Characters that represent numbers, beyond the surrogates; OTHER represents any other number.
CHARACTERS = range(0xE000, 0x10FFFF)
OTHER = CHARACTERS.stop


def _comparable(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return values converted to `dtype`, as bits with a single zero and a single NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        converted = values.astype(dtype)  # a copy
    if dtype.kind == "f":
        converted[converted != converted] = np.nan
        converted[converted == 0] = 0
        return converted.view(f"u{dtype.itemsize}")
    return converted


def _places(values: np.ndarray, numbers: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Return each value's position in `numbers`, or -1."""
    known = numbers.view(f"u{numbers.dtype.itemsize}") if numbers.dtype.kind == "f" else numbers
    place = np.searchsorted(known, values).clip(max=len(known) - 1)
    return np.where(valid & (known[place] == values), place, -1)


def _text(places: np.ndarray) -> str:
    characters = np.where(places < 0, OTHER, places + CHARACTERS.start)
    return characters.astype("<u4").tobytes().decode("utf-32-le")
