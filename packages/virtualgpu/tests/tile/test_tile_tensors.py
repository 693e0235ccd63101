"""PyTorch's CPU tensors as arguments of cuTile: copied to the device for a launch, and back.

``HostTensor`` has what is asked of them. PyTorch 2.15.0's own were tried: docs/virtualgpu.md.
"""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu
from host_tensor import HostTensor
from virtualgpu import devices
from virtualgpu.errors import VirtualGPUError


@pytest.fixture(scope="module")
def k():
    import tile_kernels

    return tile_kernels


def numbers(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.float32)


def test_a_launch_reads_and_writes_tensors_of_the_host(arrays, k, launch):
    a, b, c = numbers(100), numbers(100) * 3, np.full(100, -1, np.float32)
    allocated = devices.current().memory.allocated
    with virtualgpu.check() as report:
        launch(k.add, (7,), HostTensor(a), HostTensor(b), HostTensor(c), 16)
    assert report.ok, report
    assert np.array_equal(c, numbers(100) * 4) and np.array_equal(a, numbers(100))
    assert devices.current().memory.allocated == allocated, "the copies are gone"


def test_views_of_one_storage_stay_views_of_one(arrays, k, launch):
    """A kernel that reads one half and writes the other of the same storage, and CuPy's beside."""
    both = numbers(90)
    launch(
        k.add, (3,), HostTensor(both, 0, 40), arrays.ones(40, np.float32), HostTensor(both, 50), 16
    )
    assert np.array_equal(both, np.concatenate([numbers(50), numbers(40) + 1]))


def test_a_launch_that_fails_leaves_the_tensors(arrays, launch):
    import tile_faults

    x, allocated = numbers(32), devices.current().memory.allocated
    with pytest.raises(VirtualGPUError, match="assert"):
        launch(tile_faults.stores_and_asserts, (2,), HostTensor(x), 16)
    assert np.array_equal(x, numbers(32))
    assert devices.current().memory.allocated == allocated


@pytest.mark.parametrize("several", [tuple, list])
def test_tensors_in_an_argument_of_several_parts(arrays, k, launch, several):
    x, y = numbers(32), np.zeros(32, np.float32)
    given = several([HostTensor(x), HostTensor(y)])
    launch(k.doubled, (2,), given, 16)
    assert np.array_equal(y, numbers(32) * 2)
    assert isinstance(given[0], HostTensor), "what the caller has stays the caller's"


def test_a_tensor_where_a_number_belongs_is_named_as_what_it_is(arrays, k, launch):
    x = HostTensor(numbers(16))
    with pytest.raises(TypeError, match="of type 'Tensor' as a constant"):
        launch(k.add, (1,), x, x, x, x)


def test_a_signature_is_made_from_tensors_of_the_host_as_from_the_devices(arrays, k):
    from tile_fuzz import bytecode

    host = [HostTensor(np.zeros(64, np.float32)) for _ in range(3)]
    there = [arrays.zeros(64, np.float32) for _ in range(3)]
    assert bytecode(k.add, *host, 16) == bytecode(k.add, *there, 16)
