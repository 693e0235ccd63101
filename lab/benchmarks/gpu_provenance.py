"""Provenance of figures: the GPU, its driver and the versions of the software."""

from __future__ import annotations

import contextlib
import subprocess

PACKAGES = (
    "numpy",
    "numba",
    "numba-cuda",
    "llvmlite",
    "cupy-cuda13x",
    "cupy-cuda12x",
    "cupy",
    "jax",
    "jaxlib",
    "jax-cuda13-plugin",
    "jax-cuda12-plugin",
    "awkward",
    "vector",
    "cuda-bindings",
    "nvidia-cuda-nvrtc",
    "nvidia-nvvm",
)
#: The fields of the card that nvidia-smi reports; they are only read, never set.
STATE = (
    "driver_version",
    "clocks.sm",
    "clocks.mem",
    "clocks.max.sm",
    "clocks.max.mem",
    "temperature.gpu",
    "power.limit",
    "persistence_mode",
    "ecc.mode.current",
)


def state() -> dict[str, str]:
    """Return the first GPU's clocks, temperature and other state; empty without nvidia-smi."""
    command = ["nvidia-smi", f"--query-gpu={','.join(STATE)}", "--format=csv,noheader", "--id=0"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [value.strip() for value in said.stdout.strip().splitlines()[0].split(",")]
    return dict(zip(STATE, values, strict=False))


def gpu() -> dict:
    """Return the GPU that CuPy uses in this process; ``driver`` comes from nvidia-smi."""
    import cupy as cp

    properties = cp.cuda.runtime.getDeviceProperties(0)
    now = state()
    details = {
        "name": properties["name"].decode(),
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "driver": now.get("driver_version"),
        "cuda_of_driver": cp.cuda.runtime.driverGetVersion(),
        "cuda_runtime_of_cupy": cp.cuda.runtime.runtimeGetVersion(),
        "memory_bytes": int(properties["totalGlobalMem"]),
        "l2_bytes": int(properties["l2CacheSize"]),
        "multiprocessors": int(properties["multiProcessorCount"]),
        "state_before": now,
    }
    with contextlib.suppress(ImportError, AttributeError):  # a private module, in which 1 means CUB
        from cupy._core import _accelerator

        details["cupy_accelerators"] = [str(one) for one in _accelerator.get_routine_accelerators()]
    return details
