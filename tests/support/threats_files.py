"""Rows 33 to 45: the file and the notebook. Each attempt's answers are right, so points are lost
only where there is nothing to grade; what matters is that one file neither wins points by its form
nor stops the class.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

from threats import FULL, Attempt

NOTHING = (0.0, 0.0)
WRONG = {"double": "def double(values):\n    return values\n"}
# A notebook larger than the cap on one (10 MB), and quick to write.
LARGE = 12_000_000


def cell_of(notebook: dict, name: str) -> dict:
    return next(
        cell
        for cell in notebook["cells"]
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == name
    )


def on(name: str, change: Callable[[dict], object]) -> Callable[[dict], None]:
    """Change one cell."""

    def apply(notebook: dict) -> None:
        change(cell_of(notebook, name))

    return apply


def drop(name: str) -> Callable[[dict], None]:
    return lambda notebook: notebook["cells"].remove(cell_of(notebook, name))


def double_up(name: str) -> Callable[[dict], None]:
    return lambda notebook: notebook["cells"].append(
        json.loads(json.dumps(cell_of(notebook, name)))
    )


def grading_data(name: str, **values) -> Callable[[dict], None]:
    return on(name, lambda cell: cell["metadata"]["nbgrader"].update(values))


def invent(notebook: dict) -> None:
    double_up("test-double")(notebook)
    cell = notebook["cells"][-1]
    cell["source"] = "pass"
    cell["metadata"]["nbgrader"].update(grade_id="bonus", points=1000)


def blank(name: str) -> Callable[[dict], None]:
    return on(name, lambda cell: cell.update(source="pass"))


def retype(name: str, kind: str) -> Callable[[dict], None]:
    def change(cell: dict) -> None:
        cell["cell_type"] = kind
        if kind != "code":
            cell.pop("outputs", None)
            cell.pop("execution_count", None)

    return on(name, change)


def content(data: bytes) -> Callable[[dict], bytes]:
    return lambda notebook: data


def large(notebook: dict) -> None:
    cell_of(notebook, "why")["source"] = "x" * LARGE


def odd_text(notebook: dict) -> None:
    cell_of(notebook, "total")["source"] += "\n# \u202e odd \u2066 text \ud800"


def other_kernel(notebook: dict) -> None:
    notebook["metadata"] = {
        "kernelspec": {"name": "evil", "display_name": "evil"},
        "language_info": {"name": "evil"},
    }


def named(name: str) -> Callable[[Path], None]:
    def place(path: Path) -> None:
        path.replace(path.with_name(name))

    return place


def instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Something else where the notebook should be."""

    def place(path: Path) -> None:
        path.unlink(missing_ok=True)
        make(path)

    return place


def link(path: Path) -> None:
    path.symlink_to(path.parents[3] / "source" / "host" / "host.ipynb")


