"""The doctor: each thing broken on purpose, and the line that says how to fix it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from conftest import REPOSITORY
from doctor_findings import finding
from gpucourse import doctor
from gpucourse.doctor import FAIL, OK, WARN, Finding, probes
from gpucourse.doctor.finding import install
from gpucourse.grading.sandbox import landlock
from gpucourse.publish.notebooks import outputs
from gpucourse.system import device, resources
from small_course import LECTURE, edit, write_course
from virtualgpu import processors


def test_a_package_that_is_missing_or_too_old_is_told_with_the_command(
    monkeypatch: pytest.MonkeyPatch,
):
    versions = {"awkward": None, "numpy": "1.26.4"}
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name in versions and versions[name] is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions.get(name) or real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    missing = finding(doctor.packages, "awkward")
    assert missing.status == FAIL
    assert missing.found == "not installed, and the course needs it"
    assert missing.mend.startswith(f"{install('--upgrade')} 'awkward>=")
    wrong = finding(doctor.packages, "numpy")
    assert wrong.status == FAIL
    assert wrong.found == "1.26.4, but the virtual GPU needs >=2.0"
    assert wrong.mend.startswith(install("--upgrade", "numpy>=2.0"))


def test_the_virtual_gpus_own_needs_are_told_apart(monkeypatch: pytest.MonkeyPatch):
    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert "the virtual GPU needs it" in finding(doctor.packages, "numba").found


def test_an_unsupported_python_is_told(monkeypatch: pytest.MonkeyPatch):
    assert finding(doctor.python_and_system, "Python").status == OK
    monkeypatch.setattr(sys, "version_info", (3, 10, 2))
    old = finding(doctor.python_and_system, "Python")
    assert old.status == FAIL
    assert "make setup" in old.mend


def test_macos_is_told_where_to_run_the_course(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    system = finding(doctor.python_and_system, "system")
    assert system.status == FAIL
    assert "Binder" in system.mend


@pytest.mark.parametrize("missing", ["nvvm", "nvrtc", "cudart"])
def test_a_missing_compiler_is_told_and_no_kernel_is_tried(
    monkeypatch: pytest.MonkeyPatch, missing: str
):
    from cuda import pathfinder

    def load(name: str):
        if name == missing:
            raise pathfinder.DynamicLibNotFoundError(name)
        return SimpleNamespace(abs_path=f"/somewhere/lib{name}.so")

    monkeypatch.setattr(pathfinder, "load_nvidia_dynamic_lib", load)
    monkeypatch.setattr(device, "device", lambda: device.DeviceInfo("a GPU", False, (9, 0)))
    findings = {f.name: f for f in doctor.device_and_compilers()}
    assert findings[missing].status == FAIL
    assert findings[missing].found.startswith("not found, ")
    assert findings[missing].mend.startswith(install("--upgrade"))
    assert "'cuda-toolkit[cccl,cudart,nvcc,nvjitlink,nvrtc,nvvm]>=" in findings[missing].mend
    assert findings["a kernel"].status == FAIL
    others = {"nvvm", "nvrtc", "cudart"} - {missing}
    assert all(findings[name].found == f"/somewhere/lib{name}.so" for name in others)


def test_the_compilers_of_this_environment_are_found_and_a_kernel_runs():
    findings = list(doctor.device_and_compilers())
    assert [f.status for f in findings] == [OK] * len(findings), findings
    assert findings[-1].found == "compiled and launched, with the right result"


@pytest.mark.parametrize(
    ("value", "status", "found"),
    [
        ("", OK, "numba-cuda 0."),
        ("numba-cuda-mlir", OK, "numba-cuda-mlir 0."),
        ("numba", FAIL, "VIRTUALGPU_NUMBA=numba "),
    ],
)
def test_the_package_behind_numba_cuda_is_told(
    monkeypatch: pytest.MonkeyPatch, value: str, status: str, found: str
):
    monkeypatch.setattr(probes, "run_kernel", lambda: None)
    monkeypatch.setenv("VIRTUALGPU_NUMBA", value)
    told = finding(doctor.device_and_compilers, "numba.cuda")
    assert told.status == status and told.found.startswith(found)
    assert (told.mend is None) == (status == OK)


def test_a_kernel_that_fails_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(probes, "run_kernel", lambda: "it ran, but gave a wrong answer")
    kernel = finding(doctor.device_and_compilers, "a kernel")
    assert kernel.status == FAIL
    assert "wrong answer" in kernel.found


@pytest.mark.parametrize(
    ("free", "status"), [(8e9, OK), (1.2e9, WARN), (0.5e9, FAIL)], ids=["enough", "little", "none"]
)
def test_too_little_memory_is_told(monkeypatch: pytest.MonkeyPatch, free: float, status: str):
    have = resources.Resources(int(16e9), int(free), 2)
    monkeypatch.setattr(doctor.surroundings, "resources", lambda: have)
    memory = finding(doctor.memory_and_processors, "memory")
    assert memory.status == status
    assert (memory.mend is None) == (status == OK)


Memory = namedtuple("Memory", "total available")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine of 16 GB with 12 GB free and 8 processors; the cgroup folder is the result."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: Memory(16 * 10**9, 12 * 10**9))
    monkeypatch.setattr(
        processors.os, "sched_getaffinity", lambda pid: set(range(8)), raising=False
    )
    return tmp_path


def write_files(folder: Path, **files: str) -> None:
    """Files of a control group; a dot in a name is written as two underscores."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def found(machine: Path, groups: str = "0::/\n") -> tuple[float, ...]:
    """Memory, free memory and processors of a process in these control groups."""
    proc = machine / "proc"
    write_files(proc / "self", cgroup=groups)
    have = resources.resources(machine, proc)
    return have.memory, have.free, have.processors


