"""Compiled loops do what the same text does as Python; the language refuses the rest."""

from __future__ import annotations

import ctypes
from typing import ClassVar

import numpy as np
import pytest

from virtualgpu.compilers.llvm import pointer
from virtualgpu.compilers.loops import (
    I32,
    I64,
    U8,
    U32,
    U64,
    Words,
    atomic_add,
    call,
    compiled,
    copy,
    fill,
)
from virtualgpu.watch import memory_traffic, race_loop, written_loop

LIMIT = 7


@compiled
def helper(values: I64, n: int) -> int:
    if n < 0 or (values[n] > LIMIT and not values[n] == 9):
        return 1
    return 0


@compiled
def everything(wide: I64, small: I32, bytes_: U8, words: U32, n: int) -> int:
    """Every statement and operator there is."""
    total = 0
    for i in range(n):
        if i == 3:
            continue
        value = wide[i]
        total += value // 2 + value % 3 - (i << 2) + (value >> 1) * 5
        total ^= (value & 6) | ~i
        small[i] = -value
        bytes_[i] = value + 250
        words[i] = value - 1
        if helper(wide, i):
            total += 1000
        elif (value > 5 and i > 2) or value == 1:
            total -= 1
        else:
            pass
        k = 0
        while k < 10:
            k += 3
            if k >= 6:
                break
        total += k + (value < 4) + (value >= 4) * 2 + small[i] + bytes_[i] + words[i]
    for j in range(n - 2, n):
        total += j
    return total


def test_everything_as_in_python():
    random = np.random.default_rng(1)
    for n in (0, 1, 5, 20):
        wide = random.integers(0, 12, 20)
        results = []
        for interpreted in (False, True):
            arrays = (
                wide.copy(),
                np.zeros(20, np.int32),
                np.zeros(20, np.uint8),
                np.zeros(20, np.uint32),
            )
            # Python's arrays would refuse what does not fit; machine code cuts it off.
            if interpreted:
                arrays = tuple(Wrapping(a) for a in arrays)
                got = everything.interpret(*arrays, n)
                arrays = tuple(a.array for a in arrays)
            else:
                got = everything(*map(pointer, arrays), n)
            results.append((int(got), [a.tolist() for a in arrays]))
        assert results[0] == results[1]


class Pair(Words):
    at: ClassVar = {"first": 0, "second": 1}


@compiled
def by_address(pair: Pair, function: int, numbers: int, count: int) -> int:
    values: U32 = numbers
    for i in range(count):
        values[i] += i
    atomic_add(values, 0, 5)
    copy(numbers + 8, numbers, 4)
    fill(numbers + 4, 0xFE, 4)
    pair.second += pair.first
    other: Pair = numbers
    return call(function, other.second, pair.second) + total(numbers, count)


@compiled
def total(values: U32, count: int) -> int:
    result = 0
    for i in range(count):
        result += values[i]
    return result


def test_numbers_that_are_addresses():
    pair, values = np.array([3, 4], np.int64), np.array([10, 20, 30, 40], np.uint32)
    told = []

    def hear(*given: int) -> int:
        told.append(given)
        return 1000

    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(hear)
    at = ctypes.cast(function, ctypes.c_void_p).value
    got = by_address(pointer(pair), at, pointer(values), 4)
    assert pair.tolist() == [3, 7]
    assert values.tolist() == [15, 0xFEFEFEFE, 15, 43]
    assert told == [(15 | 43 << 32, 7)]
    assert got == 1000 + sum(values.tolist())


class Wrapping:
    """An array of Python ints in and out, that cuts off what does not fit an element."""

    def __init__(self, array):
        self.array = array

    def __getitem__(self, index):
        return int(self.array[index])

    def __setitem__(self, index, value):
        bits = 8 * self.array.itemsize
        value &= (1 << bits) - 1
        if self.array.dtype.kind == "i" and value >> (bits - 1):
            value -= 1 << bits
        self.array[index] = value


def both(loop, *arguments):
    """Run a loop compiled and interpreted on copies; both results and the arrays after."""
    outcomes = []
    for interpreted in (False, True):
        given = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        if interpreted:
            wrapped = [Wrapping(a) if isinstance(a, np.ndarray) else a for a in given]
            result = loop.interpret(*wrapped)
        else:
            result = loop(*[pointer(a) if isinstance(a, np.ndarray) else a for a in given])
        outcomes.append((int(result), [a.tolist() for a in given if isinstance(a, np.ndarray)]))
    return outcomes


