"""Affine addresses where only some lanes of a warp are here: loads of all, stores that put back
what the others' part was; against the interpreter."""

from __future__ import annotations

import re
from random import Random

import numpy as np
import pytest

import sampling
from native_lab import agree
from ptx_lab import PLACE, entry
from virtualgpu.launch.linker import LoadedModule
from virtualgpu.memory.global_memory import GlobalMemory
from virtualgpu.native import run
from virtualgpu.native.flow import control_flow
from virtualgpu.native.flow.decode import decode
from virtualgpu.native.lowering import Lowering
from virtualgpu.native.memory.affine_access import AffineAccesses
from virtualgpu.program.program import Program
from virtualgpu.program.steps import MemoryAccess

WORDS = 512
# Thread t has element t of a shared array of {size} words, which it loads and stores in a loop if
# it is among those that `some` takes; %r20 counts the rounds, %r2 is the element's address.
KERNEL = """
  mov.u32 %r1, %tid.x;  mov.u32 %r20, 0;  mov.u32 %r21, 0;
  mov.u32 %r9, s;  mad.lo.u32 %r2, %r1, {stride}, %r9;
  mad.wide.u32 %rd10, %tid, 4, %rd1;  ld.global.b32 %r3, [%rd10];
  {first}
  bar.sync 0;
LOOP:
  {some}
  @%p1 bra ON;
  {body}
ON:
  bar.sync 0;
  add.u32 %r20, %r20, 1;  setp.lt.u32 %p2, %r20, 5;
  @%p2 bra LOOP;
  {last}
  mad.wide.u32 %rd10, %tid, 4, %rd2;  st.global.b32 [%rd10], %r4;  st.global.b32 [%rd10+1024], %r21;
"""
FILL, EMPTY = "st.shared.b32 [%r2], %r3;", "ld.shared.b32 %r4, [%r2];"
SUM = """ld.shared.b32 %r5, [%r2];  ld.shared.b32 %r6, [%r2+4];  add.u32 %r5, %r5, %r6;
         st.shared.b32 [%r2], %r5;"""
SOME = {
    "tree": "shr.u32 %r7, 32, %r20;  setp.ge.u32 %p1, %r1, %r7;",
    "upper": "add.u32 %r7, %r20, 3;  setp.lt.u32 %p1, %r1, %r7;",
    "odd": "add.u32 %r7, %r20, %r1;  and.b32 %r7, %r7, 1;  setp.eq.u32 %p1, %r7, 0;",
    "rounds": "setp.eq.u32 %p1, %r20, 2;",
}
# One warp: two would race.
BLOCKS = [(32, 1, 1), (16, 2, 1), (8, 4, 1), (4, 8, 1), (29, 1, 1)]


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(run, "STRICT", True)


def kernel(body: str, some: str, stride: int = 4, size: int = 65, **more: str) -> str:
    parts = {"first": FILL, "last": EMPTY} | more
    return entry(
        KERNEL.format(body=body, some=SOME.get(some, some), stride=stride, **parts),
        2,
        variables=f".shared .align 4 .b32 s[{size}];",
    )


def both(text: str, block: tuple[int, int, int], grids: tuple[int, ...] = (1, 2)) -> None:
    arrays = np.random.default_rng(3).integers(0, 1 << 32, (2, WORDS), dtype=np.uint32)
    texts = [text]
    if block[1] == 1:  # without `%tid.y` rows are whole warps
        texts.append(text.replace(PLACE, "").replace("%tid,", "%r1,"))
    for one in texts:
        for grid in grids:  # the second block begins with variables that are known
            agree(one, *arrays, grid=grid, block=block)


BODIES = {
    "sum": SUM,
    # What the others hold stays theirs: the count of rounds, and where their element lies.
    "counted": SUM + "add.u32 %r21, %r21, %r20;",
    "moved": SUM + "add.u32 %r2, %r2, 4;",
    "regular": "add.u32 %r8, %r2, 4;  ld.shared.b32 %r5, [%r8];  add.u32 %r21, %r21, %r5;"
    "st.shared.b32 [%r2], %r21;",
    # Two bytes, and one element for all.
    "narrow": "ld.shared.u16 %h1, [%r2];  add.u16 %h1, %h1, 7;  st.shared.u16 [%r2], %h1;",
    "same": "ld.shared.b32 %r5, [s+20];  add.u32 %r5, %r5, %r1;  st.shared.b32 [%r2], %r5;",
}


@pytest.mark.parametrize(("body", "some", "block"), sampling.each(7, BODIES, [*SOME], BLOCKS))
def test_some_lanes_of_a_warp(body, some, block):
    # The sum's last element is behind the threads'; `moved` goes to 5 more.
    both(kernel(body, some, size=70), block)


@pytest.mark.parametrize("some", SOME)
@pytest.mark.parametrize(
    ("stride", "store"),
    [(8, "st.shared.b64 [%r2], %rd20;"), (8, "st.shared.v2.b32 [%r2], {%r5, %r1};")],
)
def test_wide_elements(stride, store, some):
    body = "ld.shared.b32 %r5, [%r2];  cvt.u64.u32 %rd20, %r5;  add.u64 %rd20, %rd20, %rd1;" + store
    text = kernel(body.replace("%rd1;", "3;"), some, stride, 128).replace(".align 4", ".align 8")
    both(text, (32, 1, 1))


