"""numba.cuda on the virtual GPU makes no array of Python objects of a device's bytes."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("active")

RECORD = np.dtype([("x", "f8"), ("who", "O")])
refused = pytest.raises(TypeError, match="addresses of Python objects")


class Claimed:
    """An array of numbers that calls itself one of objects."""

    def __init__(self, array):
        self.__cuda_array_interface__ = array.__cuda_array_interface__ | {"typestr": "|O"}


@pytest.mark.parametrize("dtype", [object, RECORD], ids=["objects", "record"])
def test_no_array_of_objects_is_made(cuda, dtype):
    for make in (cuda.device_array, cuda.pinned_array, cuda.mapped_array, cuda.managed_array):
        with refused:
            make(2, dtype)
        with refused:
            make(shape=2, dtype=dtype)
    with refused:
        cuda.to_device(np.zeros(2, dtype))
    with refused:
        cuda.device_array_like(np.zeros(2, dtype))


def test_no_array_of_numbers_becomes_one_of_objects(cuda):
    numbers = cuda.to_device(np.arange(2))
    with refused:
        cuda.as_cuda_array(Claimed(numbers))
    with refused:
        numbers.view(object)


def test_a_kernel_takes_no_objects_as_numbers(cuda):
    @cuda.jit("void(int64[:], int64[:])")
    def copy(source, target):
        i = cuda.grid(1)
        if i < source.size:
            target[i] = source[i]

    out = np.zeros(2, np.int64)
    with refused:
        copy[1, 2](np.array([None, None]), out)
    with refused:
        copy[1, 2](Claimed(cuda.to_device(np.arange(2))), out)
    assert not out.any()
    copy[1, 2](np.array([3, 4]), out)
    assert out.tolist() == [3, 4]


def test_numbers_and_records_of_numbers_are_taken(cuda):
    states = np.zeros(2, [("s0", "u8"), ("s1", "u8")])
    assert cuda.to_device(states).copy_to_host().dtype == states.dtype
    assert cuda.device_array_like(states).copy_to_host().shape == (2,)
    assert cuda.pinned_array(2).dtype == cuda.managed_array(2, np.float64).dtype
