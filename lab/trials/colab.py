"""Trial of the copies for Colab on this machine, with Google Colab's package versions.

    python -m lab.trials.colab                 continues where it stopped
    python -m lab.trials.colab 03_ 01_fill     some notebooks again

The trial creates a Python 3.13 environment with ``lab/trials/colab_packages.txt``, starts kernels
in it that have imported a package ``google.colab``, and runs each notebook of ``colab/`` with its
answers. The unchanged first cell clones this repository's commit and installs missing packages.
Colab's front end, GPU and network cannot be tried here.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nbformat
from rich.progress import track

from gpucourse.course.projects import repository_url
from gpucourse.exercises.outcomes import CHECK_MIME
from gpucourse.notebook import colab
from gpucourse.publish.notebooks.colab_copies import FOLDER, PLACE
from lab.benchmarks.kernels import execute, unexpected
from lab.benchmarks.report import RESULTS, write

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = Path(__file__).with_name("colab_packages.txt")
ROOM = REPOSITORY / "build" / "colab"
ENVIRONMENT, CONTENT, PROFILE = ROOM / "environment", ROOM / "content", ROOM / "ipython"
NAME = "colab"
# Colab's kernels import this package when they start. JAX's debugger, which is imported with JAX,
# uses its `output`.
STARTUP = """\
import sys, types
google = sys.modules["google"] = types.ModuleType("google")
google.colab = sys.modules["google.colab"] = types.ModuleType("google.colab")
google.colab.output = sys.modules["google.colab.output"] = types.ModuleType("google.colab.output")
"""


def fresh_machine() -> None:
    """Create an environment with Colab's packages and without the course."""
    shutil.rmtree(ROOM, ignore_errors=True)
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "-q", "--python", "3.13", ENVIRONMENT], check=True)
    subprocess.run(
        [*uv, "pip", "install", "-q", "--python", ENVIRONMENT / "bin" / "python", "-r", PACKAGES],
        check=True,
    )
    CONTENT.mkdir()
    startup = PROFILE / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "colab.py").write_text(STARTUP)


def environment() -> dict[str, str]:
    """Return a kernel's environment, in which git uses this repository for the course's address."""
    address = repository_url(REPOSITORY)
    assert address is not None
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL", "UV", "JUPYTER"))
    }
    return {
        **kept,
        "PATH": f"{ENVIRONMENT}/bin:{os.environ['PATH']}",
        "HOME": str(ROOM),
        "IPYTHONDIR": str(PROFILE),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{REPOSITORY.as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_0": address,
    }


def cells(path: Path) -> list[nbformat.NotebookNode]:
    return nbformat.read(path, as_version=4).cells


def answered(path: Path) -> nbformat.NotebookNode:
    """Write a copy with the solution's answers, and a local folder instead of Colab's."""
    notebook = nbformat.read(path, as_version=4)
    solutions = REPOSITORY / "solutions"
    solution = solutions / path.name.removeprefix("project_")
    answers = {}
    if solution.is_file():
        answers = {cell.id: cell for cell in cells(solution)}
    else:  # for several lessons, whose starters are identified by their text
        for lecture in (REPOSITORY / "lectures").glob("[0-9]*.ipynb"):
            solved = {cell.id: cell for cell in cells(solutions / lecture.name)}
            answers |= {
                cell.source: solved[cell.id]
                for cell in cells(lecture)
                if "exercise" in cell.metadata.get("tags", ())
            }
    for cell in notebook.cells:
        if cell.cell_type == "code":
            if found := answers.get(cell.id) or answers.get(cell.source):
                cell.source = found.source
                cell.metadata["tags"] = found.metadata.get("tags", [])
            cell.source = cell.source.replace(PLACE, str(CONTENT / Path(PLACE).name))
    return notebook


def run(path: Path) -> dict:
    """Run one notebook; a project is graded in its kernel afterwards."""
    notebook = answered(path)
    if path.name.startswith("project_"):
        nbformat.write(notebook, CONTENT / path.name)
        notebook.cells.append(nbformat.v4.new_code_cell(f'!gpucourse grade "{path.name}"'))
    start = time.perf_counter()
    python = ENVIRONMENT / "bin" / "python"
    lived = execute(
        notebook,
        [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        environment(),
        CONTENT,
    )
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    checks = [
        output.data[CHECK_MIME]
        for cell in code
        for output in cell.outputs
        if CHECK_MIME in output.get("data", {})
    ]
    found = {
        "seconds": round(time.perf_counter() - start),
        "set up": printed(code[0]),
        "device": printed(code[1])[:1],
        "checks passed": sum(check["passed"] for check in checks),
        "checks failed": [check["name"] for check in checks if not check["passed"]],
        "kernel died": not lived,
        "unexpected errors": unexpected(notebook),
    }
    if path.name.startswith("project_"):
        found["graded"] = [line for line in printed(code[-1]) if " points" in line][:1]
    return found


def printed(cell: nbformat.NotebookNode) -> list[str]:
    """Return the lines of a cell's output without cursor and colour codes."""
    text = "".join(output.get("text", "") for output in cell.outputs)
    lines = re.split(r"[\r\n]", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text))
    return [line.strip() for line in lines if line.strip()]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("notebooks", nargs="*", help="beginnings of their names; default: all")
    asked = options.parse_args().notebooks
    paths = {path.stem.removeprefix("project_"): path for path in (REPOSITORY / FOLDER).glob("*")}
    files = [PACKAGES, Path(colab.__file__), REPOSITORY / "requirements/base.txt"]
    setting = b"".join(path.read_bytes() for path in files)
    inputs = {
        id: hashlib.sha256(setting + path.read_bytes()).hexdigest()[:16]
        for id, path in sorted(paths.items())
    }
    try:
        found = json.loads((RESULTS / f"{NAME}.json").read_text())["results"]["notebooks"]
    except (OSError, ValueError, KeyError):
        found = {}
    wanted = [
        id
        for id, digest in inputs.items()
        if (id.startswith(tuple(asked)) if asked else found.get(id, {}).get("input") != digest)
    ]
    if wanted:
        fresh_machine()
    for id in track(wanted, "notebooks"):
        found[id] = {"input": inputs[id], **run(paths[id])}
        found = {id: found[id] for id in inputs if id in found}
        write(NAME, {"command": "python -m lab.trials.colab", "python": "3.13", "notebooks": found})
        print(id, found[id])
    wrong = [
        id
        for id, one in found.items()
        if one["checks failed"]
        or one["kernel died"]
        or one["unexpected errors"]
        or not all(re.search(r": (\d+) of \1 points", line) for line in one.get("graded", ()))
    ]
    print(f"{len(found)} notebooks; with errors: {', '.join(wrong) or 'none'}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
