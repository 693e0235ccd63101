"""A virtual GPU in a process of its own, asked as a grader's worker asks the oracle's."""

from __future__ import annotations

import multiprocessing

from virtualgpu import devices
from virtualgpu.errors import VirtualGPUError


class DeviceElsewhere:
    """What a mirrored device asks, and what it was asked for. `close` ends the process."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        self.asked: list[str] = []

    def begin(self) -> None:
        """A new device, in the same process."""
        self._send({"device": "begin"}, [])
        self.asked.clear()

    def ask(self, fields, arrays):
        self.asked.append(fields["device"])
        return self._send(dict(fields), list(arrays))

    def read(self, address, nbytes):
        """What stands there, whatever the copy here says."""
        return self._send({"device": "read", "address": address, "nbytes": nbytes}, [])[1][0]

    @property
    def allocated(self) -> int:
        """Bytes that the device there has given out."""
        return self._send({"device": "allocated"}, [])[0]["bytes"]

    def close(self) -> None:
        self._pipe.close()
        self._process.join(10)

    def _send(self, fields, arrays):
        self._pipe.send((fields, arrays))
        return self._pipe.recv()


def _serve(pipe) -> None:
    there = _Server()
    while True:
        try:
            request, arrays = pipe.recv()
        except EOFError:
            return
        if request["device"] == "begin":
            there = _Server()
            pipe.send(({}, []))
            continue
        try:
            pipe.send(there.answer(request, arrays))
        except VirtualGPUError as error:
            pipe.send(({"device_error": str(error)}, []))


class _Server:
    def __init__(self) -> None:
        self.device, self.modules = devices.VirtualDevice(64 << 20), []

    def answer(self, request, arrays):
        verb = request.pop("device")
        if verb != "load" and "module" in request:
            request["module"] = self.modules[request["module"]]
        match verb:
            case "allocated":
                return {"bytes": self.device.allocated}, []
            case "allocate":
                return {"address": self.device.allocate(**request)}, []
            case "write":
                self.device.write(data=arrays[0], **request)
            case "read":
                return {}, [self.device.read(**request)]
            case "load":
                self.modules.append(self.device.load(**request))
                return {"module": len(self.modules) - 1}, []
            case "symbol":
                address, nbytes = self.device.symbol(**request)
                return {"address": address, "nbytes": nbytes}, []
            case "launch":
                parameters = [bytes.fromhex(text) for text in request.pop("parameters")]
                self.device.launch(parameters=parameters, **request)
            case _:
                getattr(self.device, verb)(**request)
        return {}, []
