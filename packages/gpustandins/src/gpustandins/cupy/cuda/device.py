"""Devices: one virtual GPU, or as many as ``VIRTUALGPU_DEVICES`` gives."""

from __future__ import annotations

import importlib

from virtualgpu.standins.interface import devices

from . import runtime

_cublas_handles: dict[int, int] = {}  # device → handle


class Device:
    """CUDA device.

    Parameters
    ----------
    device : int, optional
        Its number; by default that of the current device. The first use of a number without a
        device raises CUDARuntimeError.
    """

    def __init__(self, device: int | None = None):
        self.id = runtime.getDevice() if device is None else int(device)
        self._before: list[int] = []

    def __int__(self) -> int:
        return self.id

    def __enter__(self) -> Device:
        before = runtime.getDevice()
        self.use()
        self._before.append(before)
        return self

    def __exit__(self, *failure) -> None:
        runtime.setDevice(self._before.pop())

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    def __eq__(self, other) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __lt__(self, other) -> bool:
        return self.id < other.id

    def __hash__(self) -> int:
        return hash(("cupy device", self.id))

    def use(self) -> None:
        """Make this the current device."""
        runtime.setDevice(self.id)

    def synchronize(self) -> None:
        """Wait for this device's work. Only a GPU used for comparison has work in flight."""
        runtime.deviceSynchronize()

    @property
    def compute_capability(self) -> str:
        """The compute capability as digits without a point, such as '90'."""
        return "".join(map(str, devices.every()[self.id].compute_capability))

    @property
    def mem_info(self) -> tuple[int, int]:
        """Free and total bytes; memory held by pools is not free."""
        with self:
            return runtime.memGetInfo()

    @property
    def attributes(self) -> dict[str, int]:
        """Attributes by their names without ``cudaDevAttr``; 0 if a feature does not exist."""
        return dict(runtime.attributes())

    @property
    def uuid(self) -> str:
        """Identifier of the device, the same as in ``numba.cuda``."""
        return f"GPU-00000000-0000-0000-0000-{self.id:012}"

    @property
    def cublas_handle(self) -> int:
        """The device's cuBLAS handle, for :mod:`cupy.cuda.cublas`; created on first use."""
        if self.id not in _cublas_handles:
            _cublas_handles[self.id] = importlib.import_module("cupy.cuda.cublas").create()
        return _cublas_handles[self.id]

    @property
    def pci_bus_id(self) -> str:
        return runtime.deviceGetPCIBusId(self.id)

    @classmethod
    def from_pci_bus_id(cls, pci_bus_id: str) -> Device:
        return cls(runtime.deviceGetByPCIBusId(pci_bus_id))


def get_device_id() -> int:
    """Return the current device's number."""
    return runtime.getDevice()


def get_cublas_handle() -> int:
    """Return :attr:`Device.cublas_handle` of the current device."""
    return Device().cublas_handle


def get_compute_capability() -> str:
    return Device().compute_capability
