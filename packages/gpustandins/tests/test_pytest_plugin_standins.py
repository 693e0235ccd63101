"""Which stand-ins answer in a run: those that the project asks for, or that are chosen."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cuda_project import run
from virtualgpu.pytest_plugin.project import standins_of

TESTS = {
    "test_kernels.py": """
import importlib.util


def test_here(pytestconfig):
    there = [name for name in ("cudf", "cupy", "cupyx", "pycuda") if importlib.util.find_spec(name)]
    assert there == pytestconfig.getini("expected")
""",
    "conftest.py": """
def pytest_addoption(parser):
    parser.addini("expected", "", type="args")
""",
}

NAMED = '[project]\nname = "a"\nversion = "1"\n'


@pytest.fixture
def nothing_installed(monkeypatch):
    """A real package that is installed is a reason for its stand-in; here none is seen."""
    monkeypatch.setattr(sys, "path", [])


@pytest.mark.parametrize(
    ("files", "names"),
    [
        ({}, None),
        ({"pyproject.toml": "[tool.ruff]\n"}, None),
        ({"pyproject.toml": '[project]\nname = "a"\ndependencies = ["numba-cuda[cu13]"]\n'}, []),
        (
            {
                "pyproject.toml": '[project]\ndependencies = ["numpy"]\n'
                '[project.optional-dependencies]\ngpu = ["cupy-cuda12x>=13; x"]\n'
            },
            ["cupy", "cupyx"],
        ),
        (
            {"pyproject.toml": '[dependency-groups]\ntest = [{include-group = "x"}, "pycuda"]\n'},
            ["cupy", "cupyx", "pycuda"],
        ),
        (
            {
                "pyproject.toml": '[tool.poetry.group.gpu.dependencies]\ncudf-cu12 = "*"\n'
                "[tool.poetry]\n"
            },
            ["cudf", "cupy", "cupyx"],
        ),
        (
            {"setup.py": "setup(extras_require={'gpu': ['cupy-cuda11x', \"pycuda>=2022\"]})"},
            ["cupy", "cupyx", "pycuda"],
        ),
        ({"setup.py": "import cupylike  # cupy\nsetup(install_requires=['numpy'])"}, []),
        (
            {"setup.cfg": "[options]\ninstall_requires =\n    numpy\n    cupy>=12\n"},
            ["cupy", "cupyx"],
        ),
        (
            {"requirements.txt": "numpy\n", "requirements-gpu.txt": "# cudf\ncupy\n"},
            ["cupy", "cupyx"],
        ),
    ],
)
def test_what_a_projects_metadata_asks_for(tmp_path: Path, nothing_installed, files, names):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert standins_of(tmp_path) == names


@pytest.mark.parametrize(
    ("metadata", "options", "expected"),
    [
        (None, [], "cudf cupy cupyx pycuda"),
        (
            NAMED + 'optional-dependencies.gpu = ["cupy"]\n',
            [],
            "cupy cupyx",
        ),
        *(
            pytest.param(*one, marks=pytest.mark.rehearsal)
            for one in (
                (NAMED, [], ""),
                (NAMED, ["--virtual-gpu-standins=cudf"], "cudf cupy cupyx"),
                (None, ["--virtual-gpu-standins=none"], ""),
                (NAMED, ["--virtual-gpu-standins=all"], "cudf cupy cupyx pycuda"),
            )
        ),
    ],
)
def test_a_stand_in_answers_where_it_was_asked_for(tmp_path: Path, metadata, options, expected):
    if metadata:
        (tmp_path / "pyproject.toml").write_text(metadata)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nexpected = {expected}\n")
    ran = run(tmp_path, "--virtual-gpu", *options, files=TESTS)
    assert ran.outcomes == {"here": "PASSED"}, ran.text
    if expected != "cudf cupy cupyx pycuda":
        assert f"; stand-ins: {expected.replace(' ', ', ') or 'none'} (virtual_gpu_st" in ran.text


def test_a_name_that_has_no_stand_in_is_a_usage_error(tmp_path: Path):
    ran = run(tmp_path, "--virtual-gpu", "--virtual-gpu-standins=cuml", files=TESTS)
    assert ran.status == pytest.ExitCode.USAGE_ERROR
    assert (
        "there is no stand-in for 'cuml'; those available are cudf, cupy, cupyx, pycuda" in ran.text
    )
