"""A bad address is told by the argument's name and the index, a thread as its launch counts it."""

from __future__ import annotations

import gc
import pickle
import re
import warnings
from dataclasses import asdict

import numpy as np
import pytest

import virtualgpu
from virtualgpu import devices
from virtualgpu.errors import Index, Location, MemoryAccessError
from virtualgpu.memory.array_names import registered

virtualgpu.activate(force=True)

from numba import cuda  # noqa: E402


@cuda.jit
def scale(low, values, factor):
    i = cuda.grid(1)
    values[i] = factor * values[i] + low[0]


@cuda.jit
def at(image, i, j):
    image[i, j] = 1


@cuda.jit
def in_pairs(pair, events, z):
    events[cuda.grid(1)].pt = pair[1][cuda.grid(1)] + z.real


def told(kernel, grid, block, *arguments) -> str:
    with (
        warnings.catch_warnings(action="ignore"),
        virtualgpu.check() as report,
        pytest.raises(MemoryAccessError) as caught,
    ):
        kernel[grid, block](*arguments)
    assert report.findings[0].message == caught.value.message
    return str(caught.value)


def test_an_index_past_the_end_is_told_by_its_array():
    text = told(scale, 2, 32, np.zeros(1), np.zeros(40), 2.0)
    assert "the thread reads values[40] of 40 (23 more threads do the same); guard" in text
    assert "thread 8 of block 1\n" in text


