"""Registers of which a full warp's code keeps only the first lanes, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import sampling
from native_lab import agree
from ptx_lab import PLACE, entry
from virtualgpu.native import run

WORDS = 4096
# %r3, %r4 and %rd11 decide where lanes load and store; from the second round on in rows.
KERNEL = """
  mov.u32 %r1, %tid.x;  mov.u32 %r20, 0;  mov.b32 %r3, %r1;  mov.u32 %r4, 3;
  and.b32 %r8, %r1, {alike};  add.u32 %r8, %r8, 4;
  mul.lo.u32 %r30, %r1, 13;  and.b32 %r30, %r30, 31;
LOOP:
  cvt.u64.u32 %rd11, %r3;
  mul.wide.u32 %rd10, %r3, 4;  add.s64 %rd10, %rd1, %rd10;
  ld.global.b32 %r5, [%rd10];  add.u32 %r5, %r5, %r4;  st.global.b32 [%rd10], %r5;
  mul.wide.u32 %rd10, %r4, 4;  add.s64 %rd10, %rd1, %rd10;  ld.global.b32 %r6, [%rd10];
  {within}
  add.u32 %r3, %r3, 32;  add.u32 %r4, %r4, 1;
  add.u32 %r20, %r20, 1;  setp.lt.u32 %p2, %r20, %r8;
  @%p2 bra LOOP;
  {after}
  xor.b32 %r3, %r3, %r6;  cvt.u32.u64 %r7, %rd11;  add.u32 %r3, %r3, %r7;
  mul.wide.u32 %rd10, %r30, 4;  add.s64 %rd10, %rd2, %rd10;
  st.global.b32 [%rd10], %r3;  st.global.b32 [%rd10+1024], %r4;
"""


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(run, "STRICT", True)


# Whether all lanes leave the loop at once: those of a loop with a barrier have to.
ENDS = {
    "together": (0, ""),
    "apart": (1, ""),
    "barrier": (0, "bar.sync 0;"),
    # A place without accesses in the loop, and one that only some lanes run.
    "branch": (0, "setp.gt.u32 %p3, %r20, 1;  @%p3 bra ON;  add.u32 %r4, %r4, 2;  ON:"),
    "read": (1, "setp.gt.u32 %p3, %r1, 9;  @%p3 bra ON;  add.u32 %r6, %r6, %r3;  ON:"),
    "written": (0, "setp.gt.u32 %p3, %r1, 9;  @%p3 bra ON;  add.u32 %r3, %r3, 32;  ON:"),
}
AFTER = {
    "nothing": "",
    "parted": "setp.lt.u32 %p1, %r1, 10;  @%p1 bra SKIP;  add.u32 %r3, %r3, 1000;  SKIP:",
    "guarded": "setp.lt.u32 %p1, %r1, 10;  @%p1 add.u32 %r4, %r4, %r3;",
}


@pytest.mark.parametrize(
    ("end", "after", "block"),
    sampling.each(5, ENDS, AFTER, [(32, 1, 1), (8, 4, 1), (29, 1, 1)]),
)
def test_registers_of_full_warps(end, after, block):
    alike, within = end
    text = entry(KERNEL.format(alike=alike, within=within, after=after), 2)
    arrays = np.random.default_rng(2).integers(0, 1 << 32, (2, WORDS), dtype=np.uint32)
    agree(text if block[1] > 1 else text.replace(PLACE, ""), *arrays, grid=1, block=block)


@pytest.mark.parametrize(
    ("register", "literal"),
    [("%f1", "0f40490FDB"), ("%fd1", "0d400921FB54442D18")],
    ids=["f32", "f64"],
)
def test_float_literals_beside_regular_addresses(register, literal):
    size = 64 if "d" in register else 32
    text = entry(
        f"""
      mul.wide.u32 %rd10, %gid, {size // 8};  add.s64 %rd10, %rd1, %rd10;
      mov.f{size} {register}, {literal};  st.global.f{size} [%rd10], {register};
    """,
        1,
    )
    agree(text, np.zeros(WORDS, np.uint32), grid=2, block=64)


def test_addresses_that_depend_on_floats():
    text = entry(
        """
      and.b32 %r8, %tid, 64;  cvt.rn.f64.u32 %fd1, %r8;  mov.u32 %r4, 0;  mov.u64 %rd10, %rd1;
    LOOP:
      ld.global.u32 %r5, [%rd10];  add.u32 %r4, %r4, %r5;
      add.f64 %fd1, %fd1, 0d3FF0000000000000;
      cvt.rzi.u32.f64 %r3, %fd1;
      mul.wide.u32 %rd10, %r3, 4;  add.s64 %rd10, %rd1, %rd10;
      setp.lt.f64 %p2, %fd1, 0d4024000000000000;
      @%p2 bra LOOP;
      mul.wide.u32 %rd10, %gid, 4;  add.s64 %rd10, %rd1, %rd10;  st.global.u32 [%rd10+128], %r4;
    """,
        1,
    )
    agree(text, np.arange(WORDS, dtype=np.uint32), grid=1, block=64)
