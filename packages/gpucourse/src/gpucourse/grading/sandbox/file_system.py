"""File-system view of a worker, and the matching bubblewrap options."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from functools import cache
from pathlib import Path

import gpustandins
import virtualgpu
from gpucourse.course.checkout import PACKAGE, REGISTRY, own_checkout
from gpucourse.course.registry import CHECKS, PREDICTIONS

# Packages that solution cells import, and their dependencies.
LIBRARIES = (
    "numpy",
    "numba",
    "numba_cuda",
    "llvmlite",
    "cuda",
    "awkward",
    "awkward_cpp",
    "jax",
    "jaxlib",
    "vector",
    "hist",
    "matplotlib",
)
#: Folders of our own packages.
PACKAGES = (
    PACKAGE,
    Path(gpustandins.__file__).resolve().parent,
    Path(virtualgpu.__file__).resolve().parent,
)
# Some distributions keep the libraries in /usr and link to them, others have both folders.
SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
)
# One thread for each library, because the workers of a class already share the cores.
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "NUMBA_CUDA_LOG_SIZE": "4096",
    "PYTHONDONTWRITEBYTECODE": "1",
    "LANG": "C.UTF-8",
}


class SandboxError(RuntimeError):
    """A failure of the sandbox itself, which is the grader's fault and never the student's."""


def import_folders() -> list[str]:
    """Return the folders from which this process imports the course and its libraries.

    A worker needs this list because a checkout on PYTHONPATH may differ from the installed
    package, and because libraries installed with ``pip install --target`` are in a separate
    folder.
    """
    return list(dict.fromkeys([*(str(package.parent) for package in PACKAGES), *library_folders()]))


@cache
def library_folders() -> tuple[str, ...]:
    """Return the folders that contain LIBRARIES, without importing them."""
    found = (importlib.util.find_spec(name) for name in LIBRARIES)
    places = (place for spec in found if spec for place in spec.submodule_search_locations or ())
    return tuple(dict.fromkeys(os.path.dirname(place) for place in places))


def needed_paths() -> list[str]:
    """Return the paths that a worker must read: Python, its packages, and our packages."""
    folders = {
        sys.prefix,
        sys.base_prefix,
        os.path.realpath(sys.prefix),
        os.path.realpath(sys.base_prefix),
    }
    # Of a library folder everything is needed, but of a checkout only our packages, because the
    # tests are beside them.
    folders |= {str(package) for package in PACKAGES}
    folders |= set(library_folders())
    # Set-up cells read hints. A checkout keeps them in course/, beside the tests, so only these two
    # files of each project's folder are included.
    if root := own_checkout():
        folders |= {str(root / REGISTRY)}
        folders |= {
            str(path)
            for name in (CHECKS, PREDICTIONS)
            for path in root.glob(f"course/projects/*/{name}")
        }
    # A folder inside another one is included with it.
    return sorted(
        folder
        for folder in folders
        if not any(folder.startswith(other.rstrip("/") + "/") for other in folders)
    )


def coverable(root: str, needed: list[str]) -> list[str]:
    """Return the largest paths below `root` that can be hidden without hiding needed files."""
    root = os.path.realpath(root)
    if any(root == path or root.startswith(path.rstrip("/") + "/") for path in needed):
        return []
    if not any(path.startswith(root.rstrip("/") + "/") for path in needed):
        return [root]
    paths: list[str] = []
    for entry in sorted(os.listdir(root)):
        path = os.path.join(root, entry)
        if not os.path.islink(path):
            paths += coverable(path, needed)
    return paths


def home_folder() -> str:
    """Return the folder that becomes a worker's home: /tmp, unless the course is in it."""
    needed = needed_paths()
    for folder in ("/tmp", "/var/tmp", "/mnt", "/media", "/srv"):
        if os.path.isdir(folder) and not any(path.startswith(folder + "/") for path in needed):
            return folder
    raise SandboxError(
        "no folder is free for a worker: move the course out of "
        "/tmp, /var/tmp, /mnt, /media or /srv"
    )


def bubblewrap_command() -> list[str] | None:
    """Return the bubblewrap command to put before another command; None without bubblewrap."""
    program = shutil.which("bwrap")
    if program is None:
        return None
    command = [program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if os.getuid() == 0:
        command += ["--uid", "65534", "--gid", "65534"]
    for path in SYSTEM:
        if os.path.islink(path):
            command += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            command += ["--ro-bind", path, path]
    # Mount the empty folders first. Needed paths may be in /tmp and are then mounted into it.
    home = home_folder()
    for folder in sorted({home, "/tmp"}):
        command += ["--tmpfs", folder]
    for path in needed_paths():
        if not path.startswith("/usr/") and path != "/usr":
            command += ["--ro-bind", path, path]
    command += ["--proc", "/proc", "--dev", "/dev", "--chdir", home]
    command += ["--clearenv"]
    for name, value in ENVIRONMENT.items():
        command += ["--setenv", name, value]
    return command
