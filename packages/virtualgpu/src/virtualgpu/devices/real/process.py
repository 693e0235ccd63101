"""GPU in a separate process, so that a bad kernel breaks or stops only that process.

    python -m virtualgpu.devices.real.process gpu

The process reads launches from standard input, as ``.npz`` files, and writes the resulting pieces
of memory to standard output (:mod:`virtualgpu.devices.child`). With ``virtual`` instead of
``gpu``, a virtual GPU takes the place of the real one, for tests without a GPU.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import BinaryIO

import numpy as np

from virtualgpu.devices.child import (
    Child,
    ChildEnded,
    ChildLate,
    Message,
    own_streams,
    receive,
    send,
)
from virtualgpu.devices.recorded import RecordedLaunch, play
from virtualgpu.errors import VirtualGPUError

GPU, VIRTUAL = "gpu", "virtual"
START_SECONDS = 90.0  # a context on a busy machine; usually one second
MODULES = 64  # loaded at a time


class GPUFault(Exception):
    """Failed launch on a GPU; ``spoiled`` is true if its process had to end."""

    def __init__(self, message: str, *, spoiled: bool = False):
        self.spoiled = spoiled
        super().__init__(message)


# -- the process that holds the GPU -------------------------------------------------------------


def serve(kind: str, orders: BinaryIO, answers: BinaryIO) -> None:
    """Run launches until there are no more requests or the GPU is unusable."""
    try:
        device = open_device(kind)
    except (RuntimeError, VirtualGPUError, ImportError) as error:
        send(answers, {"error": f"{type(error).__name__}: {error}"})
        return
    send(answers, {"name": device.name, "architecture": list(device.compute_capability)})
    modules: dict[tuple[str, ...], object] = {}
    while (message := receive(orders)) is not None:
        launch = RecordedLaunch.from_bytes(message[1][0].tobytes())
        began = time.monotonic()
        try:
            if launch.texts not in modules:
                if len(modules) >= MODULES:
                    modules.pop(next(iter(modules)))
                modules[launch.texts] = device.load(list(launch.texts))
            after = play(launch, device, module=modules[launch.texts])
        except Exception as error:
            spoiled = getattr(error, "name", "") in _fatal()
            send(answers, {"error": f"{type(error).__name__}: {error}", "spoiled": spoiled})
            if spoiled:
                return
            continue
        send(answers, {"seconds": time.monotonic() - began}, after)


def open_device(kind: str):
    """Open the device that ``gpu`` or ``virtual`` names.

    Raises RuntimeError or VirtualGPUError.
    """
    if kind == VIRTUAL:
        from virtualgpu.devices.virtual import VirtualDevice

        return VirtualDevice()
    from virtualgpu.devices.real.gpu import GPUDevice

    return GPUDevice()


def _fatal() -> frozenset[str]:
    from virtualgpu.devices.real.gpu import FATAL

    return FATAL


# -- the process that asks ----------------------------------------------------------------------


class GPUProcess:
    """Runner of recorded launches on a device in another process, started at first use.

    Attributes
    ----------
    name : str
        Name of the device; empty until the process has been started.
    """

    def __init__(self, kind: str = GPU):
        self.kind = kind
        self.name = ""
        self.child: Child | None = None

    def __enter__(self) -> GPUProcess:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    @property
    def descriptors(self) -> frozenset[int]:
        """File descriptors through which this process talks to the other."""
        return frozenset() if self.child is None else self.child.descriptors

    def start(self) -> None:
        """Start the process and its device. Raises GPUFault if there is none."""
        if self.child is not None and self.child.runs:
            return
        self.close()
        self.child = child = Child(
            "virtualgpu.devices.real.process", self.kind, called="the GPU's process"
        )
        told, _ = _in_time(lambda: child.answer(START_SECONDS))
        if "error" in told:
            self.close()
            raise GPUFault(f"no GPU: {told['error']}", spoiled=True)
        self.name = told["name"]

    def play(self, launch: RecordedLaunch, seconds: float = 30.0) -> list[np.ndarray]:
        """Run a recorded launch and return each piece of memory afterwards.

        See :func:`virtualgpu.devices.recorded.play`.

        Raises GPUFault for an error of the GPU, or if there is no answer within ``seconds``.
        """
        self.start()
        raw = np.frombuffer(launch.to_bytes(), np.uint8)
        child = self.child
        assert child is not None  # started
        told, after = _in_time(lambda: child.ask({}, [raw], seconds))
        if "error" in told:
            if told.get("spoiled"):
                self.close()
            raise GPUFault(told["error"], spoiled=bool(told.get("spoiled")))
        return after

    def close(self) -> None:
        """End the process, whatever it is doing."""
        if self.child is not None:
            self.child.close()
            self.child = None


def _in_time(talk: Callable[[], Message]) -> Message:
    try:
        return talk()
    except ChildEnded as ended:
        raise GPUFault(str(ended), spoiled=True) from None
    except ChildLate:
        raise GPUFault(
            "the GPU did not finish in time and its process was ended", spoiled=True
        ) from None


if __name__ == "__main__":
    serve(sys.argv[1], *own_streams())
