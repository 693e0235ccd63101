"""Other people's notebooks are run whole, and what failed is told (lab/evidence/published)."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from lab.evidence import published

CELLS = ("import cupy\nx = cupy.arange(3)", "x.no_such_method()", "assert int(x.sum()) == 3")


def test_each_cell_runs_and_what_failed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "part").mkdir()
    notebook = new_notebook(cells=[new_code_cell(text) for text in CELLS])
    nbformat.write(notebook, tmp_path / "part" / "one.ipynb")
    monkeypatch.setattr(sys, "argv", ["published", str(tmp_path)])
    assert published.main() == 1
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "part/one.ipynb: 2 of 3 cells" and told[-1] == "2 of 3 cells"
    assert told[1].startswith("    code cell 2: AttributeError: ") and "no_such_method" in told[1]
