"""The lint of the repository's own texts: each check finds its mistake, and none where none is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab import lint

CONTRACTS = """
[[tool.importlinter.contracts]]
id = "api"
forbidden_modules = ["virtualgpu.low"]
[[tool.importlinter.contracts]]
id = "virtualgpu"
layers = ["high", "mid | low"]
"""
SOURCE = "packages/virtualgpu/src/virtualgpu"
#: Of each check: files of a small tree, in which it complains once, and a word of the complaint.
MISTAKES = {
    lint.guessed_articles: ({"course/a.py": 'f"a {type(x).__name__}"'}, "course/a.py:1"),
    lint.missing_references: (
        {f"{SOURCE}/a.py": '"""See :mod:`virtualgpu.b` and :func:`.known`."""\ndef known(): ...'},
        ":mod:`virtualgpu.b`",
    ),
    lint.narrow_questions: ({"course/lectures/01/checks.py": "if is_active():"}, "checks.py"),
    lint.large_files: ({"big": "x" * (2 * 2**20 + 1)}, "big"),
    lint.architecture: (
        {
            "pyproject.toml": CONTRACTS,
            "ARCHITECTURE.md": "## `virtualgpu`\n| `low` `mid` | x |\n| `high` | x |\n",
            **{f"{SOURCE}/{name}.py": "" for name in ("high", "mid", "low")},
        },
        "['high'], but",
    ),
    lint.unlisted_modules: (
        {"pyproject.toml": CONTRACTS.replace("high", "api")},
        "virtualgpu.mid",
    ),
    lint.hooks_version: (
        {
            ".pre-commit-config.yaml": "  - repo: ruff-pre-commit\n    rev: v0.9.1\n",
            "requirements/base.txt": "\nruff==0.9.2 \\\n",
        },
        "0.9.1",
    ),
    lint.missing_verbs: (
        {
            "Makefile": "test: ## x\n",
            "course/README.md": "`make test`, `make tests`",
        },
        "make tests",
    ),
    lint.decisions: (
        {
            "docs/decisions/README.md": "[one](01_one.md)",
            "docs/decisions/01_one.md": "`there.py` and `gone.py`",
            "there.py": "",
        },
        "gone.py",
    ),
    lint.missing_rows: ({"course/a.py": "# `launch/nobody`"}, "nobody"),
}


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "add", "."], cwd=root, check=True)
    return root


@pytest.mark.parametrize("check", MISTAKES, ids=lambda check: check.__name__)
def test_a_mistake_is_found_once(check, tmp_path: Path):
    files, words = MISTAKES[check]
    (complaint,) = check(tree(tmp_path, files))
    assert words in complaint


def test_a_difference_without_a_test_is_found(tmp_path: Path):
    assert len(list(lint.differences(tmp_path))) == len(lint.DIFFERENCES)


@pytest.mark.rehearsal
def test_a_stale_page_is_found(repository: Path, tmp_path: Path):
    pages = ("docs/standins.md", "docs/front_doors.ipynb", "docs/gpu.md", "lab/results/gpu_aims.md")
    for page in ("lab/results/gpu_bench.json", "lab/results/gpu_check.json", *pages):
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / page).write_bytes((repository / page).read_bytes())
    before = set(lint.stale_pages(tmp_path))
    with (tmp_path / "docs/standins.md").open("a") as page:
        page.write("An edit by hand.\n")
    assert set(lint.stale_pages(tmp_path)) == before | {
        "docs/standins.md: out of date, run make build"
    }


def test_a_photograph_of_another_card_is_found(repository: Path, tmp_path: Path):
    (tmp_path / "img").mkdir()
    script = (repository / "img" / "report_card.py").read_text(encoding="utf-8")
    (tmp_path / "img" / "report_card.py").write_text(script.replace("2, 32", "2, 64"))
    (tmp_path / "img" / "report_card.png").write_bytes(
        (repository / "img" / "report_card.png").read_bytes()
    )
    (tmp_path / "README.md").write_text("")
    assert [complaint.split(":")[0] for complaint in lint.stale_photograph(tmp_path)] == [
        "img/report_card.png",
        "README.md",
    ]
