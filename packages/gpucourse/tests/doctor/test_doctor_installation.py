"""The doctor on how the packages came here: two installers, an old install, wheels for no GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import gpucourse
from doctor_findings import finding
from gpucourse import doctor
from gpucourse.course.projects import COURSE, STANDINS, VIRTUALGPU
from gpucourse.doctor import FAIL, OK, WARN, Finding, probes
from gpucourse.doctor.finding import install, reinstall, uninstall
from gpucourse.system import device, libraries

NONE = device.DeviceInfo("Virtual GPU (CPU)", True, (9, 0), reason="no NVIDIA driver here")
TOOLKIT = "cuda-toolkit[cccl,cudart,nvcc,nvjitlink,nvrtc,nvvm]>=12.8,<14"


def distribution(folder: Path, name: str, version: str, needs: list[str] = ()) -> None:
    """The metadata of an installed package."""
    place = folder / f"{name}-{version}.dist-info"
    place.mkdir(parents=True)
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version}",
        *(f"Requires-Dist: {one}" for one in needs),
    ]
    (place / "METADATA").write_text("\n".join(lines) + "\n")


# --- commands for this environment ------------------------------------------------------------


def test_commands_install_here_and_nowhere_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    here = str(tmp_path / "bin" / "python")
    monkeypatch.setattr("gpucourse.doctor.finding.has_pip", lambda: True)
    assert install("numpy<2.5") == f"{here} -m pip install 'numpy<2.5'"
    assert uninstall("numpy") == f"{here} -m pip uninstall --yes numpy"
    # `make setup` makes environments without pip, with uv in them.
    monkeypatch.setattr("gpucourse.doctor.finding.has_pip", lambda: False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert install("numpy") == f"uv pip install --python {here} numpy"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "uv").touch()
    assert uninstall("numpy") == f"{tmp_path}/bin/uv pip uninstall --python {here} numpy"


def test_looking_for_pip_leaves_distutils_alone(monkeypatch: pytest.MonkeyPatch):
    """setuptools warns those who ask the usual way after distutils was imported."""
    monkeypatch.setitem(sys.modules, "distutils", ModuleType("distutils"))
    assert install("numpy").endswith("numpy")
    assert "distutils" in sys.modules


def test_everything_anew_is_said_for_each_kind_of_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.chdir(tmp_path)
    assert "README" in reinstall()
    (tmp_path / "lectures").mkdir()
    (tmp_path / "projects").mkdir()
    (tmp_path / "welcome.ipynb").touch()
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "course.txt").touch()
    monkeypatch.setattr("gpucourse.doctor.finding.has_pip", lambda: True)
    assert reinstall().endswith(" -r requirements/course.txt")  # a handout
    (tmp_path / "requirements" / "base.txt").touch()
    assert reinstall().endswith(" -r requirements/base.txt")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.setattr("gpucourse.doctor.finding.has_pip", lambda: False)
    assert reinstall() == "rm -rf .venv && make setup"


def test_the_installer_that_a_mend_names_installs_here(tmp_path: Path):
    """The command's own words, with a package that is there already: nothing is fetched."""
    command = f"{install('--no-deps', '--no-index', '--dry-run')} numpy"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("version", [(3, 10, 14), (3, 14, 0)])
def test_another_python_is_told_before_anything_is_imported(version: tuple[int, int, int]):
    code = (
        f"import sys; sys.version_info = {version}; sys.modules['typer'] = None\n"
        "import runpy; runpy.run_module('gpucourse', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"The course needs Python 3.11, 3.12 or 3.13, and this is Python 3.{version[1]}"
    )


# --- two installers ---------------------------------------------------------------------------


def test_two_versions_over_each_other_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    assert finding(doctor.installers, "installed once").status == OK
    monkeypatch.syspath_prepend(tmp_path)
    distribution(tmp_path, "Some_Package", "1.0")
    assert [f.status for f in doctor.installers()] == [OK]
    distribution(tmp_path, "some-package", "2.0")
    (found,) = doctor.installers()
    assert (found.status, found.name) == (FAIL, "some-package")
    assert (
        found.found == f"versions 1.0 and 2.0 are both installed in {tmp_path}, one over the other"
    )
    assert found.mend.startswith(f"repeat {uninstall('some-package')} until nothing is left")


