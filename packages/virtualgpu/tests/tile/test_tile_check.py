"""``check()`` and ``profile()`` of launches over tiles: the fault's line, block and index."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import virtualgpu


@pytest.fixture(scope="module")
def faults():
    import tile_faults

    return tile_faults


def line(kernel, words: str) -> int:
    """The number of the line of a kernel that has these words."""
    source, first = inspect.getsourcelines(kernel._pyfunc)
    return first + next(at for at, text in enumerate(source) if words in text)


def only(report, kind: str):
    assert [finding.kind for finding in report.findings] == [kind], str(report)
    return report.findings[0]


def test_two_blocks_that_store_to_one_element(arrays, faults, launch):
    x, y = arrays.arange(64, dtype=np.float32), arrays.zeros(64, np.float32)
    with virtualgpu.check() as report:
        launch(faults.all_to_the_first, (4,), x, y, 16)
    found = only(report, "race")
    assert found.line == line(faults.all_to_the_first, "ct.store")
    assert "element 0 of an array of shape (64,)" in found.message
    assert (found.block[0], found.other.block[0], found.other.line) == (1, 0, found.line)
    assert found.count == 3
    with virtualgpu.check() as report:
        launch(faults.each_to_its_own, (4,), x, y, 16)
    assert report.ok and report.launches == 1


def test_one_store_of_several_values_to_one_element(arrays, faults, launch):
    places, values, y = np.arange(64, dtype=np.int32), np.arange(64), arrays.zeros(64, np.float32)
    given = arrays.asarray(values.astype(np.float32))
    with virtualgpu.check() as report:
        launch(faults.scatters, (1,), arrays.asarray(places), given, y, 64)
        launch(
            faults.scatters, (1,), arrays.asarray(places % 8), arrays.ones(64, np.float32), y, 64
        )
        launch(faults.scatters_by_atomics, (1,), arrays.asarray(places % 8), given, y, 64)
    assert report.ok and report.launches == 3, str(report)
    places[3] = 2
    with virtualgpu.check() as report:
        launch(faults.scatters, (1,), arrays.asarray(places), given, y, 64)
    found = only(report, "race")
    assert found.line == line(faults.scatters, "ct.scatter")
    assert "several values of one tile to element 2 of an array of 64" in found.message


def test_a_load_of_what_another_block_stores(arrays, faults, launch):
    x = arrays.arange(80, dtype=np.float32)
    with virtualgpu.check() as report:
        launch(faults.shift_in_place, (4,), x, 16)
    found = only(report, "race")
    assert {found.line, found.other.line} == {
        line(faults.shift_in_place, "ct.load"),
        line(faults.shift_in_place, "ct.store"),
    }
    assert "element 16 of an array of shape (80,)" in found.message


def test_atomics_and_what_they_order_are_no_races(arrays, faults, launch):
    x = arrays.ones(128, np.float32)
    with virtualgpu.check() as report:
        total = arrays.zeros(1, np.float32)
        launch(faults.total_by_atomics, (8,), x, total, 16)
        assert float(total[0]) == 128
        parts, arrived = arrays.zeros(8, np.float32), arrays.zeros(1, np.int32)
        launch(faults.last_block_sums, (8,), x, parts, arrived, total, 16)
        lock = arrays.zeros(1, np.int32)
        launch(faults.under_a_lock, (8,), x, lock, 16)
    assert report.ok, str(report)
    assert float(total[0]) == 128 and x.copy_to_host()[:17].tolist() == [9.0] * 16 + [1.0]


def test_a_relaxed_atomic_orders_nothing_else(arrays, faults, launch):
    x, parts, total = (
        arrays.ones(128, np.float32),
        arrays.zeros(8, np.float32),
        arrays.zeros(1, np.float32),
    )
    with virtualgpu.check() as report:
        launch(faults.last_block_sums_relaxed, (8,), x, parts, arrays.zeros(1, np.int32), total, 16)
    found = only(report, "race")
    assert found.line == line(faults.last_block_sums_relaxed, "nothing orders it")
    assert found.other.line == line(faults.last_block_sums_relaxed, "ct.store(parts")


def test_a_result_that_depends_on_what_lies_outside(arrays, faults, launch):
    x, y = arrays.ones((3, 20), np.float32), arrays.zeros(3, np.float32)
    with virtualgpu.check() as report:
        launch(faults.row_sum, (3,), x, y, 32)
    found = only(report, "memory")
    assert found.line == line(faults.row_sum, "ct.load") and found.count == 3
    assert found.other.line == line(faults.row_sum, "ct.store")
    assert "element (0, 20), outside of the array of shape (3, 20)" in found.message
    for kernel in (faults.row_sum_padded, faults.row_sum_chosen):
        with virtualgpu.check() as report:
            launch(kernel, (3,), x, y, 32)
        assert report.ok, str(report)
        assert y.copy_to_host().tolist() == [20.0] * 3


def test_a_tile_that_lies_outside_as_a_whole(arrays, faults, launch):
    x, y = arrays.ones(60, np.float32), arrays.zeros(60, np.float32)
    with virtualgpu.check() as report:
        launch(faults.each_to_its_own, (5,), x, y, 16)
    assert [one.kind for one in report.findings] == ["memory", "memory"], str(report)
    found = report.findings[0]
    assert found.block[0] == 4 and "tile 4 along dimension 0, of 4" in found.message
    with virtualgpu.check() as report:  # the last tile reaches over the edge, which is no fault
        launch(faults.each_to_its_own, (4,), x, y, 16)
    assert report.ok, str(report)


def test_a_tile_that_was_never_written(arrays, faults, launch):
    x, y = arrays.empty(32, np.float32), arrays.zeros(32, np.float32)
    x[:20].copy_to_device(np.ones(20, np.float32))
    with virtualgpu.check() as report:
        launch(faults.each_to_its_own, (2,), x, y, 16)
    found = only(report, "uninitialised")
    assert found.block[0] == 1 and "element 20 of an array of shape (32,)" in found.message
    fresh = arrays.empty(32, np.float32)
    with virtualgpu.check() as report:  # what a launch has written is written
        launch(faults.each_to_its_own, (2,), y, fresh, 16)
        launch(faults.each_to_its_own, (2,), fresh, y, 16)
    assert report.ok, str(report)


@pytest.mark.parametrize("name", ["unchecked_gather", "unchecked_load"])
def test_an_index_outside_that_the_kernel_does_not_check(arrays, faults, launch, name):
    x, y = arrays.zeros(20, np.float32), arrays.zeros(32, np.float32)
    kernel = getattr(faults, name)
    with (
        virtualgpu.check() as report,
        pytest.raises(virtualgpu.MemoryAccessError, match=r"(?s)^load.*block [01]\n"),
    ):
        launch(kernel, (2,), x, y, 16)
    found = only(report, "memory")
    assert found.line == line(kernel, "check_bounds=False")


def test_an_assertion_names_line_and_block_and_prints_come_in_order(arrays, faults, launch, capfd):
    x = arrays.asarray(np.arange(1, 33, dtype=np.float32))
    launch(faults.asserts, (2,), x, 16)
    x[20] = -1
    with pytest.raises(virtualgpu.TrapError, match="assertion failed: positive"):
        launch(faults.asserts, (2,), x, 16)
    out = capfd.readouterr().out
    assert out == "block 0: 136\nblock 1: 392\n" + "block 0: 136\n"


def test_blocks_that_wait_for_ever_are_stopped(arrays, faults, launch, monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_TIME_LIMIT", "0.2")
    with pytest.raises(virtualgpu.BudgetExceeded, match=r"none of its 2 blocks has ended.*LIMIT"):
        launch(faults.waits_for_nobody, (2,), arrays.zeros(1, np.int32))


def test_a_long_launch_that_is_stopped_says_how_far_it_is(arrays, faults, launch, monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_TIME_LIMIT", "0.2")
    x = arrays.asarray(np.ones(1 << 20, np.float32))
    with pytest.raises(virtualgpu.BudgetExceeded, match=r"[1-9][\d,]* of its 65,536 blocks had"):
        launch(faults.asserts, (1 << 16,), x, 16)


def test_profile_counts_bytes_and_sectors_of_each_block(arrays, launch):
    import tile_kernels

    a = arrays.ones((32, 32), np.float32)
    c = arrays.zeros((32, 32), np.float32)
    with virtualgpu.profile() as profile:
        launch(tile_kernels.matmul, (2, 2), a, a, c, 16, 16, 16)
    launched = profile.launches[0]
    assert launched.kernel == "matmul" and launched.grid == (2, 2, 1)
    # Each of 4 blocks loads a row and a column of tiles: 2 * 2 tiles of 16 * 16 * 4 bytes.
    assert launched.bytes_by_block.tolist() == [[4096, 1024]] * 4
    assert launched.sectors_by_block.tolist() == [[128, 32]] * 4
    assert launched.distinct_loaded == 4096 and launched.redundancy == 4
    assert profile.counters.global_load_sectors == 512
    assert profile.counters.coalescing == 1
    assert "each byte 4.00 times" in str(profile)
    # Each of 4 blocks multiplies 2 pairs of tiles.
    assert sum(launched.products.values()) == 8


def test_profile_says_in_which_type_tiles_are_multiplied(arrays, launch):
    import tile_kernels

    a, c = arrays.ones((32, 32), np.float16), arrays.zeros((32, 32), np.float32)
    with virtualgpu.profile() as profile:
        launch(tile_kernels.matmul, (2, 2), a, a, c, 16, 16, 16)
    assert profile.launches[0].products == {"f16": 8}
    assert "8 products of tiles of f16" in str(profile)


def test_profile_says_which_block_reaches_which_tile(arrays, launch):
    import tile_kernels

    a, b = arrays.ones((24, 32), np.float32), arrays.ones((32, 16), np.float32)
    c = arrays.zeros((24, 16), np.float32)
    with virtualgpu.profile() as profile:
        launch(tile_kernels.matmul, (2, 1), a, b, c, 16, 16, 16)
        launch(tile_kernels.matmul, (2, 1), a, b, arrays.zeros((24, 16), np.float32), 16, 16, 16)
    of_a, of_b, of_c = (
        [
            (one.kind, one.block, one.first)
            for one in profile.launches[0].tiles
            if one.base == arrays.address(array)
        ]
        for array in (a, b, c)
    )
    assert of_a == [
        ("load", 0, (0, 0)),
        ("load", 0, (0, 16)),
        ("load", 1, (16, 0)),
        ("load", 1, (16, 16)),
    ]  # rows 16 to 32, of 24
    assert of_b == [("load", block, (k, 0)) for block in (0, 1) for k in (0, 16)]
    assert of_c == [("store", 0, (0, 0)), ("store", 1, (16, 0))]
    assert {(one.sizes, one.shape) for one in profile.launches[0].tiles} == {
        ((24, 32), (16, 16)),
        ((32, 16), (16, 16)),
        ((24, 16), (16, 16)),
    }
    assert profile.launches[0] == profile.launches[1]


def test_profile_names_so_many_tiles_and_counts_the_others(arrays, launch, monkeypatch):
    import tile_kernels
    from virtualgpu.tile import counts

    monkeypatch.setattr(counts, "MOST_TILES", 3)
    x = arrays.ones((16, 16), np.float32)
    with virtualgpu.profile() as profile:
        launch(tile_kernels.transpose, (2, 2), x, arrays.zeros_like(x), 8, 8)
    assert (len(profile.launches[0].tiles), profile.launches[0].tiles_left_out) == (3, 5)


def test_profile_tells_narrow_tiles_from_wide_ones(arrays, launch):
    import tile_kernels

    x, y = arrays.ones((64, 64), np.float32), arrays.zeros((64, 64), np.float32)
    with virtualgpu.profile() as profile:
        launch(tile_kernels.transpose, (1, 64), x, y, 64, 1)
        launch(tile_kernels.transpose, (8, 8), x, y, 8, 8)
    narrow, square = (one.counters for one in profile.launches)
    assert narrow.global_load_sectors == 8 * square.global_load_sectors == 4096
