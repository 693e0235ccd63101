"""Provenance of a result: device, driver, versions, tools and date."""

from __future__ import annotations

import datetime
import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from lab.benchmarks import gpu_provenance
from lab.benchmarks.report import versions
from lab.gpu_check.lesson_run import find_root

PACKAGES = (
    *gpu_provenance.PACKAGES,
    "cuda-core",
    "cuda-pathfinder",
    "cudf-cu13",
    "cudf-cu12",
    "pycuda",
    "awkward-cpp",
    "cuda-cccl",
    "hist",
    "uproot",
    "pandas",
    "matplotlib",
    "ipython",
    "nbformat",
    "dask",
    "distributed",
    "nvidia-cuda-nvcc",
    "nvidia-nvjitlink",
)
#: Folders of the checkout, and the kinds of files in them, on which the check's verdicts depend.
SOURCE = (
    "packages/virtualgpu/src",
    "packages/gpustandins/src",
    "packages/gpucourse/src",
    "course",
    "solutions",
    "grading/source",
    "packages/virtualgpu/tests/support/labelled",
)
KINDS = (".py", ".ipynb", ".toml")
#: NVIDIA's programs that parts of the check run.
TOOLS = ("ncu", "compute-sanitizer")


def describe(device: str) -> dict:
    """Return what a reader of the result needs to know, without a host name or path."""
    from gpucourse.system.device import NoGPU, find_gpu

    try:
        gpu = find_gpu()
        facts = {
            "device": gpu.name,
            "compute capability": list(gpu.compute_capability),
            "memory": gpu.memory,
            "cuda": gpu.cuda,
            "driver": gpu.driver or gpu_provenance.state().get("driver_version"),
        }
    except NoGPU as missing:
        facts = {"device": None, "why": str(missing)}
    if device != "gpu":
        facts["rehearsal"] = "the virtual GPU in the part of the real one"
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **facts,
        "cores": os.cpu_count(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "commit": _commit(),
        "source": source_digest(find_root()),
        "versions": versions(PACKAGES),
        "tools": {name: tool_version(name) for name in TOOLS if tool(name)},
    }


def tool(name: str) -> str | None:
    """Return the path of a toolkit program, or None."""
    if found := shutil.which(name):
        return found
    folders = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [
        Path(folder) / part / name
        for folder in folders
        if folder
        for part in ("bin", "compute-sanitizer")
    ]
    places += sorted(Path("/opt/nvidia").glob(f"nsight-compute/*/{name}"))
    return next((str(place) for place in places if os.access(place, os.X_OK)), None)


def tool_version(name: str) -> str:
    """Return the line of ``NAME --version`` that contains a number."""
    try:
        done = subprocess.run([tool(name), "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, TypeError, subprocess.TimeoutExpired) as error:
        return f"does not start: {type(error).__name__}"
    lines = [line.strip() for line in done.stdout.splitlines() if "ersion" in line]
    return lines[-1] if lines else "unknown"


def _commit() -> str | None:
    root = Path(__file__).resolve().parents[2]
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"],
            capture_output=True,
            text=True,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def source_digest(root: Path, folders: Iterable[str] = SOURCE) -> str:
    """Return a digest of the checked source.

    A copied checkout has no commit, and a checkout may have been changed since its commit.
    """
    digest = hashlib.sha256()
    for path in sorted(
        path
        for folder in folders
        for path in (root / folder).rglob("*")
        if path.suffix in KINDS and ".ipynb_checkpoints" not in path.parts
    ):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]
