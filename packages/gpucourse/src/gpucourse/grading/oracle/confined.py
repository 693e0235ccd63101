"""Confinement of an oracle, before it receives any part of a submission.

The oracle reads messages from a student's process. If that process ever took over the oracle, the
oracle would still be a process that can open only the files of the installation, knows only one
submission, and can use no network, start no program, send no signals and own nothing. The oracle
confines itself, as a worker does (:mod:`gpucourse.grading.sandbox.confinement`). Protections that
the machine refuses are left out, and the verdict lists those that were in place.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from gpucourse.grading.limits import Limits
from gpucourse.grading.sandbox import confinement, landlock
from gpucourse.grading.sandbox.file_system import SYSTEM, home_folder, needed_paths

#: Protections of an oracle as a verdict lists them, in this order.
FILES, HIDDEN, NETWORK, CALLS, USER = (
    "files by list",
    "the course's files hidden",
    "no network",
    "system calls",
    "own user",
)
# Files that an oracle may read besides the installation: the system's data about itself and its
# time zone, and random numbers.
READABLE = (
    "/proc",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/etc/localtime",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
)
WRITABLE = "/dev/null"
# XLA starts 13 threads and two more for each core, and the system counts all threads of a user.
THREADS = 1024
# Environment variables that affect how the libraries compute. An oracle keeps none of the session's
# other variables, such as the key of a hub.
VARIABLES = (
    "PATH",
    "CONDA_PREFIX",
    "LANG",
    "LC_ALL",
    "TZ",
    "LD_LIBRARY_PATH",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "PYTHONWARNINGS",
    "PYTHONHASHSEED",
    "PYTHONDONTWRITEBYTECODE",
)
PREFIXES = (
    "CUDA_",
    "NUMBA_",
    "NVIDIA_",
    "JAX_",
    "XLA_",
    "OMP_",
    "OPENBLAS_",
    "MKL_",
    "VIRTUALGPU_",
    "GPUCOURSE_",
    "MPL",
)


def is_needed(variable: str) -> bool:
    """Return True if an oracle keeps an environment variable of this name."""
    return variable in VARIABLES or variable.startswith(PREFIXES)


def confine(
    limits: Limits, covered: tuple[str, ...], keep: tuple[int, ...], writable: tuple[str, ...] = ()
) -> str:
    """Drop every right that grading does not need; return the protections now in place.

    Parameters
    ----------
    covered
        Folders to hide if the kernel has no Landlock.
    keep
        Descriptors that the oracle needs. Other inherited descriptors are redirected to /dev/null.
    writable
        Folders that the oracle may write to, if a record was requested.

    The process must have a single thread, and must have started its own child processes before.
    """
    # Clusters keep libraries in separate folders, which LD_LIBRARY_PATH lists.
    loaded = [
        folder
        for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":")
        if folder.strip("/") and os.path.isabs(folder)
    ]
    readable = [*SYSTEM, *READABLE, *needed_paths(), *loaded]
    for name in [name for name in os.environ if not is_needed(name)]:
        del os.environ[name]
    _close_others(keep)
    had = []
    confinement.die_with_parent()
    user = confinement.become_nobody([*SYSTEM, *needed_paths()])
    if user:
        confinement.die_with_parent()  # changing the user clears this setting
    by_list = landlock.version() > 0
    home = home_folder()
    # Private network, mounts and temporary folder. The machine's process table stays visible,
    # because the waiting times of a worker are read from it.
    namespaces = not writable and confinement.own_namespaces(
        home, limits.home_bytes, [] if by_list else list(covered), processes=False
    )
    if namespaces:
        os.environ.update(HOME=home, TMPDIR=home)
        os.chdir(home)
    else:
        os.chdir("/")
    if landlock.only_these_files(readable, [WRITABLE, *writable, *([home] if namespaces else [])]):
        had.append(FILES)
    elif namespaces:
        had.append(HIDDEN)
    confinement.bound_resources(None, limits.file_bytes, int(limits.wall_seconds) + 1, THREADS)
    confinement.drop_capabilities()
    # An oracle talks to a worker through a socket pair.
    calls = confinement.refuse_system_calls(others=True, allowed=("socketpair",))
    if namespaces or calls:
        had.append(NETWORK)
    if calls:
        had.append(CALLS)
    if user:
        had.append(USER)
    return ", ".join(had) or "nothing"


def missing(had: str) -> list[str]:
    """Return the most important protections that are missing from a verdict's list."""
    return [name for name in (FILES, NETWORK, CALLS) if name not in had.split(", ")]


def lacking(oracles: Iterable[str]) -> str:
    """Return a remark on the protections that some oracle of a class lacked."""
    without = {name for had in oracles if had for name in missing(had)}
    return f" (oracles without: {', '.join(sorted(without))})" if without else ""


def _close_others(keep: tuple[int, ...]) -> None:
    """Redirect inherited descriptors to /dev/null.

    The descriptors stay open, because their owners in this process still use their numbers.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        number = int(name)
        if number not in keep and number != nowhere and _is_open(number):
            os.dup2(nowhere, number, inheritable=False)
    os.close(nowhere)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:  # the descriptor with which listdir read the folder
        return False
    return True
