"""Levels of isolation for the student's process; the verdict records the level.

``bubblewrap``
    The process sees a read-only file system that contains only the system, Python and the course's
    packages. It has no network and an empty environment. Each worker also has its own process
    table, network and temporary folder, resource limits, and a filter of system calls.
``namespaces``
    The same without bubblewrap: the machine's file system is read-only, and the course's folders
    and the user's home directory are covered.
``limits``
    Only the resource limits and the filter: no new processes and no network, but the process can
    read the user's files. This level is too weak for grading other people's work.
``none``
    Not even that, because this is not Linux or the kernel has no seccomp.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpucourse.course.checkout import own_checkout
from gpucourse.grading.limits import Limits
from gpucourse.grading.sandbox import landlock
from gpucourse.grading.sandbox.file_system import (
    ENVIRONMENT,
    SandboxError,
    bubblewrap_command,
    coverable,
    home_folder,
    import_folders,
    needed_paths,
)
from gpucourse.grading.sandbox.wire import OutOfTime, ProtocolError, Wire, within
from gpucourse.grading.sandbox.zygote import ORDER, READY

BUBBLEWRAP, NAMESPACES, LIMITS, NONE = "bubblewrap", "namespaces", "limits", "none"
LEVELS = (BUBBLEWRAP, NAMESPACES, LIMITS, NONE)
# The weakest level at which other people's work is graded, unless the teacher sets "unsafe".
FLOOR = NAMESPACES

# Starting usually takes 3 s, but took more than 60 s on a machine with a load of 8.
START_SECONDS = 180.0
# Signals of crashes. A process cannot use its choice of signal to send a message, because messages
# about its end name only these.
CRASHES = (signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV)
# struct ucred: process, user and group ID.
CREDENTIALS = struct.Struct("3i")


def at_least(level: str, floor: str = FLOOR) -> bool:
    """Return True if `level` isolates at least as well as `floor`."""
    return LEVELS.index(level) <= LEVELS.index(floor)


@dataclass
class WorkerProcess:
    """A confined process that has not yet seen any of the student's code.

    `pid` is its number in this process's process table; None if the system does not report it.
    """

    wire: Wire
    life: socket.socket
    namespaces: bool = False
    filtered: bool = False
    pid: int | None = None

    def kill(self) -> None:
        """End the worker and everything that it started. May be called twice."""
        self.wire.close()
        self.life.close()

    def how_it_ended(self, *, numbers: bool) -> str:
        """Describe for the student how the process ended; with `numbers`, include its numbers."""
        try:
            self.life.settimeout(1.0)
            told = json.loads(self.life.recv(1000) or b"{}")
        except (OSError, ValueError):
            told = {}
        status = told.get("status")
        if status is None:
            return "ended"
        if told["threads"]:
            return "was stopped for starting too many threads"
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            if number in (9, 24):
                return "was stopped for using too much memory or processor time"
            return f"crashed (signal {number})" if numbers or number in CRASHES else "crashed"
        code = os.WEXITSTATUS(status)
        return "ended the process itself" + (
            f" (exit code {code})" if numbers or code in (0, 1) else ""
        )


@dataclass(frozen=True)
class ForkServer:
    """Source of workers from a running sandbox, for any process of the grader.

    It can be pickled.
    """

    address: str
    level: str
    covered: tuple[str, ...]
    limits: Limits
    # Paths that an oracle hides from itself if the kernel has no Landlock.
    hidden: tuple[str, ...] = ()
    channel: socket.socket | None = None

    def connected(self) -> ForkServer:
        """Return a copy with an open channel, for a process that soon may no longer open one."""
        channel = socket.socket(socket.AF_UNIX)
        try:
            channel.connect(self.address)
        except OSError as error:
            raise SandboxError(f"the fork server does not answer: {error}") from None
        return replace(self, channel=channel)

    def spawn(self) -> WorkerProcess:
        """Return a fresh, confined worker. Raises SandboxError."""
        ours, theirs = socket.socketpair()
        ask_for_sender(ours)
        life_ours, life_theirs = socket.socketpair()
        limits = self.limits
        order = {
            "namespaces": self.level in (BUBBLEWRAP, NAMESPACES),
            "covered": self.covered,
            "home": home_folder(),
            "home_bytes": limits.home_bytes,
            "memory_bytes": limits.memory_bytes,
            "file_bytes": limits.file_bytes,
            "cpu_seconds": limits.cpu_seconds,
            "threads": limits.threads,
            "header_bytes": limits.header_bytes,
            "array_bytes": limits.array_bytes,
        }
        channel = self.channel or self.connected().channel
        assert channel is not None
        with theirs, life_theirs:
            try:
                text = json.dumps(order).encode()
                socket.send_fds(
                    channel, [ORDER.pack(len(text))], [theirs.fileno(), life_theirs.fileno()]
                )
                channel.sendall(text)
            except OSError as error:
                raise SandboxError(f"the fork server does not answer: {error}") from None
            finally:
                if channel is not self.channel:
                    channel.close()
        wire = Wire(ours, limits.header_bytes, limits.array_bytes)
        worker = WorkerProcess(wire, life_ours)
        try:
            worker.pid = number_of_sender(ours, START_SECONDS)
            started = wire.receive(within(START_SECONDS))[0]["started"]
            worker.namespaces, worker.filtered = started["namespaces"], started["filtered"]
        except (ProtocolError, OutOfTime, KeyError, TypeError) as error:
            worker.kill()
            raise SandboxError(f"a worker did not start ({type(error).__name__})") from None
        return worker


def ask_for_sender(channel: socket.socket) -> None:
    """Attach the sender's IDs to all later messages (unix(7), SO_PASSCRED; Linux only)."""
    if hasattr(socket, "SO_PASSCRED"):
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)


