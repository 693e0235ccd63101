"""Reads of unwritten memory, and what counts as writing."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import virtualgpu

virtualgpu.activate(force=True)

from numba import cuda, float32, int32  # noqa: E402

from virtualgpu import devices  # noqa: E402
from virtualgpu.cuda.module import Module  # noqa: E402
from virtualgpu.findings import Report  # noqa: E402
from virtualgpu.memory.global_memory import GlobalMemory  # noqa: E402
from virtualgpu.memory.written import Written  # noqa: E402


def check(kernel, threads: int, *arguments) -> Report:
    with warnings.catch_warnings(), virtualgpu.check() as report:
        warnings.simplefilter("ignore")
        kernel[1, threads](*arguments)
    return report


def run(kernel, threads: int, *arguments) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel[1, threads](*arguments)


@cuda.jit
def copy(x, out):
    i = cuda.grid(1)
    out[i] = x[i]


@cuda.jit
def fill(x, start):
    i = cuda.grid(1)
    x[start + i] = i


@pytest.fixture
def out():
    return cuda.to_device(np.zeros(64, np.int32))


def test_message(out):
    report = check(copy, 64, cuda.device_array(64, np.int32), out)
    assert len(report.findings) == 1
    found = report.findings[0]
    assert found.kind == "uninitialised"
    assert found.line == copy.py_func.__code__.co_firstlineno + 3
    assert (found.block, found.thread, found.count) == ((0, 0, 0), (0, 0, 0), 64)
    assert found.message.startswith(
        "uninitialised: thread 0 of block 0 reads 4 bytes of global memory "
        f"(x[0] of 64) at line {found.line} that nobody has written: cuda.device_array returns "
        "uninitialised memory"
    )
    assert found.message.endswith(f": {found.advice}")


# -- who counts as a writer ---------------------------------------------------------------------


def test_the_host_before_the_check(out):
    assert check(copy, 64, cuda.to_device(np.arange(64, dtype=np.int32)), out).ok


def test_the_host_inside_the_check(out):
    x = cuda.device_array(64, np.int32)
    with virtualgpu.check() as report:
        x.copy_to_device(np.arange(64, dtype=np.int32))
        run(copy, 64, x, out)
    assert report.ok


def test_the_host_in_parts(out):
    x = cuda.device_array(64, np.int32)
    x[:32].copy_to_device(np.zeros(32, np.int32))
    report = check(copy, 64, x, out)
    assert report.findings[0].thread == (32, 0, 0)
    assert report.findings[0].count == 32
    x[32:].copy_to_device(np.zeros(32, np.int32))
    assert check(copy, 64, x, out).ok


def test_a_kernel_that_was_watched(out):
    x = cuda.device_array(64, np.int32)
    assert check(fill, 40, x, 0).ok
    report = check(copy, 64, x, out)
    assert report.findings[0].thread == (40, 0, 0)
    assert check(fill, 24, x, 40).ok
    assert check(copy, 64, x, out).ok


def test_what_kernels_completed_is_no_longer_looked_at():
    x = cuda.device_array(64, np.int32)
    unwritten = devices.current().memory.unwritten
    address = x.device_ctypes_pointer.value
    assert check(fill, 40, x, 0).ok
    assert address in unwritten
    assert check(fill, 24, x, 40).ok
    assert address not in unwritten


def test_any_kernel_that_was_not_watched(out):
    # What it wrote is not known: everything on the device then counts as written.
    x = cuda.device_array(64, np.int32)
    run(fill, 1, x, 0)
    assert check(copy, 64, x, out).ok
    assert not check(copy, 64, cuda.device_array(64, np.int32), out).ok


def test_a_watch_by_the_profiler_alone_is_none(out):
    x = cuda.device_array(64, np.int32)
    with virtualgpu.profile():
        run(fill, 1, x, 0)
    assert check(copy, 64, x, out).ok


def test_a_copy_on_the_device_carries_it_along(out):
    half = cuda.device_array(64, np.int32)
    half[:32].copy_to_device(np.zeros(32, np.int32))
    x = cuda.device_array(64, np.int32)
    x.copy_to_device(half)
    report = check(copy, 64, x, out)
    assert report.findings[0].count == 32


def test_a_copy_of_what_is_complete_is_complete(out):
    whole, x = cuda.to_device(np.zeros(64, np.int32)), cuda.device_array(64, np.int32)
    x.copy_to_device(whole)
    assert check(copy, 64, x, out).ok
    assert x.gpu_data.device_ctypes_pointer.value not in devices.current().memory.unwritten


def test_mapped_and_managed_memory_is_the_hosts(out):
    x = cuda.mapped_array(64, np.int32)
    x[:] = 1
    assert check(copy, 64, x, out).ok
    x = cuda.managed_array(64, np.int32)
    x[:] = 1
    assert check(copy, 64, x, out).ok


def test_memory_used_again_is_new(out):
    for _ in range(20):
        x = cuda.to_device(np.zeros(64, np.int32))
        address = x.device_ctypes_pointer.value
        del x
        y = cuda.device_array(64, np.int32)
        assert not check(copy, 64, y, out).ok
        if y.device_ctypes_pointer.value == address:
            break


# -- sizes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16"])
def test_every_size(dtype):
    out = cuda.to_device(np.zeros(64, dtype))
    x = cuda.device_array(64, dtype)
    x[:61].copy_to_device(np.zeros(61, dtype))
    report = check(copy, 64, x, out)
    assert report.findings[0].thread == (61, 0, 0)
    # A complex number may be read as two.
    assert report.findings[0].count in (3, 6)


def test_a_word_of_which_one_byte_is_missing(out):
    x = cuda.device_array(64 * 4, np.uint8)
    x[:7].copy_to_device(np.zeros(7, np.uint8))
    x[8:].copy_to_device(np.zeros(64 * 4 - 8, np.uint8))
    report = check(copy, 64, x.view(np.int32), out)
    assert (report.findings[0].thread, report.findings[0].count) == ((1, 0, 0), 1)


# -- shared and local ---------------------------------------------------------------------------


@cuda.jit
def shared_sum(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t < x.size:
        s[t] = x[t]
    cuda.syncthreads()
    if t == 0:
        total = float32(0)
        for k in range(64):
            total += s[k]
        out[cuda.blockIdx.x] = total


def test_shared_memory_is_new_in_each_block():
    out = cuda.to_device(np.zeros(300, np.float32))
    with warnings.catch_warnings(), virtualgpu.check() as report:
        warnings.simplefilter("ignore")
        shared_sum[300, 64](cuda.to_device(np.zeros(60, np.float32)), out)
    assert len(report.findings) == 1
    assert report.findings[0].count == 300 * 4
    assert "shared memory does not start at zero" in report.findings[0].message
    assert check(shared_sum, 64, cuda.to_device(np.zeros(64, np.float32)), out).ok


@cuda.jit
def window(x, out):
    a = cuda.local.array(8, int32)
    i = cuda.grid(1)
    for k in range(8):
        a[k] = x[i] * k
    out[i] = a[x[i] % 8]


def test_local_arrays_that_are_written_are_clean(out):
    assert check(window, 64, cuda.to_device(np.arange(64, dtype=np.int32)), out).ok


LOCAL = r"""
extern "C" __global__ void k(int *out, int many) {
  int a[8];
  for (int i = 0; i < many; i++) a[i] = i;
  out[threadIdx.x] = a[out[threadIdx.x] + 3];
}
"""


def test_local_arrays_that_are_not():
    module = virtualgpu.Module.from_cuda(LOCAL)
    for many, ok in ((8, True), (3, False)):
        with virtualgpu.check() as report:
            module.launch("k", 1, 64, [np.zeros(64, np.int32), np.int32(many)])
        assert report.ok == ok, report
    assert "local memory does not start at zero" in report.findings[0].message


# -- the record of written bytes ----------------------------------------------------------------


def test_written_spans_and_maps_agree():
    random = np.random.default_rng(0)
    for _ in range(20):
        one, two = Written(100), Written(100)
        truth = np.zeros(100, bool)
        two.map()
        for _ in range(int(random.integers(1, 90))):
            start, end = sorted(random.integers(0, 101, 2).tolist())
            one.add(start, end)
            two.add(start, end)
            truth[start:end] = True
        assert one.map()[:100].astype(bool).tolist() == truth.tolist()
        assert two.left == np.count_nonzero(~truth)


def test_what_is_complete_is_dropped():
    memory = GlobalMemory(1 << 20)
    address = memory.allocate(1000)
    assert address in memory.unwritten
    memory.fill(address, 0, 500)
    assert address in memory.unwritten
    memory.write(address, np.zeros(1000, np.uint8))
    assert address not in memory.unwritten
    other = memory.allocate(10)
    memory.free(other)
    assert other not in memory.unwritten


# -- compiled for a debugger --------------------------------------------------------------------


def test_locals_of_the_compiler_are_no_finding_in_debug_code():
    """Unoptimised code copies whole descriptors of arrays, with the fields that nobody set."""

    @cuda.jit(debug=True, opt=False)
    def by_rows(x, out):
        i = cuda.grid(1)
        row = out[i]
        for j in range(row.size):
            row[j] = x[i]

    rows = cuda.to_device(np.zeros((64, 2), np.int32))
    assert check(by_rows, 64, cuda.to_device(np.arange(64, dtype=np.int32)), rows).ok
    (found,) = check(by_rows, 64, cuda.device_array(64, np.int32), rows).findings
    assert found.kind == "uninitialised" and "global memory" in found.message


# -- printf ----------------------------------------------------------------------------------------

PRINTS = r"""
extern "C" __global__ void right(int width) {
    char text[8] = {'a', 'b', 0};
    printf("%d|%5d|%*d|%u|%x|%lld|%5.2f|%e|%s|%c|%%|%p|%s\n", threadIdx.x, 7, width, 42,
           4000000000u, 255, 1099511627776ll, 3.14, 12345.678, "text", 'z', (void*)16, text);
}
extern "C" __global__ void too_wide(int n) {
    if (threadIdx.x > 2)
        printf("%lld\n", n);
}
extern "C" __global__ void no_end(int n) {
    char text[8];
    text[0] = 'a'; text[n] = 'b'; text[n + 2] = 0;
    printf("%s\n", text);
}
"""


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        ("right", None),
        ("too_wide", r"thread 3 of block 0 prints 8 bytes as %lld, of which nobody has written 4"),
        ("no_end", r"thread 0 of block 0 prints 4 bytes as %s, of which nobody has written 1 at"),
    ],
)
def test_what_printf_formats_is_read(kernel, said, capsys):
    module = Module.from_cuda(PRINTS, name="prints.cu")
    with virtualgpu.check() as report:
        module.launch(kernel, 1, 32, [1])
    if said is None:
        assert report.ok and not report.notes, str(report)
        return
    (found,) = report.findings
    assert (found.kind, found.count) == ("uninitialised", 29 if kernel == "too_wide" else 32)
    assert found.line == {"too_wide": 9, "no_end": 14}[kernel]
    assert re.search(said, found.message), found.message


@cuda.jit
def prints(x):
    i = cuda.grid(1)
    print(i, x[i], cuda.threadIdx.x, x[i] > 2, np.float32(x[i]), "text", np.int8(i))


def test_numbas_print_writes_what_it_formats(capsys):
    report = check(prints, 4, cuda.to_device(np.arange(4.0)))
    assert report.ok and not report.notes, str(report)
    assert capsys.readouterr().out.splitlines()[3] == "3 3.000000 3 True 3.000000 text 3"
