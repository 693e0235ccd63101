"""The doctor on what surrounds the course: strangers, GPUs left unused, full disks, taken ports."""

from __future__ import annotations

import errno
import importlib.metadata
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import namedtuple
from dataclasses import replace
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from doctor_findings import finding
from gpucourse import doctor
from gpucourse.course.projects import editable
from gpucourse.doctor import FAIL, OK, WARN, Finding, probes
from gpucourse.doctor.finding import install
from gpucourse.learner import records
from gpucourse.system import device
from small_course import write_course

SOURCE = Path(doctor.__file__).parents[2]


def write_files(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


# --- what stands in the way of packages -------------------------------------------------------


def examined(part: str, folder: Path, **environment: str) -> list[Finding]:
    """What a part finds in a fresh interpreter that starts in ``folder``."""
    code = (
        "import json; from dataclasses import astuple; from gpucourse import doctor\n"
        f"print(json.dumps([astuple(f) for f in doctor.{part}()]))"
    )
    path = os.pathsep.join(filter(None, [environment.pop("before", ""), str(SOURCE)]))
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )
    return [Finding(*found) for found in json.loads(ran.stdout)]


def test_a_package_of_another_environment_is_told(tmp_path: Path):
    other = tmp_path / "other" / "site-packages"
    (other / "pandas").mkdir(parents=True)
    (other / "pandas" / "__init__.py").touch()
    (found,) = examined("strangers", tmp_path, before=str(other))
    assert (found.name, found.status) == ("pandas", FAIL)
    assert found.found == f"is imported from {other}, not from this environment"
    assert found.mend == "unset PYTHONPATH, and start Jupyter again"
    (fine,) = examined("strangers", tmp_path)
    assert fine.status == OK


def test_a_package_in_the_users_own_folder_is_told(tmp_path: Path, monkeypatch):
    """Python looks there first, where an environment allows it."""
    user = tmp_path / "user" / "lib"
    (user / "jax").mkdir(parents=True)
    (user / "jax" / "__init__.py").touch()
    monkeypatch.setattr("site.getusersitepackages", lambda: str(user))
    monkeypatch.syspath_prepend(user)
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: PathFinder.find_spec(name, [str(user), *sys.path])
    )
    found = finding(doctor.strangers, "jax")
    assert found.status == FAIL
    assert "PYTHONNOUSERSITE=1" in found.mend and "pip uninstall jax" in found.mend


def test_a_file_that_hides_a_module_from_notebooks_is_told(tmp_path: Path, monkeypatch):
    write_course(tmp_path)
    (tmp_path / "lectures").mkdir()
    (tmp_path / "projects" / "01").mkdir(parents=True)
    for name in ("lectures/random.py", "lectures/mine.py", "projects/01/numpy.py"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path / "lectures")
    found = {f.name: f.found for f in doctor.strangers()}
    assert found["lectures/random.py"].startswith("hides Python's own module random")
    assert found["projects/01/numpy.py"].startswith("hides the installed module numpy")
    assert "lectures/mine.py" not in found


def test_another_copy_of_the_course_is_told(tmp_path: Path, monkeypatch):
    write_course(tmp_path)
    for folder in ("lectures", "packages/gpucourse/src"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        doctor.software, "_is_at_home", lambda origin: "gpucourse" not in str(origin)
    )
    found = finding(doctor.strangers, "gpucourse")
    assert found.status == WARN
    assert found.mend == install("--no-deps", *editable(tmp_path))


@pytest.mark.parametrize("name", doctor.software.VARIABLES)
def test_a_variable_that_changes_what_is_shown_is_told(monkeypatch: pytest.MonkeyPatch, name: str):
    for value in ("", "0"):
        monkeypatch.setenv(name, value)
        assert finding(doctor.variables, "variables").status == OK
    monkeypatch.setenv(name, "1")
    found = finding(doctor.variables, "variables")
    assert found.status == FAIL
    assert found.found.startswith(f"{name}=1: ")
    assert found.mend.startswith(f"unset {name}")


# --- a GPU that is not used as it could be ----------------------------------------------------

