"""The device that answers, its compilers, and the libraries that should use it."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Iterator
from pathlib import Path

from gpucourse.doctor.finding import FAIL, OK, WARN, Finding
from gpucourse.resources import gigabytes

_GROUP = "device"
_FOR_GPU = "pip install --require-hashes -r requirements/gpu.txt   (CUDA 12 driver: gpu12.txt)"
#: CUDA 13 wants a driver of this branch or a later one (CUDA 13 release notes, table of drivers).
DRIVER_OF_CUDA_13 = 580

_DEVICE_FILES = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
_PCI = Path("/sys/bus/pci/devices")
_NVIDIA, _DISPLAY = "0x10de", "0x03"


def device_and_compilers() -> Iterator[Finding]:
    """Which device answers, whether each compiler is found, and whether a kernel really runs."""
    from gpucourse.device import device
    from gpucourse.probe import find_compiler, run_kernel

    found = device()
    yield Finding(_GROUP, "device", OK, str(found))
    if found.memory:
        yield Finding(_GROUP, "GPU memory", OK, gigabytes(found.memory))
    toolkit = 'pip install "cuda-toolkit[cudart,nvcc,nvrtc,nvvm]>=12.8,<14"'
    broken = False
    for name, task in (
        ("nvvm", "compiles Numba's kernels"),
        ("nvrtc", "compiles CUDA C++"),
        ("cudart", "numba.cuda does not import without it"),
    ):
        where = find_compiler(name)
        broken = broken or where is None
        if where is None:
            yield Finding(_GROUP, name, FAIL, f"not found: it {task}", toolkit)
        else:
            yield Finding(_GROUP, name, OK, where)
    if broken:
        found = "not tried: a compiler is missing"
        yield Finding(_GROUP, "a kernel", FAIL, found, "mend the compilers first")
        return
    problem = run_kernel()
    if problem is None:
        yield Finding(_GROUP, "a kernel", OK, "compiled, launched, right answer")
    else:
        mend = "make setup; if it stays, open an issue with this table"
        yield Finding(_GROUP, "a kernel", FAIL, problem, mend)


def driver() -> Iterator[Finding]:
    """Whether a GPU that is here can be used, and by these compilers."""
    from gpucourse.device import device
    from gpucourse.probe import compiler_version

    found = device()
    if found.virtual:
        if (trace := _trace_of_a_gpu()) and "hides it" not in (found.reason or ""):
            said = f"{trace}, but no kernel can run on it: {found.reason}"
            yield Finding(_GROUP, "driver", WARN, said,
                          "`nvidia-smi` says more. After an update of the driver: restart the "
                          "machine. In a container: start it with --gpus all (NVIDIA Container "
                          "Toolkit). The course runs on the virtual GPU meanwhile")
        return
    compilers = compiler_version()
    if compilers is None or found.cuda is None:
        return
    if compilers[0] > int(found.cuda.split(".")[0]):
        said = (f"{found.driver or 'the driver'} knows CUDA up to {found.cuda}; the compilers here "
                "are of CUDA {}.{}, whose kernels it refuses".format(*compilers))
        yield Finding(_GROUP, "driver", FAIL, said,
                      f"update the driver to {DRIVER_OF_CUDA_13} or newer; or compile for what it "
                      "knows: pip install --require-hashes -r requirements/gpu12.txt")
    else:
        yield Finding(_GROUP, "driver", OK, f"{found.driver or ''} knows CUDA {found.cuda}; the "
                      "compilers are of CUDA {}.{}".format(*compilers))


def gpu_libraries() -> Iterator[Finding]:
    """JAX, CuPy and cuDF beside a GPU: each wants a package of its own for it."""
    from gpucourse.device import device

    found = device()
    if found.virtual:
        return
    yield _jax()
    yield _cupy(found.cuda)
    if not (_version("cudf-cu13") or _version("cudf-cu12") or _version("cudf")):
        yield Finding(_GROUP, "cuDF", WARN, "not installed: its lecture has no stand-in where "
                      "there is a GPU", _FOR_GPU)


def _jax() -> Finding:
    name = "JAX"
    platforms = os.environ.get("JAX_PLATFORMS", "")
    if platforms and not {"cuda", "gpu"} & set(platforms.split(",")):
        found = f"JAX_PLATFORMS={platforms} keeps it from the GPU"
        return Finding(_GROUP, name, WARN, found, "unset JAX_PLATFORMS, and start Jupyter again")
    plugins = {f"jax-cuda{major}-plugin": _version(f"jax-cuda{major}-plugin") for major in (13, 12)}
    installed = {plugin: version for plugin, version in plugins.items() if version}
    if not installed:
        found = "installed without CUDA: it computes on the CPU, beside a GPU"
        return Finding(_GROUP, name, WARN, found, _FOR_GPU)
    jaxlib = _version("jaxlib")
    for plugin, version in installed.items():
        if version != jaxlib:
            found = f"{plugin} {version} does not fit jaxlib {jaxlib}: JAX stays on the CPU"
            return Finding(_GROUP, name, WARN, found, f"pip install {plugin}=={jaxlib}")
    return Finding(_GROUP, name, OK, ", ".join(f"{p} {v}" for p, v in installed.items()))


def _cupy(cuda: str | None) -> Finding:
    names = [name for name in ("cupy-cuda13x", "cupy-cuda12x", "cupy") if _version(name)]
    if not names:
        found = "not installed: its lectures have no stand-in where there is a GPU"
        return Finding(_GROUP, "CuPy", WARN, found, _FOR_GPU)
    if len(names) > 1:
        found = f"{' and '.join(names)} overwrite each other's files"
        mend = f"pip uninstall {' '.join(names)}, then: pip install {names[0]}"
        return Finding(_GROUP, "CuPy", FAIL, found, mend)
    if names[0] == "cupy-cuda13x" and cuda is not None and int(cuda.split(".")[0]) < 13:
        found = f"cupy-cuda13x, and the driver knows CUDA {cuda}"
        mend = "pip uninstall cupy-cuda13x, then: pip install cupy-cuda12x"
        return Finding(_GROUP, "CuPy", FAIL, found, mend)
    return Finding(_GROUP, "CuPy", OK, f"{names[0]} {_version(names[0])}")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _trace_of_a_gpu() -> str | None:
    """What shows that this machine has an NVIDIA GPU, or None."""
    for path in _DEVICE_FILES:
        if path.exists():
            return f"there is {path}"
    for card in _PCI.glob("*"):
        try:
            if ((card / "vendor").read_text().strip() == _NVIDIA
                    and (card / "class").read_text().startswith(_DISPLAY)):
                return "there is an NVIDIA card in this machine"
        except OSError:
            continue
    return None
