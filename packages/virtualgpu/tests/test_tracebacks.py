"""An error that ends a program on the virtual GPU is shown by the program's own lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from virtualgpu import tracebacks

PROGRAM = """import numpy as np
import virtualgpu

virtualgpu.activate(force=True)

from numba import cuda


@cuda.jit
def wrong(x):
    x[cuda.gird(1)] = 1


def begin():
    wrong[1, 64](np.zeros(64))


begin()
"""


def test_a_program_ends_with_its_own_lines(tmp_path: Path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", script],
        capture_output=True,
        text=True,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
    )
    told = ran.stderr
    assert ran.returncode == 1 and len(told.splitlines()) <= 12
    places = [
        told.index(words)
        for words in (
            "line 18, in <module>",
            "line 15, in begin",
            "line 11, being compiled",
            "x[cuda.gird(1)] = 1",
            "AttributeError: module",
        )
    ]
    assert places == sorted(places)
    assert "numba_cuda" not in told and told.endswith(f"{tracebacks.KEY}\n")


def test_it_can_be_switched_off_and_leaves_others_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.setenv("VIRTUALGPU_TRACEBACK", "full")
    tracebacks.shorten()
    assert sys.excepthook is sys.__excepthook__
    monkeypatch.delenv("VIRTUALGPU_TRACEBACK")
    tracebacks.shorten()
    assert sys.excepthook is not sys.__excepthook__
    tracebacks.undo()
    assert sys.excepthook is sys.__excepthook__
    monkeypatch.setattr(sys, "excepthook", print)
    tracebacks.shorten()
    tracebacks.undo()
    assert sys.excepthook is print


def test_what_a_program_raises_itself_is_shown_as_ever(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    tracebacks.shorten()
    try:
        {}["missing"]
    except KeyError as error:
        sys.excepthook(KeyError, error, error.__traceback__)
    assert "KeyError: 'missing'" in capsys.readouterr().err
    tracebacks.undo()