def number_of_sender(channel: socket.socket, seconds: float) -> int | None:
    """Return the next sender's number in this process's process table; None if unknown.

    Waits for the message but does not consume it.
    """
    channel.settimeout(seconds)
    try:
        _, told, _, _ = channel.recvmsg(1, socket.CMSG_SPACE(CREDENTIALS.size), socket.MSG_PEEK)
    except OSError:
        return None  # reading the message will raise the error
    for _, kind, data in told:
        if kind == getattr(socket, "SCM_CREDENTIALS", None):
            return CREDENTIALS.unpack(data)[0] or None
    return None


class Sandbox:
    """A fork server at the best isolation level that this machine allows.

    `hidden` are folders that a worker must not see, such as the course directory and the exchange.
    `level` fixes one level, for tests and for machines where another level is known to fail.
    `imports` are modules that the fork server imports for its workers. Use it as a context
    manager; :attr:`server` then provides workers.

    Attributes
    ----------
    level : str
        The level that a test worker reached.
    shared : bool
        True if one fork server may serve several submissions, because each worker has its own
        namespaces.
    """

    def __init__(
        self,
        hidden: Sequence[Path] = (),
        limits: Limits | None = None,
        level: str | None = None,
        imports: Sequence[str] = (),
    ) -> None:
        self.limits = limits or Limits()
        self.imports = list(imports)
        self.hidden = [str(path) for path in hidden]
        self.pinned = level
        self.level = NONE
        self.shared = False
        self.server: ForkServer | None = None
        self._process: subprocess.Popen | None = None
        self._lifeline = -1
        self._folder: tempfile.TemporaryDirectory | None = None

    def __enter__(self) -> Sandbox:
        failures = []
        for level in [self.pinned] if self.pinned else [BUBBLEWRAP, NAMESPACES, LIMITS]:
            try:
                self._start(level)
                self._measure(level)
                return self
            except SandboxError as error:
                self.close()
                failures.append(f"{level}: {error}")
        raise SandboxError("no worker could be started; " + "; ".join(failures))

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the fork server and, with it, every worker."""
        self.server = None
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        if self._process is not None:
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _start(self, level: str) -> None:
        wrapper = bubblewrap_command() if level == BUBBLEWRAP else []
        if wrapper is None:
            raise SandboxError("not installed")
        self._folder = tempfile.TemporaryDirectory(prefix="gpucourse-")
        address = os.path.join(self._folder.name, "fork")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen(64)
            read_end, self._lifeline = os.pipe()
            # -I ignores this user's settings. The worker still imports the libraries of this
            # process, even those that it found through PYTHONPATH.
            command = [
                *wrapper,
                sys.executable,
                "-I",
                "-c",
                f"import sys; sys.path[:0] = {import_folders()!r}\n"
                "from gpucourse.grading.sandbox import zygote; zygote.main()",
                str(read_end),
                *self.imports,
            ]
            # The environment is empty because /proc/1/environ inside is bubblewrap's own.
            self._process = subprocess.Popen(
                command,
                env={} if wrapper else dict(ENVIRONMENT),
                stdin=listener.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[read_end],
                cwd="/",
            )
            os.close(read_end)
        output, complaints = self._process.stdout, self._process.stderr
        assert output is not None and complaints is not None
        with complaints:
            ready, _, _ = select.select([output], [], [], START_SECONDS)
            if not ready or os.read(output.fileno(), 100) != READY:
                self._process.kill()
                said = complaints.read().decode("utf-8", "replace").strip()
                raise SandboxError(said.splitlines()[-1] if said else "no answer")
        hidden = () if level != NAMESPACES and landlock.version() else tuple(self._covered())
        self.server = ForkServer(
            address, level, hidden if level == NAMESPACES else (), self.limits, hidden
        )

    def _measure(self, level: str) -> None:
        """Record the level that a test worker reaches. Raises SandboxError below `level`."""
        assert self.server is not None
        probe = self.server.spawn()
        probe.kill()
        if level == NAMESPACES and not probe.namespaces:
            raise SandboxError("the kernel refuses user namespaces")
        if level == LIMITS and not probe.filtered:
            level = NONE
        self.level = level
        self.shared = probe.namespaces
        self.server = replace(self.server, level=level)

    def _covered(self) -> list[str]:
        """Return the paths to hide from processes that see the machine's own file system."""
        needed = needed_paths()
        roots = [*self.hidden, os.path.expanduser("~"), "/tmp", "/var/tmp"]
        if root := own_checkout():
            # The checkout contains the hidden tests and may contain submissions graded earlier.
            roots.append(str(root))
        return [path for root in roots for path in coverable(root, needed)]
