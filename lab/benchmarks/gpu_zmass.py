"""Project 3: from jagged events to a histogram, on the GPU and with Awkward on the CPU."""

from __future__ import annotations

import math

import numpy as np

from lab.benchmarks.gpu_cells import take
from lab.benchmarks.gpu_work import Group, Ready, Work, full_grid, on_cupy

PROJECT = "03_z_mass"
LOW, HIGH, BINS = 60.0, 120.0, 120  # GeV, as in the project's fit


def events(size: int) -> Work:
    """Time each event's mass nearest to the Z mass, counted in bins, with and without copies."""
    import awkward as ak
    import cupy as cp
    from numba import cuda

    from gpucourse.data import dimuons

    sample = ak.to_packed(dimuons(size, seed=6))
    work = Work(size, "events", bytes=sample.nbytes)
    project = take(PROJECT, "nearest_on_cpu", "histogram_of")

    def on_cpu():
        return project.histogram_of(project.nearest_on_cpu(sample), LOW, HIGH, BINS)

    reference: list[np.ndarray] = []

    def check(counts):
        counts = on_cupy(counts).get().astype(np.int64)
        if not reference:
            reference.append(_reference(sample))
        # A mass in float32 and in float64 may lie on different sides of a bin edge.
        off = int(abs(counts - reference[0]).sum())
        assert off <= max(4, 2e-3 * reference[0].sum()), f"{off:,} events in other bins"

    def kernel():
        return take(PROJECT, "fill_events").fill_events

    @work.add("kernel", "Numba kernel, events on the device already")
    def _():
        fill, device = kernel(), ak.to_backend(sample, "cuda")
        counts, blocks = cp.zeros(BINS + 2, np.int32), full_grid(128)
        d_counts = cuda.as_cuda_array(counts, sync=False)

        def run():
            counts.fill(0)
            fill[blocks, 128](device, LOW, HIGH, d_counts)
            return counts

        return Ready(run, check)

    @work.add("copies", "Numba kernel, events copied there and counts back", "call")
    def _():
        fill, blocks = kernel(), full_grid(128)

        def run():
            counts = cuda.to_device(np.zeros(BINS + 2, np.int32))
            fill[blocks, 128](ak.to_backend(sample, "cuda"), LOW, HIGH, counts)
            return counts.copy_to_host()

        return Ready(run, check)

    @work.add("awkward", "Awkward and vector, one core", "call", "CPU")
    def _():
        import vector

        vector.register_awkward()
        return Ready(on_cpu, check)

    return work


def _reference(sample) -> np.ndarray:
    """Return the counts from the course's own mass oracle, which is independent of both."""
    import awkward as ak

    from gpucourse.data import Z_MASS, pair_masses

    masses = pair_masses(sample.muons, mass=0.0)
    nearest = ak.firsts(masses[ak.argmin(abs(masses - Z_MASS), axis=1, keepdims=True)])
    values = ak.to_numpy(ak.fill_none(nearest, math.nan))
    return take(PROJECT, "histogram_of").histogram_of(values, LOW, HIGH, BINS).astype(np.int64)


GROUPS = (
    Group(
        "zmass",
        "Masses of muon pairs from jagged events, to a histogram",
        events,
        (1_000_000,),
        (300,),
    ),
)
