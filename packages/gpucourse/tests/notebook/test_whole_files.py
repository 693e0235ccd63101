"""Saves of the course's Jupyter server: a reader finds the old file or the new one, never less."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import stat
import threading
from pathlib import Path

import pytest
from jupyter_server.services.contents.largefilemanager import (
    AsyncLargeFileManager,
    LargeFileManager,
)
from nbformat.v4 import new_markdown_cell, new_notebook

from gpucourse.notebook import server, whole_files

# Large enough that a write in place takes some time.
NOTEBOOK = new_notebook(cells=[new_markdown_cell("x" * 2_000_000)])


@pytest.fixture(params=[LargeFileManager, AsyncLargeFileManager])
def manager(request, tmp_path):
    manager = request.param(root_dir=str(tmp_path))
    server._prepare(manager)
    return manager


def save(manager, name: str, content=NOTEBOOK) -> None:
    kind = "notebook" if name.endswith(".ipynb") else "file"
    done = manager.save({"type": kind, "format": "text", "content": content}, name)
    if inspect.isawaitable(done):

        async def wait():
            await done

        asyncio.run(wait())


def watched(path: Path, action) -> int:
    """Count how often `path` was no JSON while `action` ran."""
    broken, done = 0, threading.Event()

    def watch():
        nonlocal broken
        while not done.is_set():
            try:
                json.loads(path.read_text(encoding="utf-8"))
            except ValueError:
                broken += 1

    thread = threading.Thread(target=watch)
    thread.start()
    action()
    done.set()
    thread.join()
    return broken


def test_a_notebook_is_whole_at_every_moment_of_its_saves(manager, tmp_path):
    save(manager, "work.ipynb")
    assert (
        watched(tmp_path / "work.ipynb", lambda: [save(manager, "work.ipynb") for _ in "12"]) == 0
    )
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["work.ipynb"]


def test_jupyters_own_saves_are_not_whole(tmp_path):
    """Find damaged files with plain writes: the control of the test above."""
    manager = LargeFileManager(root_dir=str(tmp_path))
    save(manager, "work.ipynb")
    assert watched(tmp_path / "work.ipynb", lambda: [save(manager, "work.ipynb") for _ in "1234"])


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o700])
def test_permissions_stay(manager, tmp_path, mode):
    path = tmp_path / "work.ipynb"
    path.write_text("{}")
    path.chmod(mode)
    before = path.stat().st_mtime_ns
    save(manager, "work.ipynb")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.stat().st_mtime_ns > before


def test_a_new_file_has_the_permissions_of_the_users_mask(manager, tmp_path):
    before = os.umask(0o027)
    try:
        save(manager, "new.ipynb")
        save(manager, "new.py", "x = 1\n")
    finally:
        os.umask(before)
    for name in ("new.ipynb", "new.py"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o640
    assert (tmp_path / "new.py").read_bytes() == b"x = 1\n"


def test_a_link_stays_a_link_and_its_file_is_written(manager, tmp_path):
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "work.ipynb"
    target.write_text("{}")
    (tmp_path / "link.ipynb").symlink_to(target)
    save(manager, "link.ipynb")
    assert (tmp_path / "link.ipynb").is_symlink()
    (cell,) = json.loads(target.read_text())["cells"]
    assert "".join(cell["source"]) == NOTEBOOK.cells[0].source


def test_both_names_of_one_file_are_written(manager, tmp_path):
    (tmp_path / "one.ipynb").write_text("{}")
    os.link(tmp_path / "one.ipynb", tmp_path / "two.ipynb")
    save(manager, "one.ipynb")
    assert (tmp_path / "two.ipynb").read_bytes() == (tmp_path / "one.ipynb").read_bytes() != b"{}"


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "work.ipynb"
    path.write_text("old")
    writing = whole_files.written_whole(LargeFileManager(root_dir=str(tmp_path)).atomic_writing)

    def fill() -> None:
        with writing(str(path)) as file:
            file.write("half")
            raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space"):
        fill()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_renamed_into_place_is_written_all_the_same(tmp_path, monkeypatch):
    """Replace a file that is mounted by itself, as a container may have it."""
    path = tmp_path / "work.ipynb"
    path.write_text("old")
    writing = whole_files.written_whole(LargeFileManager(root_dir=str(tmp_path)).atomic_writing)
    busy = OSError(16, "Device or resource busy")
    monkeypatch.setattr(os, "replace", lambda *names: (_ for _ in ()).throw(busy))
    with writing(str(path)) as file:
        file.write("new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]
