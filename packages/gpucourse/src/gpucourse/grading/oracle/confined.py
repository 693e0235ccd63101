"""Confinement of an oracle, before it sees anything of a submission.

It reads what a student's process says. Should that ever take it over, it is still a process that
opens no file but the installation, knows one submission, reaches no network, starts no program,
sends no signals and owns nothing. All of it is done by the process itself, as by a worker
(:mod:`gpucourse.grading.sandbox.confinement`); what a machine refuses is left out, and
the verdict says what was had.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from gpucourse.grading.limits import Limits
from gpucourse.grading.sandbox import confinement, landlock
from gpucourse.grading.sandbox.file_system import SYSTEM, home_folder, needed_paths

#: What a verdict says of an oracle, in this order; the rest is missing where it ran.
FILES, HIDDEN, NETWORK, CALLS, USER = (
    "files by list",
    "the course's files hidden",
    "no network",
    "system calls",
    "own user",
)
# Beside the installation: what the system says of itself and of its time zone, and random numbers.
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
# XLA starts 13 and two for each core. The system counts all of a user's.
THREADS = 1024
# Variables that say how the libraries compute. An oracle gets none of the session's other
# variables, such as the key of a hub.
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
    """Return True if an oracle keeps a variable of the environment."""
    return variable in VARIABLES or variable.startswith(PREFIXES)


def confine(
    limits: Limits, covered: tuple[str, ...], keep: tuple[int, ...], writable: tuple[str, ...] = ()
) -> str:
    """Drop every right that grading does not need; return the old rights, in words.

    Parameters
    ----------
    covered
        Folders to be hidden where the kernel knows no list of files (no Landlock).
    keep
        Descriptors that the oracle needs; others that it inherited lead to nothing from now on.
    writable
        Folders it may write to, where somebody asked for a record.

    The process must have a single thread. It must start its processes before that.
    """
    # Clusters keep libraries in folders of their own, which the loader is told of.
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
        confinement.die_with_parent()  # forgotten by a change of user
    by_list = landlock.version() > 0
    home = home_folder()
    # Of their own: a network, a view of the files, a temporary folder. The process table stays the
    # machine's: how long a worker waited for a processor is read there.
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
    # A pair of sockets is what it talks to a worker through.
    calls = confinement.refuse_system_calls(others=True, allowed=("socketpair",))
    if namespaces or calls:
        had.append(NETWORK)
    if calls:
        had.append(CALLS)
    if user:
        had.append(USER)
    return ", ".join(had) or "nothing"


def missing(had: str) -> list[str]:
    """Return the most important protections that an oracle lacked, by a verdict's words."""
    return [name for name in (FILES, NETWORK, CALLS) if name not in had.split(", ")]


def lacking(oracles: Iterable[str]) -> str:
    """Return the protections that some oracle of a class lacked, in words."""
    without = {name for had in oracles if had for name in missing(had)}
    return f" (oracles without: {', '.join(sorted(without))})" if without else ""


def _close_others(keep: tuple[int, ...]) -> None:
    """Redirect inherited descriptors to /dev/null.

    Their numbers stay taken, as their owners in this process believe.
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
    except OSError:  # the one that listed the folder
        return False
    return True
