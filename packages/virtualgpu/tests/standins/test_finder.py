"""``import cupy`` where there is no GPU and no stand-in is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from fresh_python import in_fresh_python
from virtualgpu.installing import pip_install

NONE_INSTALLED = (
    "from virtualgpu import activation\n"
    "from virtualgpu.standins import finder\n"
    "finder.entry_points = lambda **names: ()\n"
    "replaced = activation.use_standins()\n"
)


@pytest.mark.parametrize(
    ("name", "original", "extra"),
    [
        ("cupy", "CuPy", "cupy"),
        ("cupyx.scipy", "CuPy", "cupy"),
        ("pycuda.autoinit", "PyCUDA", "pycuda"),
        ("cudf", "cuDF", "cudf"),
    ],
)
def test_import_without_a_stand_in_says_what_installs_it(name: str, original: str, extra: str):
    kind, told = in_fresh_python(
        f"{NONE_INSTALLED}"
        f"try:\n import {name}\n"
        "except ImportError as error:\n result = type(error).__name__, str(error)\n"
    )
    assert kind == "ModuleNotFoundError"
    assert told == (
        f"{original} needs a GPU, which this machine does not have, and its stand-in is not "
        f"installed: {pip_install(f'virtualgpu[{extra}]')}"
    )


def test_a_program_that_asks_first_is_told_that_there_is_none():
    program = "from importlib.util import find_spec\nresult = find_spec('cudf')\n"
    assert in_fresh_python(f"{NONE_INSTALLED}{program}") is None


def test_what_is_imported_already_stays_where_no_stand_in_is_installed(installed_cupy: Path):
    program = "result = replaced, sys.modules['cupy'].REAL\n"
    assert in_fresh_python(f"import cupy\n{NONE_INSTALLED}{program}", installed_cupy) == [[], True]
