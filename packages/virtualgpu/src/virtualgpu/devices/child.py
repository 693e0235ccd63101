"""Child processes that run a module of this package and answer requests.

A message consists of JSON and arrays of bytes. It begins with two lengths of 8 bytes each: that of
the JSON and that of all arrays together. The JSON contains the size of each array. No other format
is ever decoded. This module works on POSIX systems only.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from virtualgpu.signal_handlers import raised_by_handler

_HEAD = struct.Struct("<QQ")
_PIECE = 1 << 20  # bytes read at a time

Message = tuple[dict[str, Any], list[np.ndarray]]


class ChildEnded(Exception):
    """End of the child process; the message has its exit code and its last line of output."""


class ChildLate(Exception):
    """No answer in time; the child process has been ended."""


# -- messages -----------------------------------------------------------------------------------


def send(stream: BinaryIO, told: dict[str, Any], arrays: Sequence[np.ndarray] = ()) -> None:
    """Write one message: JSON values, and the bytes of ``arrays`` in C order."""
    parts = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in arrays]
    text = json.dumps([told, [part.size for part in parts]]).encode()
    stream.write(_HEAD.pack(len(text), sum(part.size for part in parts)) + text)
    for part in parts:
        stream.write(part.data)
    stream.flush()


def receive(stream: BinaryIO) -> Message | None:
    """Return one message with its arrays as uint8, shape (n,); None at the end of the stream."""
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    lengths = _HEAD.unpack(head)
    raw = stream.read(sum(lengths))
    return _taken_apart(raw, lengths[0]) if len(raw) == sum(lengths) else None


def _taken_apart(raw: bytes | bytearray, length: int) -> Message:
    told, sizes = json.loads(raw[:length])
    ends = np.cumsum([length, *sizes]).tolist()
    return told, [
        np.frombuffer(raw, np.uint8, size, end) for size, end in zip(sizes, ends, strict=False)
    ]


# -- in the process that answers ----------------------------------------------------------------


def own_streams() -> tuple[BinaryIO, BinaryIO]:
    """Return the streams of requests and answers; all other output is discarded."""
    orders = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_RDWR)
    os.dup2(silence, 0)
    os.dup2(silence, 1)
    return orders, answers


# -- in the process that asks -------------------------------------------------------------------


class Child:
    """Process that runs a module of this package.

    Parameters
    ----------
    module : str
        The module that ``python -m`` runs. It answers each message on standard input with one on
        standard output, and may send one message before the first.
    arguments : str
        Arguments of its command line.
    called : str
        Name of the process in error messages, such as "the GPU's process".
    """

    def __init__(self, module: str, *arguments: str, called: str):
        self._called = called
        self._gone: str | None = None
        self._said = tempfile.TemporaryFile()  # a pipe that is not read would fill up
        source = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env=os.environ | {"PYTHONPATH": path},
            start_new_session=True,
        )
        # Both are pipes, as requested above.
        self._there = cast(BinaryIO, self.process.stdin)
        self._back = cast(BinaryIO, self.process.stdout)

    @property
    def runs(self) -> bool:
        return self._gone is None and self.process.poll() is None

    def ask(
        self, told: dict[str, Any], arrays: Sequence[np.ndarray] = (), seconds: float | None = None
    ) -> Message:
        """Send a message and wait at most ``seconds`` for the answer (None: no limit).

        Raises ChildEnded or ChildLate.
        """
        if self._gone is not None:
            raise ChildEnded(self._gone)
        try:
            send(self._there, told, arrays)
            return self.answer(seconds)
        except BaseException as error:
            if isinstance(error, OSError) and not raised_by_handler(error):
                raise self._ended() from None
            self.close()  # else the next request would get this answer
            raise

    def answer(self, seconds: float | None = None) -> Message:
        """Return the next message. Raises ChildEnded or ChildLate."""
        deadline = None if seconds is None else time.monotonic() + seconds
        lengths = _HEAD.unpack(self._read(_HEAD.size, deadline))
        return _taken_apart(self._read(sum(lengths), deadline), lengths[0])

    def _read(self, wanted: int, deadline: float | None) -> bytearray:
        pipe = self._back.fileno()
        raw = bytearray()
        while len(raw) < wanted:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([pipe], [], [], left)[0]:
                self.close()
                raise ChildLate
            part = os.read(pipe, min(_PIECE, wanted - len(raw)))
            if not part:
                raise self._ended()
            raw += part
        return raw

    def _ended(self) -> ChildEnded:
        with contextlib.suppress(OSError):
            self._there.close()
        code = self.process.wait()
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip().splitlines()
        self._gone = f"{self._called} ended ({code}): {said[-1] if said else ''}"
        self._close_streams()
        return ChildEnded(self._gone)

    @property
    def descriptors(self) -> frozenset[int]:
        """File descriptors of this process that lead to the child; none after its end."""
        streams = (self._there, self._back, self._said)
        return frozenset(one.fileno() for one in streams if not one.closed)

    def close(self) -> None:
        """End the process, whatever it is doing.

        If this process may not send signals, the child ends itself when it receives no more
        requests.
        """
        if self._gone is None:
            self._gone = f"{self._called} was ended"
            with contextlib.suppress(PermissionError):
                self.process.kill()
                self.process.wait()
            self._close_streams()

    def _close_streams(self) -> None:
        for stream in (self._there, self._back, self._said):
            with contextlib.suppress(OSError):
                stream.close()
