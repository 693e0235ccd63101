"""NumPy without the names that numba-cuda asks for when it is imported."""

from __future__ import annotations

from fresh_python import in_fresh_python

LAUNCH = """
import numpy as np
vars(np).pop("row_stack", None)  # as from NumPy 2.5 on
import virtualgpu
{begin}
from numba import cuda

@cuda.jit
def three(x):
    x[cuda.grid(1)] = 3

x = cuda.to_device(np.zeros(64))
three[2, 32](x)
result = [x.copy_to_host().tolist(), hasattr(np, "row_stack")]
"""


def test_a_kernel_runs_on_a_numpy_without_row_stack():
    assert in_fresh_python(LAUNCH.format(begin="virtualgpu.activate()")) == [[3.0] * 64, False]


def test_numba_imported_first_finds_the_name_at_its_first_launch():
    begin = "from numba import cuda; virtualgpu.activate()"
    assert in_fresh_python(LAUNCH.format(begin=begin)) == [[3.0] * 64, False]


def test_where_activation_waits_for_numba_the_name_is_there():
    begin = "from virtualgpu import activation; activation.activate_later()"
    assert in_fresh_python(LAUNCH.format(begin=begin)) == [[3.0] * 64, False]
