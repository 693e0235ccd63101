"""Trials of installed software for the doctor, each of which answers one question."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


def run_kernel() -> str | None:
    """Compile and launch a kernel on the current device; return None, or the problem."""
    from gpucourse.notebook.extension import prepare_virtual
    from gpucourse.system.device import device
    from virtualgpu.api import first_kernel

    try:
        if device().virtual:
            prepare_virtual()
        right = first_kernel()
    except Exception as error:
        return f"{type(error).__name__}: {error}".split("\n")[0]
    return None if right else "it ran, but its result is wrong"


def compiler_version() -> tuple[int, int] | None:
    """Return NVRTC's version, such as (13, 4), or None if it is missing."""
    try:
        from cuda.bindings import nvrtc

        status, major, minor = nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError):  # the package is missing, or it does not find the library
        return None
    return (major, minor) if status == nvrtc.nvrtcResult.NVRTC_SUCCESS else None


def toolkit_version(folder: Path) -> tuple[int, int] | None:
    """Return the version of the CUDA toolkit in a folder from its header, or None."""
    try:
        text = (folder / "include" / "cuda.h").read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r"(?m)^#define CUDA_VERSION (\d+)", text)
    return (int(found[1]) // 1000, int(found[1]) % 1000 // 10) if found else None


@dataclass(frozen=True, slots=True)
class Kernel:
    """Program of a Jupyter kernel, and the folder of its kernel specification."""

    python: str
    folder: str


def kernel() -> Kernel | None:
    """Return the kernel ``python3``, or None if there is none."""
    import sys

    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    try:
        spec = KernelSpecManager().get_kernel_spec("python3")
    except NoSuchKernel:
        return None
    program = spec.argv[0]
    # Jupyter replaces these bare names by the Python that it runs under.
    bare = program in ("python", "python3")
    return Kernel(sys.executable if bare else program, spec.resource_dir)


def server_extension(name: str) -> str | None:
    """Return None if Jupyter's server has enabled this extension, else the reason."""
    import importlib.util

    from jupyter_core.paths import jupyter_config_path
    from jupyter_server.extension.config import ExtensionConfigManager

    if importlib.util.find_spec(name.split(".")[0]) is None:
        return "not installed"
    # The first folder on Jupyter's path that mentions the extension decides.
    for folder in jupyter_config_path():
        known = ExtensionConfigManager(read_config_path=[folder]).get_jpserver_extensions()
        if name in known:
            return None if known[name] else f"installed, but disabled in {folder}"
    return "installed, but not enabled"


def lab_extension(name: str, part: str = "") -> str | None:
    """Return None if JupyterLab has enabled this extension, else the reason."""
    from jupyter_core.paths import jupyter_path
    from jupyterlab_server.config import get_federated_extensions, get_page_config

    folders = jupyter_path("labextensions")
    if name not in get_federated_extensions(folders):
        return "not installed"
    for rule in get_page_config(folders).get("disabledExtensions", []):
        if rule in (name, f"{name}:{part}"):
            return f"installed, but disabled ({rule})"
    return None
