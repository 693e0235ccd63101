"""How far it is from a launch to its first load: what a reader follows, and a small launch pays."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import numpy as np
import pytest

import virtualgpu
from virtualgpu.lanes import access

pytestmark = pytest.mark.usefixtures("active")

FOLDER = str(Path(virtualgpu.__file__).parent)


def test_the_second_launch_of_a_kernel_soon_reaches_its_first_load():
    from numba import cuda

    @cuda.jit
    def twice(values):
        i = cuda.grid(1)
        if i < values.size:
            values[i] *= 2

    device = cuda.to_device(np.arange(64.0))
    twice[2, 32](device)
    files: list[str] = []

    def called(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(FOLDER):
            files.append(frame.f_code.co_filename)
            if frame.f_code is access.load.__code__:
                sys.setprofile(None)

    gc.collect()
    gc.disable()  # what it finds is freed by calls of ours
    sys.setprofile(called)
    try:
        twice[2, 32](device)
    finally:
        sys.setprofile(None)
        gc.enable()
    assert files[-1] == access.__file__
    assert len(files) <= 75 and len(set(files)) <= 24, (len(files), len(set(files)))