GPU = device.DeviceInfo("NVIDIA T4", False, (7, 5), 15 * 10**9, "550.54.15", "12.4")
NONE = device.DeviceInfo("Virtual GPU (CPU)", True, (9, 0), reason="no NVIDIA driver here")


def versions(monkeypatch: pytest.MonkeyPatch, installed: dict[str, str | None]) -> None:
    """Say that these packages are installed, in these versions, or (None) that they are not."""
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name not in installed:
            return real(name)
        if installed[name] is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(importlib.metadata, "version", version)


@pytest.mark.parametrize(
    ("compilers", "cuda", "status"),
    [((13, 4), "12.4", FAIL), ((12, 8), "12.4", OK), ((13, 4), "13.0", OK), ((12, 9), "13.1", OK)],
)
def test_a_driver_older_than_the_compilers_is_told(
    monkeypatch: pytest.MonkeyPatch, compilers: tuple[int, int], cuda: str, status: str
):
    monkeypatch.setattr(device, "device", lambda: replace(GPU, cuda=cuda))
    monkeypatch.setattr(probes, "compiler_version", lambda: compilers)
    found = finding(doctor.driver, "driver")
    assert found.status == status
    if status == FAIL:
        assert found.found == (
            "550.54.15 supports CUDA up to 12.4 and rejects kernels from the installed compilers, "
            "which are CUDA 13.4"
        )
        assert "580 or newer" in found.mend and "gpu12.txt" in found.mend


def test_the_compilers_version_is_that_of_the_wheels():
    wheel = importlib.metadata.version("nvidia-cuda-nvrtc")
    assert probes.compiler_version() == tuple(map(int, wheel.split(".")[:2]))


def test_a_gpu_without_a_usable_driver_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(device, "device", lambda: NONE)
    monkeypatch.setattr(doctor.devices, "_DEVICE_FILES", (tmp_path / "nvidiactl",))
    monkeypatch.setattr(doctor.devices, "_PCI", tmp_path / "pci")
    write_files(tmp_path / "pci" / "a", vendor="0x8086\n", **{"class": "0x030000\n"})
    write_files(tmp_path / "pci" / "b", vendor="0x10de\n", **{"class": "0x0c0330\n"})
    assert list(doctor.driver()) == []
    write_files(tmp_path / "pci" / "b", **{"class": "0x030200\n"})
    found = finding(doctor.driver, "driver")
    assert (found.status, found.found) == (
        WARN,
        "there is an NVIDIA card in this machine, but no "
        "kernel can run on it: no NVIDIA driver here",
    )
    assert "nvidia-smi" in found.mend and "--gpus all" in found.mend
    (tmp_path / "nvidiactl").touch()
    assert "nvidiactl" in finding(doctor.driver, "driver").found
    monkeypatch.setattr(
        device, "device", lambda: replace(NONE, reason="CUDA_VISIBLE_DEVICES='' hides it")
    )
    assert list(doctor.driver()) == []


def test_libraries_that_do_not_use_the_gpu_are_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(device, "device", lambda: NONE)
    assert list(doctor.gpu_libraries()) == []
    monkeypatch.setattr(device, "device", lambda: GPU)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    libraries = {f.name: f for f in doctor.gpu_libraries()}
    assert {name: f.status for name, f in libraries.items()} == {
        "JAX": WARN,
        "CuPy": WARN,
        "cuDF": WARN,
    }
    assert "computes on the CPU although there is a GPU" in libraries["JAX"].found
    assert all("requirements/gpu.txt" in f.mend for f in libraries.values())
    versions(
        monkeypatch,
        {
            "jax-cuda12-plugin": "0.9.0",
            "jaxlib": "0.10.2",
            "cupy-cuda12x": "14.0.1",
            "cupy-cuda13x": "14.0.1",
            "cudf-cu12": "26.2",
        },
    )
    libraries = {f.name: f for f in doctor.gpu_libraries()}
    assert libraries["JAX"].mend == install("jax-cuda12-plugin==0.10.2")
    assert libraries["CuPy"].status == FAIL and "overwrite each other" in libraries["CuPy"].found
    assert "cuDF" not in libraries
    versions(
        monkeypatch,
        {
            "jax-cuda12-plugin": "0.10.2",
            "jaxlib": "0.10.2",
            "cupy-cuda12x": None,
            "cupy-cuda13x": "14.0.1",
        },
    )
    libraries = {f.name: f for f in doctor.gpu_libraries()}
    assert libraries["JAX"].status == OK
    assert libraries["CuPy"].status == FAIL and "cupy-cuda12x" in libraries["CuPy"].mend
    monkeypatch.setattr(device, "device", lambda: replace(GPU, cuda="13.0"))
    assert finding(doctor.gpu_libraries, "CuPy").status == OK
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert finding(doctor.gpu_libraries, "JAX").mend.startswith("unset JAX_PLATFORMS")