WHOLE = (16 * 10**9, 12 * 10**9, 8)


@pytest.mark.parametrize("groups", ["", "0::/\n", "3:memory:/a\n2:cpu,cpuacct:/a\n0::/\n"])
def test_without_a_container_the_machine_counts(machine: Path, groups: str):
    assert found(machine, groups) == WHOLE


def test_a_containers_limits_count_version_2(machine: Path):
    write_files(
        machine,
        memory__max="2000000000\n",
        memory__current="1500000000\n",
        memory__stat="anon 1\ninactive_file 300000000\n",
        cpu__max="50000 100000\n",
    )
    assert found(machine) == (2 * 10**9, 8 * 10**8, 0.5)
    assert found(machine, "0::/../elsewhere\n") == (2 * 10**9, 8 * 10**8, 0.5)
    write_files(machine, memory__max="max\n", cpu__max="max 100000\n")
    assert found(machine) == WHOLE


def test_the_limits_of_a_user_count(machine: Path):
    """As on a hub without containers, where systemd gives each user a slice."""
    write_files(
        machine / "user" / "ana",
        memory__max="2000000000\n",
        memory__current="500000000\n",
        cpu__max="100000 100000\n",
    )
    write_files(machine / "user" / "ana" / "app", memory__max="max\n")
    write_files(machine / "user", memory__max="9000000000\n", memory__current="8000000000\n")
    assert found(machine, "0::/user/ana/app\n") == (2 * 10**9, 10**9, 1)


@pytest.mark.parametrize("own", ["/", "/docker/abc"])
def test_a_containers_limits_count_version_1(machine: Path, own: str):
    groups = f"3:memory:{own}\n2:cpu,cpuacct:{own}\n0::/\n"
    write_files(
        machine / "memory",
        memory__limit_in_bytes="4000000000\n",
        memory__usage_in_bytes="1000000000\n",
        memory__stat="inactive_file 7\n",
    )
    write_files(machine / "cpu", cpu__cfs_quota_us="150000\n", cpu__cfs_period_us="100000\n")
    assert found(machine, groups) == (4 * 10**9, 3 * 10**9 + 7, 1.5)
    write_files(machine / "memory", memory__limit_in_bytes=f"{2**63 - 4096}\n")
    write_files(machine / "cpu", cpu__cfs_quota_us="-1\n")
    assert found(machine, groups) == WHOLE


def test_jupyter_of_this_environment_is_as_it_should_be():
    assert {f.status for f in doctor.jupyter()} == {OK}


def test_a_kernel_that_starts_another_python_is_told(monkeypatch: pytest.MonkeyPatch):
    """A kernel of the user's, as `ipykernel install --user` leaves it, and none at all."""
    folder = Path(os.environ["JUPYTER_DATA_DIR"]) / "kernels" / "python3"
    install = f"{sys.executable} -m ipykernel install --sys-prefix --name python3"
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")
    folder.mkdir(parents=True)
    try:
        (folder / "kernel.json").write_text(
            json.dumps(
                {"argv": ["/opt/other/bin/python", "-m", "ipykernel_launcher"], "display_name": "3"}
            )
        )
        kernel = finding(doctor.jupyter, "kernel")
    finally:
        shutil.rmtree(folder)
    assert kernel.status == FAIL
    assert kernel.found.startswith("python3 starts /opt/other/bin/python, not ")
    assert kernel.mend == f"jupyter kernelspec remove python3, then {install}"
    assert finding(doctor.jupyter, "kernel").status == OK
    monkeypatch.setattr(probes, "kernel", lambda: None)
    assert finding(doctor.jupyter, "kernel").mend == install


def test_extensions_that_are_missing_or_off_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    assert probes.server_extension("no_such_package.extension") == "not installed"
    assert probes.server_extension("psutil.extension") == "installed, but not enabled"
    assert probes.lab_extension("@jupyter/no-such-extension") == "not installed"
    settings = tmp_path / "jupyter_server_config.d"
    settings.mkdir()
    name = "nbgrader.server_extensions.validate_assignment"
    (settings / "off.json").write_text(
        f'{{"ServerApp": {{"jpserver_extensions": {{"{name}": false}}}}}}'
    )
    page = tmp_path / "labconfig"
    page.mkdir()
    (page / "page_config.json").write_text('{"disabledExtensions": {"@jupyter/nbgrader": true}}')
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path))
    server = finding(doctor.jupyter, "nbgrader server extension")
    assert server.status == WARN
    assert server.found == f"installed, but disabled in {tmp_path}"
    assert server.mend.startswith("jupyter server extension enable")
    lab = finding(doctor.jupyter, "nbgrader lab extension")
    assert lab.status == WARN
    assert lab.found == "installed, but disabled (@jupyter/nbgrader)"
    assert lab.mend.startswith("jupyter labextension enable")
    # A learner's JupyterLab leaves out what is for teachers, and nothing is wrong.
    shutil.copy(REPOSITORY / "hub/learner/labconfig/page_config.json", page)
    assert finding(doctor.jupyter, "nbgrader lab extension").status == OK


