"""docs/standins.md says what the code says, and each difference has a test that exists."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from lab.pages.standins_differences import DIFFERENCES


@cache
def functions(path: Path) -> set[str]:
    return {
        node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda one: f"{one.package} {one.what}")
def test_each_difference_is_shown_by_a_test(difference, repository: Path):
    file, _, function = difference.test.partition("::")
    (path,) = repository.glob(f"packages/*/tests/**/{Path(file).name}")
    assert function in functions(path)


def test_differences_are_said_once():
    subjects = [(one.package, one.what) for one in DIFFERENCES]
    assert len(subjects) == len(set(subjects))


def test_the_page_is_current(repository: Path, tmp_path: Path):
    made = tmp_path / "standins.md"
    subprocess.run(
        [sys.executable, "-m", "lab.pages.standins_page", str(made)], check=True, cwd=repository
    )
    current = (repository / "docs" / "standins.md").read_text(encoding="utf-8")
    assert made.read_text(encoding="utf-8") == current, (
        "run: python -m lab.pages.standins_page docs/standins.md"
    )
