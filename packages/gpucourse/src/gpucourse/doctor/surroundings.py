"""Doctor's checks of memory, disk and isolation on this machine or in this container."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gpucourse.doctor.finding import FAIL, OK, WARN, Finding
from gpucourse.grading.sandbox import landlock
from gpucourse.system.resources import gigabytes, resources

# A kernel with JAX, Numba, Awkward, uproot and Matplotlib needs 0.5 GB before it loads data.
_ENOUGH_MEMORY = 1.5e9
_LITTLE_MEMORY = 0.7e9
# A notebook with its pictures takes up to a few MB, and JupyterLab also keeps the replaced version.
_LITTLE_DISK = 200e6
_TRIAL = bytes(1_000_000)

_SYSCTL = Path("/proc/sys")
#: System settings that forbid user namespaces: file, forbidding value, remedy.
NAMESPACE_SWITCHES = (
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0   (Ubuntu 24.04 and later)",
    ),
    ("kernel/unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
    ("user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=15000"),
)


def memory_and_processors() -> Iterator[Finding]:
    """Check the memory and processors that are available to this process."""
    group = "machine"
    have = resources()
    found = f"{gigabytes(have.free)} free of {gigabytes(have.memory)}"
    mend = "shut down the kernels of other notebooks (a lesson needs about 0.5 GB plus its data)"
    if have.free < _LITTLE_MEMORY:
        yield Finding(group, "memory", FAIL, found, mend)
    elif have.free < _ENOUGH_MEMORY:
        yield Finding(group, "memory", WARN, found, mend)
    else:
        yield Finding(group, "memory", OK, found)
    yield Finding(group, "processors", OK, f"{have.processors:g}")


def disk() -> Iterator[Finding]:
    """Check that the working directory, the home directory and the temporary one are writable."""
    places = {
        "this folder": Path.cwd(),
        "home directory": Path.home(),
        "temporary files": Path(tempfile.gettempdir()),
    }
    for name, folder in places.items():
        yield _writes(name, folder)


def _writes(name: str, folder: Path) -> Finding:
    """Write a file, because only writing reveals a full quota."""
    group = "machine"
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(_TRIAL)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            why = "is full" if error.errno == errno.ENOSPC else "has used up your quota"
            mend = (
                f"free some space. `du -xh --max-depth=2 {folder} | sort -h | tail` lists the "
                "largest folders. You can empty the caches of pip and uv (pip cache purge, uv "
                "cache clean). What a notebook could not save is still in its browser tab, so "
                "leave that open"
            )
            return Finding(group, name, FAIL, f"{folder} {why}", mend)
        why = (error.strerror or str(error)).lower()
        mend = {
            "this folder": "copy the course into a folder that you may write to, and work there",
            "home directory": "set HOME to a folder that you may write to, because Jupyter keeps "
            "its own files there",
        }.get(name, "set TMPDIR to a folder that you may write to")
        return Finding(group, name, FAIL, f"{folder} cannot be written: {why}", mend)
    found = f"{gigabytes(free)} free in {folder}"
    if free < _LITTLE_DISK:
        return Finding(
            group, name, WARN, found, "make room, because saving a notebook may fail soon"
        )
    return Finding(group, name, OK, found)


def sandbox() -> Iterator[Finding]:
    """Check bubblewrap, which isolates a student's code during grading."""
    group, name = "grading", "bubblewrap"
    mend = "apt install bubblewrap (needed only to grade other people's work)"
    if sys.platform != "linux":
        yield Finding(group, name, WARN, "works only on Linux", "grade classes on Linux")
        return
    program = shutil.which("bwrap")
    if program is None:
        yield Finding(group, name, WARN, "not installed", mend)
        return
    command = [program, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "true"]
    tried = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    if tried.returncode:
        reason = tried.stderr.strip().split("\n")[-1] or f"exit code {tried.returncode}"
        found = f"installed, but it cannot start: {reason}"
        yield Finding(group, name, WARN, found, _allow_namespaces())
    else:
        yield Finding(group, name, OK, program)


def oracles() -> Iterator[Finding]:
    """Check that a grading process cannot read this user's files and processes."""
    group, name = "grading", "oracles"
    if sys.platform != "linux":
        return
    had = landlock.version()
    if had:
        yield Finding(group, name, OK, f"restricted to a list of files (Landlock {had})")
    else:
        yield Finding(
            group,
            name,
            WARN,
            "can open files outside the installation",
            "the kernel does not offer Landlock. On Linux 5.13 and later, add it to the boot "
            "option lsm=. In a container, use a seccomp profile that permits "
            "landlock_create_ruleset. Without Landlock, oracles hide the course's files with "
            "user namespaces where these are allowed",
        )


def _allow_namespaces() -> str:
    """Return how to allow user namespaces here, from the setting that forbids them."""
    for name, forbids, mend in NAMESPACE_SWITCHES:
        try:
            if (_SYSCTL / name).read_text().strip() == forbids:
                return f"allow user namespaces: {mend}"
        except OSError:
            continue
    return "allow user namespaces (in a container, with a seccomp profile that permits unshare)"
