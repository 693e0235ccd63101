"""Arrays that are only said to be large: their addresses, what they hold, what the host may do."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import virtualgpu
from ptx_lab import entry, launch
from virtualgpu import devices
from virtualgpu.errors import MemoryAccessError, OutOfMemory, VirtualGPUError
from virtualgpu.memory import sparse
from virtualgpu.memory.huge import PART
from virtualgpu.memory.mapping import PAGE

BOTH = pytest.mark.parametrize("native", ["0", "always"])
GiB = 1 << 30
LENGTH = 2**32
# Element %gid of the second array is that of the first, plus 1.
COPY = """mul.wide.u32 %rd3, %gid, 4; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
    ld.global.u32 %r1, [%rd4]; add.u32 %r1, %r1, 1; st.global.u32 [%rd5], %r1;"""
GRID = 2**24 - 1, 256  # all but the last block: the last thread would be number 2**32 - 1


@pytest.fixture(autouse=True)
def device():
    with devices.use(devices.VirtualDevice()) as device:
        yield device


def resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def copied(x, y, checked: bool, **sample) -> list[int]:
    with virtualgpu.sample(blocks=12, **sample) as chosen:
        if checked:
            with virtualgpu.check() as report:
                launch(entry(COPY, 2), *GRID, [x, y])
            assert report.ok, report
        else:
            launch(entry(COPY, 2), *GRID, [x, y])
    return chosen.launches[0].ran


@BOTH
@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("fill", [0, 7, "index", lambda i: i // 256 * 3])
def test_a_launch_reads_the_rule_and_takes_little_memory(
    native, checked, fill, monkeypatch, device
):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", native)
    launch(entry(COPY, 2), 1, 32, [np.zeros(32, np.uint32)] * 2)  # whatever is imported on demand
    before, free = resident(), device.allocated
    x = virtualgpu.huge(LENGTH, np.uint32, fill)
    y = virtualgpu.huge(LENGTH, np.uint32, fill=None)
    for _ in range(2):
        for block in copied(x, y, checked):
            at = np.arange(256 * block, 256 * block + 256)
            wanted = at if fill == "index" else fill(at) if callable(fill) else np.full(256, fill)
            assert np.array_equal(y[at[0] : at[-1] + 1].get(), (wanted + 1).astype(np.uint32))
    assert resident() - before < 64 << 20
    assert device.allocated == free, "they do not count for the device's memory"


@BOTH
def test_values_may_lead_a_kernel_to_pages_that_are_filled_too(native, monkeypatch):
    """Each element says where to read next: four runs until no page is new."""
    monkeypatch.setenv("VIRTUALGPU_NATIVE", native)
    x = virtualgpu.huge(2**30, np.uint32, lambda i: i + 50_000_000)
    out = np.zeros(1, np.uint32)
    step = "mad.wide.u32 %rd3, %r1, 4, %rd1; ld.global.u32 %r1, [%rd3];"
    launch(entry(f"mov.u32 %r1, 3; {3 * step} st.global.u32 [%rd2], %r1;", 2), 1, 1, [x, out])
    assert out[0] == 150_000_003


def test_runs_ahead_of_a_launch_leave_nothing_behind(capsys, monkeypatch):
    """They print nothing, and counts that they added to are taken back."""
    x, total = virtualgpu.huge(2**30, np.uint32, "index"), virtualgpu.huge(64, np.uint32)
    body = """mad.wide.u32 %rd3, %gid, 4, %rd1; ld.global.u32 %r1, [%rd3];
        red.global.add.u32 [%rd2], %r1;"""
    launch(entry(body, 2), 1, 32, [x, total])
    assert total[0].get() == sum(range(32))
    module = virtualgpu.Module.from_cuda(
        'extern "C" __global__ void say(unsigned *x) { printf("%u\\n", x[5000]); }'
    )
    module.launch("say", 1, 1, [x])
    assert capsys.readouterr().out == "5000\n"


@BOTH
def test_unwritten_elements_of_an_empty_one_are_found(native, monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", native)
    x = virtualgpu.huge(LENGTH, np.uint32)
    y, z = (virtualgpu.huge(LENGTH, np.uint32, fill=None) for _ in range(2))
    z[:256] = 1
    before = resident()
    for source, target, seed, unwritten in ((x, y, 1, 0), (y, x, 1, 0), (y, x, 2, 3), (z, y, 2, 4)):
        with virtualgpu.sample(blocks=3, seed=seed), virtualgpu.check() as report:
            launch(entry(COPY, 2), *GRID, [source, target])
        assert [one.kind for one in report.findings] == ["uninitialised"] * bool(unwritten)
        assert sum(one.count for one in report.findings) == unwritten * 256
    assert resident() - before < 64 << 20


@BOTH
def test_what_native_code_stored_before_a_suspicion_is_taken_back(native, monkeypatch):
    """The interpreter runs the blocks again, over the memory as it was."""
    monkeypatch.setenv("VIRTUALGPU_NATIVE", native)
    x = virtualgpu.huge(LENGTH, np.uint32, 5)
    body = """mad.wide.u32 %rd2, %gid, 4, %rd1; add.u64 %rd2, %rd2, 4;
        red.global.add.u32 [%rd2], 1; st.global.u32 [%rd1], %gid;"""
    with virtualgpu.sample(blocks=3), virtualgpu.check() as report:
        launch(entry(body, 1), 2**23, 256, [x])
    assert [one.kind for one in report.findings] == ["race"]
    assert (x[1:257].get() == 6).all() and (x[257:300].get() == 5).all()


@BOTH
def test_an_address_outside_is_told_with_the_arrays_size(native, monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", native)
    x = virtualgpu.huge(2**31, np.uint32)
    with (
        virtualgpu.sample(blocks=2),
        pytest.raises(MemoryAccessError, match="an array of 8,589,934,592 bytes"),
    ):
        launch(entry(COPY, 2), 2**23 + 1, 256, [x, x])


def test_a_shared_race_check_tells_elements_of_one_byte_apart(monkeypatch):
    """Records become finer in a huge array without being copied whole."""
    monkeypatch.setenv("VIRTUALGPU_NATIVE", "0")
    x, before = virtualgpu.huge(2**34, np.uint8), resident()
    body = """mul.wide.u32 %rd2, %gid, 8; add.u64 %rd2, %rd1, %rd2; st.global.u64 [%rd2], %rd1;
        and.b32 %r1, %tid, 1; cvt.u64.u32 %rd3, %r1; shr.u32 %r2, %gid, 1;
        mad.wide.u32 %rd3, %r2, 16, %rd3; add.u64 %rd3, %rd3, %rd1;
        bar.sync 0; st.global.u8 [%rd3], %r1;"""
    with virtualgpu.sample(blocks=3), virtualgpu.check() as report:
        launch(entry(body, 1), 2**22, 256, [x])
    assert report.ok, report
    assert resident() - before < 64 << 20


def test_parts_are_read_and_written_by_the_host():
    x = virtualgpu.huge((2**17, 2**17), np.float32, "index")
    assert x.nbytes == 2**36 and x.shape == (2**17, 2**17)
    assert x[-1, -1].get() == np.float32(2**34 - 1)
    assert np.array_equal(x[:3, 5].get(), np.array([5, 2**17 + 5, 2**18 + 5], np.float32))
    x[4, 10:20] = np.arange(10)
    x[5:7, ::40_000] = -1
    assert np.array_equal(x[4, 9:21].get(), [4 * 2**17 + 9, *range(10), 4 * 2**17 + 20])
    assert (x[5:7, ::40_000].get() == -1).all() and x[5, 1].get() == 5 * 2**17 + 1
    assert x[3:3].get().shape == (0, 2**17)


@pytest.mark.parametrize("fill", [0, "index"])
def test_the_host_takes_no_copy_of_all_of_it(fill):
    x = virtualgpu.huge(2**34, np.uint8, fill)
    before = resident()
    with pytest.raises(VirtualGPUError, match=r"17,179,869,184 bytes.*array\[a:b\]\.get"):
        x.get()
    with pytest.raises(VirtualGPUError, match="of a huge array"):
        x[: PART + 1].get()
    with pytest.raises(VirtualGPUError, match="of a huge array"):
        x[:] = 1
    with pytest.raises(TypeError, match="integers and slices"):
        x[[1, 2]]
    with pytest.raises(TypeError, match=r"x\[a:b\]\.get"):
        np.asarray(x)
    assert resident() - before < 64 << 20


def test_zeros_assigned_to_all_of_it_cost_nothing():
    x = virtualgpu.huge(2**34, np.uint8, "index")
    x[100] = 3
    before = resident()
    x[1:] = 0
    assert x[100].get() == 0 and x[2**33 + 7].get() == 0
    assert resident() - before < 64 << 20


def test_freed_pages_are_given_back(device):
    before = resident()
    x = virtualgpu.huge(GiB, np.uint8)
    x[: 256 << 20] = 1
    assert resident() - before > 200 << 20
    del x
    assert resident() - before < 64 << 20
    assert not device.memory.huge and not device.memory.starts
    for _ in range(40):  # addresses are used again
        x = virtualgpu.huge(2**35, np.uint8)
        assert not x[: 4 * PAGE].get().any() and not x[-PAGE - 3 :].get().any()
        x[-PAGE - 3 :] = 1
        x[:PAGE] = 1


@pytest.mark.parametrize(
    ("shape", "dtype", "error", "words"),
    [
        (-1, float, ValueError, r"shape \(-1,\)"),
        ((4, 0), float, ValueError, "at least 1"),
        (1 << 50, float, OutOfMemory, "has addresses only for"),
        (2.5, float, TypeError, "integer"),
        (4, object, TypeError, "Python objects"),
    ],
)
def test_bad_shapes_and_types_are_refused(shape, dtype, error, words, device):
    with pytest.raises(error, match=words):
        virtualgpu.huge(shape, dtype)
    assert not device.memory.starts


@pytest.mark.parametrize("fill", ["zeros", [1, 2]])
def test_what_is_no_rule_is_refused(fill):
    with pytest.raises(ValueError, match="huge: fill"):
        virtualgpu.huge(4, float, fill)


def test_a_rule_that_fails_leaves_its_error():
    x = virtualgpu.huge(2**30, np.uint32, lambda index: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        launch(entry(COPY, 2), 1, 32, [x, np.zeros(32, np.uint32)])


def test_a_launch_that_cannot_be_taken_back_needs_zeros():
    x = virtualgpu.huge(2**30, np.uint32, "index")
    module = virtualgpu.Module.from_cuda(
        'extern "C" __global__ void k(unsigned *x) { *(unsigned *)malloc(4) = *x; }'
    )
    with pytest.raises(VirtualGPUError, match="Use fill=0"):
        module.launch("k", 1, 1, [x])


def test_another_devices_huge_array_is_named(four_devices):
    devices.select(1)
    x = virtualgpu.huge(2**33, np.uint8)
    devices.select(0)
    with pytest.raises(MemoryAccessError, match="8,589,934,592 bytes on device 1"):
        four_devices[0].launch(
            four_devices[0].load(entry(COPY, 2)), "k", (1, 1, 1), (32, 1, 1),
            [x.data_ptr().to_bytes(8, "little")] * 2,
        )  # fmt: skip


def test_numba_takes_it_and_its_parts(cuda):
    x = virtualgpu.huge(2**33, np.int64, "index")

    @cuda.jit
    def last(x, out):
        out[0] = x[x.size - 1]

    out = cuda.to_device(np.zeros(1, np.int64))
    last[1, 1](x, out)
    assert out[0] == 2**33 - 1
    last[1, 1](x[: 2**32], out)
    assert out[0] == 2**32 - 1
    view = cuda.as_cuda_array(x)
    assert view[2**32 : 2**32 + 3].copy_to_host().tolist() == [2**32, 2**32 + 1, 2**32 + 2]
    with pytest.raises(VirtualGPUError, match="of a huge array"):
        view[: PART // 8 + 1].copy_to_host()


def test_triton_packs_its_address():
    from virtualgpu.triton.arguments import pack

    x = virtualgpu.huge(2**33, np.float32)
    (raw,) = pack(["*fp32"], [x])
    assert int.from_bytes(raw, "little") == x.data_ptr()


def test_tiles_of_it_are_checked(active):
    import cuda.tile as ct
    from numba import cuda

    from tile_kernels import add

    a, b, c = (virtualgpu.huge(2**30, np.float32, k) for k in ("index", 1, None))
    before = resident()
    with virtualgpu.sample(blocks=2), virtualgpu.check() as report:
        ct.launch(cuda.default_stream(), (2**20,), add, (a, b, c, 1024))
    assert report.ok, report
    assert np.array_equal(c[:1024].get(), np.arange(1, 1025))
    with virtualgpu.sample(blocks=5), virtualgpu.check() as report:
        ct.launch(cuda.default_stream(), (2**20,), add, (c, b, a, 1024))
    assert {one.kind for one in report.findings} == {"uninitialised"}
    assert resident() - before < 64 << 20


def test_records_without_address_space_are_a_memory_error():
    with pytest.raises(MemoryError, match="no address space"):
        sparse.zeros(2**58)


def test_touched_pages_of_a_large_array_are_found():
    array = sparse.zeros(2**31, np.int32)
    for at in (0, 5_000_000, 2**30, 2**31 - 1):
        array[at] = 1
    parts = sparse.touched(array)
    assert [part.start * 4 % PAGE for part in parts] == [0] * 4
    assert sum(int(array[part].sum()) for part in parts) == 4
    assert sum(part.stop - part.start for part in parts) == 4 * PAGE // 4
    twice = sparse.repeated(array, 2)
    assert len(sparse.touched(twice)) == 4 and twice[2**32 - 2 :].tolist() == [1, 1]


def test_a_rule_is_followed_again_once_another_thread_has_ended(device):
    x = virtualgpu.huge(LENGTH, np.uint32, "index")
    y = virtualgpu.huge(LENGTH, np.uint32, fill=None)
    with ThreadPoolExecutor(1) as pool:
        device.free(pool.submit(device.allocate, 16).result())
        with pytest.raises(VirtualGPUError, match="another device or another thread"):
            copied(x, y, checked=False)
    copied(x, y, checked=False)
    assert y[:3].get().tolist() == [1, 2, 3]
