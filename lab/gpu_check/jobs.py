"""Programs that run in parallel, each with a time limit."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from gpucourse.course.projects import PACKAGES

T = TypeVar("T")
R = TypeVar("R")

_running: set[subprocess.Popen] = set()
_stopping = threading.Event()

#: Hides every GPU, so that the virtual one is used.
HIDDEN = {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}


@dataclass(frozen=True)
class Done:
    """Result of a program: ``code`` is None if its time was up; ``output`` is what it printed."""

    code: int | None
    output: str
    seconds: float

    @property
    def last(self) -> str:
        """The last line of the output, in which a traceback names the error."""
        lines = [line for line in self.output.splitlines() if line.strip()]
        return lines[-1].strip() if lines else ""


class Clock:
    """Timer for the remaining part of a given time."""

    def __init__(self, seconds: float):
        self.began = time.monotonic()
        self.end = self.began + seconds

    @property
    def left(self) -> float:
        return max(0.0, self.end - time.monotonic())


def run(
    command: Sequence[object],
    seconds: float,
    *,
    environment: dict[str, str] | None = None,
    folder: Path | None = None,
) -> Done:
    """Run a program, and stop it with all its children after ``seconds``."""
    began = time.monotonic()
    if _stopping.is_set():
        return Done(None, "", 0.0)
    process = subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        cwd=folder,
        env=os.environ | source_path() | (environment or {}),
        start_new_session=True,
    )
    _running.add(process)
    if _stopping.is_set():  # set while the process was starting
        _end(process)
    try:
        output, _ = process.communicate(timeout=max(seconds, 0.1))
        code = process.returncode
    except subprocess.TimeoutExpired:
        _end(process)
        output, _ = process.communicate()
        code = None
    finally:
        _running.discard(process)
    return Done(None if _stopping.is_set() else code, output, time.monotonic() - began)


def _end(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def end_with_parent() -> None:
    """Stop this process when its parent has ended, for whatever reason.

    :func:`run` starts processes in their own session, which neither Ctrl-C nor a hang-up reaches.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.killpg(0, signal.SIGKILL)

    if os.getpgrp() == os.getpid():  # else it was started by hand, in a group with others
        threading.Thread(target=watch, daemon=True).start()


def python(module: str, *arguments: object) -> list[str]:
    """Return the command that runs one of our modules with this Python."""
    return [sys.executable, "-m", module, *map(str, arguments)]


def source_path() -> dict[str, str]:
    """Return an environment with this checkout first in ``PYTHONPATH``, unbuffered."""
    root = Path(__file__).resolve().parents[2]
    own = [str(root), *(str(root / package / "src") for package in PACKAGES)]
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = [*own, *(entry for entry in known if entry and entry not in own)]
    return {"PYTHONPATH": os.pathsep.join(path), "PYTHONUNBUFFERED": "1"}


def side_by_side(
    work: Callable[[T], R],
    items: Iterable[T],
    workers: int,
    done: Callable[[T, R], None] = lambda item, result: None,
) -> list[R]:
    """Run ``work(item)`` for all items, ``workers`` at a time; call ``done`` after each.

    The results are in the order of the items. After an exception, including Ctrl-C, the running
    work is stopped and the exception is passed on.
    """
    items = list(items)
    try:
        with ThreadPoolExecutor(max(1, workers)) as pool:
            futures = {pool.submit(work, item): item for item in items}
            try:
                for future in as_completed(futures):
                    done(futures[future], future.result())
            except BaseException:
                _stopping.set()
                pool.shutdown(wait=False, cancel_futures=True)
                for process in list(_running):
                    _end(process)
                raise
            return [future.result() for future in futures]
    finally:
        _stopping.clear()
