"""No array of Python objects gets onto a device, or is made of a device's bytes."""

from __future__ import annotations

import numpy as np
import pytest

from virtualgpu.cuda.kernel_arguments import array_argument, number_argument
from virtualgpu.devices import VirtualDevice
from virtualgpu.devices.mirrored import MirroredDevice
from virtualgpu.devices.real.machine_array import MachineArray
from virtualgpu.devices.remote import RemoteDevice
from virtualgpu.memory.plain_dtypes import demand_plain, is_plain

RECORD = np.dtype([("x", "f8"), ("who", "O")])
NESTED = np.dtype([("x", "f8"), ("inner", RECORD, (2,))])
OBJECTS = {
    "none": np.array(None),
    "nones": np.array([None, None]),
    "large-numbers": np.array([2**70, 1]),
    "ragged": np.array([[1], [1, 2]], dtype=object),
    "record": np.zeros(2, RECORD),
    "nested-record": np.zeros(2, NESTED),
    "growing-text": np.array(["a", "b"], np.dtypes.StringDType()),
    "no-elements": np.empty(0, object),
}
PLAIN = [
    np.arange(3.0),
    np.zeros(2, [("s0", "u8"), ("s1", "u8")]),
    np.array(["ab", "c"]),
    np.array([True]),
    np.array([1j]),
    np.zeros(2, "M8[s]"),
    np.zeros(2, "V5"),
]
each = pytest.mark.parametrize("array", OBJECTS.values(), ids=OBJECTS)
refused = pytest.raises(TypeError, match="addresses of Python objects")


@pytest.mark.parametrize("array", PLAIN, ids=lambda array: str(array.dtype))
def test_what_is_bytes_alone_goes_to_the_device_and_back(array):
    device = VirtualDevice(1 << 20)
    there = MachineArray(array, device)
    np.testing.assert_array_equal(there.copy_to_host(), array)
    assert device.view(there.address, array.shape, array.dtype).tobytes() == array.tobytes()


@each
def test_no_object_is_copied_to_a_device(array):
    assert not is_plain(array.dtype)
    with refused:
        MachineArray(array, VirtualDevice(1 << 20))
    device = VirtualDevice(1 << 20)
    address = device.allocate(64)
    with refused:
        device.write(address, array)
    with refused:
        device.view(address, (1,), array.dtype)
    with refused:
        array_argument(address, array.dtype)


@each
def test_no_object_is_sent_to_a_device_elsewhere(array):
    def ask(request, arrays):
        return {"address": 4096}, []

    for device in (
        RemoteDevice(ask, "far", (9, 0), 1 << 20),
        MirroredDevice(ask, "far", (9, 0), 1 << 20),
    ):
        address = device.allocate(64)
        with refused:
            device.write(address, array)
    with refused:
        device.view(address, (1,), array.dtype)


def test_a_record_by_value_has_no_object_in_it():
    with refused:
        number_argument(np.zeros(1, RECORD)[0])


def test_the_message_says_what_to_do():
    with pytest.raises(TypeError, match=r"^a device array of dtype object .*np\.array\("):
        demand_plain(object, "a device array")
