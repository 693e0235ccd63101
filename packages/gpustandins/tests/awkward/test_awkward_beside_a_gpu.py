"""Awkward Arrays on the virtual GPU beside a real one."""

from __future__ import annotations

from textwrap import dedent

import pytest

from beside_a_gpu import AWKWARD, run


@pytest.mark.rehearsal
def test_awkward_arrays_run_beside_a_real_gpu_too():
    """Their extension would ask CuPy for addresses in the real GPU's memory."""
    run(
        AWKWARD
        + dedent("""
        out = np.full(3, -1.0)
        with virtualgpu.check() as report:
            totals[1, 32](events, out)
        assert report.ok and out.tolist() == [17, 0, 21]
        assert not virtualgpu.is_active()
    """)
    )
