"""Cells run in a kernel, as a learner runs them."""

from __future__ import annotations

import nbclient
from nbformat.v4 import new_code_cell, new_notebook

from gpucourse.notebook.server import READY


def run_cells(*sources: str) -> list:
    """The outputs of each cell, run in a kernel after ``%load_ext gpucourse``."""
    return run_alone("%load_ext gpucourse", *sources)


def run_alone(*sources: str) -> list:
    """The outputs of each cell, run in a kernel as the server starts one in the course's folder."""
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
    client = nbclient.NotebookClient(
        notebook, timeout=120, allow_errors=True, extra_arguments=["--log-level=ERROR", READY]
    )
    client.execute()
    return [cell.outputs for cell in notebook.cells]
