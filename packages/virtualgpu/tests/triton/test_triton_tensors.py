"""Tensors of the host as arguments: copied to the device for a launch, and back.

``HostTensor`` has what the device asks of PyTorch's CPU tensors.
PyTorch 2.15.0's own were tried with Triton 3.9.0: docs/virtualgpu.md, "Triton".
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import virtualgpu
from host_tensor import HostTensor
from virtualgpu import devices
from virtualgpu.devices.host_tensors import copies
from virtualgpu.errors import MemoryAccessError
from virtualgpu.triton.arguments import on_device, pack
from virtualgpu.triton.lines import mended

SOFTMAX = mended((Path(__file__).parent / "emitted" / "softmax.ptx").read_text())
RNG = np.random.default_rng(36)


@pytest.fixture
def device():
    with devices.use(devices.VirtualDevice()) as device:
        yield device


def softmax(device, x: HostTensor, out: HostTensor, rows: int, columns: int) -> None:
    with copies() as address:
        given = [on_device(one, address) for one in (x, out, rows, columns)]
        parameters = pack(["*fp32", "*fp32", "i32", "i32", "*i8", "*i8"], [*given, None, None])
        device.launch(device.load(SOFTMAX), "softmax", (3, 1, 1), (128, 1, 1), parameters, 16)


def right(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def test_a_launch_reads_and_writes_tensors_of_the_host(device):
    x = RNG.normal(size=(7, 200)).astype(np.float32)
    before, out, allocated = x.copy(), np.full_like(x, -1), device.memory.allocated
    with virtualgpu.check() as report:
        softmax(device, HostTensor(x), HostTensor(out), 7, 200)
    assert report.ok, report
    np.testing.assert_allclose(out, right(x), rtol=1e-5)
    assert np.array_equal(x, before)
    assert device.memory.allocated == allocated, "the copies are gone"


@pytest.mark.parametrize("skew", [0, 4, 12])
def test_views_of_one_storage_stay_views_of_one(device, skew):
    """Input and output are halves of one array, which may begin at any address."""
    raw = np.zeros(4 * 2 * 1600 + 64, np.uint8)
    skip = -raw.ctypes.data % 64 + skew
    both = raw[skip : skip + 4 * 2 * 1600].view(np.float32)
    both[:] = np.concatenate([RNG.normal(size=1600), np.full(1600, -1)])
    x = both[:1600].reshape(8, 200).copy()
    softmax(device, HostTensor(both), HostTensor(both, 1600), 8, 200)
    np.testing.assert_allclose(both[1600:].reshape(8, 200), right(x), rtol=1e-5)
    assert np.array_equal(both[:1600].reshape(8, 200), x)


def test_a_launch_that_fails_leaves_the_tensors_and_says_where(device):
    x = RNG.normal(size=(7, 200)).astype(np.float32)
    out, allocated = np.full_like(x, -1), device.memory.allocated
    with pytest.raises(MemoryAccessError):
        softmax(device, HostTensor(x), HostTensor(out), 70, 200)
    assert (out == -1).all() and device.memory.allocated == allocated


def test_what_is_no_tensor_of_the_host_goes_through(device):
    empty = HostTensor(np.zeros(0, np.float32))
    there = SimpleNamespace(device=SimpleNamespace(type="cuda"), data_ptr=lambda: 64)
    with copies() as address:
        given = [on_device(one, address) for one in (1, None, 2.5, there, (3, empty))]
        assert given == [1, None, 2.5, there, (3, 0)]