def test_what_pip_has_put_over_condas_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    installed = doctor.installation.importlib.metadata.version
    records = tmp_path / "conda-meta"
    records.mkdir()
    (records / "history").touch()
    (records / "numpy-x.json").write_text(f'{{"name": "numpy", "version": "{installed("numpy")}"}}')
    (records / "broken-x.json").write_text("{")
    (records / "libblas-x.json").write_text('{"name": "libblas", "version": "3.9"}')
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert finding(doctor.installers, "installed once").status == OK
    (records / "pandas-x.json").write_text('{"name": "pandas", "version": "1.5.3"}')
    found = finding(doctor.installers, "conda and pip")
    assert found.status == WARN
    assert found.found.endswith(f": pandas (conda 1.5.3, pip {installed('pandas')})")
    assert "conda env create -f environment.yml" in found.mend


# --- an install that is older than its checkout -----------------------------------------------


@pytest.fixture
def old_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A checkout whose editable install is as it should be, and its prefix beside."""
    root, prefix, site = tmp_path / "course", tmp_path / "prefix", tmp_path / "site"
    course, virtual = root / COURSE.parent, root / VIRTUALGPU.parent
    standins = root / STANDINS.parent
    for folder in (course / "jupyter", prefix / "etc" / "jupyter"):
        (folder / "labconfig").mkdir(parents=True)
        (folder / "labconfig" / "default.json").write_text("{}")
    virtual.mkdir()
    standins.mkdir()
    (standins / "pyproject.toml").write_text('[project]\ndependencies = ["virtualgpu>=0.1"]\n')
    (root / "pyproject.toml").write_text("[dependency-groups]\n")
    (virtual / "pyproject.toml").write_text('[project]\ndependencies = ["numpy>=2"]\n')
    (course / "pyproject.toml").write_text(
        '[project]\nrequires-python = ">=3.11"\n'
        'dependencies = ["awkward >=2.8; sys_platform == \'linux\'", "gpustandins>=0.1"]\n'
        '[project.optional-dependencies]\n[project.urls]\nRepository = ""\n'
    )
    distribution(
        site,
        "gpucourse",
        gpucourse.__version__,
        ["awkward>=2.8; sys_platform == 'linux'", "gpustandins>=0.1"],
    )
    distribution(site, "gpustandins", gpucourse.__version__, ["virtualgpu>=0.1"])
    distribution(site, "virtualgpu", gpucourse.__version__, ["numpy>=2"])
    monkeypatch.syspath_prepend(site)
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(doctor.installation, "own_checkout", lambda: root)
    return tmp_path


def test_settings_of_an_old_install_are_told(old_install: Path):
    assert finding(doctor.checkout, "gpucourse").status == OK
    settings = old_install / "course" / COURSE.parent / "jupyter"
    (settings / "labconfig" / "default.json").write_text('{"new": 1}')
    (settings / "more.json").write_text("{}")
    (settings.parent / "ipython").mkdir()
    (settings.parent / "ipython" / "start.py").touch()
    found = finding(doctor.checkout, "gpucourse")
    assert found.status == WARN
    assert found.found == (
        f"the installed copy is older than {old_install}/course: "
        "etc/jupyter/labconfig/default.json, etc/jupyter/more.json, "
        "etc/ipython/start.py"
    )
    assert f"--no-deps --editable {old_install}/course/packages/virtualgpu" in found.mend


def test_requirements_and_version_of_an_old_install_are_told(
    old_install: Path, monkeypatch: pytest.MonkeyPatch
):
    project = old_install / "course" / VIRTUALGPU
    project.write_text(project.read_text().replace("numpy>=2", "numpy>=2.1"))
    assert finding(doctor.checkout, "gpucourse").found.endswith("the list of its requirements")
    monkeypatch.setattr(gpucourse, "__version__", "99.0")
    assert "now 99.0), the list" in finding(doctor.checkout, "gpucourse").found


def test_an_install_without_a_checkout_has_nothing_to_be_older_than(
    old_install: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(doctor.installation, "own_checkout", lambda: None)
    assert list(doctor.checkout()) == []


# --- CUDA of several origins ------------------------------------------------------------------


def test_packages_for_a_gpu_that_is_not_there_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(device, "device", lambda: NONE)
    monkeypatch.setattr(doctor.devices, "_DEVICE_FILES", ())
    monkeypatch.setattr(doctor.devices, "_PCI", tmp_path)
    assert list(doctor.driver()) == []
    monkeypatch.syspath_prepend(tmp_path)
    distribution(tmp_path, "cupy_cuda13x", "14.0.1")
    found = finding(doctor.driver, "driver")
    assert found.status == WARN
    assert found.found == (
        "cupy-cuda13x 14.0.1 needs a GPU, and none was found: no NVIDIA driver here"
    )
    assert "if this machine has no GPU, do nothing" in found.mend and "580 or newer" in found.mend


def compilers(monkeypatch: pytest.MonkeyPatch, **places: str) -> dict[str, Finding]:
    """What is found with the compilers in these places."""
    monkeypatch.setattr(device, "device", lambda: NONE)
    monkeypatch.setattr(libraries, "find_compiler", places.__getitem__)
    monkeypatch.setattr(probes, "run_kernel", lambda: None)
    return {f.name: f for f in doctor.device_and_compilers()}


def test_compilers_of_two_versions_of_cuda_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    site = tmp_path / "env" / "lib" / "python3.12" / "site-packages" / "nvidia"
    wheels = {name: f"{site}/cu13/lib/lib{name}.so.13" for name in ("nvvm", "nvrtc", "cudart")}
    assert "toolkit" not in compilers(monkeypatch, **wheels)
    old = f"{site}/cuda_nvcc/nvvm/lib64/libnvvm.so.4"
    found = compilers(monkeypatch, **{**wheels, "nvvm": old})["toolkit"]
    assert found.status == FAIL
    assert found.found.startswith("nvvm of CUDA 12, nvrtc of CUDA 13, cudart of CUDA 13. ")
    assert found.mend == install("--upgrade", TOOLKIT)


def toolkit(folder: Path, version: int) -> Path:
    """The part of a toolkit that says which it is."""
    (folder / "include").mkdir(parents=True)
    (folder / "include" / "cuda.h").write_text(f"#pragma once\n#define CUDA_VERSION {version}\n")
    return folder


def test_a_compiler_of_the_machines_toolkit_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    site = tmp_path / "env" / "lib" / "python3.12" / "site-packages" / "nvidia"
    wheels = {name: f"{site}/cu13/lib/lib{name}.so.13" for name in ("nvrtc", "cudart")}
    place = toolkit(tmp_path / "cuda", 13010) / "nvvm" / "lib64" / "libnvvm.so"
    found = compilers(monkeypatch, nvvm=str(place), **wheels)["toolkit"]
    assert found.status == WARN
    assert found.found.startswith(f"nvvm is from {place.parent}, cudart and nvrtc from this")
    toolkit(tmp_path / "old", 12040)
    place = tmp_path / "old" / "nvvm" / "lib64" / "libnvvm.so"
    assert "nvvm of CUDA 12" in compilers(monkeypatch, nvvm=str(place), **wheels)["toolkit"].found


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH"])
def test_a_variable_that_points_to_another_toolkit_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
):
    site = tmp_path / "site-packages" / "nvidia"
    wheels = {name: f"{site}/cu13/lib/lib{name}.so" for name in ("nvvm", "nvrtc", "cudart")}
    monkeypatch.setenv(variable, str(toolkit(tmp_path / "same", 13000)))
    assert variable not in compilers(monkeypatch, **wheels)
    monkeypatch.setenv(variable, str(toolkit(tmp_path / "other", 12040)))
    found = compilers(monkeypatch, **wheels)[variable]
    assert found.status == WARN
    assert found.found.startswith(
        f"{variable}={tmp_path}/other is CUDA 12.4, but the compilers are CUDA 13. "
    )
    assert found.mend.startswith(f"unset {variable}")
    monkeypatch.setenv(variable, str(tmp_path / "gone"))
    assert compilers(monkeypatch, **wheels)[variable].found.endswith("gone is not a folder")
