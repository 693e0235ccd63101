"""Affine addresses: random chains of index arithmetic against the interpreter.

The addresses wrap, leave the array, differ in sign or overlap.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from native_lab import agree
from ptx_lab import PLACE, entry
from virtualgpu.native import run

WORDS = 4096
# One warp, so that not even the order of warps is left open.
BLOCKS = [(32, 1, 1), (16, 2, 1), (8, 4, 1), (4, 8, 1), (8, 2, 2), (32, 1, 1), (29, 1, 1)]
# What keeps neighbours neighbours, mostly: %r3 begins as the thread's index, %r4 is one number.
CHAIN = [
    "add.s32 %r3, %r3, {i};",
    "sub.s32 %r3, %r3, {i};",
    "mad.lo.s32 %r3, %r7, %r4, %r3;",
    "add.s32 %r3, %r3, %r4;",
    "sub.s32 %r3, %r3, %r2;",
    "not.b32 %r3, %r3;",
    "neg.s32 %r3, %r3;",
    "sub.s32 %r3, {i}, %r3;",
    "selp.b32 %r3, %r3, %r4, %p1;",
    "selp.b32 %r3, %r4, %r3, %p3;",
    "setp.{c}.s32 %p1, %r20, 1;",
    "setp.{c}.s32 %p3, %r2, 1;",
    "setp.{c}.s32 %p1, %r3, {i};",
    "div.s32 %r4, %r1, {m};",
    "and.b32 %r4, %r3, -2147483648;",
    "shr.s32 %r4, %r3, 31;",
    "@%p1 add.s32 %r3, %r3, 1;",
    "mul.lo.s32 %r3, %r3, {j};",
    "shl.b32 %r3, %r3, {k};",
]
WIDE = [
    "cvt.s64.s32 {d}, %r3;",
    "cvt.u64.u32 {d}, %r3;",
    "mul.wide.s32 {d}, %r3, {j};",
    "mul.wide.u32 {d}, %r3, {j};",
    "cvt.s64.s32 {d}, %r4;",
]


def kernel(seed: int) -> str:
    """Loads and stores at ``array + size * index``, the index a random chain, in a short loop."""
    random = Random(seed)

    def one(forms: list[str], **more: object) -> str:
        return random.choice(forms).format(
            i=random.randrange(-20, 20),
            j=random.choice((1, 1, 2)),
            k=random.choice((0, 0, 1)),
            c=random.choice(("lt", "ge", "ne")),
            m=random.choice((5, 64)),
            **more,
        )

    lines = [
        "mov.u32 %r1, %tid.x;",
        random.choice(["mov.u32 %r2, 3;", "mov.u32 %r2, %tid.y;"]),
        "mov.u32 %r7, %ntid.x;",
        "mov.u32 %r20, 0;",
        "mov.u64 %rd40, 0;",
    ]
    fresh = [
        "mov.b32 %r3, %r1;",
        "mov.b32 %r4, %r2;",
        "setp.lt.s32 %p1, %r7, 40;",
        "setp.gt.s32 %p3, %r7, 40;",
    ]
    # Most chains begin anew in each round: it is from the second on that variables are known.
    lines += ["LOOP:", *fresh] if random.random() < 0.8 else [*fresh, "LOOP:"]
    for number in range(random.choice((1, 1, 2, 3))):
        lines += [one(CHAIN) for _ in range(random.choice((0, 1, 1, 2, 3)))]
        size, index, where = random.choice((4, 4, 8)), f"%rd{10 + number}", f"%rd{20 + number}"
        lines += [
            one(WIDE, d=index),
            f"shr.s64 %rd30, {index}, 63;",
            f"and.b64 %rd30, %rd30, {random.choice((0, 64))};",
            f"add.s64 {index}, {index}, %rd30;",
            f"add.s64 {index}, {index}, %rd40;",
            f"shl.b64 {where}, {index}, {size.bit_length() - 1};",
            f"add.s64 {where}, %rd{random.choice((1, 2))}, {where};",
        ]
        offset = random.choice((8192, 8192, 0, 4 * WORDS - 256)) + size * random.randrange(-3, 4)
        value = f"%{'r' if size == 4 else 'rd'}{31 + number}"
        lines.append(f"ld.global.b{8 * size} {value}, [{where}+{offset}];")
        lines.append(f"add.u{8 * size} {value}, {value}, {random.randrange(1, 9)};")
        if random.random() < 0.7:
            to = offset + size * random.choice((0, 0, 1, 8, -1))
            lines.append(f"st.global.b{8 * size} [{where}+{to}], {value};")
        lines.append(f"add.s64 %rd40, %rd40, {random.randrange(-9, 10)};")
    bound = random.choice(("3", "3", "3", "%r1"))
    lines += ["add.u32 %r20, %r20, 1;", f"setp.lt.u32 %p2, %r20, {bound};", "@%p2 bra LOOP;"]
    # Without PLACE, which names `%tid.y`: then rows are eight lanes long in any case.
    return entry("\n".join(lines), 2).replace(PLACE, "")


def arrays() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 1 << 32, (2, WORDS), dtype=np.uint32)


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(run, "STRICT", True)


@pytest.mark.parametrize(
    "seed",
    [*range(20), *(pytest.param(seed, marks=pytest.mark.rehearsal) for seed in range(20, 200))],
)
def test_chains_of_index_arithmetic(seed):
    agree(kernel(seed), *arrays(), grid=1, block=BLOCKS[seed % len(BLOCKS)])


LOOP = """
  mov.u32 %r1, %tid.x;  mov.u32 %r20, 0;  {before}
