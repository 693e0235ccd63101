"""Results as JSON files, with machine, date and versions."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Iterable
from pathlib import Path

from gpucourse.system.libraries import version

RESULTS = Path(__file__).parents[1] / "results"
PACKAGES = (
    "numpy",
    "numba",
    "numba-cuda",
    "llvmlite",
    "cuda-bindings",
    "nvidia-cuda-nvrtc",
    "nvidia-nvvm",
)


def machine() -> dict:
    """Return a description of the machine for a figure, without its name or paths."""
    processor = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                processor = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return {
        "processor": processor,
        "cores": os.cpu_count(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "gpu": None,
    }


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Return the versions of the installed packages."""
    return {package: found for package in packages if (found := version(package))}


def write(name: str, results: dict) -> Path:
    """Write ``results/name.json`` with date, machine and versions added to ``results``."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    document = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(),
        "versions": versions(),
        "results": results,
    }
    path.write_text(json.dumps(document, indent=1, sort_keys=False) + "\n")
    return path
