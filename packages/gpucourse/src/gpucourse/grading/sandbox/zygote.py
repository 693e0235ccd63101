"""The fork server inside the sandbox: imports the stack once, forks one worker per request.

Importing numba, numba-cuda and the virtual GPU and compiling a first kernel takes 2-3 s; a fork
takes milliseconds. The server runs no student's code itself, and each worker is confined further
than the server is, so two workers cannot see each other.

    zygote (waits for requests)
      └─ keeper (one per worker; own namespaces; kills the worker when the oracle hangs up)
           └─ worker (process 1 of its own process table; resource limits; refused system calls)
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys

from gpucourse.grading.sandbox import confinement
from gpucourse.grading.sandbox.wire import Wire

READY = b"ready\n"
# Length in bytes of the JSON that orders a kind of worker.
ORDER = struct.Struct("<Q")
# The longest order, and how long one may take to come.
MAX_ORDER, ORDER_SECONDS = 1 << 26, 10.0
# The parts of an order that confine a worker.
POLICY = ("namespaces", "home", "home_bytes", "covered")
# For JAX: an error is raised by the line it belongs to; and XLA starts 13 threads and 2 for each of
# these processors, by default for every core, which on a machine of 32 is more than a worker may.
# Nor does a worker leave machine code where others would find it.
SETTINGS = {"JAX_CPU_ENABLE_ASYNC_DISPATCH": "false", "NPROC": "1", "VIRTUALGPU_CACHE": "0"}
# Interval between counts of a worker's threads, in milliseconds; a count takes 20 µs.
COUNT_THREADS = 100


def serve(listener: socket.socket, lifeline: int) -> None:
    """Fork a worker for each order until the other end of `lifeline` is closed.

    Orders come over channels, which last: an oracle connects before it may no longer. The first
    order, the grader's own, says how workers are confined: an oracle cannot ask for less.
    """
    # Finished keepers are reaped by the kernel.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    channels: list[socket.socket] = []
    policy: dict = {}
    while True:
        sources: list[socket.socket | int] = [listener, lifeline, *channels]
        readable, _, _ = select.select(sources, [], [])
        if lifeline in readable:
            return
        if listener in readable:
            channel, _ = listener.accept()
            channel.settimeout(ORDER_SECONDS)
            channels.append(channel)
        for channel in [channel for channel in channels if channel in readable]:
            order, handles = read_order(channel)
            if order is not None:
                policy = policy or {name: order[name] for name in POLICY}
                mapped = confinement.mapped_bytes()
                if os.fork() == 0:
                    try:
                        for open_here in (listener, *channels):
                            open_here.close()
                        os.close(lifeline)
                        keep(order | policy, mapped, *handles)
                    finally:
                        os._exit(1)
            else:
                channels.remove(channel)
                channel.close()
            for handle in handles:
                os.close(handle)


def read_order(channel: socket.socket) -> tuple[dict | None, list[int]]:
    """Return the next order and a worker's two descriptors; None at the channel's end or error."""
    handles: list[int] = []
    try:
        length, handles, _, _ = socket.recv_fds(channel, ORDER.size, 2)
        (size,) = ORDER.unpack(length)
        text = b""
        # Some 100 kB where the course lies in a folder with a thousand others to hide.
        while len(handles) == 2 and len(text) < size <= MAX_ORDER:
            piece = channel.recv(min(size - len(text), 1 << 16))
            if not piece:
                break
            text += piece
        order = json.loads(text)
    except (OSError, ValueError, struct.error):
        return None, handles
    return (order if isinstance(order, dict) and order.keys() >= set(POLICY) else None), handles


def keep(order: dict, mapped: int, work: int, life: int) -> None:
    """Start one worker on the socket `work`; report on the socket `life` how it ended.

    The worker is killed, with everything it started, as soon as the other end of `life` closes, or
    it has more threads than it may: the system's own limit does not hold for root.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    processes = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    namespaces = bool(order["namespaces"]) and confinement.own_namespaces(
        order["home"], order["home_bytes"], order["covered"]
    )
    keeper = os.getpid()
    worker = os.fork()
    if worker == 0:
        try:
            os.close(life)
            os.close(processes)
            start_worker(order, mapped, namespaces, work, keeper)
        finally:
            os._exit(1)
    os.close(work)
    handle = os.pidfd_open(worker)
    watched = select.poll()
    watched.register(handle, select.POLLIN)
    watched.register(life, select.POLLIN | select.POLLHUP)
    too_many = False
    while not watched.poll(COUNT_THREADS) and not too_many:
        too_many = threads_of(worker, processes) > order["threads"]
    # As process 1 of its own table the worker takes every process in it along.
    signal.pidfd_send_signal(handle, signal.SIGKILL)
    _, status = os.waitpid(worker, 0)
    with socket.socket(fileno=life) as channel:
        try:
            channel.sendall(json.dumps({"status": status, "threads": too_many}).encode())
        except OSError:
            pass
    os._exit(0)


def threads_of(process: int, processes: int) -> int:
    """Return the number of a process's threads; `processes` is an open /proc."""
    try:
        folder = os.open(f"{process}/task", os.O_RDONLY | os.O_DIRECTORY, dir_fd=processes)
        try:
            return len(os.listdir(folder))
        finally:
            os.close(folder)
    except OSError:
        return 0


def start_worker(order: dict, mapped: int, namespaces: bool, work: int, keeper: int) -> None:
    """Give up every right and serve the oracle."""
    from gpucourse.grading.sandbox.worker import run_worker

    confinement.die_with_parent()
    if not namespaces and os.getppid() != keeper:
        return
    for name in list(os.environ):
        del os.environ[name]
    home = order["home"]
    os.environ.update(SETTINGS, HOME=home, TMPDIR=home, PATH="/nowhere", LANG="C.UTF-8")
    os.chdir(home)
    confinement.bound_resources(
        mapped + order["memory_bytes"],
        order["file_bytes"],
        order["cpu_seconds"],
        order["threads"],
    )
    confinement.drop_capabilities()
    filtered = confinement.refuse_system_calls()
    wire = Wire(socket.socket(fileno=work), order["header_bytes"], order["array_bytes"])
    wire.send({"started": {"namespaces": namespaces, "filtered": filtered}})
    run_worker(wire)


def main() -> None:
    """Serve requests until the connection closes.

    Standard input is the listening socket, standard output tells when the server is ready.

    Arguments: the lifeline's number, and modules that the workers will import.
    """
    from gpucourse.grading.sandbox.worker import preload

    os.environ.update(SETTINGS)
    listener = socket.socket(fileno=os.dup(0))
    lifeline = int(sys.argv[1])
    preload()
    for module in sys.argv[2:]:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    # Keep present objects out of garbage collection, which would copy their pages in each worker.
    gc.collect()
    gc.freeze()
    os.write(1, READY)
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(silence, stream)
    serve(listener, lifeline)


if __name__ == "__main__":
    main()
