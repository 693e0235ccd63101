"""Instructions that have lost their operands, and blocks of a shape that no device takes."""

from __future__ import annotations

import numpy as np
import pytest

from virtualgpu import VirtualGPUError
from virtualgpu.cuda.module import Module
from virtualgpu.errors import LaunchError

TEXT = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
{{
    .reg .pred %p<3>;
    .reg .b32 %r<4>;
    {body}
    ret;
}}
"""


@pytest.mark.parametrize(
    "body", ["add.s32;", "selp;", "selp.b32;", "and.pred;", "or.pred;", "setp.eq.s32;", "ld.u32;"]
)
def test_an_instruction_without_operands_is_refused(body):
    with pytest.raises(VirtualGPUError):
        Module.from_ptx(TEXT.format(body=body)).launch("k", 1, 32, [np.zeros(4, np.int32)])


def test_a_block_too_long_along_z_names_that_limit():
    with pytest.raises(LaunchError, match=r"along x, y and z .*\(1024, 1024, 64\)"):
        Module.from_ptx(TEXT.format(body="")).launch("k", 1, (1, 1, 65), [np.zeros(4, np.int32)])
