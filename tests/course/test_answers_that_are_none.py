"""A check survives an answer that is none, of every exercise and every kind: it says so, shortly,
in words for a learner, and the notebook goes on."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from conftest import REPOSITORY
from gpucourse.course.registry import load_course
from lecture_cells import OWN_PROCESS

pytestmark = [pytest.mark.slow, pytest.mark.rehearsal]

LECTURES = [lesson.id for lesson in load_course(REPOSITORY).lectures]
#: Python's words about a line that is none of the learner's, without a mend; of arguments they
#: are plain.
_FOREIGN = re.compile(
    r"(Type|Value|Attribute|Key|Index|Assertion|ZeroDivision)Error(?!.*(argument|→))", re.DOTALL
)


@pytest.mark.parametrize("lecture", LECTURES)
def test_a_check_survives_an_answer_that_is_none(lecture):
    code = REPOSITORY / "tests" / "support" / "answers_that_are_none.py"
    found = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        ran = subprocess.run(
            [sys.executable, code, lecture],
            capture_output=True,
            text=True,
            env=os.environ | found | OWN_PROCESS.get(lecture, {}),
            timeout=300,
        )
    except subprocess.TimeoutExpired as hung:
        pytest.fail(f"never ends: {(hung.stdout or b'').decode().splitlines()[-1:]}")
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert ran.returncode == 0, f"{lines[-1:]}\n{ran.stderr[-4000:]}"
    said = [one for one in lines if len(one) > 2]
    assert len(said) * 2 == len(lines) >= 60
    assert [one for one in said if one.get("passed") is not False] == []
    assert [one for one in said if _FOREIGN.match(one["says"]) and not one["look"]] == []
    assert [one["answer"] for one in said if len(f"{one['says']}{one['look']}") > 2500] == []
