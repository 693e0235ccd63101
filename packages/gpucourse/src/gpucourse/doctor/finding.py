"""Findings of the doctor's checks."""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

from gpucourse.course.checkout import NotInTheCourse, course_folder

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check: ``status`` is ok, warn or fail; ``mend`` is advice or None."""

    group: str
    name: str
    status: str
    found: str
    mend: str | None = None


def install(*words: str) -> str:
    """Return the command that installs ``words`` into this environment and no other.

    An environment made by uv may have no pip, and the command `pip` would then belong to a
    different environment.
    """
    return shlex.join([*_installer("install"), *words])


def uninstall(*names: str) -> str:
    """Return the command that removes packages from this environment."""
    command = _installer("uninstall")
    return shlex.join([*command, *(["--yes"] if "-m" in command else []), *names])


def reinstall() -> str:
    """Return the command that reinstalls all requirements of the course."""
    try:
        root = course_folder()
    except NotInTheCourse:
        return "install the course again, as described in its README"
    if Path(sys.prefix) == root / ".venv" and not has_pip():
        return "rm -rf .venv && make setup"
    names = (f"requirements/{name}.txt" for name in ("base", "course"))
    lock = next((name for name in names if (root / name).is_file()), "requirements/base.txt")
    return install("--require-hashes", "-r", lock)


def has_pip() -> bool:
    """Return True if this environment has its own pip."""
    # importlib.util.find_spec would also ask setuptools, which warns if distutils was imported
    # before it.
    return PathFinder.find_spec("pip") is not None


def _installer(verb: str) -> list[str]:
    if has_pip():
        return [sys.executable, "-m", "pip", verb]
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv") or "uv"
    return [uv, "pip", verb, "--python", sys.executable]
