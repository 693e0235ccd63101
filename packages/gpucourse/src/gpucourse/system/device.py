"""The device in use: this machine's GPU, or the virtual one."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

# The driver's own version. The CUDA API returns only the newest CUDA version that it supports.
_KERNEL_MODULE = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """Device on which kernels run.

    ``memory`` is in bytes. ``driver`` (such as ``570.86.15``) and ``cuda`` (the newest CUDA
    version that the driver supports, such as ``12.8``) are None for the virtual GPU. ``reason`` is
    the reason for using the virtual GPU.
    """

    name: str
    virtual: bool
    compute_capability: tuple[int, int]
    memory: int | None = None
    driver: str | None = None
    cuda: str | None = None
    reason: str | None = None

    def __str__(self) -> str:
        capability = "compute capability {}.{}".format(*self.compute_capability)
        if self.virtual:
            return (
                f"{self.name}, {capability}: {self.reason}; kernels go through the real "
                "compilers and run on the CPU"
            )
        parts = [self.name, capability]
        if self.driver:
            parts.append(f"driver {self.driver}")
        if self.cuda:
            parts.append(f"CUDA {self.cuda}")
        return ", ".join(parts)


class NoGPU(Exception):
    """No GPU can be used; the message gives the reason as part of a sentence."""


def device() -> DeviceInfo:
    """Return the device of this process's kernels: a GPU if there is one, else the virtual GPU."""
    virtualgpu = sys.modules.get("virtualgpu")
    forced = virtualgpu is not None and virtualgpu.answers()
    try:
        gpu = find_gpu()
    except NoGPU as missing:
        return _virtual(str(missing))
    return _virtual(f"asked for in spite of the {gpu.name}") if forced else gpu


def pick(*, gpu: T, virtual: T) -> T:
    """Return one value per device: ``n = pick(gpu=100_000_000, virtual=1_000_000)``."""
    return virtual if device().virtual else gpu


@cache
def find_gpu() -> DeviceInfo:
    """Return the first GPU that CUDA shows to this process; raise :class:`NoGPU`.

    This only queries the driver. It creates no context and so takes no memory. The virtual GPU's
    own driver, which exists after it was activated without a real driver, does not count.
    """
    stand_in = sys.modules.get("virtualgpu.driver.install")
    if stand_in is not None and stand_in.is_loaded():
        raise NoGPU("no NVIDIA driver here")
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise NoGPU("the package cuda-bindings is not installed") from error
    from virtualgpu.api import driver_without_device

    if status := driver_without_device():
        raise NoGPU(_explain(driver.CUresult(status).name))

    def ask(result: tuple):
        status, *values = result
        if status != driver.CUresult.CUDA_SUCCESS:
            raise NoGPU(_explain(status.name))
        return values[0] if values else None

    try:
        ask(driver.cuInit(0))
    except RuntimeError as error:  # cuda.bindings cannot load the driver library
        raise NoGPU("no NVIDIA driver here") from error
    if ask(driver.cuDeviceGetCount()) == 0:
        raise NoGPU(_explain("CUDA_ERROR_NO_DEVICE"))
    handle = ask(driver.cuDeviceGet(0))
    capability = "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY"
    major, minor = (
        ask(
            driver.cuDeviceGetAttribute(
                getattr(driver.CUdevice_attribute, f"{capability}_{part}"), handle
            )
        )
        for part in ("MAJOR", "MINOR")
    )
    version = ask(driver.cuDriverGetVersion())  # 12080 means CUDA 12.8
    return DeviceInfo(
        name=ask(driver.cuDeviceGetName(128, handle)).split(b"\0")[0].decode(),
        virtual=False,
        compute_capability=(major, minor),
        memory=ask(driver.cuDeviceTotalMem(handle)),
        driver=_driver_version(),
        cuda=f"{version // 1000}.{version % 1000 // 10}",
    )


def _virtual(reason: str) -> DeviceInfo:
    from virtualgpu.api import current_device

    machine = current_device()
    return DeviceInfo(machine.name, True, machine.compute_capability, reason=reason)


def _explain(status: str) -> str:
    """Return a CUDA status as part of a sentence that explains why there is no GPU."""
    if status == "CUDA_ERROR_NO_DEVICE":
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        return "no GPU found" if hidden is None else f"CUDA_VISIBLE_DEVICES={hidden!r} hides it"
    return f"the NVIDIA driver answers {status}"


def _driver_version() -> str | None:
    """Return a version such as ``570.86.15`` from the kernel module, or None (WSL, Windows)."""
    try:
        banner = _KERNEL_MODULE.read_text()
    except OSError:
        return None
    found = re.search(r"\s(\d{3,}\.\d+(?:\.\d+)?)\s", banner)
    return found.group(1) if found else None