@pytest.mark.parametrize("block", [(8, 4, 1), (16, 2, 1)], ids=str)
def test_rows_that_reach_the_same_elements(block):
    """Rows of eight lanes store one after the other: what a lane of the last puts back is what the
    first has left. In each other round the lower half of the warp stores."""
    both(
        kernel(
            "add.u32 %r5, %tid, %r20;  st.shared.b32 [%r2], %r5;",
            "shl.b32 %r7, %r20, 4;  xor.b32 %r7, %r7, %tid;  and.b32 %r7, %r7, 16;"
            "setp.ne.u32 %p1, %r7, 0;",
        ),
        block,
    )


@pytest.mark.parametrize("more", [0, 1], ids=["inside", "one is not"])
@pytest.mark.parametrize("size", [31, 20])
def test_lanes_whose_neighbours_have_no_element(size, more):
    """An array ends within the warp's line: lanes that are inside go on, one more each round; the
    first that is not is refused in the same words."""
    both(
        kernel(
            "ld.shared.b32 %r5, [%r2];  add.u32 %r5, %r5, 1;  st.shared.b32 [%r2], %r5;",
            f"add.u32 %r7, %r20, {size - 5 + more};  setp.gt.u32 %p1, %r1, %r7;",
            size=size,
            first=f"setp.ge.u32 %p3, %r1, {size};  @!%p3 {FILL}",
            last="mov.u32 %r4, 0;",
        ),
        (32, 1, 1),
    )


def random_body(random: Random) -> str:
    """Pieces of a loop, most of them for some of the lanes, each with loads and stores at addresses
    that are regular, or were."""
    lines = []
    for number in range(random.choice((1, 2, 3))):
        limit = random.choice(("%r20", "%r7", str(random.randrange(40))))
        lines += [
            f"shr.u32 %r7, 32, %r20;  and.b32 %r8, %r1, {random.choice((1, 3, 31))};",
            f"setp.{random.choice(('lt', 'ge', 'ne'))}.u32 %p3, %r8, {limit};",
            f"@%p3 bra ON{number};" if random.random() < 0.8 else "",
        ]
        for _ in range(random.choice((1, 2, 3))):
            base = random.choice(("%r2", "%r2", "%r10", "%r11"))
            at = 4 * random.choice((0, 0, 1, 2, 16, 32))
            lines.append(
                random.choice(
                    (
                        "add.u32 %r10, %r2, {at};",
                        "mad.lo.u32 %r10, %r1, 4, %r9;",
                        "mov.b32 %r11, %r2;",
                        "selp.b32 %r11, %r2, %r9, %p3;",
                        "add.u32 %r2, %r2, 4;",
                        "mov.b32 %r10, %r9;",
                        "ld.shared.b32 %r5, [{base}+{at}];  add.u32 %r21, %r21, %r5;",
                        "ld.shared.b32 %r5, [{base}];  add.u32 %r5, %r5, %r21;"
                        "st.shared.b32 [{base}+{at}], %r5;",
                        "st.shared.b16 [{base}+{at}], %h1;  add.u16 %h1, %h1, 3;",
                        "ld.global.b32 %r5, [%rd10+{at}];  st.global.b32 [%rd10+{at}], %r21;",
                        "st.shared.b32 [{base}+{at}], %r1;  ld.shared.b32 %r21, [{base}];",
                    )
                ).format(base=base, at=at)
            )
        lines.append(f"ON{number}:")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "seed",
    [*range(20), *(pytest.param(seed, marks=pytest.mark.rehearsal) for seed in range(20, 200))],
)
def test_random_pieces_of_a_loop(seed):
    random = Random(seed)
    text = kernel(
        random_body(random),
        "setp.gt.u32 %p1, %r20, 90;",
        size=random.choice((40, 150)),
        first="mov.b32 %r10, %r9;  mov.b32 %r11, %r2;  mov.u16 %h1, 5;" + FILL,
    )
    both(text, random.choice(BLOCKS), (1,))  # two blocks would race


def program(text: str) -> Program:
    return LoadedModule(GlobalMemory(1 << 20), [text], None).program("k", False)


@pytest.mark.parametrize(
    ("body", "suits"),
    [
        ("ld.global.b32 %r1, [%rd1];  ld.shared.v2.b32 {%r2, %r3}, [s];", True),
        ("st.shared.b32 [s], %r1;", True),
        ("st.shared.v2.b32 [s], {%r1, %r2};", False),
        ("st.global.b32 [%rd1], %r1;", False),
        ("st.b32 [%rd1], %r1;", False),
    ],
)
def test_memory_that_other_cores_see_is_not_put_back(body, suits):
    code = program(entry(body, 1, variables=".shared .b32 s[64];"))
    steps = [step for place in control_flow.places(code) for step in decode(code, place)]
    planned = {id(step) for step in steps if isinstance(step, MemoryAccess)}
    assert AffineAccesses.suits_some(steps, planned) is suits
    assert AffineAccesses.suits_some(steps, set())


def test_the_body_of_a_tree_sum_is_written_for_some_lanes():
    """Of its stores, the one in the loop puts back what the other lanes have: those of the first
    and the last place hand registers on, or store to global memory."""
    text = kernel(SUM, "tree").replace(PLACE, "").replace("%tid,", "%r1,")
    code = str(Lowering(program(text), "native").warp.module)
    blended = re.findall(r"= select  *<32 x i1> .*\n  store <32 x i32> .*align 4", code)
    assert len(blended) == 1