def test_bubblewrap_missing_or_refused_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = finding(doctor.sandbox, "bubblewrap")
    assert missing.status == WARN
    assert "apt install bubblewrap" in missing.mend
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    refused = finding(doctor.sandbox, "bubblewrap")
    assert refused.status == WARN
    assert (
        refused.found == "installed, but it cannot start: bwrap: No permissions to create namespace"
    )
    assert "user namespaces" in refused.mend
    program.write_text("#!/bin/sh\nexit 0\n")
    assert finding(doctor.sandbox, "bubblewrap").status == OK


@pytest.mark.parametrize(
    ("name", "value", "command"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1\n", "restrict_unprivileged_userns=0"),
        ("kernel/unprivileged_userns_clone", "0\n", "sysctl -w kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0\n", "sysctl -w user.max_user_namespaces="),
    ],
)
def test_the_switch_that_forbids_user_namespaces_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, value: str, command: str
):
    program = tmp_path / "bin" / "bwrap"
    write_files(program.parent, bwrap="#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setattr(doctor.surroundings, "_SYSCTL", tmp_path / "sys")
    assert "seccomp" in finding(doctor.sandbox, "bubblewrap").mend
    for other, forbids, _ in doctor.surroundings.NAMESPACE_SWITCHES:
        (tmp_path / "sys" / other).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys" / other).write_text(
            "15000\n" if "max" in other else str(1 - int(forbids)) + "\n"
        )
    (tmp_path / "sys" / name).write_text(value)
    assert command in finding(doctor.sandbox, "bubblewrap").mend


def test_stale_and_broken_course_files_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    assert "cd into" in finding(doctor.course_files, "notebooks").mend
    write_course(tmp_path)
    missing = finding(doctor.course_files, "notebooks")
    assert (missing.status, missing.found) == (FAIL, "6 of them are missing")
    assert missing.mend == "make build"
    outputs.write(outputs.plan(tmp_path))
    assert finding(doctor.course_files, "notebooks").status == OK
    source = tmp_path / "course" / "lectures" / LECTURE / "notebook.py"
    edit(source, "not* enough", "not* nearly enough")
    stale = finding(doctor.course_files, "notebooks")
    assert stale.status == WARN
    assert stale.found.startswith("2 differ from the source")
    edit(source, ' id="too-far"', "")
    assert finding(doctor.course_files, "notebooks").status == FAIL


def test_one_broken_part_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch):
    def hopeless():
        raise RuntimeError("first line\nsecond line")
        yield

    def fine():
        yield Finding("Python", "Python", OK, "3.12")

    monkeypatch.setattr(doctor, "PARTS", (hopeless, fine))
    first, second = doctor.examine()
    assert (first.group, first.status) == ("hopeless", FAIL)
    assert first.found == "RuntimeError: first line"
    assert second.status == OK


def test_the_report_ends_with_what_to_do(capsys: pytest.CaptureFixture[str]):
    fine = Finding("Python", "Python", OK, "3.12")
    odd = Finding("grading", "bubblewrap", WARN, "not installed", "apt install [bubblewrap]")
    bad = Finding("device", "nvvm", FAIL, "not found", "pip install cuda-toolkit[nvvm]")
    assert doctor.report([fine]) == 0
    assert "Ready: nothing to fix" in capsys.readouterr().out
    assert doctor.report([fine, odd]) == 0
    said = capsys.readouterr().out
    assert "→ apt install [bubblewrap]" in said
    assert "1 warning" in said
    assert doctor.report([fine, odd, bad]) == 1
    said = capsys.readouterr().out
    assert "→ pip install cuda-toolkit[nvvm]" in said
    assert "1 to fix" in said


@pytest.mark.rehearsal
def test_the_command_gives_the_exit_code():
    """A module hidden from the whole interpreter, as if it had never been installed."""
    code = (
        "import sys; sys.modules['jupyter_server'] = None\n"
        "sys.argv = ['gpucourse', 'doctor']\n"
        "from gpucourse.cli import app; app()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "jupyter_server" in ran.stdout
    assert ran.stderr == ""


def test_a_kernel_without_a_list_of_files_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(landlock, "version", lambda: 0)
    found = finding(doctor.oracles, "oracles")
    assert found.status == WARN and "landlock_create_ruleset" in found.mend
    monkeypatch.setattr(landlock, "version", lambda: 4)
    found = finding(doctor.oracles, "oracles")
    assert (found.status, found.found) == (OK, "restricted to a list of files (Landlock 4)")
