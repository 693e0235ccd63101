"""Counts of known access patterns, against numbers worked out by hand.

A warp has 32 lanes, a sector 32 bytes, shared memory 32 banks of 4 bytes.
"""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest

import virtualgpu

virtualgpu.activate(force=True)

from numba import cuda, float32, float64, int32  # noqa: E402

from virtualgpu.watch.counters import Counters  # noqa: E402


def profile(kernel, grid, block, *arguments) -> Counters:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with virtualgpu.profile() as result:
            kernel[grid, block](
                *[cuda.to_device(a) if isinstance(a, np.ndarray) else a for a in arguments]
            )
    assert len(result.launches) == 1
    return result.launches[0].counters


@cuda.jit
def strided_read(x, out, stride, offset):
    i = cuda.grid(1)
    value = x[i * stride + offset]
    if value < 0:
        out[i] = value


# For 32 floats: ideal are the 128 bytes of 4 sectors.
@pytest.mark.parametrize(
    ("stride", "offset", "sectors", "ideal"),
    [
        (1, 0, 4, 4),  # side by side
        (2, 0, 8, 4),  # every other one: half of each sector is moved in vain
        (8, 0, 32, 4),  # a sector for each lane
        (32, 0, 32, 4),
        (1, 1, 5, 4),  # 128 bytes from byte 4 on touch a fifth sector
        (1, 8, 4, 4),  # a whole sector further: aligned again
        (0, 3, 1, 1),  # all lanes read one element
    ],
)
def test_sectors_of_a_strided_read(stride, offset, sectors, ideal):
    x, out = np.ones(32 * 64, np.float32), np.ones(64, np.float32)
    counters = profile(strided_read, 1, 64, x, out, stride, offset)
    assert counters.global_loads == 64
    assert counters.global_load_requests == 2
    assert counters.global_load_sectors == 2 * sectors
    assert counters.global_load_ideal_sectors == 2 * ideal
    assert counters.load_coalescing == ideal / sectors
    assert counters.global_bytes_read == 64 * 4
    assert counters.global_stores == counters.global_store_requests == 0


@cuda.jit
def copy(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i]


@pytest.mark.parametrize(("dtype", "per_request"), [("f8", 8), ("f4", 4), ("i2", 2), ("u1", 1)])
def test_sectors_follow_the_element_size(dtype, per_request):
    counters = profile(copy, 4, 64, np.ones(256, dtype), np.ones(256, dtype))
    assert counters.global_load_requests == counters.global_store_requests == 8
    assert counters.global_load_sectors == counters.global_store_sectors == 8 * per_request
    assert counters.coalescing == 1
    assert counters.global_bytes_written == 256 * np.dtype(dtype).itemsize


def test_partial_warps_count_the_lanes_that_are_there():
    # 40 threads: a warp of 32 and one of 8, whose 8 floats fill one sector.
    counters = profile(copy, 1, 40, np.ones(40, np.float32), np.ones(40, np.float32))
    assert counters.global_loads == 40
    assert counters.global_load_requests == 2
    assert counters.global_load_sectors == counters.global_load_ideal_sectors == 4 + 1


def test_the_guard_leaves_lanes_out():
    # 33 elements, 64 threads: the second warp has one lane at work.
    counters = profile(copy, 1, 64, np.ones(33, np.float32), np.ones(33, np.float32))
    assert counters.global_loads == 33
    assert counters.global_load_requests == 2
    assert counters.divergent_branches == 1
    # The guarded instructions ran for 1 lane of the second warp, 31 were lost in each.
    assert counters.lanes_lost % 31 == 0
    assert counters.lanes_lost > 0


@cuda.jit
def column(x, out):
    i, j = cuda.grid(2)
    out[j, i] = x[i, j]


def test_rows_and_columns():
    # threadIdx.x runs fastest: x[i, j] has lanes 32 floats apart, out[j, i] side by side.
    x = np.ones((32, 32), np.float32)
    counters = profile(column, 1, (32, 32), x, x.copy())
    assert counters.global_load_requests == counters.global_store_requests == 32
    assert counters.global_load_sectors == 32 * 32
    assert counters.global_store_sectors == 32 * 4
    assert counters.load_coalescing == pytest.approx(1 / 8)
    assert counters.store_coalescing == 1


