"""numba-cuda's own tests can be run from a checkout whose environment lies inside it."""

from __future__ import annotations

import pytest

from lab.evidence.numba_suite import run

pytestmark = pytest.mark.rehearsal


def test_a_module_of_the_suite_passes():
    found = run(simulator=False, modules=["test_idiv"])
    assert len(found) >= 2 and {outcome for outcome, _ in found.values()} == {"passed"}, found
