"""What of a submission's own words gets into reasons once it has seen hidden inputs."""

from __future__ import annotations

import re
import time

import pytest

from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle.fault_reasons import NOTHING_MORE
from gpucourse.grading.oracle.grader import grade
from gpucourse.grading.oracle.words_heard import ROOM, WITHHELD, Heard
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.verdict import GRADED
from grading_toy import notebook_of, setup, solution, submitted, test_cell

START = """%load_ext gpucourse
import numpy as np
from gpucourse import call, expect, expect_equal, secret_rng


class Unsupported(Exception):
    "What is not translated."


def check(kind):
    if kind == "mixed":
        raise Unsupported("a loop that mixes columns")


def translated(program):
    try:
        check(program)
        return translate(program)
    except Unsupported as refused:
        return {"refused": str(refused)}
"""
# As project 4 does it: the reason quotes what the compiler refuses.
QUOTES = """number = int(secret_rng().integers(100, 999))
program = f"def secret_{number}(x): return {number} * x"
found = call("translated", program, where="host")
expect(isinstance(found, str), f"refuses '{found['refused']}'"
       if isinstance(found, dict) else "none")
"""
ASSERTS = QUOTES.replace("expect(isinstance(found, str), f", "assert isinstance(found, str), (f")
CUTS = QUOTES.replace("{found['refused']}", "{found['refused'][:60].upper().lower()}")
KEYS = QUOTES.replace("{found['refused']}", "{[*found][0]}")
KINDS = {"quotes": QUOTES, "asserts": ASSERTS, "cuts": CUTS, "keys": KEYS}
TRANSLATE = """def translate(program):
    ### BEGIN SOLUTION
    return program
    ### END SOLUTION
"""
MIXED = """found = call("translated", "mixed", where="host")
expect(isinstance(found, str), f"refuses '{found['refused']}'")
"""
SMALL = Assignment(
    "small",
    notebook_of(
        [
            setup("start", START),
            solution("translate", TRANSLATE),
            *(test_cell(name, source, 1) for name, source in KINDS.items()),
            test_cell("mixed", MIXED, 1),
        ]
    ),
)


def reasons(server, body: str) -> dict[str, str]:
    answer = f"def translate(program):\n    {body}\n"
    verdict = grade(SMALL, submitted(SMALL, translate=answer), server, "5eed" * 8, Limits())
    assert verdict.kind == GRADED, verdict.reason
    return {test.test: test.reason for test in verdict.tests}


@pytest.mark.parametrize(
    "body",
    [
        "raise Unsupported(program)",
        "raise Unsupported('HIDDEN: ' + program)",
        "raise Unsupported(program.split('_')[1][:3])",
        "raise Unsupported('told_' + program.split('_')[1][:3])",
        "raise Unsupported(' '.join(program))",
        "return {'refused': program[4:20]}",
        "return {program: 1, 'refused': program}",
        "import os; os._exit(2 + int(program.split('_')[1][:3]) % 250)",
        "raise ValueError(program)",
        "raise KeyError(program)",
    ],
)
def test_threat_91_hidden_programs_are_not_told(server, body):
    found = reasons(server, body)
    for kind in KINDS:
        reason = found[kind]
        assert reason and not re.search(r"\d{3}|\d \d|signal \d|code \d", reason), reason
        assert "secret" not in reason and "return" not in reason.replace("returned", ""), reason


def test_threat_91_what_may_be_told_is_told(server):
    """One word of the submission's own, and a sentence of the public cells."""
    found = reasons(server, "raise Unsupported('cumsum')")
    assert found["quotes"] == found["asserts"] == found["cuts"] == "refuses 'cumsum'"
    assert found["mixed"] == "refuses 'a loop that mixes columns'"
    assert "details are not shown" in reasons(server, "raise Unsupported(program)")["quotes"]
    before = reasons(server, "import os\nimport os; os._exit(7)")["quotes"]
    assert "exit code" in before  # no input is known while cells run


KNOWN = Heard({"sort", "roll"}, ["%load_ext x", "def f():\n    raise E('a whole sentence')\n"])


@pytest.mark.parametrize(
    ("said", "reason", "told"),
    [
        (["sort"], "refuses 'sort'", "refuses 'sort'"),
        (["sort roll"], "refuses 'sort roll'", "refuses '…'"),
        (["a whole sentence"], "refuses 'a whole sentence'", "refuses 'a whole sentence'"),
        ([("deep", {"key-7": ["x77"]})], "x77 of key-7 in deep", "… of … in …"),
        (["a", "is"], "a reason is a reason", "a reason is a reason"),
        (["reason"], "reasonable reason", "reasonable …"),
        (["0123456789" * 9], "digits 123456789012345678901234567 here", "digits … here"),
        (["0123456789" * 9], "digits 1234567890123 here", "digits 1234567890123 here"),
        ([1.5, None, True, 7], "7 of 1.5", "7 of 1.5"),
        ([], "anything", "anything"),
        (["hidden"], "", ""),
    ],
)
def test_threat_91_texts_and_their_pieces_are_withheld(said, reason, told):
    KNOWN.forget()
    KNOWN.note(said)
    assert KNOWN.told(reason) == (told if WITHHELD not in told else f"{told} ({NOTHING_MORE})")


LOOP = "ab" * 990
FAR_APART = "".join(chr(0x100 + 7 * n % 5000) for n in range(1980))


@pytest.mark.parametrize(
    ("reason", "filler"),
    [
        (LOOP, "ab" * 20 + "c"),
        (("a" * 40 + "b") * 48, "a" * 39 + "b"),
        ("a" * 1980, "a" * 30 + "b"),
        (FAR_APART, FAR_APART[:23] + "Q"),
        (FAR_APART, "".join(FAR_APART[n : n + 13] + "Q" for n in range(1900))),
        ("x" * 1980, [f"x{n:06}" for n in range(90_000)]),
        (" ".join(f"w{n:04}" for n in range(330)), [f"w{n:04}" for n in range(90_000)]),
    ],
)
def test_threat_111_megabytes_of_text_are_looked_through_in_a_second(reason, filler):
    """Whatever the submission fills them with; what it said is withheld all the same."""
    KNOWN.forget()
    if isinstance(filler, list):
        KNOWN.note([*filler, "refuses the hidden program: " + reason[:1980]])
    else:
        # At its end, what the reason repeats.
        KNOWN.note(filler * ((ROOM - 3000) // len(filler)) + "Q" + reason[:1980])
    began = time.process_time()
    told = KNOWN.told(f"refuses '{reason[:1980]}'")
    assert time.process_time() - began < 1.5
    assert reason[:24] not in told and NOTHING_MORE in told


@pytest.mark.parametrize("at", range(13))
def test_a_piece_is_found_wherever_it_stands(at):
    """The control beside it: 24 characters are recognised, 23 are not."""
    KNOWN.forget()
    KNOWN.note("#" * at + FAR_APART[100:124] + "%" * 40)
    KNOWN.note("%" * at + FAR_APART[300:323] + "#" * 40)
    told = KNOWN.told(FAR_APART)
    assert told == f"{FAR_APART[:100]}…{FAR_APART[124:]} ({NOTHING_MORE})"


def test_threat_91_so_much_text_is_told_nothing_of():
    KNOWN.forget()
    KNOWN.note(["x" * (ROOM + 1)])
    assert KNOWN.told("refuses 'sort'") == f"the answer fails this check ({NOTHING_MORE})"
    KNOWN.forget()
    assert KNOWN.told("refuses 'sort'") == "refuses 'sort'"
