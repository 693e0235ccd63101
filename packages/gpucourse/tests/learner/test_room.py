"""The room's counts: who joins is counted without a name, what is no guess counts for nothing."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpucourse.cli import app
from gpucourse.learner import records, room
from small_course import LECTURE, write_course


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """Where a room's folder may be made; the small course lies around the working directory."""
    monkeypatch.chdir(write_course(tmp_path / "course"))
    (tmp_path / "course" / "lectures").mkdir()
    monkeypatch.setattr(records, "place", lambda: tmp_path / "mine" / "progress.jsonl")
    return tmp_path / "room"


def learner(folder: Path, name: str, *guesses: str, asked: str = "too-far") -> None:
    (folder / f"{name}.jsonl").write_text(
        "".join(
            json.dumps({"lesson": LECTURE, "asked": asked, "guess": guess}) + "\n"
            for guess in guesses
        )
    )


def test_the_teacher_sees_counts(folder: Path):
    assert room.counts(folder) == []
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777, "everybody adds, each removes their own"
    learner(folder, "a", "1")
    learner(folder, "b", "1", "an error")
    learner(folder, "c", "an error")
    said = CliRunner().invoke(app, ["room", str(folder)])
    assert said.exit_code == 0
    assert said.output.splitlines() == [
        f"{LECTURE}: too-far, 3 answered",
        "       2 #############        1",
        "  ✓    1 #######              an error",
    ]


def test_what_is_no_guess_of_this_course_counts_for_nothing(folder: Path, tmp_path: Path):
    room.counts(folder)
    learner(folder, "a", "something rude")
    learner(folder, "b", "1", asked="no-such-question")
    (folder / "c.jsonl").write_bytes(b'{"lesson": 3}\nnot json\n\xff\n[]\n')
    learner(tmp_path, "elsewhere", "1")
    (folder / "d.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    os.mkfifo(folder / "e.jsonl")
    learner(folder, "f", "1")
    (found,) = room.counts(folder)
    assert dict(found.counts) == {"1": 1}


def test_joining_and_leaving(folder: Path):
    runner = CliRunner()
    missing = runner.invoke(app, ["room", str(folder), "--join"])
    assert missing.exit_code == 1 and "is not a folder. Ask your teacher" in missing.output
    room.counts(folder)
    said = runner.invoke(app, ["room", str(folder), "--join"])
    assert said.exit_code == 0 and "without your name" in said.output
    file = room.joined()
    assert file is not None and file.parent == folder and len(file.stem) == 16
    room.share(LECTURE, "too-far", "1")
    assert sum(found.counts.total() for found in room.counts(folder)) == 1
    runner.invoke(app, ["room", str(folder), "--leave"])
    room.share(LECTURE, "too-far", "an error")
    assert room.joined() is None
    assert file.read_text().count("\n") == 1


def test_sharing_follows_no_link_and_never_raises(folder: Path, tmp_path: Path):
    room.counts(folder)
    room.join(folder)
    file = room.joined()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch()
    file.unlink()
    file.symlink_to(elsewhere)
    room.share(LECTURE, "too-far", "1")
    assert elsewhere.read_text() == ""