def hard_link(path: Path) -> None:
    os.link(path.parents[3] / "source" / "host" / "host.ipynb", path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def slip(path: Path) -> None:
    """An archive with a member that climbs out of the folder it is unpacked in."""
    with zipfile.ZipFile(path.with_name("more.zip"), "w") as archive:
        archive.writestr("../../../../escaped-7f3a.txt", "out")


def odd_names(path: Path) -> None:
    for name in ("-rf", "a\nb.ipynb", "$(touch x).ipynb", "ü ‮.ipynb", "x;y.txt"):
        path.with_name(name).write_text("{}", encoding="utf-8")


def timestamp(text: str) -> Callable[[Path], None]:
    def place(path: Path) -> None:
        path.with_name("timestamp.txt").write_text(text)

    return place


MALFORMED = {
    "cut-short": (b'{"cells": [', "not valid JSON"),
    "format-3": (b'{"nbformat": 3, "worksheets": []}', "format 3"),
    "deep": (b"[" * 100_000, "nested too deeply"),
    "zero-byte": (b'{"nbformat": 4, "cells": "\x00"}', "not valid JSON"),
    "not-utf-8": (b'{"cells": "\xff\xfe"}', "not UTF-8"),
    "empty": (b"", "not valid JSON"),
    "no-notebook": (b"[]", "not a Jupyter notebook"),
}


def attempt(row: int, name: str, tries: str, **options) -> Attempt:
    options.setdefault("earns", FULL)
    return Attempt(row, name, tries, **options)


ATTEMPTS = [
    attempt(
        33,
        "deleted-test",
        "deletes the test that it would fail",
        cells=WRONG,
        earns=(0.0, 2.0),
        change=drop("test-double"),
        says="wrong for three numbers",
    ),
    attempt(
        33,
        "blanked-test",
        "empties the test that it would fail",
        cells=WRONG,
        earns=(0.0, 2.0),
        change=blank("test-double"),
        says="wrong for three numbers",
    ),
    attempt(
        34,
        "doubled-answer",
        "has an answer cell twice",
        change=double_up("double"),
        says="2 times with the same text; it counts once",
    ),
    attempt(
        34,
        "doubled-test",
        "has a test cell twice",
        change=double_up("test-double"),
        says="was duplicated",
    ),
    attempt(
        35,
        "more-points",
        "writes 1000 points into a test cell",
        cells=WRONG,
        earns=(0.0, 2.0),
        change=grading_data("test-double", points=1000),
        says="wrong for three numbers",
    ),
    attempt(
        35,
        "not-locked",
        "unlocks a test cell and makes it a solution",
        cells=WRONG,
        earns=(0.0, 2.0),
        change=grading_data("test-double", locked=False, solution=True),
        says="wrong for three numbers",
    ),
    attempt(
        35,
        "schema",
        "another version of nbgrader's metadata",
        change=grading_data("double", schema_version=99),
        says="",
    ),
    attempt(
        35,
        "task",
        "metadata of wrong types",
        change=grading_data("double", task=[1], grade="yes"),
        says="were edited",
    ),
    attempt(
        36,
        "cell-type",
        "the answer in a Markdown cell",
        change=retype("double", "markdown"),
        says="another type",
    ),
    attempt(
        36,
        "test-type",
        "turns the test that it would fail into text",
        cells=WRONG,
        earns=(0.0, 2.0),
        change=retype("test-double", "markdown"),
        says="wrong for three numbers",
    ),
    attempt(37, "invented", "invents a test cell of 1000 points", change=invent),
    attempt(
        38,
        "reversed",
        "has all cells in the opposite order",
        change=lambda notebook: notebook["cells"].reverse(),
    ),
    attempt(39, "other-kernel", "asks for a kernel that does not exist", change=other_kernel),
    *(
        attempt(
            40,
            name,
            f"a file that is {name.replace('-', ' ')}",
            change=content(data),
            earns=NOTHING,
            says=reason,
        )
        for name, (data, reason) in MALFORMED.items()
    ),
    attempt(
        40,
        "odd-text",
        "characters that change the reading direction, half a character",
        change=odd_text,
        says="reading direction",
    ),
    attempt(
        41, "large", "a notebook of 12 MB", change=large, earns=NOTHING, says="larger than 10 MB"
    ),
    attempt(
        42,
        "renamed",
        "a notebook with another name",
        place=named("mine (2).ipynb"),
        earns=FULL,
        says="'mine (2).ipynb' here",
    ),
    attempt(
        43,
        "link",
        "a link to the instructor's notebook",
        place=instead(link),
        earns=NOTHING,
        says="is a link",
    ),
    attempt(
        43,
        "hard-link",
        "a hard link to it",
        place=instead(hard_link),
        earns=NOTHING,
        says="hard link",
    ),
    attempt(
        43,
        "pipe",
        "a pipe that never gives anything",
        place=instead(os.mkfifo),
        earns=NOTHING,
        says="not a regular file",
    ),
    attempt(
        43,
        "device",
        "a link to a device without an end",
        place=instead(device),
        earns=NOTHING,
        says="is a link",
        stock="reading it would take all memory of the machine that compares",
    ),
    attempt(44, "slip", "an archive that unpacks outside its folder", place=slip),
    attempt(44, "odd-names", "files with names that a shell would run", place=odd_names),
    attempt(45, "bad-time", "a time that is none", place=timestamp("9999-99-99 not a time")),
    attempt(45, "long-time", "a time of 1 MB", place=timestamp("9" * 1_000_000)),
    attempt(
        45,
        "year-one",
        "handed in two thousand years ago",
        place=timestamp("0001-01-01 00:00:00 UTC"),
    ),
]
