"""Timelines, maps of memory, trees and races: drawn from what really ran."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numba import cuda, float32, int32

import kernels_to_see as kernels
import virtualgpu
from gpucourse import memory, race, report, timeline, tree
from gpucourse.views.launch import memory as memory_view
from gpucourse.views.launch import replays
from gpucourse.views.launch.memory import banks, requests, sectors
from gpucourse.views.launch.runs import Launch, traced
from gpucourse.views.launch.timeline import warp_starts
from messages import assert_tells

X = np.arange(1024, dtype=np.float32)
TILE = np.arange(1024, dtype=np.float32).reshape(32, 32)


def counters(kernel, grid, block, *arguments):
    with virtualgpu.profile() as profile:
        kernel[grid, block](*[cuda.to_device(a) for a in arguments])
    return profile.launches[0].counters


# -- timeline -----------------------------------------------------------------------------------


def row(view, name: str) -> str:
    return next(line for line in view.text.splitlines() if line.startswith(name))[18:]


def test_timeline_shows_divergence_and_idle_warps():
    view = timeline(kernels.block_sum, 1, 64, X, np.zeros(1, np.float32))
    first, second = row(view, "block 0 warp 0"), row(view, "block 0 warp 1")
    assert first.count("b") == second.count("b") == 7
    # Of the levels, the first keeps warp 0 whole; in the others lanes of it are masked off.
    assert first.count("sss") == 1 and first.count("SSS") == 5 and "s" not in second[6:]
    assert first.endswith("A")
    assert "17 of them" in view.text


def test_timeline_says_line_and_threads_of_each_step():
    view = timeline(kernels.odd_and_even, 1, 32, X[:32], np.zeros(32, np.float32))
    titles = re.findall(r"<title>(.*?)</title>", view.markup, re.DOTALL)
    odd = next(t for t in titles if "(16 of 32 lanes)" in t)
    assert "step " in odd and "line " in odd
    assert "threads 1, 3, 5, 7, 9, 11, …" in odd or "threads 0, 2, 4, 6, 8, 10, …" in odd
    assert "the lanes diverge here" in "".join(titles)
    assert 'aria-label="odd_and_even: 1 warp' in view.markup


def test_timeline_is_bounded_and_says_what_is_left_out():
    view = timeline(kernels.block_sum, 1000, 64, X, np.zeros(1, np.float32), steps=10)
    assert "The launch has 2,000 warps; 4 are shown." in view.text
    assert re.search(r"\d+ further steps are left out\.", view.text)
    assert len(row(view, "block 0 warp 0")) == 10
    assert len(view._repr_html_()) < 30_000


@cuda.jit
def long_loop(x):
    for _ in range(5000):
        x[cuda.grid(1)] += 1
        cuda.syncthreads()


@pytest.mark.rehearsal
def test_a_long_kernel_makes_no_large_picture():
    view = timeline(long_loop, 2, 1024, np.zeros(2048), warps=99, steps=10_000)
    assert "further steps are left out" in view.text
    assert len(view._repr_html_()) < 1_000_000
    assert len(timeline(long_loop, 2, 1024, np.zeros(2048))._repr_html_()) < 300_000


def test_timeline_ends_where_the_launch_was_stopped():
    view = timeline(kernels.unguarded, 4, 32, np.ones(100, np.float32))
    assert "illegal address" in view.text
    assert row(view, "block 0 warp 0") == "cc"


def test_blocks_that_are_no_multiple_of_32_have_short_warps():
    assert warp_starts(48, 2, 9).tolist() == [0, 32, 48, 80, 96]
    assert warp_starts(64, 100, 3).tolist() == [0, 32, 64, 96]
    view = timeline(kernels.odd_and_even, 2, 48, X[:90], np.zeros(90, np.float32))
    assert "block 1 warp 1" in view.text


# -- memory -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [kernels.copy, kernels.strided])
@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.float64, np.complex128])
def test_sectors_drawn_are_those_counted(kernel, dtype):
    arguments = (np.zeros(1024, dtype), np.zeros(64, dtype))
    run = traced(Launch.of(kernel, 2, 32, arguments), threads=64)
    expected = counters(kernel, 2, 32, *arguments)
    loads = [r for r in requests(run, run.places[0]) if r.step.kind == "load"]
    drawn = [int(re.match(r"[\d,]+", sectors(r, run.places[0])[1])[0]) for r in loads]
    assert sum(drawn) == expected.global_load_sectors
    assert len(loads) == expected.global_load_requests


@cuda.jit
def wide_words(x, out):
    s = cuda.shared.array(64, int32)
    d = cuda.shared.array(64, np.float64)
    t = cuda.threadIdx.x
    s[t] = x[t]
    d[t * 2 % 64] = x[t]
    cuda.syncthreads()
    out[t] = s[t * 3 % 64] + d[t // 2]


@pytest.mark.parametrize(
    ("kernel", "block", "arguments"),
    [
        (kernels.by_columns, (32, 2), (TILE, TILE)),
        (kernels.block_sum, 64, (X, X)),
        (wide_words, 64, (np.zeros(64, np.int32), np.zeros(64))),
    ],
)
def test_turns_drawn_are_those_counted(kernel, block, arguments):
    run = traced(Launch.of(kernel, 1, block, arguments))
    expected = counters(kernel, 1, block, *arguments)
    drawn = {"load": 0, "store": 0}
    for request in requests(run, None):
        drawn[request.step.kind] += int(banks(request)[1].split(" ")[0])
    assert drawn == {
        "load": expected.shared_load_wavefronts,
        "store": expected.shared_store_wavefronts,
    }


def test_memory_tells_coalesced_from_strided():
    good = memory(kernels.copy, 2, 32, X, np.zeros(64, np.float32))
    bad = memory(kernels.strided, 2, 32, X, np.zeros(64, np.float32), title="strided")
    assert_tells(good.text, "4 sectors", "128 bytes moved", "128 requested bytes")
    assert_tells(bad.text, "32 sectors", "1,024 bytes moved", "128 requested bytes", "4 would do")
    assert bad.text.startswith("strided\n") and good.text.startswith("copy: x\n")
    assert "threads 0-31 at elements 0, 32, 64" in bad.text
    assert good.markup.count('type="radio"') == 2
    assert good.markup.count('role="img"') == 2


def test_memory_finds_arrays_by_name_and_number():
    arguments = (X, np.zeros(64, np.float32))
    named = memory(kernels.copy, 2, 32, *arguments, array="out")
    assert "writes, 32 threads" in named.text and "0 reads" not in named.text
    assert memory(kernels.copy, 2, 32, *arguments, array=1).text == named.text
    with pytest.raises(ValueError, match='Pass array= one of "x", "out", or "shared"'):
        memory(kernels.copy, 2, 32, *arguments, array="y")


def test_memory_that_is_not_touched_and_steps_that_are_left_out():
    view = memory(kernels.copy, 2, 32, X, np.zeros(64, np.float32), array="shared")
    assert "do not touch shared memory" in view.text
    view = memory(long_loop, 1, 64, np.zeros(64), steps=5)
    assert "left out" in view.text
    assert view.markup.count('type="radio"') == 5
    huge = memory(kernels.strided, 2, 32, X, np.zeros(64, np.float32), steps=40)
    assert len(huge._repr_html_()) < memory_view.MOST_BYTES + 40_000


# -- tree ---------------------------------------------------------------------------------------


def test_tree_has_the_levels_and_the_sum():
    view = tree(kernels.block_sum, 1, 16, np.arange(1, 17, dtype=np.float32), X[:1])
    assert "level 1: 8 values by threads 0-7" in view.text
    assert view.text.splitlines()[5].startswith("level 4: 1 value, 136 at the end")
    assert "never" not in view.text


def test_tree_names_what_never_arrives():
    view = tree(kernels.block_sum, 1, 11, np.arange(1, 12, dtype=np.float32), X[:1])
    assert_tells(view.text, "2 values", "element 10 (11)", "element 4 (15)")
    assert view.markup.count("stroke-dasharray") == 2


@cuda.jit
def add_in_turn(x):
    if cuda.threadIdx.x == 0:
        for i in range(1, x.size):
            x[0] += x[i]


def test_a_sum_by_one_thread_is_a_chain():
    view = tree(add_in_turn, 1, 32, np.arange(8), array="x")
    assert "level 7: 1 value, 28 at the end" in view.text


def test_trees_that_cannot_be_drawn():
    assert "there is no level to draw" in tree(kernels.copy, 1, 32, X, X[:32]).text
    with pytest.raises(ValueError, match=r"64 is the most\. Launch blocks of at most 64"):
        tree(add_in_turn, 1, 32, np.arange(100), array="x")


# -- race ---------------------------------------------------------------------------------------


def test_a_lost_update_is_replayed_from_a_schedule_that_loses_it():
    view = race(kernels.lose_updates, 2, 1, np.zeros(1, np.int32))
    lines = view.text.splitlines()
    assert "is lost" in lines[2]
    assert "overwrites" in view.text
    assert view.text.count("reads 0") == 2 and view.text.count("writes 1") == 2
    assert "cuda.atomic" in view.text
    seed = int(re.search(r"virtualgpu.schedule\((\d+)\)", view.text)[1])
    total = cuda.to_device(np.zeros(1, np.int32))
    with virtualgpu.schedule(seed):
        kernels.lose_updates[2, 1](total)
    assert total.copy_to_host()[0] == 1  # the recording can be had again


def test_a_missing_barrier_is_shown_in_two_orders():
    view = race(kernels.no_barrier, 1, 64, X[:64], np.zeros(64, np.float32))
    assert "Order 1." in view.text and "Order 2." in view.text
    assert "reads unwritten" in view.text
    assert "put cuda.syncthreads()" in view.text


@cuda.jit
def short_scan(values, out):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    tile[t] = values[t]
    cuda.syncthreads()
    if t >= 1:
        tile[t] += tile[t - 1]
    cuda.syncthreads()
    out[t] = tile[t]


def test_two_orders_that_begin_alike_are_told_by_where_they_part():
    view = race(short_scan, 1, 64, X[:64], np.zeros(64, np.float32))
    one, other = re.findall(r"Order \d\. (.*)", view.text)
    assert one != other and re.match(r"Up to step 1 .* thread \d", one)


@cuda.jit
def again(values, out):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    for start in (0, 64):
        tile[t] = values[start + t]
        cuda.syncthreads()
        out[start + t] = tile[63 - t]


def test_of_one_order_is_told_what_no_barrier_makes_so(monkeypatch):
    """The first write comes before the first read by the barrier; the next write by chance."""
    monkeypatch.setattr(replays, "SEEDS", range(1, 2))
    text = race(again, 1, 64, X[:128], np.zeros(128, np.float32)).text
    said = re.search(
        r"thread (\d+) reads \S+ before thread (\d+) writes it. Nothing enforces", text
    )
    assert said and said[1] != said[2], text


@cuda.jit
def two_to_one_place(values, out):
    i = cuda.grid(1)
    out[i // 2] = values[i]


def test_two_values_that_meet_are_not_called_updates_of_what_was_read():
    view = race(two_to_one_place, 1, 8, X[:8], np.zeros(4, np.float32))
    assert "the value that remains is undefined" in view.text and "same old value" not in view.text
    assert "one value is lost" in view.text
    # The recording holds what stays; that the other thread wrote the same would be untrue.
    assert "  writes  " in view.text and not re.search(r"writes -?\d", view.text)
    adds = race(kernels.lose_updates, 1, 64, np.zeros(1, np.int32))
    assert "update" in adds.text


@cuda.jit
def atomically(total):
    cuda.atomic.add(total, 0, 1)


def test_without_a_race_there_is_nothing_to_replay():
    assert "nothing to replay" in race(atomically, 1, 64, np.zeros(1, np.int32)).text
    faulty = race(kernels.unguarded, 2, 64, np.zeros(100, np.float32))
    assert "illegal address" in faulty.text


def test_a_large_launch_is_replayed_in_the_default_order():
    view = race(kernels.lose_updates, 100, 256, np.zeros(1, np.int32))
    assert "the default order" in view.text
    assert f"at most {replays.MOST_THREADS:,} threads" in view.text or "at once" in view.text


@pytest.mark.parametrize("view", [timeline, memory, tree, race])
def test_forgotten_brackets_are_told_by_every_view(view):
    with pytest.raises(TypeError, match="already has its brackets"):
        view(kernels.copy[1, 32], X, X)
    with pytest.raises(TypeError, match="the grid"):
        view(kernels.copy, X, X)


@cuda.jit
def dynamic(x):
    s = cuda.shared.array(0, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    x[t] = s[cuda.blockDim.x - 1 - t]


def test_dynamic_shared_memory_is_asked_for_in_bytes():
    x = np.arange(64, dtype=np.int32)
    for view in (report, timeline, race, memory, tree):
        text = view(dynamic, 1, 64, x, shared_bytes=256).text
        assert "illegal address" not in text.lower(), view
    assert "illegal address" in report(dynamic, 1, 64, x, shared_bytes=128).text.lower()


@pytest.mark.parametrize("view", [timeline, memory, tree])
@pytest.mark.parametrize(("grid", "block"), [(0, 32), (1, 0), (1, 5000), (-1, 32)])
def test_launches_that_no_device_takes_say_why(view, grid, block):
    with pytest.raises(ValueError, match=r"at least 1|at most 1024|negative"):
        view(kernels.unguarded, grid, block, np.zeros(4))
