"""Random numbers from threefry; a key is one uint64 whose upper half is its first word."""

from __future__ import annotations

import numpy as np
from jax.extend.random import threefry_prng_impl

from jaxpile.expressions import BOOL, INDEX, Expr, apply, const, dims_of, index, row_major
from jaxpile.registry import translates
from jaxpile.values import Value, full

U4, U8 = np.dtype(np.uint32), np.dtype(np.uint64)
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def _word(value: int) -> Expr:
    return const(value, U4)


def _add(x: Expr, y: Expr) -> Expr:
    return apply("add", U4, x, y)


def _xor(x: Expr, y: Expr) -> Expr:
    return apply("xor", U4, x, y)


def rounds(key: tuple[Expr, Expr], counter: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
    """Compute 20 rounds of Threefry-2x32 (Salmon and others 2011, "Parallel random numbers")."""
    keys = (*key, _xor(_xor(*key), _word(0x1BD11BDA)))
    x, y = _add(counter[0], keys[0]), _add(counter[1], keys[1])
    for group in range(5):
        for turn in ROTATIONS[group % 2]:
            x = _add(x, y)
            y = apply(
                "or", U4, apply("shl", U4, y, _word(turn)), apply("shr_l", U4, y, _word(32 - turn))
            )
            y = _xor(x, y)
        x = _add(x, keys[(group + 1) % 3])
        y = _add(_add(y, keys[(group + 2) % 3]), _word(group + 1))
    return x, y


@translates("threefry2x32", kind="pointwise")
def threefry2x32(driver, equation, first, second, x, y):
    results = rounds((first.expr, second.expr), (x.expr, y.expr))
    shape = tuple(equation.outvars[0].aval.shape)
    return [Value(shape, U4, result) for result in results]


def packed(words: Value) -> Value:
    """Pack keys from their words, uint32[..., 2]."""
    shape = words.shape[:-1]
    high, low = (apply("cast", U8, words.at([*dims_of(shape), index(k)])) for k in (0, 1))
    return Value(shape, U8, apply("or", U8, apply("shl", U8, high, const(32, U8)), low))


def unpacked(keys: Value) -> Value:
    """Return the words of keys, uint32[..., 2]."""
    shape = (*keys.shape, 2)
    *outer, last = dims_of(shape)
    both = keys.at(outer)
    high = apply("cast", U4, apply("shr_l", U8, both, const(32, U8)))
    low = apply("cast", U4, both)
    return Value(
        shape, U4, apply("select", U4, apply("eq", BOOL, last, const(0, INDEX)), high, low)
    )


@translates("random_wrap")
def random_wrap(driver, equation, words):
    return packed(words)


@translates("random_unwrap")
def random_unwrap(driver, equation, keys):
    return unpacked(keys)


@translates("random_bits")
def random_bits(driver, equation, keys):
    width, shape = equation.params["bit_width"], equation.params["shape"]
    return driver.traced(
        lambda k: threefry_prng_impl.random_bits(k, width, shape),
        len(keys.shape),
        driver.builder.materialise(unpacked(keys)),
    )


@translates("random_split")
def random_split(driver, equation, keys):
    shape = equation.params["shape"]
    (words,) = driver.traced(
        lambda k: threefry_prng_impl.split(k, shape),
        len(keys.shape),
        driver.builder.materialise(unpacked(keys)),
    )
    return packed(words)


@translates("random_fold_in")
def random_fold_in(driver, equation, keys, data):
    if data.shape != keys.shape:
        raise driver.refuse(equation, "keys and numbers of other shapes; use vmap")
    if data.dtype != U4:
        data = Value(data.shape, U4, apply("cast", U4, data.expr))
    (words,) = driver.traced(threefry_prng_impl.fold_in, len(keys.shape), unpacked(keys), data)
    return packed(words)


@translates("random_seed")
def random_seed(driver, equation, seeds):
    (words,) = driver.traced(threefry_prng_impl.seed, len(seeds.shape), seeds)
    return packed(words)


@translates("iota_2x32_shape")
def iota_2x32_shape(driver, equation):
    """Return the position of each element as 64 bits in two words."""
    shape = tuple(equation.params["shape"])
    if not all(shape):
        return [full(shape, 0, U4), full(shape, 0, U4)]
    at = apply("cast", U8, row_major(shape, dims_of(shape)))
    high = apply("cast", U4, apply("shr_l", U8, at, const(32, U8)))
    return [Value(shape, U4, high), Value(shape, U4, apply("cast", U4, at))]
