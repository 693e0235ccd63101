"""The notebooks of ``docs/`` are current and run where there is no GPU."""

from __future__ import annotations

import pytest
from nbclient import NotebookClient

from lab.pages import docs_notebooks

pytestmark = pytest.mark.rehearsal

SOURCES = docs_notebooks.sources()


@pytest.mark.parametrize("source", SOURCES, ids=[one.stem for one in SOURCES])
def test_it_runs(source):
    made = docs_notebooks.notebook(source)
    NotebookClient(made, timeout=300, kernel_name="python3").execute()
    printed = {
        cell.id: "".join(out.get("text", "") for out in cell.outputs)
        for cell in made.cells
        if cell.cell_type == "code"
    }
    if source.stem == "front_doors":
        said = printed["mistake-core"]
        assert said.count("past the end") + said.count("after the end") == 2, said
        assert said.count("thread 104 of block 7") == 2, said
