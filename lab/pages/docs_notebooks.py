"""Generator of the notebooks in ``docs/`` from the Python files beside them (percent format).

This command converts each docs/NAME.py to docs/NAME.ipynb without outputs:

    python -m lab.pages.docs_notebooks
"""

from __future__ import annotations

from pathlib import Path

import jupytext
import nbformat

from gpucourse.course.released import digest

DOCS = Path(__file__).parents[2] / "docs"


def sources() -> list[Path]:
    """Return the source files of the notebooks."""
    return sorted(DOCS.glob("*.py"))


def notebook(source: Path) -> nbformat.NotebookNode:
    """Convert a source file to a notebook; a cell's ``id`` comes from its metadata."""
    made = jupytext.read(source)
    made.metadata = {"kernelspec": made.metadata["kernelspec"]}
    for cell in made.cells:
        cell.id = cell.metadata.pop("id")
    # As in a lesson, so that `gpucourse save` does not mistake it for a learner's own work.
    made.metadata["gpucourse"] = {"released": digest(made)}
    nbformat.validate(made)
    return made


def text(source: Path) -> str:
    """Return the notebook as the text of its file, which is the same each time."""
    return nbformat.writes(notebook(source)) + "\n"


if __name__ == "__main__":
    for one in sources():
        one.with_suffix(".ipynb").write_text(text(one), encoding="utf-8")
