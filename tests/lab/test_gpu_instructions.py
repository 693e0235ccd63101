"""The part ``instructions``: forms on a GPU, whose part the virtual one plays."""

from __future__ import annotations

import numpy as np
import pytest

import h200_vectors
from lab.gpu_check import instructions
from lab.gpu_check.rows import AGREES, DIFFERS, NOT_RUN
from virtualgpu.devices.real.process import VIRTUAL, open_device
from virtualgpu.errors import VirtualGPUError

FORMS = ["add.f64 @x, $x, $x", "sqrt.approx.f32 @f, $f"]


@pytest.fixture
def device():
    return open_device(VIRTUAL)


def test_forms_come_out_as_on_the_virtual_gpu(device):
    rows = instructions.compare(h200_vectors, FORMS, device)
    assert [(row.what, row.verdict, row.detail) for row in rows] == [
        (form, AGREES, "") for form in FORMS
    ]
    assert rows[0].figures["not as an H200"] == 0 < rows[1].figures["not as an H200"]


def test_other_bits_are_an_h200s_or_wrong():
    here, recorded = np.array([[1, 2, 3]], np.uint64), np.array([[1, 2, 4]], np.uint64)
    as_h200 = instructions.judge("form", recorded, here, recorded)
    assert as_h200.verdict == AGREES
    assert as_h200.detail.endswith("than on the virtual GPU, but the same as on an H200")
    other = instructions.judge("form", np.array([[1, 9, 4]], np.uint64), here, recorded)
    assert (other.verdict, other.detail) == (
        DIFFERS,
        "2 of 3 threads have other bits than on the virtual GPU, and 1 other bits than on an H200",
    )


def test_a_form_that_a_gpu_lacks_is_a_row_and_one_that_spoils_it_the_last(device, monkeypatch):
    def refuses(*_, **__):
        raise error

    monkeypatch.setattr(instructions, "play", refuses)
    error = VirtualGPUError("no such instruction on sm_75\nat line 3")
    (row,) = instructions.alone(h200_vectors, FORMS[0], device)
    assert (row.verdict, row.detail) == (NOT_RUN, "VirtualGPUError: no such instruction on sm_75")
    error.name = "CUDA_ERROR_ECC_UNCORRECTABLE"
    with pytest.raises(VirtualGPUError):
        instructions.alone(h200_vectors, FORMS[0], device)
