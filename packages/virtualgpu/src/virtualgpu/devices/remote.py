"""Device in another process: every method is a request to that process.

It has the methods of :class:`virtualgpu.devices.Device`, so frontends cannot tell the difference.
Nothing is computed or decided here. A student's process in the grader uses it to reach the oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from virtualgpu.devices.protocol import Triple
from virtualgpu.errors import VirtualGPUError
from virtualgpu.memory.plain_dtypes import demand_plain

#: Function that sends a request, ``{"device": verb, ...}`` with arrays, and returns the reply: JSON
#: values and arrays. A reply may be ``{"device_error": ...}``.
Ask = Callable[[dict, Sequence[np.ndarray]], tuple[dict, list[np.ndarray]]]


@dataclass(frozen=True)
class RemoteModule:
    """Module that is loaded in the other process; `number` is its handle."""

    number: int


class RemoteDevice:
    """Device that answers through `ask`.

    Parameters
    ----------
    ask : callable
        See :data:`Ask`.
    name, compute_capability, total_memory
        See :class:`~virtualgpu.devices.protocol.Device`.
    """

    shares_memory = False

    def __init__(
        self, ask: Ask, name: str, compute_capability: tuple[int, int], total_memory: int
    ) -> None:
        self._ask = ask
        self.name = name
        self.compute_capability = compute_capability
        self.total_memory = total_memory

    def _request(
        self, verb: str, arrays: Sequence[np.ndarray] = (), **fields: Any
    ) -> tuple[dict, list[np.ndarray]]:
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
        demand_plain(data.dtype)
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

    def unload(self, module: RemoteModule) -> None:
        """Do nothing: a module's variables live as long as the other process's device."""

    def symbol(self, module: RemoteModule, name: str) -> tuple[int, int]:
        reply = self._request("symbol", module=module.number, name=name)[0]
        return reply["address"], reply["nbytes"]

    def launch(
        self,
        module: RemoteModule,
        entry: str,
        grid: Triple,
        block: Triple,
        parameters: list[bytes],
        shared_bytes: int = 0,
        cooperative: bool = False,
        cluster: Triple | None = None,
    ) -> None:
        self._request(
            "launch",
            module=module.number,
            entry=entry,
            grid=[int(length) for length in grid],
            block=[int(length) for length in block],
            parameters=[bytes(parameter).hex() for parameter in parameters],
            shared_bytes=int(shared_bytes),
            cooperative=bool(cooperative),
            cluster=None if cluster is None else [int(length) for length in cluster],
        )

    def synchronize(self) -> None:
        self._request("synchronize")
