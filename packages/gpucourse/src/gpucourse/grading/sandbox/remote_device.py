"""The device as the student's process sees it: every verb is a request to the oracle.

It has the interface of :class:`virtualgpu.devices.Device`, so the frontends cannot tell the
difference. Nothing is computed or decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from virtualgpu.errors import VirtualGPUError


@dataclass(frozen=True)
class RemoteModule:
    """A module that the oracle has loaded; `number` is its handle there."""

    number: int


class RemoteDevice:
    """The oracle's device, over `ask(fields, arrays) -> (reply, arrays)`."""

    def __init__(self, ask: Callable[..., tuple[dict, list[np.ndarray]]], name: str,
                 compute_capability: tuple[int, int], total_memory: int) -> None:
        self._ask = ask
        self.name = name
        self.compute_capability = compute_capability
        self.total_memory = total_memory

    def _request(self, verb: str, arrays: Sequence[np.ndarray] = (),
                 **fields: object) -> tuple[dict, list[np.ndarray]]:
        reply, received = self._ask({"device": verb, **fields}, arrays)
        if "device_error" in reply:
            raise VirtualGPUError(reply["device_error"])
        return reply, received

    def allocate(self, nbytes: int) -> int:
        address: int = self._request("allocate", nbytes=int(nbytes))[0]["address"]
        return address

    def free(self, address: int) -> None:
        self._request("free", address=int(address))

    def write(self, address: int, data: np.ndarray) -> None:
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        self._request("write", [raw], address=int(address))

    def read(self, address: int, nbytes: int) -> np.ndarray:
        received = self._request("read", address=int(address), nbytes=int(nbytes))[1]
        return received[0].copy()

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        self._request("fill", address=int(address), byte=int(byte), nbytes=int(nbytes))

    def copy(self, target: int, origin: int, nbytes: int) -> None:
        self._request("copy", target=int(target), origin=int(origin), nbytes=int(nbytes))

    def load(self, ptx: str | list[str], names: dict[str, str] | None = None) -> RemoteModule:
        texts = [ptx] if isinstance(ptx, str) else list(ptx)
        return RemoteModule(self._request("load", ptx=texts, names=names or {})[0]["module"])

    def symbol(self, module: RemoteModule, name: str) -> tuple[int, int]:
        reply = self._request("symbol", module=module.number, name=name)[0]
        return reply["address"], reply["nbytes"]

    def launch(self, module: RemoteModule, entry: str, grid: Sequence[int], block: Sequence[int],
               parameters: Sequence[bytes], shared_bytes: int = 0,
               cooperative: bool = False) -> None:
        self._request(
            "launch",
            module=module.number,
            entry=entry,
            grid=[int(length) for length in grid],
            block=[int(length) for length in block],
            parameters=[bytes(parameter).hex() for parameter in parameters],
            shared_bytes=int(shared_bytes),
            cooperative=bool(cooperative),
        )

    def synchronize(self) -> None:
        self._request("synchronize")
