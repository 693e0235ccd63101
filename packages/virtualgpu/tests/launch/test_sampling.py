"""``sample()``: launches that run the first block of their grid, the last and some at random."""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu
from ptx_lab import entry, launch
from virtualgpu.errors import LaunchError, MemoryAccessError

BOTH = pytest.mark.parametrize("native", ["0", "always"])
# Thread 0 of each block adds 1 << (its place modulo 32) to a word of its row; z and y are 0.
MARK = """mov.u32 %r1, %ctaid.x; rem.u32 %r2, %r1, 32; mov.u32 %r3, 1; shl.b32 %r3, %r3, %r2;
    shr.u32 %r1, %r1, 5; mad.wide.u32 %rd2, %r1, 4, %rd1; red.global.add.u32 [%rd2], %r3;"""


def ran(grid: int, native: str, monkeypatch, **options) -> list[int]:
    """The blocks that a kernel says it ran in."""
    monkeypatch.setenv("VIRTUALGPU_NATIVE", native)
    marks = np.zeros(grid // 32 + 1, np.uint32)
    launch(entry(MARK, 1), grid, 1, [marks], **options)
    bits = np.unpackbits(marks.view(np.uint8), bitorder="little")
    return np.flatnonzero(bits).tolist()


@BOTH
def test_first_last_and_random_blocks_run(native, monkeypatch):
    with virtualgpu.sample(blocks=5, seed=3) as sample:
        found = ran(10_000, native, monkeypatch)
    assert len(found) == 7 and found[0] == 0 and found[-1] == 9_999
    assert sample.launches[0].ran == found
    assert str(sample) == "k ran 7 of its 10,000 blocks: the first, the last and some at random"
    with virtualgpu.sample(blocks=5, seed=3):
        assert ran(10_000, native, monkeypatch) == found
    with virtualgpu.sample(blocks=5, seed=4):
        assert ran(10_000, native, monkeypatch) != found
    assert len(ran(10_000, native, monkeypatch)) == 10_000, "outside all blocks run"


@BOTH
def test_a_grid_as_small_as_the_sample_runs_whole(native, monkeypatch):
    with virtualgpu.sample(blocks=5) as sample:
        assert ran(7, native, monkeypatch) == [*range(7)]
    assert str(sample) == "k ran all of its 7 blocks"


@BOTH
def test_blocks_of_a_three_dimensional_grid_keep_their_places(native, monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", native)
    seen = np.zeros(4, np.uint32)
    body = """mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z;
        add.u64 %rd2, %rd1, 4; add.u64 %rd3, %rd1, 8; add.u64 %rd4, %rd1, 12;
        red.global.max.u32 [%rd1], %r1; red.global.max.u32 [%rd2], %r2;
        red.global.max.u32 [%rd3], %r3; red.global.add.u32 [%rd4], 1;"""
    with virtualgpu.sample(blocks=0):
        launch(entry(body, 1), (2**20, 60_000, 30_000), 1, [seen])
    assert seen.tolist() == [2**20 - 1, 59_999, 29_999, 2]


@BOTH
def test_an_error_in_a_sampled_block_names_its_place_in_the_grid(native, monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", native)
    with virtualgpu.sample(blocks=0), pytest.raises(MemoryAccessError) as failed:
        launch(entry(MARK, 1), 2**22, 1, [np.zeros(1, np.uint32)])
    assert failed.value.location.block == (2**22 - 1, 0, 0)


@BOTH
def test_a_race_between_sampled_blocks_names_their_places(native, monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", native)
    with virtualgpu.sample(blocks=1), virtualgpu.check() as report:
        launch(entry("st.global.u32 [%rd1], %gid;", 1), 2**29, 1, [np.zeros(1, np.uint32)])
    (found,) = report.findings
    assert found.kind == "race" and found.count == 2
    assert {found.block[0], found.other.block[0]} & {0, 2**29 - 1}
    assert report.notes == [
        "launch 1: k ran 3 of its 536,870,912 blocks: the first, the last and some at random"
    ]


@BOTH
def test_barriers_within_a_block_work_in_a_sample(native, monkeypatch):
    """Also where blocks lie side by side, since lanes of theirs may be parked."""
    monkeypatch.setenv("VIRTUALGPU_NATIVE", native)
    out = np.zeros(2, np.uint32)
    body = """setp.lt.u32 %p1, %tid, 32; @%p1 bar.sync 1, 64; @!%p1 bar.sync 1, 64;
        red.global.max.u32 [%rd1], %block; add.u64 %rd2, %rd1, 4; red.global.add.u32 [%rd2], 1;"""
    with virtualgpu.sample(blocks=3):
        launch(entry(body, 1), 2**20, 64, [out])
    assert out.tolist() == [2**20 - 1, 5 * 64]


def test_clusters_are_sampled_whole(monkeypatch):
    with virtualgpu.sample(blocks=2):
        found = ran(4096, "0", monkeypatch, cluster=(4, 1, 1))
    assert len(found) == 16
    assert found == [4 * (one // 4) + k for one in found[::4] for k in range(4)]


def test_a_cooperative_launch_is_refused(monkeypatch):
    with virtualgpu.sample(blocks=2), pytest.raises(LaunchError, match="every block waits for all"):
        ran(16, "0", monkeypatch, cooperative=True)
    with virtualgpu.sample(blocks=20):
        assert len(ran(16, "0", monkeypatch, cooperative=True)) == 16


def test_a_random_order_of_threads_goes_with_a_sample(monkeypatch):
    with virtualgpu.sample(blocks=6, seed=1) as sample, virtualgpu.schedule(seed=5):
        assert ran(5_000, "0", monkeypatch) == sample.launches[0].ran


@pytest.mark.parametrize(
    ("given", "error"), [({"blocks": -1}, ValueError), ({"blocks": 2.5}, TypeError)]
)
def test_what_is_no_number_of_blocks_is_refused(given, error):
    with pytest.raises(error), virtualgpu.sample(**given):
        pass


def test_tiles_of_sampled_blocks_alone_are_written(active):
    import cuda.tile as ct
    from numba import cuda

    from tile_kernels import add

    a, b, c = (cuda.to_device(np.full(4096, k, np.float32)) for k in (1, 2, 0))
    with virtualgpu.sample(blocks=2, seed=1) as sample, virtualgpu.check() as report:
        ct.launch(cuda.default_stream(), (256,), add, (a, b, c, 16))
    written = c.copy_to_host().reshape(256, 16)
    assert np.flatnonzero((written == 3).all(1)).tolist() == sample.launches[0].ran
    assert np.count_nonzero(written) == 4 * 16
    assert report.ok and "ran 4 of its 256 blocks" in report.notes[0]
