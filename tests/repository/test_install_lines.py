"""The install commands of pages and messages resolve, from this checkout and the package index.

An address on GitHub is replaced by this repository at its last commit, since the public one may
not have that commit. `uv pip install --dry-run` then resolves every requirement and builds the
metadata of our packages, and installs nothing.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from virtualgpu.installing import REPOSITORY, requirements

pytestmark = pytest.mark.rehearsal

ROOT = Path(__file__).parents[2]
OURS = ("virtualgpu", "gpustandins", "gpucourse", "jaxpile")
PAGES = ("README.md", "docs/*.md", "docs/*/*.md", "packages/*/README.md", "grading/README.md")
#: A command up to a comment, the next command, or the end of a table cell or of code in a sentence.
COMMAND = re.compile(r"pip install ((?:\"[^\"]*\"|[^\"`|&#\n])+)")
#: Made by an earlier command of the page, or left to the reader.
ELSEWHERE = re.compile(r"[{}*$<…]|\.whl")


def commands() -> list[tuple[str, ...]]:
    """Return the arguments of each install command, once."""
    found = {}
    for page in sorted(path for pattern in PAGES for path in ROOT.glob(pattern)):
        for words in COMMAND.findall(page.read_text(encoding="utf-8")):
            if not ELSEWHERE.search(words):
                arguments = shlex.split(words.replace("\\", "/").replace("-e . ", ""))
                found[tuple(arguments)] = None
    for package in OURS:
        with (ROOT / "packages" / package / "pyproject.toml").open("rb") as file:
            extras = tomllib.load(file)["project"].get("optional-dependencies", {})
        for name in (package, *(f"{package}[{extra}]" for extra in extras)):
            found[tuple(requirements(name))] = None
    return list(found)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an empty environment."""
    folder = tmp_path_factory.mktemp("lines") / "venv"
    command = [sys.executable, "-m", "uv", "--quiet", "venv", "--python", sys.executable, folder]
    subprocess.run(command, check=True)
    return folder / "bin" / "python"


@pytest.mark.parametrize("arguments", commands(), ids=" ".join)
def test_install_command_resolves(arguments: tuple[str, ...], python: Path) -> None:
    here = [one.replace(f"git+{REPOSITORY}", f"git+file://{ROOT}") for one in arguments]
    command = [sys.executable, "-m", "uv", "pip", "install", "--dry-run", "--python", python, *here]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    # A dependency's own wrong extras are not ours to fix.
    unknown = re.search(rf"`({'|'.join(OURS)})[=@ ][^`]*` does not have an extra", ran.stderr)
    assert ran.returncode == 0 and not unknown, ran.stderr
