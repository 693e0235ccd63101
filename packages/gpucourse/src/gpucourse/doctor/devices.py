"""Doctor's checks of the device, its compilers and the libraries that use it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from gpucourse.doctor.finding import FAIL, OK, WARN, Finding, install, reinstall, uninstall
from gpucourse.system import libraries
from gpucourse.system.libraries import version
from gpucourse.system.resources import gigabytes
from virtualgpu import api

_GROUP = "device"
#: Oldest driver branch that supports CUDA 13 (CUDA 13 release notes, table of drivers).
DRIVER_OF_CUDA_13 = 580

_TOOLKIT = "cuda-toolkit[cccl,cudart,nvcc,nvjitlink,nvrtc,nvvm]>=12.8,<14"
_FOR_GPU_ONLY = (
    "cupy-cuda13x",
    "cupy-cuda12x",
    "jax-cuda13-plugin",
    "jax-cuda12-plugin",
    "cudf-cu13",
    "cudf-cu12",
)

_DEVICE_FILES = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
_PCI = Path("/sys/bus/pci/devices")
_NVIDIA, _DISPLAY = "0x10de", "0x03"


def device_and_compilers() -> Iterator[Finding]:
    """Check the device and each compiler, and run a kernel."""
    from gpucourse.doctor.probes import run_kernel
    from gpucourse.system.device import device

    found = device()
    yield Finding(_GROUP, "device", OK, str(found))
    if found.memory:
        yield Finding(_GROUP, "GPU memory", OK, gigabytes(found.memory))
    try:
        yield Finding(_GROUP, "numba.cuda", OK, api.numba_package())
    except ValueError as error:
        yield Finding(
            _GROUP,
            "numba.cuda",
            FAIL,
            str(error),
            f"unset {api.NUMBA_VARIABLE}, and start Jupyter again",
        )
    toolkit = install("--upgrade", _TOOLKIT)
    places: dict[str, Path] = {}
    for name, task in (
        ("nvvm", "compiles Numba's kernels"),
        ("nvrtc", "compiles CUDA C++"),
        ("cudart", "is needed to import numba.cuda"),
    ):
        where = libraries.find_compiler(name)
        if where is None:
            yield Finding(_GROUP, name, FAIL, f"not found, although it {task}", toolkit)
        else:
            places[name] = Path(where)
            yield Finding(_GROUP, name, OK, where)
    yield from _disagreeing(places)
    if len(places) < 3:
        yield Finding(
            _GROUP,
            "a kernel",
            FAIL,
            "not tried, because a compiler is missing",
            "fix the compilers first",
        )
        return
    problem = run_kernel()
    if problem is None:
        yield Finding(_GROUP, "a kernel", OK, "compiled and launched, with the right result")
    else:
        mend = f"{reinstall()}. If the error remains, open an issue with this table"
        yield Finding(_GROUP, "a kernel", FAIL, problem, mend)


def _disagreeing(places: dict[str, Path]) -> Iterator[Finding]:
    """Report compilers from different toolkits, and variables that point to another toolkit."""
    from gpucourse.doctor.probes import toolkit_version

    majors = {name: _cuda_of(place) for name, place in places.items()}
    known = {major for major in majors.values() if major is not None}
    here = {
        name
        for name, place in places.items()
        if place.resolve().is_relative_to(Path(sys.prefix).resolve())
    }
    away = sorted(places.keys() - here) if here else []
    if len(known) > 1:
        found = ", ".join(f"{name} of CUDA {major or '?'}" for name, major in majors.items())
        yield Finding(
            _GROUP,
            "toolkit",
            FAIL,
            f"{found}. One of them may reject what another has compiled",
            install("--upgrade", _TOOLKIT),
        )
    elif away:
        found = ", ".join(f"{name} is from {places[name].parent}" for name in away)
        yield Finding(
            _GROUP,
            "toolkit",
            WARN,
            f"{found}, {' and '.join(sorted(here))} from this environment. Their versions may "
            "not fit together",
            install("--upgrade", _TOOLKIT),
        )
    for variable in ("CUDA_PATH", "CUDA_HOME"):
        folder = os.environ.get(variable)
        if not folder:
            continue
        if not Path(folder).is_dir():
            found = f"{variable}={folder} is not a folder"
        elif known and (other := toolkit_version(Path(folder))) and other[0] not in known:
            found = (
                f"{variable}={folder} is CUDA {other[0]}.{other[1]}, but the compilers are CUDA "
                f"{max(known)}. CuPy and Numba look there for headers and libraries"
            )
        else:
            continue
        yield Finding(_GROUP, variable, WARN, found, f"unset {variable}, and start Jupyter again")


def _cuda_of(place: Path) -> int | None:
    """Return the CUDA version of a library, such as 13, or None if it is unknown.

    Wheels of CUDA 13 install into nvidia/cu13. Each wheel of CUDA 12 has its own folder.
    """
    from gpucourse.doctor.probes import toolkit_version

    if found := re.search(r"nvidia/cu(\d+)/", place.as_posix()):
        return int(found[1])
    if re.search(r"nvidia/cuda_\w+/", place.as_posix()):
        return 12
    versions = filter(None, map(toolkit_version, place.parents))
    return next((major for major, _ in versions), None)


def driver() -> Iterator[Finding]:
    """Check that the compilers here can compile for a GPU of this machine."""
    from gpucourse.doctor.probes import compiler_version
    from gpucourse.system.device import device

    found = device()
    if found.virtual:
        if (trace := _trace_of_a_gpu()) and "hides it" not in (found.reason or ""):
            said = f"{trace}, but no kernel can run on it: {found.reason}"
            yield Finding(
                _GROUP,
                "driver",
                WARN,
                said,
                "run `nvidia-smi` for details. After an update of the driver, restart the "
                "machine. Start a container with --gpus all (NVIDIA Container "
                "Toolkit). Until then the course runs on the virtual GPU",
            )
        elif not trace and (
            wheels := [f"{name} {version(name)}" for name in _FOR_GPU_ONLY if version(name)]
        ):
            yield Finding(
                _GROUP,
                "driver",
                WARN,
                f"{', '.join(wheels)} needs a GPU, and none was found: {found.reason}",
                "if this machine has no GPU, do nothing, because the course runs on the "
                f"virtual GPU. Otherwise install NVIDIA's driver, {DRIVER_OF_CUDA_13} or "
                "newer for CUDA 13, and restart the machine",
            )
        return
    compilers = compiler_version()
    if compilers is None or found.cuda is None:
        return
    if compilers[0] > int(found.cuda.split(".")[0]):
        said = (
            f"{found.driver or 'the driver'} supports CUDA up to {found.cuda} and rejects kernels "
            "from the installed compilers, which are CUDA {}.{}".format(*compilers)
        )
        yield Finding(
            _GROUP,
            "driver",
            FAIL,
            said,
            f"update the driver to {DRIVER_OF_CUDA_13} or newer, or install compilers "
            f"that fit it: {_for_gpu('gpu12')}",
        )
    else:
        yield Finding(
            _GROUP,
            "driver",
            OK,
            f"{found.driver or ''} supports CUDA {found.cuda}, and the "
            "compilers are CUDA {}.{}".format(*compilers),
        )


def gpu_libraries() -> Iterator[Finding]:
    """Check JAX, CuPy and cuDF, each of which needs its own package to use a GPU."""
    from gpucourse.system.device import device

    found = device()
    if found.virtual:
        return
    yield _jax()
    yield _cupy(found.cuda)
    if not (version("cudf-cu13") or version("cudf-cu12") or version("cudf")):
        yield Finding(
            _GROUP,
            "cuDF",
            WARN,
            "not installed. On a machine with a GPU its lecture needs it, because no "
            "stand-in replaces it there",
            _for_gpu(),
        )


def _jax() -> Finding:
    name = "JAX"
    platforms = os.environ.get("JAX_PLATFORMS", "")
    if platforms and not {"cuda", "gpu"} & set(platforms.split(",")):
        found = f"JAX_PLATFORMS={platforms} stops JAX from using the GPU"
        return Finding(_GROUP, name, WARN, found, "unset JAX_PLATFORMS, and start Jupyter again")
    plugins = ("jax-cuda13-plugin", "jax-cuda12-plugin")
    installed = {plugin: here for plugin in plugins if (here := version(plugin))}
    if not installed:
        found = "installed without CUDA, so it computes on the CPU although there is a GPU"
        return Finding(_GROUP, name, WARN, found, _for_gpu())
    jaxlib = version("jaxlib")
    for plugin, its_own in installed.items():
        if its_own != jaxlib:
            found = f"{plugin} {its_own} does not fit jaxlib {jaxlib}, so JAX computes on the CPU"
            return Finding(_GROUP, name, WARN, found, install(f"{plugin}=={jaxlib}"))
    return Finding(_GROUP, name, OK, ", ".join(f"{p} {v}" for p, v in installed.items()))


def _cupy(cuda: str | None) -> Finding:
    names = [name for name in ("cupy-cuda13x", "cupy-cuda12x", "cupy") if version(name)]
    if not names:
        found = (
            "not installed. On a machine with a GPU its lectures need it, because no stand-in "
            "replaces it there"
        )
        return Finding(_GROUP, "CuPy", WARN, found, _for_gpu())
    if len(names) > 1:
        found = f"{' and '.join(names)} overwrite each other's files"
        mend = f"{uninstall(*names)} && {install(names[0])}"
        return Finding(_GROUP, "CuPy", FAIL, found, mend)
    if names[0] == "cupy-cuda13x" and cuda is not None and int(cuda.split(".")[0]) < 13:
        found = f"cupy-cuda13x, but the driver supports only CUDA {cuda}"
        mend = f"{uninstall('cupy-cuda13x')} && {install('cupy-cuda12x')}"
        return Finding(_GROUP, "CuPy", FAIL, found, mend)
    return Finding(_GROUP, "CuPy", OK, f"{names[0]} {version(names[0])}")


def _for_gpu(lock: str = "gpu") -> str:
    more = "   (CUDA 12 driver: gpu12.txt)" if lock == "gpu" else ""
    return install("--require-hashes", "-r", f"requirements/{lock}.txt") + more


def _trace_of_a_gpu() -> str | None:
    """Return the evidence that this machine has an NVIDIA GPU, or None."""
    for path in _DEVICE_FILES:
        if path.exists():
            return f"there is {path}"
    for card in _PCI.glob("*"):
        try:
            if (card / "vendor").read_text().strip() == _NVIDIA and (
                card / "class"
            ).read_text().startswith(_DISPLAY):
                return "there is an NVIDIA card in this machine"
        except OSError:
            continue
    return None
