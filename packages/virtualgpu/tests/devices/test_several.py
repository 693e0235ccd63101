"""Several virtual GPUs in one process (``VIRTUALGPU_DEVICES``)."""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu
from virtualgpu import devices
from virtualgpu.devices.virtual import visible, wanted


@pytest.fixture
def kernels(four_devices):
    from numba import cuda

    @cuda.jit
    def add(x, value):
        i = cuda.grid(1)
        if i < x.size:
            x[i] += value

    return cuda, add


def test_each_has_its_share_and_addresses_of_its_own(four_devices):
    starts = [one.allocate(16) for one in four_devices]
    assert [devices.owner(start) for start in starts] == four_devices
    assert len({one.total_memory for one in four_devices}) == 1
    with pytest.raises(virtualgpu.VirtualGPUError, match="no live allocation starts there"):
        four_devices[1].free(starts[0])


def test_numba_computes_on_each(kernels, four_devices):
    cuda, add = kernels
    assert len(cuda.gpus) == 4
    there = []
    for number in range(4):
        with cuda.gpus[number]:
            assert cuda.get_current_device().id == number
            there.append(cuda.to_device(np.arange(8.0)))
            add[1, 32](there[-1], number)
    assert cuda.get_current_device().id == 0
    assert [one.copy_to_host()[0] for one in there] == [0, 1, 2, 3]
    assert [one.allocated for one in four_devices] == [64] * 4
    cuda.select_device(2)
    there[0].copy_to_device(there[3])  # from one to another
    assert there[0].copy_to_host()[0] == 3


def test_global_variables_are_each_device_s_own(four_devices):
    module = [
        virtualgpu.Module.from_cuda(
            '__device__ int count; extern "C" __global__ void f() { atomicAdd(&count, 1); }',
            device=one,
        )
        for one in four_devices[:2]
    ]
    for one in (module[0], module[0], module[1]):
        one.launch("f", 1, 4)
    assert [one.read_symbol("count", np.int32)[0] for one in module] == [8, 4]


def test_an_array_of_another_device_is_named(kernels, four_devices):
    cuda, add = kernels
    with cuda.gpus[1]:
        there = cuda.to_device(np.zeros(8))
    with pytest.raises(virtualgpu.VirtualGPUError) as caught:
        add[1, 32](there, 1)
    said = str(caught.value)
    assert "in an array of 64 bytes on device 1, and this is device 0" in said
    assert "copy the array to the device that launches" in said
    assert "thread 0 of block 0" in said


def test_native_code_refuses_it_too(kernels, four_devices, monkeypatch):
    cuda, add = kernels
    monkeypatch.setenv("VIRTUALGPU_NATIVE", "always")
    with cuda.gpus[3]:
        there = cuda.to_device(np.zeros(8))
        add[1, 32](there, 1)
        with virtualgpu.check() as report:
            add[1, 32](there, 1)
        assert report.ok
        assert there.copy_to_host().tolist() == [2.0] * 8
    with pytest.raises(virtualgpu.VirtualGPUError, match="on device 3, and this is device 0"):
        add[1, 32](there, 1)


@pytest.mark.parametrize("said", ["0", "17", "two", "-1"])
def test_a_number_that_is_none(monkeypatch, said):
    monkeypatch.setenv("VIRTUALGPU_DEVICES", said)
    with pytest.raises(virtualgpu.VirtualGPUError, match="the number of virtual GPUs must be"):
        wanted()


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ("1,2", [1, 2]),
        (" 3 , 0 ", [3, 0]),
        ("2", [2]),
        ("0,1,2,3", [0, 1, 2, 3]),
        ("1,7,2", [1]),  # as the CUDA Programming Guide has it: the list ends where there is none
        ("", [0, 1, 2, 3]),
        ("-1", [0, 1, 2, 3]),  # these hide real GPUs
    ],
)
def test_cuda_visible_devices_chooses_among_them(monkeypatch, said, seen):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", said)
    assert visible(4) == seen
    monkeypatch.setenv("VIRTUALGPU_DEVICES", "4")
    monkeypatch.setattr(devices, "_devices", [])
    assert len(devices.every()) == len(seen)
    firsts = [device.memory.first for device in devices.every()]
    assert sorted(range(len(seen)), key=firsts.__getitem__) == sorted(
        range(len(seen)), key=seen.__getitem__
    )


@pytest.mark.parametrize("said", ["1", "4,0", "GPU-0"])
def test_a_list_that_leaves_no_device_says_how_to_have_one(monkeypatch, said):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", said)
    with pytest.raises(virtualgpu.VirtualGPUError, match="leaves no device: there is one virtual"):
        visible(1)


def test_a_device_that_is_not_there(four_devices):
    with pytest.raises(virtualgpu.VirtualGPUError, match=r"4 virtual GPUs, 0 to 3.*DEVICES=10"):
        devices.select(9)
