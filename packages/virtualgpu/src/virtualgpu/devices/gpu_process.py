"""A GPU in a process of its own: a kernel that spoils it, or never ends, costs that process alone.

    python -m virtualgpu.devices.gpu_process gpu

Standard input brings launches and standard output takes results: each 8 bytes of length and an
``.npz`` file. In place of ``gpu`` stands ``virtual`` where this is rehearsed without one.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import BinaryIO

import numpy as np

from virtualgpu.devices.recorded import RecordedLaunch, play
from virtualgpu.errors import VirtualGPUError

GPU, VIRTUAL = "gpu", "virtual"
START_SECONDS = 90.0  # a context on a busy machine; usually one second
MODULES = 64  # loaded at a time
_LENGTH = 8


class GPUFault(Exception):
    """The GPU did not do a launch; ``spoiled`` says that its process had to end."""

    def __init__(self, message: str, *, spoiled: bool = False):
        self.spoiled = spoiled
        super().__init__(message)


# -- the process that holds the GPU -------------------------------------------------------------


def serve(kind: str, orders: BinaryIO, answers: BinaryIO) -> None:
    """Play launches until the orders end or the GPU is spoiled."""
    try:
        device = open_device(kind)
    except (RuntimeError, VirtualGPUError, ImportError) as error:
        _send(answers, {"error": f"{type(error).__name__}: {error}"}, [])
        return
    _send(answers, {"name": device.name, "architecture": list(device.compute_capability)}, [])
    modules: dict[tuple[str, ...], object] = {}
    while (raw := _receive(orders)) is not None:
        launch = RecordedLaunch.from_bytes(raw)
        began = time.monotonic()
        try:
            if launch.texts not in modules:
                if len(modules) >= MODULES:
                    modules.pop(next(iter(modules)))
                modules[launch.texts] = device.load(list(launch.texts))
            after = play(launch, device, module=modules[launch.texts])
        except Exception as error:
            spoiled = getattr(error, "name", "") in _fatal()
            _send(answers, {"error": f"{type(error).__name__}: {error}", "spoiled": spoiled}, [])
            if spoiled:
                return
            continue
        _send(answers, {"seconds": time.monotonic() - began}, after)


def open_device(kind: str):
    """The device that ``gpu`` or ``virtual`` names. Raises RuntimeError or VirtualGPUError."""
    if kind == VIRTUAL:
        from virtualgpu.devices.virtual import VirtualDevice

        return VirtualDevice()
    from virtualgpu.devices.gpu import GPUDevice

    return GPUDevice()


def _fatal() -> frozenset[str]:
    from virtualgpu.devices.gpu import FATAL

    return FATAL


def _send(stream: BinaryIO, told: dict, arrays: list[np.ndarray]) -> None:
    file = io.BytesIO()
    np.savez(file, told=np.frombuffer(json.dumps(told).encode(), np.uint8),
             **{f"after{number}": array for number, array in enumerate(arrays)})
    raw = file.getvalue()
    stream.write(len(raw).to_bytes(_LENGTH, "little") + raw)
    stream.flush()


def _receive(stream: BinaryIO) -> bytes | None:
    head = stream.read(_LENGTH)
    if len(head) < _LENGTH:
        return None
    length = int.from_bytes(head, "little")
    raw = stream.read(length)
    return raw if len(raw) == length else None


# -- the process that asks ----------------------------------------------------------------------


class GPUProcess:
    """Plays launches on a device in another process, which is started when first needed.

    Attributes
    ----------
    name : str
        What the device calls itself; empty until it has been started.
    """

    def __init__(self, kind: str = GPU):
        self.kind = kind
        self.name = ""
        self._process: subprocess.Popen | None = None
        self._said: BinaryIO | None = None

    def __enter__(self) -> GPUProcess:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def start(self) -> None:
        """Have the device ready. Raises GPUFault where there is none."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        self._said = tempfile.TemporaryFile()  # a pipe that nobody reads would fill up
        source = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "virtualgpu.devices.gpu_process", self.kind],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said,
            env=os.environ | {"PYTHONPATH": path}, start_new_session=True)
        told, _ = self._answer(START_SECONDS)
        if "error" in told:
            self.close()
            raise GPUFault(f"no GPU: {told['error']}", spoiled=True)
        self.name = told["name"]

    def play(self, launch: RecordedLaunch, seconds: float = 30.0) -> list[np.ndarray]:
        """Each piece after the launch (:func:`virtualgpu.devices.recorded.play`).

        Raises GPUFault for what the GPU says, or if it says nothing for ``seconds``.
        """
        self.start()
        raw = launch.to_bytes()
        try:
            self._process.stdin.write(len(raw).to_bytes(_LENGTH, "little") + raw)
            self._process.stdin.flush()
        except OSError:
            raise self._ended() from None
        told, after = self._answer(seconds)
        if "error" in told:
            if told.get("spoiled"):
                self.close()
            raise GPUFault(told["error"], spoiled=bool(told.get("spoiled")))
        return after

    def _answer(self, seconds: float) -> tuple[dict, list[np.ndarray]]:
        raw = self._read(time.monotonic() + seconds)
        with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
            told = json.loads(arrays["told"].tobytes())
            return told, [arrays[f"after{n}"] for n in range(len(arrays.files) - 1)]

    def _read(self, deadline: float) -> bytes:
        pipe = self._process.stdout.fileno()
        raw, wanted = bytearray(), _LENGTH
        while len(raw) < wanted:
            ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self.close()
                raise GPUFault("the GPU did not finish in time and its process was ended",
                               spoiled=True)
            part = os.read(pipe, min(1 << 20, wanted - len(raw)))
            if not part:
                raise self._ended()
            raw += part
            if len(raw) == _LENGTH and wanted == _LENGTH:
                wanted += int.from_bytes(raw, "little")
        return bytes(raw[_LENGTH:])

    def _ended(self) -> GPUFault:
        process, self._process = self._process, None
        with contextlib.suppress(OSError):
            process.stdin.close()
        code = process.wait()
        process.stdout.close()
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip().splitlines()
        self._said.close()
        return GPUFault(f"the GPU's process ended ({code}): {said[-1] if said else ''}",
                        spoiled=True)

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, self._said):
            with contextlib.suppress(OSError):
                stream.close()


def main() -> None:
    orders = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    # What kernels print goes to standard output too.
    silence = os.open(os.devnull, os.O_RDWR)
    os.dup2(silence, 0)
    os.dup2(silence, 1)
    serve(sys.argv[1], orders, answers)


if __name__ == "__main__":
    main()
