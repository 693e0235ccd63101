"""Rows 46 to 64 of the list of threats: what is particular to GPUs."""

from __future__ import annotations

from functools import partial

import pytest

from gpucourse.grading.verdict import GRADED
from threats import LIMITS, each_attempt, holds
from threats_kernels import ATTEMPTS

pytest_plugins = ("threats_fixtures",)

pytestmark = pytest.mark.rehearsal


attempts = partial(each_attempt, ATTEMPTS)


@pytest.fixture
def withstands(threat_course, server):
    """The attempt has the verdict that it must have, and honest work after it full marks."""

    def check(attempt):
        verdict = holds(attempt, threat_course, server)
        assert verdict.kind == GRADED
        return verdict

    return check


@attempts(46)
def test_threat_46_numpy_instead_of_a_kernel(attempt, withstands):
    withstands(attempt)


@attempts(47)
def test_threat_47_a_loop_on_the_host(attempt, withstands):
    withstands(attempt)


@attempts(48)
def test_threat_48_remembered_results(attempt, withstands):
    withstands(attempt)


@attempts(49)
def test_threat_49_hard_coded_shapes(attempt, withstands):
    withstands(attempt)


@attempts(50)
def test_threat_50_right_with_one_block_only(attempt, withstands):
    withstands(attempt)


@attempts(51)
def test_threat_51_a_lucky_race(attempt, withstands):
    withstands(attempt)


@attempts(52)
def test_threat_52_out_of_bounds_writes(attempt, withstands):
    assert "out[i] = factor * values[i]" in withstands(attempt).first_reason()


@attempts(53)
def test_threat_53_uninitialised_output(attempt, withstands):
    withstands(attempt)


@attempts(54)
def test_threat_54_changed_inputs(attempt, withstands):
    withstands(attempt)


@attempts(55)
def test_threat_55_a_previous_tests_memory(attempt, withstands):
    withstands(attempt)


@attempts(56)
def test_threat_56_unsynchronised_streams(attempt, withstands):
    """The virtual GPU runs everything in the order of issue, so it cannot tell: full marks, and
    the documentation says so. What is asked here is that streams used rightly cost nothing."""
    withstands(attempt)


@attempts(57)
def test_threat_57_patched_timers(attempt, withstands):
    withstands(attempt)


@attempts(58)
def test_threat_58_lower_precision(attempt, withstands):
    withstands(attempt)


@attempts(59)
def test_threat_59_constant_output(attempt, withstands):
    withstands(attempt)


@attempts(60)
def test_threat_60_all_of_the_gpus_memory(attempt, withstands):
    withstands(attempt)


@attempts(61)
def test_threat_61_hung_kernels_and_what_comes_after(attempt, withstands):
    """The other test is graded on the same device afterwards. An oracle that dies or hangs:
    packages/gpucourse/tests/grading/test_grading_batch.py."""
    withstands(attempt)


@attempts(62)
def test_threat_62_another_device(attempt, withstands):
    withstands(attempt)


@attempts(63)
def test_threat_63_detecting_the_warm_up(attempt, withstands):
    withstands(attempt)


@attempts(64)
def test_threat_64_ptx_made_by_hand(attempt, withstands):
    assert withstands(attempt).seconds < LIMITS.total_seconds
