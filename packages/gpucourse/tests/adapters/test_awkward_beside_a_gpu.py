"""Awkward Arrays on the virtual GPU beside a real one."""

from __future__ import annotations

from beside_a_gpu import run


def test_awkward_arrays_run_beside_a_real_gpu_too():
    """Their extension would ask CuPy for addresses in the real GPU's memory."""
    run("""
        import awkward as ak
        import gpucourse
        from gpucourse.adapters import awkward_cuda
        from gpucourse.exercises.trials import counted, launched

        awkward_cuda.mend_iteration()
        ak.numba.register_and_check()

        @cuda.jit(extensions=[ak.numba.cuda])
        def totals(events, out):
            i = cuda.grid(1)
            if i < len(events):
                out[i] = 0
                for hit in events[i]:
                    out[i] += hit.x * hit.y

        events = ak.zip({"x": ak.Array([[1.0, 2.0], [], [3.0]]), "y": [[5, 6], [], [7]]})
        out = np.full(3, -1.0)
        with virtualgpu.check() as report:
            totals[1, 32](events, out)
        assert report.ok and out.tolist() == [17, 0, 21]
        text = str(gpucourse.report(totals, 1, 32, events, out))
        assert "totals[1, 32]" in text and "✓ global" in text
        assert "totals" in str(gpucourse.timeline(totals, 1, 32, events[:2], out))
        from gpucourse.exercises import trials
        trials._on_device = lambda argument: argument  # no CuPy to hold them on a GPU
        after = launched(totals, 1, 32, events, np.full(3, -1.0), seeds=(1,))
        assert after[0] is events and after[1].tolist() == [17, 0, 21]
        assert counted(totals, 1, 32, events, np.zeros(3)).global_stores > 0
        assert not virtualgpu.is_active()
    """)
