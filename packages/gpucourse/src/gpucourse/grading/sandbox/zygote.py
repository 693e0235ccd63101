"""Fork server inside the sandbox, which imports the packages once and forks the workers.

Importing numba, numba-cuda and the virtual GPU and compiling a first kernel takes 2-3 s; a fork
takes milliseconds. The server itself runs no student's code, and each worker has fewer rights than
the server, so two workers cannot see each other.

    zygote (waits for orders)
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
# Header of an order for a worker: the length in bytes of its JSON.
ORDER = struct.Struct("<Q")
# Greatest length of an order in bytes, and the time that its transfer may take.
MAX_ORDER, ORDER_SECONDS = 1 << 26, 10.0
# The parts of an order that confine a worker.
POLICY = ("namespaces", "home", "home_bytes", "covered")
# Environment of workers. Without asynchronous dispatch, an error is raised at the line that caused
# it. XLA starts 13 threads plus 2 for each of NPROC processors; by default NPROC is the number of
# cores, and with 32 of them a worker would exceed its limit. A worker also leaves no machine code
# where others could find it.
SETTINGS = {"JAX_CPU_ENABLE_ASYNC_DISPATCH": "false", "NPROC": "1", "VIRTUALGPU_CACHE": "0"}
# Interval between counts of a worker's threads, in milliseconds; one count takes 20 µs.
COUNT_THREADS = 100


def serve(listener: socket.socket, lifeline: int) -> None:
    """Fork a worker for each order until the other end of `lifeline` is closed.

    Orders arrive over channels, which stay open because an oracle must connect before it gives up
    that right. The first order is the grader's own and fixes how workers are confined, so that an
    oracle cannot ask for less.
    """
    # The kernel reaps finished keepers.
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
    """Return the next order and a worker's two descriptors.

    The order is None at the channel's end or after an error.
    """
    handles: list[int] = []
    try:
        length, handles, _, _ = socket.recv_fds(channel, ORDER.size, 2)
        (size,) = ORDER.unpack(length)
        text = b""
        # An order has about 100 kB if the course is in a folder with a thousand others to hide.
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

    The worker and everything it started are killed as soon as the other end of `life` closes, or
    as soon as the worker has more threads than allowed. Counting is needed because the system's
    own limit does not apply to root.
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
    # The worker is process 1 of its own process table, so every process in the table ends with it.
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
    """Serve orders until the lifeline closes.

    Standard input is the listening socket. The server writes to standard output when it is ready.
    Arguments: the lifeline's descriptor, and modules that the workers will import.
    """
    from gpucourse.grading.sandbox.worker import preload

    os.environ.update(SETTINGS)
    listener = socket.socket(fileno=os.dup(0))
    lifeline = int(sys.argv[1])
    preload()
    for module in sys.argv[2:]:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    # Exclude existing objects from garbage collection, which would copy their pages in each worker.
    gc.collect()
    gc.freeze()
    os.write(1, READY)
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(silence, stream)
    serve(listener, lifeline)


if __name__ == "__main__":
    main()
