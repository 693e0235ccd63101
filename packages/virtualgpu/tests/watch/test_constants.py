"""An access is what its address says: ``.const`` and ``.param`` hide nothing from observers."""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu

virtualgpu.activate(force=True)

import ptx_lab  # noqa: E402
from virtualgpu.errors import PTXSyntaxError  # noqa: E402

READ = """
  mad.wide.u32 %at, %gid, 4, %rd2;
  ld.{}.u32 %r1, [%at];
  mad.wide.u32 %at, %gid, 4, %rd1;
  st.global.u32 [%at], %r1;
"""
WRITE_ALL = "  st.{}.u32 [%rd1], %r1;\n"


def counted(text: str, *arrays: np.ndarray):
    with virtualgpu.profile() as profile:
        ptx_lab.launch(text, 1, 32, arrays)
    return profile.launches[0].counters


@pytest.mark.parametrize("space", ["global", "const", "param"])
def test_reads_of_ordinary_memory_are_counted_by_any_name(space):
    values, out = np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32)
    counters = counted(ptx_lab.entry(READ.format(space), 2), out, values)
    assert (out == values).all()
    assert (counters.global_loads, counters.global_load_sectors) == (32, 4)


@pytest.mark.parametrize("space", ["global", "param"])
def test_racing_writes_are_found_by_any_name(space):
    out = np.zeros(1, np.uint32)
    text = ptx_lab.entry("  mov.u32 %r1, %gid;\n" + WRITE_ALL.format(space), 1)
    with virtualgpu.check() as report:
        ptx_lab.launch(text, 2, 32, [out])
    assert "race" in report.findings[0].message


def test_constants_and_parameters_themselves_stay_quiet():
    """They are not traffic: the hardware has caches for them."""
    out = np.zeros(32, np.uint32)
    text = ptx_lab.entry(
        """
      mov.u64 %rd5, weights;
      and.b32 %r2, %gid, 3;
      mad.wide.u32 %at, %r2, 4, %rd5;
      ld.const.u32 %r1, [%at];
      mad.wide.u32 %at, %gid, 4, %rd1;
      st.global.u32 [%at], %r1;
    """,
        1,
        before=".const .align 4 .u32 weights[4] = {10, 20, 30, 40};",
    )
    counters = counted(text, out)
    assert out[:4].tolist() == [10, 20, 30, 40]
    assert (counters.global_loads, counters.global_stores) == (0, 32)


def test_nothing_writes_to_constants():
    with pytest.raises(PTXSyntaxError, match="const"):
        ptx_lab.launch(ptx_lab.entry(WRITE_ALL.format("const"), 1), 1, 32, [np.zeros(1, np.uint32)])
