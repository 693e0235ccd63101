"""The course's views and checks of kernels with Awkward Arrays beside a real GPU."""

from __future__ import annotations

from textwrap import dedent

from beside_a_gpu import AWKWARD, run


def test_awkward_arrays_are_looked_at_beside_a_real_gpu_too():
    run(
        AWKWARD
        + dedent("""
        import gpucourse
        from gpucourse.exercises import trials
        from gpucourse.exercises.trials import counted, launched

        out = np.full(3, -1.0)
        text = str(gpucourse.report(totals, 1, 32, events, out))
        assert "totals[1, 32]" in text and "✓ global" in text
        assert "totals" in str(gpucourse.timeline(totals, 1, 32, events[:2], out))
        trials._on_device = lambda argument: argument  # no CuPy to hold them on a GPU
        after = launched(totals, 1, 32, events, np.full(3, -1.0), seeds=(1,))
        assert after[0] is events and after[1].tolist() == [17, 0, 21]
        assert counted(totals, 1, 32, events, np.zeros(3)).global_stores > 0
        assert not virtualgpu.is_active()
    """)
    )