LOOP:
  {index}
  mul.wide.s32 %rd10, %r3, 4;  add.s64 %rd10, %rd1, %rd10;
  ld.global.b32 %r5, [%rd10+8192];  add.u32 %r5, %r5, 7;  st.global.b32 [%rd10+8192], %r5;
  add.u32 %r20, %r20, 1;  setp.lt.u32 %p2, %r20, 4;
  @%p2 bra LOOP;
"""


@pytest.mark.parametrize(
    "index",
    [
        # Of a row, some lanes are below zero: as Numba wraps a[i].
        (
            "sub.s32 %r3, %r1, 5;  shr.s32 %r4, %r3, 31;  and.b32 %r4, %r4, 64;  add.s32 %r3, "
            "%r3, %r4;"
        ),
        "sub.s32 %r3, %r1, 5;  and.b32 %r4, %r3, -2147483648;  shr.u32 %r4, %r4, 25;"
        "add.s32 %r3, %r3, %r4;",
        # In one of the rounds all lanes take the same element.
        "setp.ne.u32 %p1, %r20, 2;  mov.u32 %r4, 3;  selp.b32 %r3, %r1, %r4, %p1;",
        "setp.eq.u32 %p1, %r20, 2;  mov.u32 %r4, 3;  selp.b32 %r3, %r4, %r1, %p1;",
        # Some of the lanes write the register, or all but some.
        "mov.b32 %r3, %r1;  setp.gt.u32 %p1, %r1, 20;  @%p1 add.s32 %r3, %r3, 1;",
        # The quotient, of which nothing is known, is one number for all lanes, or it is not.
        "div.s32 %r4, %r1, 40; | add.s32 %r3, %r1, %r4;",
        "div.s32 %r4, %r1, 20; | add.s32 %r3, %r1, %r4;",
        "div.s32 %r4, %r1, 20;  add.s32 %r3, %r1, %r4;",
    ],
)
@pytest.mark.parametrize("block", [(32, 1, 1), (16, 2, 1), (8, 4, 1), (4, 8, 1)])
@pytest.mark.parametrize("rows", [False, True])
def test_rows_that_are_none_in_some_lanes_or_rounds(index, block, rows):
    before, _, index = index.rpartition("|")
    text = entry(LOOP.format(before=before, index=index), 2)
    agree(text if rows else text.replace(PLACE, ""), *arrays(), grid=1, block=block)


def test_a_chain_of_a_thousand_sums():
    sums = "add.s32 %r3, %r3, 1;" * 1000
    agree(
        entry(LOOP.format(before="", index=f"sub.s32 %r3, %r1, 990; {sums}"), 2),
        *arrays(),
        grid=1,
        block=32,
    )


@pytest.mark.parametrize(
    "result",
    [
        "add.f16x2 %r3, 31, %r1;",
        "sub.f16x2 %r3, %r1, 31;",
        "neg.f16x2 %r3, %r1;",
        "mul.f16x2 %r3, %r1, 3;",
        "neg.bf16 %h2, %h1; cvt.u32.u16 %r3, %h2;",
        "cvt.rn.bf16.u32 %h2, %r1; cvt.u32.u16 %r3, %h2;",
        "cvt.rn.satfinite.e4m3x2.f16x2 %h2, %r1; cvt.u32.u16 %r3, %h2;",
    ],
)
def test_what_lies_in_a_register_as_an_integer_does_and_is_none(result):
    text = entry(
        f"""add.u32 %r1, %gid, 2035; cvt.u16.u32 %h1, %r1; {result}
        mul.wide.u32 %rd3, %gid, 4; add.u64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], %r3;""",
        1,
    )
    agree(text, np.zeros(128, np.uint32))