@pytest.mark.parametrize("seed", range(5))
def test_counting_loops(seed):
    random = np.random.default_rng(seed)
    lanes = np.sort(random.choice(128, 90, replace=False))
    warp_of, thread_of = np.arange(128) // 32, np.arange(128) % 64
    addresses = (random.integers(0, 200, 90) * 8).astype(np.uint64)
    seen, more = np.zeros(64, np.uint64), np.zeros(64, np.uint64)
    banks, result = np.zeros(32, np.int64), np.zeros(4, np.int64)
    one, two = both(memory_traffic.sectors, addresses, lanes, warp_of, 90, 8, seen, more, result)
    assert one == two
    one, two = both(
        memory_traffic.banks, addresses, lanes, warp_of, thread_of, 90, 8, 16, seen, banks, result
    )
    assert one == two
    one, two = both(memory_traffic.contention, addresses, lanes, warp_of, 90, seen, banks, result)
    assert one == two
    block_of, counts = thread_of * 0, np.zeros(500, np.uint32)
    one, two = both(
        memory_traffic.tally, addresses, lanes, block_of, 90, 0, 1600, 0, counts, result
    )
    assert one == two
    one, two = both(
        memory_traffic.raise_by,
        7,
        lanes,
        90,
        warp_of,
        np.zeros(128, np.uint32),
        np.zeros(4, np.uint32),
    )
    assert one == two


@pytest.mark.parametrize("seed", range(5))
def test_byte_maps(seed):
    random = np.random.default_rng(seed)
    addresses = (random.integers(0, 40, 30) * 4).astype(np.uint64)
    lanes, result = np.arange(30), np.zeros(2, np.int64)
    written = (random.random(200) < 0.7).astype(np.uint8)
    for loop in (written_loop.mark_bytes, written_loop.find_bytes):
        one, two = both(loop, addresses, lanes, lanes, 30, 0, 160, 0, 4, written, result)
        assert one == two
    for loop in (written_loop.mark_words, written_loop.find_words):
        one, two = both(
            loop, addresses, lanes, lanes, 30, 0, 160, 0, 4, written.view(np.uint32), result
        )
        assert one == two


def test_words_and_bytes_agree():
    random = np.random.default_rng(7)
    addresses, lanes = (random.integers(0, 40, 30) * 4).astype(np.uint64), np.arange(30)
    written = (random.random(200) < 0.7).astype(np.uint8)
    outcomes = []
    for mark, find in (
        (written_loop.mark_bytes, written_loop.find_bytes),
        (written_loop.mark_words, written_loop.find_words),
    ):
        bytes_, new, bad = written.copy(), np.zeros(2, np.int64), np.zeros(2, np.int64)
        where = (pointer(addresses), pointer(lanes), pointer(lanes), 30, 0, 160, 0, 4)
        find(*where, pointer(bytes_), pointer(bad))
        mark(*where, pointer(bytes_), pointer(new))
        outcomes.append((bytes_.tolist(), new[0], bad.tolist()))
    assert outcomes[0] == outcomes[1]


def test_a_record_of_several_names_the_widest_group():
    start, threads = 128, 64
    one = 5 << race_loop.TIME | 130
    assert race_loop.widened(one, 140, start, threads) == 1
    assert race_loop.widened(one, 170, start, threads) == 2
    assert race_loop.widened(5 << race_loop.TIME | 300, 140, start, threads) == 3
    assert race_loop.widened(one | 2 << race_loop.SCOPE, 131, start, threads) == 2


def test_what_the_language_lacks_is_refused():
    @compiled
    def floats(a: U64, n: int) -> int:
        return a[0] * 2.5

    @compiled
    def chained(a: U64, n: int) -> int:
        return 1 if 0 < n < 3 else 0

    @compiled
    def prints(a: U64, n: int) -> int:
        print(n)
        return 0

    for loop, words in ((floats, "2.5"), (chained, "if 0 < n < 3"), (prints, "print")):
        with pytest.raises(SyntaxError, match="compiled loops have no"):
            loop(0, 1)
        with pytest.raises(SyntaxError, match=words):
            loop(0, 1)