@cuda.jit
def reverse(values, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = values[values.size - i]


def test_a_computed_index_past_the_end_is_quoted():
    text = told(reverse, 1, 32, np.zeros(20), np.zeros(20))
    assert "the thread reads values[20] of 20; the last element is values[19]" in text
    assert "in which threads is `values.size - i` larger?" in text


@cuda.jit
def gaps(values, out):
    i = cuda.grid(1)
    if i < values.size:
        out[i] = values[i + 1] - values[i]


@cuda.jit
def far_gaps(values, out, by):
    i = cuda.grid(1)
    if i < values.size:
        out[i] = values[i + by] - values[i - 1]


def test_of_neighbours_only_the_furthest_index_is_quoted():
    text = told(gaps, 1, 32, np.zeros(20), np.zeros(20))
    assert "reads values[20] of 20; the last element is values[19]" in text
    assert (
        "is `i + 1` larger? Change that index, or guard the index itself (if i + 1 < values.size)"
        in text
    )


def test_indices_that_cannot_be_compared_are_both_quoted():
    text = told(far_gaps, 1, 32, np.zeros(20), np.zeros(20), 3)
    assert "is `i + by` or `i - 1` larger?" in text
    assert "(if i + by < values.size and i - 1 < values.size)" in text


@cuda.jit
def before(values, back):
    values[cuda.grid(1) - back] = 1


def test_an_index_before_the_start_is_told_in_bytes():
    """Python's negative indices count from the end, and Numba's too."""
    assert "writes 16 bytes before values;" in told(before, 1, 1, np.zeros(3), 5)


@pytest.mark.parametrize(
    ("image", "i", "j", "says"),
    [
        (np.zeros((3, 5)), 3, 1, "image[3, 1] of (3, 5)"),
        (np.zeros((3, 5), order="F"), 1, 5, "image[1, 5] of (3, 5)"),
        (np.zeros((3, 5))[:, :2], 3, 1, "image[3, 1] of (3, 2)"),
        (np.zeros((3, 5))[::-1], 3, 1, "image[3, 1] of (3, 5)"),
        (np.zeros((0, 5)), 0, 2, "image, which has no elements"),
    ],
    ids=["rows", "columns", "a view", "backwards", "empty"],
)
def test_indices_in_two_dimensions(image, i, j, says):
    assert re.search(rf"writes {re.escape(says)}[:;]", told(at, 1, 1, image, i, j))


@cuda.jit
def scale_rows(image, out):
    column, row = cuda.grid(2)
    if row < image.size and column < image.size:
        out[row, column] = image[row, column] * 2


@cuda.jit
def in_space(volume, place, out):
    out[0] = volume[place[0], place[1], place[2]]


@cuda.jit
def over_the_edge(image, rows, columns, out):
    for r in range(rows):
        for c in range(columns):
            out[0] += image[r, c]


@cuda.jit
def from_the_right(image, out):
    row, back = cuda.grid(2)
    out[0] += image[row, image.shape[1] - back]


def test_an_index_past_its_row_keeps_its_number():
    """It lies where an element of the next row would be."""
    text = told(scale_rows, (1, 1), (16, 8), np.ones((5, 7), np.float32), np.ones((5, 7)))
    assert "reads image[3, 14] of (5, 7): index 14 of dimension 1, which has 7 elements" in text
    assert "(here column < image.shape[1])" in text


@pytest.mark.parametrize("order", "CFA")
@pytest.mark.parametrize("place", [(3, 4, 90), (3, 60, 0), (9, 4, 3), (3, 9, 70), (0, -60, 3)])
def test_each_index_of_three_is_told_as_it_was(order, place):
    whole = np.ones((4, 10, 12), np.float32, order="F" if order == "F" else "C")
    volume = whole[:, ::2, ::3] if order == "A" else np.asfortranarray(whole[:, :5, :4])
    if order == "C":
        volume = np.ascontiguousarray(volume)
    text = told(in_space, 1, 1, volume, np.array(place), np.ones(1))
    assert f"reads volume{list(place)} of (4, 5, 4)" in text
    for axis, index in enumerate(place):
        bad = not -volume.shape[axis] <= index < volume.shape[axis]
        assert (f"index {index} of dimension {axis}" in text) == bad


def test_an_index_of_a_loop_is_told_though_its_counter_moved_on():
    text = told(over_the_edge, 1, 1, np.ones((4, 7)), 4, 9, np.ones(1))
    assert "reads image[3, 7] of (4, 7)" in text


def test_an_index_computed_from_the_length_is_told():
    text = told(from_the_right, (1, 1), (5, 1), np.ones((5, 7)), np.ones(1))
    assert "reads image[4, 7] of (5, 7)" in text
    assert "(here image.shape[1] - back < image.shape[1])" in text


def test_arrays_in_tuples_and_fields_of_records_have_names():
    events = np.zeros(4, [("pt", "f4"), ("eta", "f4")])
    pair = (np.zeros(9, np.float32), np.zeros(3, np.float32))
    assert "reads pair[1][3] of 3" in told(in_pairs, 1, 4, pair, events, 1j)
    assert "writes events[4] of 4" in told(in_pairs, 1, 5, (pair[0], pair[0]), events, 1j)


def test_what_was_freed_is_told_as_freed():
    device = devices.current()
    address = device.allocate(64)
    device.free(address)
    other = virtualgpu.Module.from_cuda('extern "C" __global__ void f(double *p) { *p = 1; }')
    with pytest.raises(MemoryAccessError, match="freed"):
        other.launch("f", 1, 1, [np.uint64(address)])


def test_an_array_of_cuda_cpp_goes_by_the_arguments_number():
    module = virtualgpu.Module.from_cuda(
        'extern "C" __global__ void f(int n, float *x) { x[threadIdx.x] = n; }'
    )
    with pytest.raises(
        MemoryAccessError,
        match=r"after the end .*, element 7 of 7 of argument 1; guard the index \(if \(i < n\)\)",
    ):
        module.launch("f", 1, 8, [np.int32(1), np.zeros(7, np.float32)])


def test_a_kernel_whose_names_are_gone_counts_no_parameters_of_ptx():
    """As in the grader, which is handed PTX: an array of Numba's takes several parameters."""
    signature = "void(float64[:], float64[:], float64)"
    ptx, _ = cuda.compile_ptx(scale.py_func, signature, lineinfo=True)
    (entry,) = re.findall(r"\.entry (\w+)", ptx)
    array = np.zeros(7)
    sizes = [np.uint64(0), np.uint64(0), np.int64(7), np.int64(8)]
    given = [*sizes, array, np.int64(7), np.int64(8)]
    with pytest.raises(MemoryAccessError) as caught:
        virtualgpu.Module.from_ptx(ptx).launch(entry, 1, 8, [*given, *given, 2.0])
    assert ", element 7 of 7; guard the index (if i < array.size) or launch" in str(caught.value)


def test_an_index_is_written_in_the_dimensions_of_its_launch():
    assert str(Index((5, 0, 0), (8, 1, 1))) == "5"
    assert str(Index((0, 0, 0), (1, 1, 1))) == "0"
    assert str(Index((5, 0, 0), (8, 2, 1))) == "(5, 0)"
    assert str(Index((0, 0, 1), (1, 1, 2))) == "(0, 0, 1)"
    five = Index((5, 0, 0), (8, 1, 1))
    assert five == (5, 0, 0)
    assert str(pickle.loads(pickle.dumps(five))) == "5"
    assert str(asdict(Location("k", thread=five))["thread"]) == "(5, 0, 0)"  # plain data


def test_names_are_known_for_as_long_as_their_kernel_is_there():
    def filled():
        @cuda.jit
        def fill(values):
            values[cuda.grid(1)] = 1

        return fill

    fill = filled()
    text = told(fill, 1, 8, np.zeros(5))
    assert "writes values[5] of 5" in text
    entry = next(iter(fill.overloads.values())).entry_name
    assert registered(entry)
    type(fill).configure.cache_clear()  # Numba itself keeps the last 128 launched
    del fill
    gc.collect()
    assert not registered(entry)
