"""Row 71 of the list of threats: text that takes long to look through."""

from __future__ import annotations

import time

import pytest

from threats import each_attempt, holds
from threats_time import ATTEMPTS

pytest_plugins = ("threats_fixtures",)

pytestmark = pytest.mark.rehearsal

# Of processor time, for two submissions: attempt and control.
SECONDS = 60


@each_attempt(ATTEMPTS, 71, ["ptx-straight", "ptx-labels", "ptx-branches"])
def test_threat_71_text_that_takes_long_to_look_through(attempt, threat_course, server):
    began = time.process_time()
    verdict = holds(attempt, threat_course, server)
    assert time.process_time() - began < SECONDS
    assert len(verdict.to_json()) < 20_000
