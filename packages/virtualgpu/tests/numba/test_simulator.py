"""``NUMBA_ENABLE_CUDASIM=1``, which tutorials for machines without a GPU leave behind."""

from __future__ import annotations

import pytest

from fresh_python import in_fresh_python

KERNEL = """
import warnings
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import virtualgpu
    from virtualgpu import activation
    {begin}
    from numba import cuda

    @cuda.jit
    def one_more(values):
        values[cuda.grid(1)] += 1

    values = cuda.to_device([1.0, 2.0])
    one_more[1, 2](values)
result = [virtualgpu.is_active(), values.copy_to_host().tolist(),
          [str(one.message)[:20] for one in told if "CUDASIM" in str(one.message)]]
"""


@pytest.mark.parametrize("begin", [
    "virtualgpu.activate()",
    "activation.activate_later()",  # as in a notebook
    "import numba; virtualgpu.activate()",
])
@pytest.mark.parametrize(("variable", "times"), [("1", 1), ("0", 0)])
def test_the_virtual_gpu_takes_the_simulators_place(monkeypatch, begin, variable, times):
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", variable)
    assert in_fresh_python(KERNEL.format(begin=begin)) == [
        True, [2.0, 3.0], ["NUMBA_ENABLE_CUDASIM"] * times]


def test_a_simulator_that_was_imported_is_named_with_what_to_do(monkeypatch):
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    told = in_fresh_python("""
import numba.cuda, virtualgpu
try:
    virtualgpu.activate()
except RuntimeError as error:
    result = str(error)
""")
    assert "unset NUMBA_ENABLE_CUDASIM" in told and "start Python anew" in told
