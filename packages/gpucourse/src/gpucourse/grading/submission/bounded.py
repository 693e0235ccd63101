"""Calls of functions on a student's text, in a separate process with limits.

Markdown parsers and code highlighters take quadratic time on some text, and the text differs with
each release. They therefore run on a student's text only in this process, which has half a second
of processor time for each text and bounded memory. Text that takes longer is shown literally.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import BinaryIO

from gpucourse.grading.limits import MEGABYTE

# Processor time; an honest long answer of 10 kB takes 0.02 s.
SECONDS = 0.5
# Wall-clock time, for a process that cannot handle the signal of the first limit.
PATIENCE = 60.0
MEMORY = 1024 * MEGABYTE
SIZE = struct.Struct("<q")
NOTHING = -1


class TooLong(BaseException):
    """Exception for exhausted processor time, which no library catches."""


class Bounded:
    """Caller of ``MODULE.FUNCTION(text)`` in a process that is started with the first call."""

    def __init__(self, module: str, function: str) -> None:
        self.command = [
            sys.executable,
            "-c",
            "from gpucourse.grading.submission import bounded; "
            f"bounded.serve({module!r}, {function!r})",
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._starter = 0
        self._lock = threading.Lock()

    def __call__(self, text: str) -> str | None:
        """Return the function's result; None if it fails or takes too long."""
        with self._lock:
            try:
                return self._ask(text.encode("utf-8", "replace"))
            except (OSError, EOFError):
                self.close()
                return None

    def close(self) -> None:
        """End the process if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
            atexit.unregister(self.close)

    def _ask(self, data: bytes) -> str | None:
        if self._process is None or self._starter != os.getpid():
            # After a fork, only the parent may use the process.
            self._starter = os.getpid()
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                bufsize=0,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
            )
            atexit.register(self.close)
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None and answers is not None
        end = time.monotonic() + PATIENCE
        rest = memoryview(SIZE.pack(len(data)) + data)
        while rest:
            rest = rest[os.write(asked.fileno(), rest) :]
        (size,) = SIZE.unpack(_read(answers.fileno(), SIZE.size, end))
        return None if size == NOTHING else _read(answers.fileno(), size, end).decode()


def _read(file: int, size: int, end: float) -> bytes:
    data = bytearray()
    while len(data) < size:
        ready, _, _ = select.select([file], [], [], max(0.0, end - time.monotonic()))
        piece = os.read(file, size - len(data)) if ready else b""
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def serve(module: str, function: str) -> None:
    """Answer requests on standard input until it ends."""
    call = getattr(importlib.import_module(module), function)
    call("")  # the function's modules are imported at its first call
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # standard output carries only replies
    _bound_memory()
    signal.signal(signal.SIGPROF, _ring)
    while head := questions.read(SIZE.size):
        text = questions.read(*SIZE.unpack(head)).decode()
        _answer(answers, _within_bounds(call, text))


def _answer(answers: BinaryIO, text: str | None) -> None:
    data = b"" if text is None else text.encode("utf-8", "replace")
    answers.write(SIZE.pack(NOTHING if text is None else len(data)) + data)
    answers.flush()


def _within_bounds(call: Callable[[str], str], text: str) -> str | None:
    with contextlib.suppress(TooLong, Exception):
        try:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            return call(text)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def _ring(*_: object) -> None:
    raise TooLong


def _bound_memory() -> None:
    import resource

    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
