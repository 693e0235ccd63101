"""Rows 66 to 68 and 72: one submission against the class and the teacher's terminal. The answers
are right, so points are lost only where there is nothing to grade.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from nbformat.v4 import new_code_cell

from threats import FULL, Attempt
from threats_files import NOTHING, on, timestamp
from threats_kernels import BY_HAND, HEAD, WAITS_FOR_ITSELF

# What a name that is not UTF-8 and one that moves a terminal's cursor look like, as bytes.
NOT_UTF_8, MOVES = b"\xff\xfe-7f3a.ipynb", b"\x1b]52;c;bXk=\x07\x1b[2J7f3a.ipynb"
# dateutil lets an exception of `decimal` out for it.
HUGE_HOUR = "1" + "0" * 31 + "h"
# 2 MB: enough to tell 1.8 GB from 0.2, too little to harm who lets it through.
STATEMENTS = "x;" * 1_000_000
ESCAPES = "\x1b]52;c;bXk=\x07\x9b31m\u202e\u2066\ud800 7f3a"


def renamed(name: bytes) -> Callable[[Path], None]:
    """The notebook under a name of these bytes."""

    def place(path: Path) -> None:
        os.replace(path, os.path.join(os.fsencode(path.parent), name))

    return place


def stray(text: str) -> Callable[[dict], None]:
    """A cell of the student's own besides the answers."""
    return lambda notebook: notebook["cells"].append(
        dict(new_code_cell(text, id="stray", metadata={}))
    )


def many_names(notebook: dict) -> None:
    stray("\n".join(f"name_{n} = 0" for n in range(300_000)))(notebook)


def format_4_of_many_digits(notebook: dict) -> bytes:
    return json.dumps(notebook | {"nbformat": 10**4000}).encode()


DOUBLE = "def double(values):\n    return 2 * values\n"
ATTEMPTS = [
    Attempt(
        66,
        "name-not-utf-8",
        "a notebook whose name is not UTF-8",
        place=renamed(NOT_UTF_8),
        earns=FULL,
        says="was released as 'host.ipynb'",
    ),
    Attempt(
        67,
        "huge-hour",
        "an hour of 32 digits in timestamp.txt",
        place=timestamp(HUGE_HOUR),
        earns=FULL,
    ),
    Attempt(
        67,
        "time-zone-file",
        "a time zone that is a path",
        place=timestamp("2024-01-01 00:00:00 /proc/self/mem"),
        earns=FULL,
    ),
    Attempt(
        68,
        "statements",
        "a stray cell of a million statements",
        change=stray(STATEMENTS),
        earns=FULL,
    ),
    Attempt(68, "names", "a stray cell that defines 300,000 names", change=many_names, earns=FULL),
    Attempt(
        68,
        "format-of-digits",
        "a format number of 4,000 digits",
        change=format_4_of_many_digits,
        earns=NOTHING,
        says="the grader reads format 4",
    ),
    Attempt(
        72,
        "moving-name",
        "a notebook's name that writes to the teacher's clipboard",
        place=renamed(MOVES),
        earns=FULL,
        says="was released as 'host.ipynb'",
    ),
    Attempt(
        72,
        "escapes-in-an-error",
        "the same, and half a character, in the text of an error",
        {"double": f"raise ValueError({ESCAPES!a})\n" + DOUBLE},
        earns=(0.0, 2.0),
        says="7f3a",
    ),
    Attempt(
        72,
        "escapes-in-a-magic",
        "the same in a line that is not Python",
        {"double": "%load_ext " + ESCAPES + "\n" + DOUBLE},
        earns=FULL,
        says="7f3a",
        honest={"double": "%matplotlib inline\n" + DOUBLE},
    ),
    Attempt(
        72,
        "escapes-in-an-answer",
        "the same in a written answer",
        change=on("why", lambda cell: cell.update(source=ESCAPES)),
        earns=FULL,
    ),
    Attempt(
        72,
        "escapes-in-ptx",
        "the same in PTX made by hand",
        {"scale": BY_HAND.format(HEAD + "add." + ESCAPES[:-6])},
        assignment="kernels",
        says="the kernel 'scale' fails",
        stock=WAITS_FOR_ITSELF,
    ),
]