@cuda.jit
def permuted(x, places, out):
    i = cuda.grid(1)
    out[i] = x[places[i]]


def test_order_within_a_warp_does_not_matter():
    places = np.random.default_rng(0).permutation(32).astype(np.int32)
    counters = profile(permuted, 1, 32, np.ones(32, np.float32), places, np.ones(32, np.float32))
    assert counters.global_load_sectors == 4 + 4
    assert counters.global_load_ideal_sectors == 4 + 4


# -- shared memory ------------------------------------------------------------------------------


@cuda.jit
def shared_columns(out):
    s = cuda.shared.array((32, 32), float32)
    t = cuda.threadIdx.x
    s[t, 0] = t
    cuda.syncthreads()
    out[t] = s[t, 0]


@cuda.jit
def shared_columns_padded(out):
    s = cuda.shared.array((32, 33), float32)
    t = cuda.threadIdx.x
    s[t, 0] = t
    cuda.syncthreads()
    out[t] = s[t, 0]


def test_a_column_falls_into_one_bank_until_it_is_padded():
    counters = profile(shared_columns, 1, 32, np.ones(32, np.float32))
    assert counters.shared_store_requests == counters.shared_load_requests == 1
    assert counters.shared_store_wavefronts == 32
    assert counters.shared_load_conflicts == 31
    assert counters.bank_conflicts == 62
    counters = profile(shared_columns_padded, 1, 32, np.ones(32, np.float32))
    assert counters.shared_load_wavefronts == counters.shared_store_wavefronts == 1
    assert counters.bank_conflicts == 0


@cuda.jit
def shared_stride(out, stride):
    s = cuda.shared.array(2048, int32)
    t = cuda.threadIdx.x
    s[t * stride] = t
    cuda.syncthreads()
    out[t] = s[t * stride]


@pytest.mark.parametrize(
    ("stride", "wavefronts"),
    [(1, 1), (2, 2), (3, 1), (4, 4), (16, 16), (31, 1), (32, 32), (33, 1), (64, 32)],
)
def test_wavefronts_of_a_stride(stride, wavefronts):
    # Lanes t and u share a bank when (t - u) * stride is a multiple of 32.
    counters = profile(shared_stride, 1, 32, np.zeros(32, np.int32), stride)
    assert counters.shared_load_wavefronts == counters.shared_store_wavefronts == wavefronts


