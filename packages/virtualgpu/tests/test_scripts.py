"""What a Python does that a notebook's kernel starts: ``startup/sitecustomize.py``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fresh_python import said, started
from virtualgpu import scripts

BREAKS = "raise ImportError('virtualgpu is broken')\n"


@pytest.mark.parametrize(
    ("statement", "holds"),
    [
        ("from numba import cuda", "cuda.is_available()"),
        ("import cuda.core", "'Virtual GPU' in cuda.core.Device().name"),
        *(
            pytest.param(*one, marks=pytest.mark.rehearsal)
            for one in (
                ("import numba.cuda", "'Virtual GPU' in str(numba.cuda.get_current_device().name)"),
                ("from cuda.bindings import driver", "driver.cuInit(0)[0] == 0"),
                ("import cuda.tile", "cuda.tile._cext.get_compute_capability() == (9, 0)"),
            )
        ),
    ],
)
def test_an_import_for_the_gpu_switches_it_on(statement: str, holds: str):
    assert said(f"{statement}\nprint({holds})") == "True"


def test_triton_is_such_an_import_and_a_file_of_that_name_is_told(tmp_path: Path):
    (tmp_path / "triton.py").write_text("")
    ran = started("import triton, virtualgpu; print(virtualgpu.is_active())", tmp_path)
    assert ran.stdout.strip() == "True", ran.stderr
    assert (
        "UserWarning: the virtual GPU cannot run kernels of this version of triton: cannot import"
        in (ran.stderr)
    )


def test_a_program_without_a_gpu_pays_for_nothing():
    """Neither Numba nor any part of virtualgpu; the folder is gone from sys.path."""
    told = said(
        "import sys, json, http.client\n"
        "print([one for one in sys.modules if one.partition('.')[0] in "
        "('virtualgpu', 'numba', 'numpy')], any('startup' in one for one in sys.path))"
    )
    assert told == "[] False"


@pytest.mark.parametrize("options", [{"prefix": None}, {"prefix": "/usr"}, {"options": ("-E",)}])
def test_another_environment_and_an_isolated_python_are_left_alone(options: dict):
    assert (
        said(
            "import sys; print([type(one).__name__ for one in sys.meta_path if "
            "'Waiting' in type(one).__name__])",
            **options,
        )
        == "[]"
    )


def test_the_sitecustomize_that_was_there_runs_first_of_all(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.KEPT = 7\n")
    assert (
        said("import sitecustomize; print(KEPT, sitecustomize.__file__)", tmp_path)
        == f"7 {tmp_path / 'sitecustomize.py'}"
    )


def test_a_sitecustomize_that_fails_says_so_as_before(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text("raise ValueError('its own')\n")
    ran = started("from numba import cuda; print(cuda.is_available())", tmp_path)
    assert ran.stdout.strip() == "True"
    assert "ValueError: its own" in ran.stderr
    assert "Error in sitecustomize" in ran.stderr


def test_a_broken_installation_fails_no_script(tmp_path: Path):
    package = tmp_path / "virtualgpu"
    package.mkdir()
    (package / "__init__.py").write_text(BREAKS)
    assert said("from numba import cuda; print(cuda.is_available())", tmp_path) == "False"


def test_only_a_kernel_reaches_its_scripts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(scripts.SWITCH, raising=False)
    before = os.environ.get("PYTHONPATH")
    scripts.reach()
    assert scripts.SWITCH not in os.environ
    assert os.environ.get("PYTHONPATH") == before
    monkeypatch.setattr(scripts, "in_a_kernel", lambda: True)
    scripts.reach()
    scripts.reach()
    assert os.environ["PYTHONPATH"].split(os.pathsep).count(scripts.FOLDER) == 1
    scripts.withdraw()
    assert scripts.SWITCH not in os.environ
    assert os.environ.get("PYTHONPATH") == before
