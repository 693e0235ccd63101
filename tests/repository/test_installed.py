"""A damaged environment ends ``make test`` at once, with the line that repairs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import installed


@pytest.fixture
def environment(repository: Path, tmp_path: Path) -> Path:
    """A folder that ``make`` takes for an environment that is set up; its Python is this one."""
    program = tmp_path / "bin" / "python"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    (tmp_path / ".set-up").write_text(f"{repository}\n")
    return tmp_path


def make(repository: Path, environment: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["make", "-s", f"VENV={environment}", "test", "TEST_ARGS=--version"],
        cwd=repository,
        capture_output=True,
        text=True,
    )


def test_tests_begin_where_nothing_is_missing(repository, environment):
    done = make(repository, environment)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("damage", ["exit 127", "echo 3.14; exit 1"])
def test_a_python_that_does_not_fit_is_told(repository, environment, damage):
    (environment / "bin" / "python").write_text(f"#!/bin/sh\n{damage}\n")
    done = make(repository, environment)
    assert done.returncode != 0
    told = done.stderr.splitlines()[0]
    assert told.endswith(f"rm -rf {environment} && make setup")


def package(folder: Path, module: bool) -> None:
    (folder / "thing-1.dist-info").mkdir()
    (folder / "thing-1.dist-info" / "METADATA").write_text("Name: thing\nVersion: 1\n")
    (folder / "thing-1.dist-info" / "RECORD").write_text("thing/__init__.py,,\n")
    if module:
        (folder / "thing").mkdir()
        (folder / "thing" / "__init__.py").touch()


@pytest.mark.parametrize(("module", "status"), [(True, 0), (False, 1)])
def test_a_package_whose_files_are_gone_is_missing(tmp_path, monkeypatch, capsys, module, status):
    package(tmp_path, module)
    monkeypatch.syspath_prepend(str(tmp_path))
    lock = tmp_path / "base.txt"
    lock.write_text("thing==1 \\\n    --hash=sha256:0\nfar-away==2 ; sys_platform == 'win32' \\\n")
    monkeypatch.setattr(installed, "LOCK", lock)
    assert installed.main() == status
    assert ("lacks thing. Install everything anew: rm -rf" in capsys.readouterr().err) == status


def test_a_package_that_was_never_installed_is_missing(tmp_path, monkeypatch, capsys):
    lock = tmp_path / "base.txt"
    lock.write_text("far-away==2 \\\nfarther[extra]==1 \\\n")
    monkeypatch.setattr(installed, "LOCK", lock)
    assert installed.main() == 1
    assert "lacks far-away, farther." in capsys.readouterr().err
