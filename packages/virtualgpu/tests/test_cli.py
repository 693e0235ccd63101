"""The command ``virtualgpu``, as a person gives it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from virtualgpu import cli
from warm_python import run_in_new_python, run_module

SCRIPT = """\
import sys
import numpy as np
from numba import cuda

@cuda.jit
def total(values, out):
    out[0] += values[cuda.grid(1)]

@cuda.jit
def double(values):
    values[cuda.grid(1)] *= 2

values, out = np.ones(64), np.zeros(1)
for word in sys.argv[1:]:
    if word == "race":
        total[2, 32](values, out)
    elif word == "far":
        double[3, 32](values)
    elif word == "clean":
        double[2, 32](values)
    elif word == "wide":
        double[1, 2048](values)
    else:
        sys.exit(int(word))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "sums.py"
    path.write_text(SCRIPT)
    return path


def virtualgpu(*arguments: object, run: Callable = run_module) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NUMBA_CUDA_WARN_ON_IMPLICIT_COPY": "0"}
    environment.pop("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", None)
    return run("virtualgpu", [*map(str, arguments)], Path.cwd(), environment)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["clean", "clean"], 0, "2 launches checked, clean"),
        (["race"], 1, "sums.py line 7"),
        (["far"], 1, "sums.py line 11"),
        (["clean", "3"], 3, "1 launch checked, clean"),
        (["race", "0"], 1, "race"),
    ],
)
@pytest.mark.filterwarnings("ignore::numba.cuda.core.errors.NumbaPerformanceWarning")
def test_a_script_runs_under_the_checkers(script: Path, capsys, words, status, said):
    assert cli.main(["run", str(script), *words]) == status
    assert said in capsys.readouterr().err


def test_missing_synchronisation_is_a_fault_if_asked_for(tmp_path: Path, capsys):
    script = tmp_path / "two.py"
    script.write_text("""\
import numpy as np
from numba import cuda

@cuda.jit
def add(x):
    x[cuda.grid(1)] += 1

x = cuda.to_device(np.zeros(64))
cuda.synchronize()
add[1, 64, cuda.stream()](x)
add[1, 64, cuda.stream()](x)
cuda.synchronize()
""")
    assert cli.main(["run", str(script)]) == 0
    assert cli.main(["run", "--streams", str(script)]) == 1
    said = capsys.readouterr().err
    assert "2 launches checked, clean" in said
    assert "1. missing synchronisation: kernel add in stream 2 (two.py line 11)" in said


def test_a_fault_is_an_exit_status_and_no_traceback(script: Path):
    ran = virtualgpu("run", script, "race", run=run_in_new_python)
    assert ran.returncode == 1
    assert "sums.py line 7" in ran.stderr and "Traceback" not in ran.stderr
    # Nor Numba's warning of an empty GPU: here is none.
    assert ran.stderr.startswith("virtual GPU: 1 launch checked, 1 finding\n1. race: ")


def test_a_launch_that_is_refused_is_told_with_its_line(script: Path):
    ran = virtualgpu("run", script, "race", "wide")
    assert ran.returncode == 1
    assert 'sums.py", line 22' in ran.stderr and "a block has at most 1024" in ran.stderr
    assert "virtual GPU: 1 launch checked, 1 finding" in ran.stderr


def test_ptx_stands_beside_its_source(script: Path):
    ran = virtualgpu("ptx", script, "clean")
    assert ran.returncode == 0, ran.stderr
    assert "// sums.py:11  values[cuda.grid(1)] *= 2" in ran.stdout
    assert ".entry" in ran.stdout and ".loc" not in ran.stdout


def test_the_doctor_launches_a_kernel():
    ran = virtualgpu("doctor")
    assert ran.returncode == 0, ran.stdout
    assert "a first kernel: right" in ran.stdout
    assert "numba-cuda 0." in ran.stdout


def test_the_doctor_finds_what_lies_on_the_path(monkeypatch, capsys):
    """As from a checkout on ``PYTHONPATH``, which has no metadata."""

    def version(name):
        if name in ("virtualgpu", "numpy", "nothing"):
            raise importlib.metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(cli, "PACKAGES", {**cli.PACKAGES, "nothing": "nothing.at_all"})
    cli.doctor()
    told = capsys.readouterr().out
    assert re.search(r"^virtualgpu: version unknown: .* imported from .*virtualgpu$", told, re.M)
    assert "\nnothing: not installed\n" in told and "\nllvmlite 1.0\n" in told


def test_a_script_that_is_not_there_is_named(tmp_path: Path):
    ran = virtualgpu("run", tmp_path / "none.py")
    assert ran.returncode == 2
    assert "there is no file" in ran.stderr


def test_a_fault_that_shows_in_one_order_of_several(tmp_path: Path, capsys):
    """Which warp comes first: in lockstep always the same."""
    path = tmp_path / "orders.py"
    path.write_text("""
import numpy as np
from numba import cuda

@cuda.jit
def tickets(counter, first):
    warp = cuda.threadIdx.x // 32
    if cuda.threadIdx.x % 32 == 0 and cuda.atomic.add(counter, 0, 1) == 0:
        first[0] = warp

first = cuda.to_device(np.zeros(1, np.int32))
tickets[1, 512](cuda.to_device(np.zeros(1, np.int32)), first)
print("first:", first.copy_to_host()[0])
""")
    said = []
    for options in ([], ["--seed", "3"], ["--seed", "3"], ["--seed", "4"]):
        assert cli.main(["run", *options, str(path)]) == 0
        said.append(capsys.readouterr().out.strip())
    assert said[0] == "first: 0" and said[1] == said[2]
    assert len(set(said)) > 1, said
    with pytest.raises(SystemExit) as refused:
        cli.main(["run", "--seed", "-1", str(path)])
    assert refused.value.code == 2 and "--seed" in capsys.readouterr().err


