"""What a save replaces is kept, and comes back; nothing about it can stop a save."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from typer.testing import CliRunner

from gpucourse.cli import app
from gpucourse.course.released import cell_texts
from gpucourse.learner import notebook_versions


def notebook(*sources: str) -> nbformat.NotebookNode:
    cells = [
        new_code_cell(
            source, id=f"cell-{n}", execution_count=7, outputs=[new_output("stream", text="said\n")]
        )
        for n, source in enumerate(sources)
    ]
    return new_notebook(cells=[new_markdown_cell("# A lesson", id="title"), *cells])


def write(path: Path, *sources: str) -> None:
    nbformat.write(notebook(*sources), path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "my work.ipynb"
    write(path, "a = 1", "b = 2")
    return path


def cells(path: Path) -> list[str]:
    return [cell_texts(version.notebook()) for version in notebook_versions.versions(path)]


def test_what_would_be_lost_is_kept(path: Path):
    assert notebook_versions.keep(path, notebook("a = 10", "b = 2")) is not None
    assert cells(path) == [["# A lesson", "a = 1", "b = 2"]]
    (version,) = notebook_versions.versions(path)
    assert notebook_versions.lost(version, path) == []
    write(path, "a = 10", "b = 2")
    assert notebook_versions.lost(version, path) == ["a = 1"]


def test_what_only_grows_or_moves_is_not(path: Path):
    for new in (notebook("a = 1", "b = 2"), notebook("b = 2", "a = 1", "c = 3")):
        assert notebook_versions.keep(path, new) is None
    assert not (path.parent / ".ipynb_checkpoints").exists()


def test_a_version_comes_back_beside_the_notebook_which_stays(path: Path):
    notebook_versions.keep(path, notebook())
    write(path, "c = 3")
    before = path.read_bytes()
    (version,) = notebook_versions.versions(path)
    first, second = (notebook_versions.bring_back(path, version) for _ in range(2))
    assert first != second and path.read_bytes() == before
    for one in (first, second):
        back = nbformat.read(one, as_version=4)
        nbformat.validate(back)
        assert [cell.source for cell in back.cells[1:]] == ["a = 1", "b = 2"]
        assert all(not cell.outputs for cell in back.cells[1:])


def test_two_saves_in_one_second_are_two_versions_and_the_oldest_go_first(path, monkeypatch):
    monkeypatch.setattr(notebook_versions, "KEPT", 3)
    for n in range(5):
        write(path, f"n = {n}")
        notebook_versions.keep(path, notebook())
    assert [version[1] for version in cells(path)] == ["n = 2", "n = 3", "n = 4"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"cells": 3}', '{"cells": [{}]}'])
def test_a_file_that_is_no_notebook_is_not_in_the_way(tmp_path: Path, content: str):
    path = tmp_path / "x.ipynb"
    assert notebook_versions.keep(path, notebook()) is None
    path.write_text(content)
    assert notebook_versions.keep(path, notebook()) is None


def test_a_version_that_finds_no_room_leaves_nothing_behind(path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space"):
            notebook_versions.keep(path, notebook())
    assert list((path.parent / ".ipynb_checkpoints" / "my work.versions").iterdir()) == []


# The server that learners have, with every extension that is installed, Jupytext's among them; it
# saves what standard input brings.
SERVER = """
import json, sys
from jupyter_core.utils import ensure_async
from jupyter_server.serverapp import ServerApp

app = ServerApp(root_dir=sys.argv[1])
app.initialize([], new_httpserver=False)

async def save():
    for content in json.load(sys.stdin):
        model = {"type": "notebook", "format": "json", "content": content}
        await ensure_async(app.contents_manager.save(model, sys.argv[2]))

app.io_loop.run_sync(save)
"""


@pytest.mark.rehearsal
def test_a_jupyter_server_keeps_what_it_replaces(path: Path):
    def save(*sources: str) -> None:
        done = subprocess.run(
            [sys.executable, "-c", SERVER, path.parent, path.name],
            text=True,
            input=json.dumps([notebook(*sources)]),
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr

    save("a = 1", "b = 20")
    assert cells(path) == [["# A lesson", "a = 1", "b = 2"]]
    # Where nothing can be kept, it is saved all the same.
    folder = path.parent / ".ipynb_checkpoints" / "my work.versions"
    for kept in folder.iterdir():
        kept.unlink()
    folder.rmdir()
    folder.write_text("in the way")
    save("a = 100")
    assert nbformat.read(path, 4).cells[1].source == "a = 100"


def test_versions_of_one_cell_are_told_apart_by_the_line_that_differs(path: Path):
    write(path, "def f(x):\n    return 1")
    notebook_versions.keep(path, notebook("def f(x):\n    return 2"))
    write(path, "def f(x):\n    return 2")
    notebook_versions.keep(path, notebook("def f(x):\n    return 3"))
    write(path, "def f(x):\n    return 3")
    lines = CliRunner().invoke(app, ["versions", str(path)]).output.splitlines()
    assert [line.rpartition(": ")[2] for line in lines[:2]] == ["return 2", "return 1"]


def test_the_command_lists_and_brings_back(path: Path):
    def said(*arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, ["versions", str(path), *arguments])
        assert done.exit_code == code, done.output
        return done.output

    assert "No earlier version" in said(code=1)
    notebook_versions.keep(path, notebook("b = 2"))
    write(path, "b = 2")
    listed = said()
    assert "   1  " in listed and "1 cell changed or missing in the notebook" in listed
    assert "a = 1" in listed and "'" in listed.splitlines()[-1], "the name is quoted for a shell"
    assert "versions are 1 to 1" in said("--take", "2", code=1)
    assert "has not changed" in said("--take", "1")
    assert len(list(path.parent.glob("my work of *.ipynb"))) == 1
    (version,) = notebook_versions.versions(path)
    version.path.write_bytes(b"damaged")
    assert "cannot be read" in said()
    assert "cannot be brought back" in said("--take", "1", code=1)
