"""The virtual GPU in a process of its own, whose memory this process reaches too.

    python -m virtualgpu.devices.virtual_process {"file": 5, "total_memory": null}

A kernel that takes the process away takes no notebook with it. Requests and answers are those of
:mod:`virtualgpu.devices.remote`, over :mod:`virtualgpu.devices.child`; memory is a file without a
name that both processes map, so that array work is NumPy's in place on either side.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import json
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

from virtualgpu import errors
from virtualgpu.devices.child import Child, ChildEnded, Message, own_streams, receive, send
from virtualgpu.devices.protocol import Triple
from virtualgpu.devices.remote import RemoteDevice, RemoteModule
from virtualgpu.devices.virtual import VirtualDevice
from virtualgpu.errors import Index, Location, MemoryAccessError, VirtualGPUError
from virtualgpu.machine.mapping import Mapping, shared_file
from virtualgpu.machine.schedule import Lockstep
from virtualgpu.observers import instruments

# What finalisers ask for, at any time: nothing comes back, and nothing is lost with the process.
_GIVING_BACK = frozenset({"free", "retire", "unload"})


# -- the process that is asked --------------------------------------------------------------------


def serve(device: VirtualDevice, orders: BinaryIO, answers: BinaryIO) -> None:
    """Do what is asked until the orders end."""
    send(answers, {"name": device.name, "compute_capability": device.compute_capability,
                   "total_memory": device.total_memory})
    modules: list[Any] = []
    while (message := receive(orders)) is not None:
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                told, arrays = _do(device, modules, *message)
        except Exception as error:
            told, arrays = {"device_error": _described(error)}, []
        send(answers, told | {"printed": printed.getvalue()}, arrays)


def _do(device: VirtualDevice, modules: list[Any], request: dict, arrays: list[np.ndarray]
        ) -> Message:
    verb = request.pop("device")
    if verb != "load" and "module" in request:
        number = request["module"]
        request["module"] = modules[number]
    match verb:
        case "allocate":
            return {"address": device.allocate(**request)}, []
        case "write":
            device.write(data=arrays[0], **request)
        case "read":
            return {}, [device.read(**request)]
        case "load":
            modules.append(device.load(**request))
            return {"module": len(modules) - 1}, []
        case "unload":
            modules[number] = None
            device.unload(**request)
        case "symbol":
            address, nbytes = device.symbol(**request)
            return {"address": address, "nbytes": nbytes}, []
        case "launch":
            parameters = [bytes.fromhex(text) for text in request.pop("parameters")]
            device.launch(parameters=parameters, **request)
        case "extent":
            return {"extent": device.extent(**request)}, []
        case "allocated":
            return {"nbytes": device.allocated}, []
        case _:
            getattr(device, verb)(**request)
    return {}, []


def _described(error: Exception) -> dict[str, Any]:
    """An error for JSON: :func:`_rebuilt` makes it again, on the side that knows the sources."""
    told: dict[str, Any] = {"kind": type(error).__name__, "message": str(error)}
    if isinstance(error, VirtualGPUError):
        told["message"] = error.message
        place = error.location
        told["location"] = place and {
            "kernel": place.kernel, "filename": place.filename, "line": place.line,
            "block": place.block and (place.block, place.block.size),
            "thread": place.thread and (place.thread, place.thread.size)}
    if isinstance(error, MemoryAccessError):
        told["more"] = {"address": error.address, "space": error.space}
    return told


# -- the process that asks ------------------------------------------------------------------------


class VirtualProcess(RemoteDevice):
    """A virtual GPU in another process: a :class:`~virtualgpu.devices.protocol.SharedDevice`.

    ``check()``, ``profile()``, ``trace()`` and ``schedule()`` do not reach it: a launch inside
    them is refused. POSIX systems alone have what it needs.

    Parameters
    ----------
    total_memory : int
        Bytes of device memory; as of :class:`~virtualgpu.devices.VirtualDevice` by default.

    Attributes
    ----------
    close : callable
        End the process, and the device's memory with it.

    Raises
    ------
    VirtualGPUError
        Of every method, but of those that give memory back: the process has ended.
    """

    shares_memory = True
    # Nobody watches the launches there, so nobody asks which bytes were written.
    heeds_writes = False

    def __init__(self, total_memory: int | None = None):
        file = shared_file()
        try:
            self._mapping = Mapping(file)
            self._child = Child(
                "virtualgpu.devices.virtual_process",
                json.dumps({"file": file, "total_memory": total_memory}),
                called="the virtual GPU's process", files=[file])
        finally:
            os.close(file)
        self.close = weakref.finalize(self, self._child.close)
        self._lock = threading.RLock()
        self._busy = False
        self._late: deque[dict] = deque()
        try:
            told, _ = self._child.answer()
        except ChildEnded as ended:
            raise VirtualGPUError(str(ended)) from None
        super().__init__(self._exchange, told["name"], tuple(told["compute_capability"]),
                         told["total_memory"])

    def __enter__(self) -> VirtualProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exchange(self, fields: dict, arrays: Sequence[np.ndarray]) -> Message:
        with self._lock:
            if self._busy:  # a finaliser, in the middle of a request: its own comes after that
                self._late.append(fields)
                return {}, []
            self._busy = True
            try:
                told, received = self._asked(fields, arrays)
                while self._late:
                    self._asked(self._late.popleft(), [])
            finally:
                self._busy = False
        if text := told.get("printed"):
            sys.stdout.write(text)
            sys.stdout.flush()
        return told, received

    def _asked(self, fields: dict, arrays: Sequence[np.ndarray]) -> Message:
        try:
            return self._child.ask(fields, arrays)
        except ChildEnded as ended:
            if fields["device"] in _GIVING_BACK:
                return {}, []
            raise VirtualGPUError(str(ended)) from None

    def _error(self, told: dict[str, Any]) -> Exception:
        return _rebuilt(told)

    # -- what a device in this process has more of -------------------------------------------------

    @property
    def allocated(self) -> int:
        return self._request("allocated")[0]["nbytes"]

    def allocate(self, nbytes: int, *, poison: bool = True) -> int:
        return self._request("allocate", nbytes=int(nbytes), poison=poison)[0]["address"]

    def retire(self, address: int) -> None:
        self._request("retire", address=int(address))

    def revive(self, address: int, nbytes: int, *, poison: bool = True) -> None:
        self._request("revive", address=int(address), nbytes=int(nbytes), poison=poison)

    def extent(self, address: int) -> tuple[int, int] | None:
        found = self._request("extent", address=int(address))[0]["extent"]
        return None if found is None else (found[0], found[1])

    def demand(self, address: int, nbytes: int, what: str) -> None:
        self._request("demand", address=int(address), nbytes=int(nbytes), what=what)

    def view(self, address: int, shape: tuple[int, ...], dtype: Any,
             strides: tuple[int, ...] | None = None) -> np.ndarray:
        return self._mapping.view(address, shape, dtype, strides)

    def host_view(self, address: int, nbytes: int) -> np.ndarray:
        self.demand(address, nbytes, "view")
        return self.view(address, (nbytes,), np.uint8)

    def address_of(self, host: int) -> int:
        return self._mapping.address_of(host)

    def wrote(self, address: int, nbytes: int) -> None:
        """Nothing: see ``heeds_writes``."""

    def unload(self, module: RemoteModule) -> None:
        self._request("unload", module=module.number)

    def launch(self, module: RemoteModule, entry: str, grid: Triple, block: Triple,
               parameters: list[bytes], shared_bytes: int = 0, cooperative: bool = False
               ) -> None:
        """Run a kernel to its end. Raises what the device there raises, and VirtualGPUError inside
        ``check()`` and its like."""
        if instruments.watching() or not isinstance(instruments.new_schedule(), Lockstep):
            raise VirtualGPUError(
                "check(), profile(), trace() and schedule() look at launches in their own process, "
                "and this virtual GPU launches in another: use virtualgpu.VirtualDevice() here")
        super().launch(module, entry, grid, block, parameters, shared_bytes, cooperative)


def _rebuilt(told: dict[str, Any]) -> Exception:
    kind = getattr(errors, told["kind"], None)
    if kind is None:
        return getattr(builtins, told["kind"], RuntimeError)(told["message"])
    location = None
    if told["location"] is not None:
        parts: dict[str, Any] = {name: Index(*map(tuple, value)) if isinstance(value, list)
                                 else value for name, value in told["location"].items()}
        location = Location(**parts)
    return kind(told["message"], location, **told.get("more", {}))


if __name__ == "__main__":
    serve(VirtualDevice(**json.loads(sys.argv[1])), *own_streams())
