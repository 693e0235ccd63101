"""Saving and restoring work: round trips, both kept, hostile bundles refused, full disks told."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from gpucourse.course import released
from gpucourse.learner import bundle, records, restoring
from gpucourse.learner.bundle import ABOUT, RECORDS, BundleError
from gpucourse.publish import commands
from gpucourse.system import atomic
from small_course import LECTURE, PROJECT, edit, write_course

LECTURE_NOTEBOOK = f"lectures/{LECTURE}.ipynb"
PROJECT_NOTEBOOK = f"projects/{PROJECT}/{PROJECT}.ipynb"
OLD = json.dumps({"nbformat": 3, "metadata": {}, "worksheets": []}).encode()
MINE = nbformat.writes(new_notebook(cells=[new_code_cell("mine = 1")])).encode()


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small course as it is on one machine; the working directory is one of its folders."""
    return fresh_machine(tmp_path, monkeypatch, "first")


def fresh_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> Path:
    root = write_course(tmp_path / name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / f"{name}-home"))
    monkeypatch.chdir(root)
    commands.build()
    return root


def work_in(path: Path, text: str = "y = 2") -> bytes:
    """Change the notebook's second cell as a learner does in JupyterLab."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[1].source += f"\n{text}"
    nbformat.write(notebook, path)
    return path.read_bytes()


def files(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.suffix != ".zip"
    }


def zipped(path: Path, members: dict[str, bytes | str], about: dict | None = None) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(ABOUT, json.dumps(about or {"format": 1}))
        for name, data in members.items():
            file.writestr(name, data)
    return path


# --- what is work -----------------------------------------------------------------------------


def test_a_release_is_told_from_work(course: Path):
    for name in (LECTURE_NOTEBOOK, PROJECT_NOTEBOOK, f"solutions/{PROJECT}.ipynb"):
        notebook = json.loads((course / name).read_bytes())
        assert released.is_untouched(notebook), name
        # opened and saved: the kernel's version comes in, ids and text stay
        notebook["metadata"]["language_info"]["version"] = "3.12.1"
        notebook["cells"][0]["source"] = "".join(notebook["cells"][0]["source"])
        assert released.is_untouched(notebook), name
        notebook["cells"][1]["execution_count"] = 1
        assert not released.is_untouched(notebook), name
        notebook["cells"][1]["execution_count"] = None
        notebook["cells"][1]["source"] += " "
        assert not released.is_untouched(notebook), name


def test_the_release_of_a_project_is_the_same_in_the_graders_copy(course: Path):
    source, release = (
        json.loads((course / folder / PROJECT / f"{PROJECT}.ipynb").read_bytes())
        for folder in ("grading/source", "projects")
    )
    assert released.release_of(source) == released.release_of(release)
    assert released.digest(source) != released.digest(release)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"cells": 3}',
        b'{"cells": [1]}',
        b'{"cells": [], "metadata": 3}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_notebook_is_none(data: bytes):
    assert released.parse(data) is None


# --- round trips ------------------------------------------------------------------------------


def test_work_and_progress_come_back_on_a_fresh_machine(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    mine = work_in(course / LECTURE_NOTEBOOK)
    (course / "lectures" / "own ünïcode.ipynb").write_bytes(MINE)
    (course / "projects" / PROJECT / "older.ipynb").write_bytes(OLD)
    for name in ("build", "grading/submitted/ana", ".ipynb_checkpoints", "lectures/.hidden"):
        (course / name).mkdir(parents=True)
        (course / name / "not_mine.ipynb").write_bytes(MINE)
    work_in(course / "welcome.ipynb")
    records.note(lesson=LECTURE, done="half")
    monkeypatch.chdir(course / "lectures")
    saved = bundle.save()
    assert saved.path.parent == course
    assert saved.notebooks == [
        LECTURE_NOTEBOOK,
        "lectures/own ünïcode.ipynb",
        f"projects/{PROJECT}/older.ipynb",
    ]
    assert f'href="../{saved.path.name}" download' in saved.html()
    assert list(course.rglob(".gpucourse*")) == []

    there = fresh_machine(tmp_path, monkeypatch, "second")
    before = files(there)
    (there / saved.path.name).write_bytes(saved.path.read_bytes())
    done = restoring.restore()  # the bundle that was dropped into the folder
    assert sorted(done.back) == sorted(saved.notebooks)
    assert (done.beside, done.there, done.progress) == ([], [], 1)
    assert files(there) == before | {
        LECTURE_NOTEBOOK: mine,
        "lectures/own ünïcode.ipynb": MINE,
        f"projects/{PROJECT}/older.ipynb": OLD,
    }
    assert records.read().exercises == {LECTURE: {"half"}}

    again = restoring.restore()
    assert (again.back, again.beside, again.progress) == ([], [], 0)
    assert sorted(again.there) == sorted(saved.notebooks)
    assert "already here" in str(again)


@pytest.mark.parametrize("content", [b"", b"{half of a noteb", b"\xff\xfe"])
def test_a_notebook_that_is_not_whole_is_named_and_nothing_saved(course: Path, content):
    work_in(course / LECTURE_NOTEBOOK)
    broken = course / "projects" / PROJECT / "broken.ipynb"
    broken.write_bytes(content)
    with pytest.raises(BundleError, match=r"broken\.ipynb is not a complete notebook") as told:
        bundle.save()
    assert "save it, or rename it" in str(told.value)
    assert list(course.glob("*.zip")) == [] and broken.read_bytes() == content
    broken.rename(broken.with_suffix(".txt"))
    assert bundle.save().notebooks == [LECTURE_NOTEBOOK]


def test_a_notebook_in_the_midst_of_a_save_is_read_again(course: Path):
    whole = work_in(course / LECTURE_NOTEBOOK)
    (course / LECTURE_NOTEBOOK).write_bytes(b"")
    threading.Timer(0.3, (course / LECTURE_NOTEBOOK).write_bytes, [whole]).start()
    saved = bundle.save()
    with zipfile.ZipFile(saved.path) as packed:
        assert packed.read(LECTURE_NOTEBOOK) == whole


def test_both_are_kept_where_both_hold_work(course: Path, tmp_path: Path, monkeypatch):
    first = work_in(course / LECTURE_NOTEBOOK, "first = 1")
    saved = bundle.save()
    there = fresh_machine(tmp_path, monkeypatch, "second")
    second = work_in(there / LECTURE_NOTEBOOK, "second = 2")
    done = restoring.restore(saved.path)
    assert (done.back, done.beside) == (
        [],
        [(LECTURE_NOTEBOOK, f"lectures/{LECTURE}-restored.ipynb")],
    )
    assert (there / LECTURE_NOTEBOOK).read_bytes() == second
    assert (there / f"lectures/{LECTURE}-restored.ipynb").read_bytes() == first
    assert f"{LECTURE_NOTEBOOK} here is a different version, so both are kept" in str(done)
    before = files(there)
    assert restoring.restore(saved.path).there == [LECTURE_NOTEBOOK]
    assert files(there) == before
    work_in(there / f"lectures/{LECTURE}-restored.ipynb", "third = 3")
    assert restoring.restore(saved.path).beside == [
        (LECTURE_NOTEBOOK, f"lectures/{LECTURE}-restored-2.ipynb")
    ]


def test_work_in_an_older_release_does_not_take_the_newer_ones_place(
    course: Path, tmp_path: Path, monkeypatch
):
    old = work_in(course / LECTURE_NOTEBOOK)
    saved = bundle.save()
    there = fresh_machine(tmp_path, monkeypatch, "second")
    edit(there / f"course/lectures/{LECTURE}/notebook.py", "## Why two?", "## Why not three?")
    commands.build()
    new = (there / LECTURE_NOTEBOOK).read_bytes()
    done = restoring.restore(saved.path)
    assert [name for name, _ in done.beside] == [LECTURE_NOTEBOOK]
    assert (there / LECTURE_NOTEBOOK).read_bytes() == new
    assert (there / done.beside[0][1]).read_bytes() == old


def test_outputs_alone_are_work_and_give_way_to_none(course: Path, tmp_path: Path, monkeypatch):
    path = course / LECTURE_NOTEBOOK
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[1].execution_count = 1
    nbformat.write(notebook, path)
    saved = bundle.save()
    assert saved.notebooks == [LECTURE_NOTEBOOK]
    there = fresh_machine(tmp_path, monkeypatch, "second")
    assert restoring.restore(saved.path).back == [LECTURE_NOTEBOOK]
    notebook.cells[1].execution_count = 7
    nbformat.write(notebook, there / LECTURE_NOTEBOOK)
    assert restoring.restore(saved.path).there == [LECTURE_NOTEBOOK]


def test_a_bundle_is_never_overwritten(course: Path, tmp_path: Path):
    first = bundle.save(tmp_path / "mine")
    assert first.path == tmp_path / "mine.zip"
    before = first.path.read_bytes()
    assert bundle.save(tmp_path / "mine.zip").path == tmp_path / "mine-2.zip"
    assert first.path.read_bytes() == before
    assert bundle.save().path != bundle.save().path
    assert "no notebook, because you have not changed any yet" in str(first)


def test_the_commands_say_what_they_did(course: Path):
    def run(*words: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "gpucourse", *words]
        return subprocess.run(command, cwd=course, capture_output=True, text=True)

    mine = work_in(course / LECTURE_NOTEBOOK)
    saved = run("save")
    assert saved.returncode == 0, saved.stderr
    path = Path(saved.stdout.split("\n")[0])
    assert "1 notebook and your progress" in saved.stdout
    (course / LECTURE_NOTEBOOK).unlink()
    restored = run("restore", str(path))
    assert restored.returncode == 0, restored.stderr
    assert f"restored: {LECTURE_NOTEBOOK}" in restored.stdout
    assert (course / LECTURE_NOTEBOOK).read_bytes() == mine
    path.write_bytes(b"no zip")
    failed = run("restore")
    assert failed.returncode == 1 and "damaged, or is not a bundle" in failed.stderr


# --- bundles that are not what they should be -------------------------------------------------

HOSTILE = [
    "../outside.ipynb",
    "lectures/../../outside.ipynb",
    "/outside.ipynb",
    "..\\outside.ipynb",
    "lectures/./a.ipynb",
    "lectures//a.ipynb",
    ".ipynb",
    ".git/hooks/pre-commit.ipynb",
    "lectures/.ipynb_checkpoints/a.ipynb",
    "lectures/",
    "lectures/numpy.py",
    "Makefile",
    ".bashrc",
    "lectures/a\nb.ipynb",
    "lectures/\u202ea.ipynb",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_save_never_writes_is_refused(course: Path, tmp_path: Path, name: str):
    good = {"lectures/new.ipynb": MINE}
    path = tmp_path / "bundle.zip"
    with zipfile.ZipFile(zipped(path, good), "a") as file:
        member = zipfile.ZipInfo("replaced")
        member.filename = name  # the constructor would mend some of them
        file.writestr(member, MINE)
    before = files(tmp_path)
    with pytest.raises(BundleError, match="nothing was restored"):
        restoring.restore(path)
    assert files(tmp_path) == before


def test_a_link_in_a_notebooks_place_is_not_followed(course: Path, tmp_path: Path):
    target = tmp_path / "precious.ipynb"
    target.write_bytes(MINE)
    (course / "lectures" / "a.ipynb").symlink_to(target)
    (course / "lectures" / "b.ipynb").symlink_to(tmp_path / "nowhere.ipynb")
    other = MINE.replace(b"mine = 1", b"mine = 2")
    path = zipped(tmp_path / "bundle.zip", {"lectures/a.ipynb": other, "lectures/b.ipynb": other})
    assert len(restoring.restore(path).beside) == 2
    assert target.read_bytes() == MINE
    assert not (tmp_path / "nowhere.ipynb").exists()


def test_what_save_would_not_get_back_it_does_not_take(course: Path):
    (course / "lectures" / "a\\b.ipynb").write_bytes(MINE)
    with pytest.raises(BundleError, match="Rename the file"):
        bundle.save()
    assert list(course.glob("*.zip")) == []


def damaged(path: Path) -> Path:
    """One byte of the stored data changed: the checksum no longer fits."""
    data = bytearray(path.read_bytes())
    data[data.index(b"lectures/a.ipynb") + 40] ^= 0xFF
    path.write_bytes(data)
    return path


def encrypted(path: Path) -> Path:
    """The flag that says so, in both headers of every member."""
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = data.find(mark)
        while at >= 0:
            data[at + offset] |= 1
            at = data.find(mark, at + 1)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (damaged, "is damaged"),
        (encrypted, "is damaged, or is not a bundle .*encrypted"),
        (lambda path: path.write_bytes(path.read_bytes()[:-30]), "is damaged"),
        (lambda path: path.write_bytes(b""), "is damaged"),
        (lambda path: (path.unlink(), path.mkdir()), "cannot be read: Is a directory"),
        (lambda path: path.unlink(), "does not exist. In JupyterLab, drop the file"),
    ],
    ids=["damaged", "encrypted", "cut", "empty", "folder", "missing"],
)
def test_a_spoilt_bundle_says_so_and_restores_nothing(course: Path, tmp_path: Path, spoil, says):
    path = zipped(tmp_path / "bundle.zip", {"lectures/a.ipynb": os.urandom(200)})
    before = files(course)
    spoil(path)
    with pytest.raises(BundleError, match=says):
        restoring.restore(path)
    assert files(course) == before


def test_another_zip_and_another_version_are_told(course: Path, tmp_path: Path):
    path = tmp_path / "other.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("lectures/a.ipynb", MINE)
    with pytest.raises(BundleError, match="`gpucourse save` did not write"):
        restoring.restore(path)
    for about in ({"format": 2}, {"format": "1"}, []):
        path = zipped(tmp_path / "newer.zip", {"lectures/a.ipynb": MINE}, about or [1])
        with pytest.raises(BundleError, match="Update the course"):
            restoring.restore(path)
    with pytest.raises(BundleError, match=r"no gpucourse-work\*\.zip in "):
        restoring.restore()
    assert not (course / "lectures" / "a.ipynb").exists()


def test_records_in_a_bundle_are_no_way_in(course: Path, tmp_path: Path):
    path = zipped(
        tmp_path / "bundle.zip",
        {
            RECORDS: '{"lesson": "<script>", "done": "x"}\n{"a": 1}\n\xff\n{"lesson": "'
            + "a" * 999
            + '", "done": "x"}'
        },
    )
    assert restoring.restore(path).progress == 1
    from gpucourse.learner.course_map import progress

    assert "script" not in progress().html()


# --- disks that refuse ------------------------------------------------------------------------


def small_disk(folder: Path, size: str) -> bool:
    """Mount a file system of that size over an empty folder."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder]
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="UNTESTED HERE: only root can mount a small disk")
def test_a_full_disk_leaves_work_and_bundle_whole(course: Path, tmp_path: Path):
    notebook = new_notebook(cells=[new_code_cell(f"noise = {os.urandom(60_000).hex()!r}")])
    nbformat.write(notebook, course / "lectures" / "large.ipynb")
    before = files(course)
    disk = tmp_path / "disk"
    disk.mkdir()
    if not small_disk(disk, "32k"):
        pytest.skip("UNTESTED HERE: this container forbids mounting")
    try:
        with pytest.raises(BundleError, match=r"no space left for .* Your notebooks have not"):
            bundle.save(disk)
        assert list(disk.iterdir()) == []
        saved = bundle.save(tmp_path)
        (disk / "lectures").mkdir()
        (disk / "welcome.ipynb").touch()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(disk)
            with pytest.raises(
                BundleError, match=r"0 of 1 notebooks .* were restored, nothing was"
            ):
                restoring.restore(saved.path)
        assert list((disk / "lectures").iterdir()) == []
    finally:
        subprocess.run(["umount", disk], check=True)
    assert files(course) == before


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_no_room_is_told_and_leaves_nothing_behind(course: Path, tmp_path: Path, number: int):
    work_in(course / LECTURE_NOTEBOOK)
    saved = bundle.save(tmp_path)
    (course / LECTURE_NOTEBOOK).unlink()
    before = files(course)

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        with pytest.raises(BundleError, match=r"no space left for .* Your notebooks have not"):
            bundle.save()
        with pytest.raises(BundleError, match=r"0 of 1 notebooks .* and the bundle is intact"):
            restoring.restore(saved.path)
    assert files(course) == before
    assert list(course.glob("*.zip")) == []
    assert restoring.restore(saved.path).back == [LECTURE_NOTEBOOK]


def test_a_folder_that_may_not_be_written_is_told(course: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(atomic.tempfile, "mkstemp", refuse)
    with pytest.raises(
        BundleError, match=r"Permission denied.*Name a folder that you may write to"
    ):
        bundle.save()