def test_a_module_runs_as_python_runs_it(tmp_path: Path, capsys, monkeypatch, script: Path):
    package = tmp_path / "of_kernels"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(script.read_text())
    monkeypatch.chdir(tmp_path)
    assert cli.main(["run", "-m", "of_kernels"]) == cli.main(["run", str(script)])
    first, second = capsys.readouterr().err.split("virtual GPU: ")[1:]
    assert first.replace("__main__.py", script.name) == second
    with pytest.raises(SystemExit):
        cli.main(["run", "of_kernels"])
    assert "virtualgpu run -m of_kernels" in capsys.readouterr().err


RACE = """
import sys
import numpy as np
from numba import cuda

@cuda.jit
def last(x):
    x[0] = cuda.threadIdx.x

last[1, 64](cuda.to_device(np.zeros(4)))
sys.exit(3)
"""


@pytest.fixture
def race(tmp_path: Path) -> Path:
    path = tmp_path / "race.py"
    path.write_text(RACE)
    return path


def test_a_finding_has_an_exit_status_of_its_own(race: Path):
    assert cli.main(["run", str(race)]) == 3
    assert cli.main(["run", "--error-exitcode", "77", str(race)]) == 77


def test_known_findings_are_accepted_from_a_file(race: Path, tmp_path: Path, capsys):
    known = tmp_path / "known.txt"
    known.write_text("# told by every run\nrace.py:8: the last thread wins\nother: never there\n")
    assert cli.main(["run", "--error-exitcode", "77", "--accept", str(known), str(race)]) == 3
    said = capsys.readouterr().err
    assert "1 launch checked, 1 accepted, clean" in said
    assert "other is accepted (never there) but was not found" in said
    known.write_text("race.py 8\n")
    with pytest.raises(SystemExit):
        cli.main(["run", "--accept", str(known), str(race)])
    assert "'race.py 8' does not have the form file.py:LINE: reason" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["run", "--accept", "race.py:8: the last thread wins", str(race)])
    assert "there is no such file. It needs lines such as" in capsys.readouterr().err


def test_a_scripts_own_error_leaves_what_was_found_before(race: Path, tmp_path: Path, capsys):
    race.write_text(RACE.replace("sys.exit(3)", "assert 2 < 1"))
    told = tmp_path / "told.json"
    assert cli.main(["run", "--error-exitcode", "77", "--report", str(told), str(race)]) == 77
    said = capsys.readouterr().err
    assert said.count("AssertionError") == 1 and 'race.py", line' in said
    assert "cli.py" not in said and "runpy" not in said
    assert "1 launch checked, 1 finding" in said and len(json.loads(told.read_text())["findings"])
    race.write_text("raise ValueError('nothing to do with a kernel')")
    assert cli.main(["run", "--error-exitcode", "77", str(race)]) == 1
    assert "0 launches checked, clean" in capsys.readouterr().err


def test_a_report_names_files_from_where_the_run_began(race: Path, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    race.write_text(RACE.replace("import sys", "import os, sys; os.chdir('elsewhere')", 1))
    cli.main(["run", "--report", "told.json", str(race)])
    (found,) = json.loads((tmp_path / "told.json").read_text())["findings"]
    assert found["filename"] == found["other"]["filename"] == "race.py"
    monkeypatch.chdir(tmp_path)
    cli.main(["run", "--report", "told.xml", str(race)])
    suite = ElementTree.parse(tmp_path / "told.xml").getroot()[0]
    assert suite[0].get("file") == "race.py" and suite[0].get("name") == "race at race.py:8"


def test_findings_are_written_for_other_programs(race: Path, tmp_path: Path, capsys):
    told = tmp_path / "told.json"
    cli.main(["run", "--report", str(told), str(race)])
    (found,) = json.loads(told.read_text())["findings"]
    assert (found["kind"], found["line"], found["count"]) == ("race", 8, 63)
    assert found["filename"] == str(race) and found["other"]["thread"] == [0, 0, 0]
    told = tmp_path / "told.xml"
    cli.main(["run", "--report", str(told), str(race)])
    suite = ElementTree.parse(told).getroot()[0]
    assert suite.get("failures") == "1" and suite[0].get("line") == "8"
    assert "x[0] of 4" in suite[0][0].get("message")
    race.write_text(RACE.replace("[1, 64]", "[1, 1]"))
    cli.main(["run", "--report", str(told), str(race)])
    suite = ElementTree.parse(told).getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), len(suite[0])) == ("1", "0", 0)
    with pytest.raises(SystemExit):
        cli.main(["run", "--report", str(tmp_path / "told.txt"), str(race)])
    assert "the file name must end in .json or .xml" in capsys.readouterr().err
