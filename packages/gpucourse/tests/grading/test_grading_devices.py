"""The device of an oracle: what its addresses say of the oracle's own memory."""

from __future__ import annotations

import numpy as np

from fresh_python import in_fresh_python
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle.devices import new_device
from gpucourse.grading.oracle.untrusted_ptx import UntrustingDevice
from virtualgpu.memory.mapping import BASE

READS_AND_WRITES = """.version 8.0
.target sm_80
.address_size 64
.visible .entry next(.param .u64 at) { .reg .b64 %a, %v; ld.param.u64 %a, [at];
 ld.global.u64 %v, [%a]; add.u64 %v, %v, 1; st.global.u64 [%a], %v; ret; }
"""


PLACES = """
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle.devices import new_device
from virtualgpu.memory.mapping import BASE
devices = [new_device(Limits()), new_device(Limits())]
held = [int(line.split("-")[0], 16) for line in open("/proc/self/maps")]
result = {"hosts": [device.memory.host for device in devices], "held": BASE in held,
          "addresses": [device.allocate(64) for device in devices]}
"""


def test_threat_86_a_device_address_is_none_of_the_oracle():
    """In a fresh process, where nothing else holds the place that a first device has by default."""
    one, other = in_fresh_python(PLACES), in_fresh_python(PLACES)
    assert not one["held"] and not other["held"]
    assert len(set(one["addresses"] + other["addresses"])) == 1  # what a kernel sees is as ever
    assert len({*one["hosts"], *other["hosts"]}) == 4
    assert one["hosts"][0] - one["hosts"][1] != other["hosts"][0] - other["hosts"][1]


def test_threat_86_kernels_work_there_as_anywhere():
    device = new_device(Limits())
    assert isinstance(device, UntrustingDevice) and not device.compiles
    address = device.allocate(8)
    device.write(address, np.array([41]))
    module = device.load(READS_AND_WRITES)
    device.launch(module, "next", (1, 1, 1), (1, 1, 1), [address.to_bytes(8, "little")])
    assert device.read(address, 8).view(np.int64)[0] == 42
    assert address > BASE != device.memory.host
