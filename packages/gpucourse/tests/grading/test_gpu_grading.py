"""Grading where there is a GPU: checked on the virtual one, computed on the real one.

A second virtual GPU, in a process apart, plays the real one.
"""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle import checked_device
from gpucourse.grading.oracle.grader import grade
from gpucourse.grading.sandbox.levels import Sandbox
from gpucourse.grading.verdict import GRADED, INFRASTRUCTURE_FAULT
from grading_toy import submitted
from kernel_answers import SEED, kernels, scale
from lab.gpu_check import grading_run
from lab.gpu_check.rows import Row
from virtualgpu.devices.real.process import VIRTUAL, GPUProcess

pytestmark = pytest.mark.rehearsal

LIMITS = Limits(request_seconds=30.0, gpu=True)

WRONG = {
    "a right answer": {},
    "a bad address": {"scale": scale("    out[i] = values[i] * factor\n")},
    "a race": {"scale": scale("    if i < values.size:\n        out[0] = values[i]\n")},
    "wrong numbers": {"scale": scale("    if i < values.size:\n        out[i] = values[i]\n")},
}


@pytest.fixture(scope="module")
def server():
    with Sandbox(limits=LIMITS) as sandbox:
        yield sandbox.server


@pytest.fixture
def rehearsed(monkeypatch, tmp_path):
    """A folder that collects how the launches agree."""
    monkeypatch.setenv(checked_device.KIND, VIRTUAL)
    monkeypatch.setenv(checked_device.RECORD, str(tmp_path))
    monkeypatch.setattr(checked_device, "_processes", {})
    yield tmp_path
    for process in checked_device._processes.values():
        process.close()


@pytest.mark.parametrize("name", WRONG)
def test_scores_and_reasons_are_those_of_the_virtual_gpu(name, server, rehearsed):
    there, here = (
        grade(kernels(), submitted(kernels(), **WRONG[name]), server, SEED, limits)
        for limits in (LIMITS, replace(LIMITS, gpu=False))
    )
    assert there.kind == here.kind == GRADED, there.reason
    assert [(one.earned, one.reason) for one in there.tests] == [
        (one.earned, one.reason) for one in here.tests
    ]
    assert there.device == "Virtual GPU (CPU), checked on the Virtual GPU (CPU)"
    assert here.device == "Virtual GPU (CPU)"
    launches = checked_device.read_record(rehearsed)
    # A kernel that is found to be wrong never reaches the GPU; the host function's does.
    assert launches and all(line["verdict"] == "equal" for line in launches)
    assert any(line["launch"].startswith("scale[") for line in launches) == (
        name != "a bad address"
    )


class Lying(GPUProcess):
    """A GPU that gets one number wrong."""

    def play(self, launch, seconds=30.0):
        after = [array.copy() for array in super().play(launch, seconds)]
        after[-1][-1] ^= 0x40
        return after


def test_a_gpu_that_disagrees_is_nobodys_fault(server, rehearsed):
    lying = checked_device._processes[os.getpid()] = Lying(VIRTUAL)
    verdict = grade(kernels(), submitted(kernels()), server, SEED, LIMITS)
    lying.close()
    assert verdict.kind == INFRASTRUCTURE_FAULT and verdict.earned is None
    assert "the GPU and the virtual GPU disagree on scale[" in verdict.reason
    assert "on the virtual GPU" in verdict.reason and "element " in verdict.reason
    assert [line["verdict"] for line in checked_device.read_record(rehearsed)] == ["DIFFERS"]


def test_what_the_gpu_computed_is_what_is_read(rehearsed):
    from gpu_launches import launches
    from virtualgpu.devices.recorded import play

    launch = launches()["approximate"]  # a last bit is excused there

    class LastBit(GPUProcess):
        def play(self, launch, seconds=30.0):
            after = [array.copy() for array in super().play(launch, seconds)]
            after[1][0] ^= 1
            return after

    with LastBit(VIRTUAL) as gpu:
        got = play(launch, checked_device.CheckedDevice(1 << 30, gpu=gpu))
    assert np.flatnonzero(got[1] != launch.pieces[1].after).tolist() == [0]


def test_without_a_gpu_nobody_is_graded_wrong(server, monkeypatch):
    monkeypatch.delenv(checked_device.KIND, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(checked_device, "_processes", {})
    verdict = grade(kernels(), submitted(kernels()), server, SEED, LIMITS)
    assert verdict.kind == INFRASTRUCTURE_FAULT
    assert "this run is set to grade on a GPU: no GPU" in verdict.reason


def test_rows_tell_where_two_devices_give_another_score_or_reason():
    def row(**figures):
        return Row("p/s", "agrees", "", {"earned": 3.0, "reasons": {"a": "b"}} | figures)

    assert grading_run.same_reasons([row()], [row()])[0].verdict == "agrees"
    for change in ({"earned": 2.0}, {"reasons": {"a": "c"}}):
        found = grading_run.same_reasons([row(**change)], [row()])[0]
        assert found.verdict == "differs" and "on the virtual GPU" in found.detail
    assert grading_run.same_reasons([row()], []) == [row()]


def test_which_clock_ended_an_endless_answer_is_no_difference():
    def verdict(there: str, here: str) -> str:
        one, other = (
            Row("p/s", "agrees", "", {"earned": 0, "reasons": {"a": reason}})
            for reason in (there, here)
        )
        return grading_run.same_reasons([one], [other])[0].verdict

    by_processor = "the kernel 'k' never finishes. the kernel ran for 10 s"
    by_clock = "never finishes: this test took longer than 60 s"
    assert verdict(by_processor, by_clock) == "agrees"
    assert verdict(by_processor, "wrong when the length is odd") == "differs"