# --- the disk ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "says", "helps"),
    [
        (errno.ENOSPC, "is full", "du -xh"),
        (errno.EDQUOT, "has used up your quota", "du -xh"),
        (errno.EROFS, "cannot be written: read-only file system", "copy the course into a folder"),
        (errno.EACCES, "cannot be written: permission denied", "copy the course into a folder"),
    ],
)
def test_a_disk_that_refuses_is_told(
    monkeypatch: pytest.MonkeyPatch, number: int, says: str, helps: str
):
    def refuse(*_args, **_options):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    found = finding(doctor.disk, "this folder")
    assert found.status == FAIL
    assert found.found == f"{Path.cwd()} {says}"
    assert helps in found.mend
    assert "HOME" in finding(doctor.disk, "home directory").mend or number in (
        errno.ENOSPC,
        errno.EDQUOT,
    )


def test_little_room_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)  # which can be written, whatever this machine's home folder is
    monkeypatch.setenv("HOME", str(tmp_path))
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(9, 9, 100_000_000))
    assert {f.status for f in doctor.disk()} == {WARN}
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(9, 9, 10**9))
    assert {f.status for f in doctor.disk()} == {OK}


@pytest.mark.skipif(os.geteuid() != 0, reason="UNTESTED HERE: only root can mount a small disk")
def test_a_disk_that_is_full_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", tmp_path]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("UNTESTED HERE: this container forbids mounting")
    try:
        monkeypatch.chdir(tmp_path)
        found = finding(doctor.disk, "this folder")
        assert (found.status, found.found) == (FAIL, f"{tmp_path} is full")
        assert list(tmp_path.iterdir()) == []
    finally:
        monkeypatch.undo()
        subprocess.run(["umount", tmp_path], check=True)


def test_progress_that_cannot_be_kept_is_told(monkeypatch: pytest.MonkeyPatch):
    assert finding(doctor.progress, "progress").status == OK
    monkeypatch.setattr(records, "trouble", lambda: "your progress cannot be recorded in x: y")
    found = finding(doctor.progress, "progress")
    assert found.status == WARN and "checks still work" in found.mend


# --- Jupyter's port and program ---------------------------------------------------------------


def test_a_port_that_is_taken_is_told(monkeypatch: pytest.MonkeyPatch):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        number = other.getsockname()[1]
        monkeypatch.setattr(doctor.notebooks, "_PORT", number)
        (found,) = doctor.port()
        assert (found.status, found.found) == (WARN, "in use by another program")
        runtime = Path(os.environ["JUPYTER_RUNTIME_DIR"])
        runtime.mkdir(parents=True, exist_ok=True)
        file = runtime / f"jpserver-{os.getpid()}.json"
        file.write_text(json.dumps({"port": number, "root_dir": "/elsewhere", "pid": os.getpid()}))
        try:
            (found,) = doctor.port()
        finally:
            file.unlink(missing_ok=True)
        assert found.found == "in use by a Jupyter server for /elsewhere"
        assert f"jupyter server stop {number}" in found.mend
    (found,) = doctor.port()
    assert found.status == OK


def test_jupyter_of_another_environment_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    assert "program" not in {f.name for f in doctor.jupyter()}
    write_files(tmp_path, jupyter="#!/bin/sh\n")
    (tmp_path / "jupyter").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = finding(doctor.jupyter, "program")
    assert found.status == WARN
    assert str(Path(sys.executable).with_name("jupyter")) in found.mend
