"""Notebooks of ``docs/``, made from the Python files beside them (jupytext's percent format).

docs/NAME.py becomes docs/NAME.ipynb, without outputs:

    python -m lab.pages.docs_notebooks
"""

from __future__ import annotations

from pathlib import Path

import jupytext
import nbformat

from gpucourse.course.released import digest

DOCS = Path(__file__).parents[2] / "docs"


def sources() -> list[Path]:
    """Return the files that notebooks are made from."""
    return sorted(DOCS.glob("*.py"))


def notebook(source: Path) -> nbformat.NotebookNode:
    """Make the notebook of a source; a cell's ``id`` there is its id."""
    made = jupytext.read(source)
    made.metadata = {"kernelspec": made.metadata["kernelspec"]}
    for cell in made.cells:
        cell.id = cell.metadata.pop("id")
    # As in a lesson, so that nobody's `gpucourse save` takes it for work of their own.
    made.metadata["gpucourse"] = {"released": digest(made)}
    nbformat.validate(made)
    return made


def text(source: Path) -> str:
    """Return the text as the file is written: the same each time."""
    return nbformat.writes(notebook(source)) + "\n"


if __name__ == "__main__":
    for one in sources():
        one.with_suffix(".ipynb").write_text(text(one), encoding="utf-8")
