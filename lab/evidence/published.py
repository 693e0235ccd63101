"""Other people's notebooks, as published, on the virtual GPU: how many of their cells run.

    python -m lab.evidence.published FOLDER

FOLDER is a checkout of one of the sources that ``lab/evidence/published.md`` lists; every
``*.ipynb`` below it is run from its own folder, cell after cell, also after one that fails.
Nothing of them is kept here.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from gpucourse.publish.execution import execute

#: Seconds that one cell may take; a notebook with a longer one ends the run.
CELL_TIMEOUT = 600


def run(path: Path) -> list[tuple[int, str]]:
    """``(number, error)`` of each code cell of the notebook at ``path``; no error is empty.

    Its kernel is that of this environment, which is on the virtual GPU before its first cell.
    """
    done = execute(nbformat.read(path, as_version=4), path.parent, CELL_TIMEOUT, hidden_gpu=True)
    code = [cell for cell in done.cells if cell.cell_type == "code" and cell.source.strip()]
    return [(number, error(cell)) for number, cell in enumerate(code, start=1)]


def error(cell: NotebookNode) -> str:
    """The error that ended a cell, on one line; empty where none did."""
    return next(
        (
            f"{output.ename}: {output.evalue}".splitlines()[0]
            for output in cell.outputs
            if output.output_type == "error"
        ),
        "",
    )


def main() -> int:
    """The command line; 1 where a cell failed."""
    parser = argparse.ArgumentParser(prog="python -m lab.evidence.published")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder.resolve()
    passed = total = 0
    for path in sorted(folder.rglob("*.ipynb")):
        if ".ipynb_checkpoints" in path.parts:
            continue
        cells = run(path)
        failed = [(number, told) for number, told in cells if told]
        passed, total = passed + len(cells) - len(failed), total + len(cells)
        print(f"{path.relative_to(folder)}: {len(cells) - len(failed)} of {len(cells)} cells")
        for number, told in failed:
            print(f"    code cell {number}: {told}")
    print(f"{passed} of {total} cells")
    return passed != total


if __name__ == "__main__":
    sys.exit(main())