@cuda.jit
def shared_broadcast(out, group):
    s = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    s[t] = t
    cuda.syncthreads()
    out[t] = s[t // group]


@pytest.mark.parametrize("group", [1, 2, 8, 32])
def test_one_word_for_several_lanes_is_free(group):
    counters = profile(shared_broadcast, 1, 32, np.zeros(32, np.int32), group)
    assert counters.shared_load_wavefronts == 1


@cuda.jit
def shared_doubles(out, stride):
    s = cuda.shared.array(1024, float64)
    t = cuda.threadIdx.x
    s[t * stride] = t
    cuda.syncthreads()
    out[t] = s[t * stride]


@pytest.mark.parametrize(("stride", "wavefronts"), [(1, 2), (2, 4), (16, 32), (17, 2)])
def test_doubles_go_by_half_warps(stride, wavefronts):
    # Each half warp of 16 doubles fills the 32 banks once.
    counters = profile(shared_doubles, 1, 32, np.zeros(32), stride)
    assert counters.shared_load_wavefronts == wavefronts
    assert counters.shared_load_conflicts == wavefronts - 2
    assert counters.shared_bytes_read == 32 * 8


VECTORS = r"""
extern "C" __global__ void k(float4 *out) {
  __shared__ float4 s[32];
  s[threadIdx.x] = make_float4(1, 2, 3, 4);
  __syncthreads();
  out[threadIdx.x] = s[31 - threadIdx.x];
}
"""


def test_vectors_go_by_quarter_warps():
    with virtualgpu.profile() as result:
        virtualgpu.Module.from_cuda(VECTORS).launch("k", 1, 32, [np.zeros(128, np.float32)])
    counters = result.launches[0].counters
    assert counters.shared_load_wavefronts == counters.shared_store_wavefronts == 4
    assert counters.bank_conflicts == 0
    assert counters.global_store_requests == 1
    assert counters.global_store_sectors == 32 * 16 // 32


# -- atomics ------------------------------------------------------------------------------------


@cuda.jit
def histogram(bins, counts):
    i = cuda.grid(1)
    cuda.atomic.add(counts, bins[i], 1)


@pytest.mark.parametrize(
    ("bins", "contention", "passes", "hottest"),
    [
        (1, 32, 8 * 32, 256),  # everything in bin 0
        (2, 16, 8 * 16, 128),
        (32, 1, 8, 8),
        (64, 1, 8, 4),
    ],
)
def test_contention_of_a_histogram(bins, contention, passes, hottest):
    values = (np.arange(256) % bins).astype(np.int32)
    counters = profile(histogram, 4, 64, values, np.zeros(64, np.int32))
    assert counters.global_atomics == counters.atomics == 256
    assert counters.global_atomic_requests == 8
    assert counters.atomic_contention == contention
    assert counters.atomic_passes == passes
    assert counters.atomic_hottest == hottest
    assert counters.shared_atomics == 0


@cuda.jit
def shared_histogram(bins, counts):
    s = cuda.shared.array(4, int32)
    t = cuda.threadIdx.x
    if t < 4:
        s[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, bins[cuda.grid(1)], 1)
    cuda.syncthreads()
    if t < 4:
        cuda.atomic.add(counts, t, s[t])


def test_shared_atomics_are_counted_for_each_block():
    values = np.zeros(256, np.int32)
    counters = profile(shared_histogram, 4, 64, values, np.zeros(4, np.int32))
    assert counters.shared_atomics == 256
    assert counters.global_atomics == 16
    assert counters.atomic_hottest == 64  # one block's; a global bin takes 4
    assert counters.atomic_contention == 32


# -- barriers, branches, instructions -----------------------------------------------------------


@cuda.jit
def tree(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    k = 32
    while k > 0:
        if t < k:
            s[t] += s[t + k]
        cuda.syncthreads()
        k //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


def test_a_tree_reduction():
    counters = profile(tree, 4, 64, np.ones(256, np.float32), np.zeros(4, np.float32))
    assert counters.barriers == 4 * 7
    # k = 32, 16, 8, 4, 2, 1: one warp each adds, the second warp skips.
    assert counters.shared_loads == 4 * (2 * 63 + 1)
    assert counters.shared_stores == 4 * (64 + 63)
    assert counters.shared_store_requests == 4 * (2 + 6)
    # In each block k = 16 to 1 part the first warp, and so does `t == 0`.
    assert counters.divergent_branches == 4 * 6
    assert counters.global_store_requests == counters.global_store_sectors == 4


@cuda.jit
def polynomial(x, out):
    i = cuda.grid(1)
    v = x[i]
    out[i] = v * v + v


def test_flops_and_classes():
    counters = profile(polynomial, 2, 64, np.ones(128, np.float32), np.zeros(128, np.float32))
    assert counters.flops == 128 * 2  # one fma
    assert counters.thread_instructions_by_class["float"] == 128
    assert counters.warp_instructions_by_class["float"] == 4
    assert counters.warp_instructions * 32 == counters.thread_instructions
    assert counters.active_lanes == 32
    assert counters.lanes_lost == 0
    assert sum(counters.thread_instructions_by_class.values()) == counters.thread_instructions


@cuda.jit
def odd_and_even(out):
    i = cuda.grid(1)
    if i % 2:
        out[i] = i * 3
        out[i + 64] = 1
    else:
        out[i] = i * 5
        out[i + 64] = 2


def test_divergence_halves_the_lanes():
    counters = profile(odd_and_even, 1, 32, np.zeros(128, np.int32))
    assert counters.branches >= counters.divergent_branches >= 1
    # Each store runs for 16 lanes: 4 requests of 16 floats at every other place, 4 sectors each.
    assert counters.global_store_requests == 4
    assert counters.global_stores == 64
    assert counters.global_store_sectors == 16
    assert counters.global_store_ideal_sectors == 4 * 2
    assert counters.active_lanes < 32


@cuda.jit
def window(x, out):
    a = cuda.local.array(4, int32)
    i = cuda.grid(1)
    for k in range(4):
        a[k] = x[i] + k
    out[i] = a[x[i] % 4]


def test_local_traffic():
    counters = profile(window, 1, 32, np.arange(32, dtype=np.int32), np.zeros(32, np.int32))
    assert counters.local_loads == 32
    assert counters.local_bytes_written == 32 * 4 * 4  # the compiler stores all four at once
    assert counters.local_stores == 32
    assert counters.local_bytes_read == 32 * 4


# -- lines, launches, repeats -------------------------------------------------------------------


def test_lines_add_up():
    counters = profile(tree, 2, 64, np.ones(128, np.float32), np.zeros(2, np.float32))
    total = Counters()
    for line in counters.by_line.values():
        total.add(line)
    total.by_line = counters.by_line
    for name in (
        "busiest_instructions",
        "busiest_accesses",
        "span_instructions",
        "span_accesses",
        "threads_at_work",
    ):
        assert getattr(total, name) == 0 < getattr(counters, name)  # of threads, not of lines
        setattr(total, name, getattr(counters, name))
    assert total == counters
    assert all(os.path.samefile(filename, __file__) for filename, _ in counters.by_line)
    first = tree.py_func.__code__.co_firstlineno
    add = counters.by_line[next(f for f, _ in counters.by_line), first + 9]
    assert add.shared_stores == 2 * 63
    assert add.global_loads == 0


def test_each_launch_has_its_own_counts():
    x = cuda.to_device(np.ones(256, np.float32))
    with warnings.catch_warnings(), virtualgpu.profile() as result:
        warnings.simplefilter("ignore")
        copy[4, 64](x, x)
        copy[2, 64](x, x)
    assert [launch.kernel for launch in result.launches] == ["copy", "copy"]
    assert [launch.grid for launch in result.launches] == [(4, 1, 1), (2, 1, 1)]
    assert [launch.counters.global_loads for launch in result.launches] == [256, 128]
    assert result.counters.global_loads == 384
    assert "global loads" in str(result)


def test_counts_do_not_depend_on_how_blocks_are_batched():
    # 300 blocks of 128 threads need more than one wave.
    few = profile(tree, 3, 64, np.ones(192, np.float32), np.zeros(3, np.float32))
    many = profile(tree, 900, 64, np.ones(192 * 300, np.float32), np.zeros(900, np.float32))
    assert many.warp_instructions == 300 * few.warp_instructions
    assert many.global_load_sectors == 300 * few.global_load_sectors
    assert many.divergent_branches == 300 * few.divergent_branches


def test_a_launch_that_fails_is_counted_as_far_as_it_came():
    with warnings.catch_warnings(), virtualgpu.profile() as result:
        warnings.simplefilter("ignore")
        with pytest.raises(virtualgpu.VirtualGPUError):
            strided_read[1, 64](
                cuda.to_device(np.ones(64, np.float32)),
                cuda.to_device(np.ones(64, np.float32)),
                2,
                0,
            )
    assert result.launches[0].failed
    assert result.launches[0].counters.warp_instructions > 0


@cuda.jit
def one_warp_turns(x):
    tile = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    cuda.syncthreads()
    x[i] = tile[31 - i]


def test_one_of_a_kind_is_counted_in_the_singular():
    text = str(profile(one_warp_turns, 1, 32, np.ones(32, np.float32)))
    assert "shared loads  1 request, 1 wavefront, 0 bank conflicts" in text
