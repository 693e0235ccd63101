"""Trial of a class on one machine: time to the first cell, and twenty learners at once.

    python -m lab.trials.room                  both trials
    python -m lab.trials.room start            from the welcome page to the first cell's output
    python -m lab.trials.room learners -n 20   memory for each learner, and how long a cell takes

*start*: a browser opens the welcome page of a running JupyterLab and runs its first cell as soon
as the kernel is ready. Server, kernel and browser share one core in the first run, and only server
and kernel in the second. *learners*: each learner has a server and a kernel and runs the first
cells of project 1 (Numba, Awkward, matplotlib, a launch of 50,000 threads). Memory is the
proportional set size (PSS), which is a process's private memory and its share of the memory mapped
by several. Then every learner runs one more cell, a launch of 50,000 threads: first all at the
same moment, then at random times as people do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import shutil
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path

import psutil
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

import lab.benchmarks.support  # noqa: F401
from lab.benchmarks.report import RESULTS, write
from lab.benchmarks.support import REPOSITORY

NAME = "room"
PROJECT = "projects/01_fill_a_histogram/01_fill_a_histogram.ipynb"
# A cell that everybody runs repeatedly: it is already compiled, so it only launches.
LAUNCH = """total = cuda.to_device(np.zeros(1, np.int32))
count_hopefully[math.ceil(masses.size / 128), 128](device_masses, total)
int(total.copy_to_host()[0])"""
#: Seconds between two cells of one learner, on average, for reading, thinking and typing.
THINKING = 20.0
REPEATS = 3


# --- the first cell ---------------------------------------------------------------------------


def start() -> dict:
    """Return seconds from address to output, with the browser on the same core and on others."""
    cores = sorted(os.sched_getaffinity(0))
    results = {}
    for name, browser_cores in (
        ("everything on one core", cores[:1]),
        ("server and kernel on one core", cores[1:] or cores),
    ):
        times = [once(cores[0], browser_cores) for _ in range(REPEATS)]
        results[name] = {key: summary([one[key] for one in times]) for key in times[0]}
    return results


def once(core: int, browser_cores: list[int]) -> dict[str, float]:
    """Return one visit's times, with a new server, browser and settings."""
    from playwright.sync_api import expect

    from jupyter_lab import Server, Tab, chromium, copy_course

    folder = Path(tempfile.mkdtemp(prefix="room-"))
    server = Server(
        copy_course(folder / "course"), folder / "home", wrapper=["taskset", "-c", str(core)]
    )
    all_cores = os.sched_getaffinity(0)
    try:
        begun = time.perf_counter()
        server.start()
        answered = time.perf_counter()
        os.sched_setaffinity(0, browser_cores)
        with chromium() as browser:
            tab = Tab(browser.new_page(viewport={"width": 1280, "height": 800}), server)
            opened = time.perf_counter()
            tab.open("welcome.ipynb")
            expect(tab.page.locator(".jp-NotebookPanel h1")).to_be_visible()
            shown = time.perf_counter()
            tab.wait_for_kernel("welcome.ipynb")
            ready = time.perf_counter()
            first = tab.cell("gpucourse.progress()")
            tab.start_cell(first)
            expect(first.locator(".jp-OutputArea")).to_contain_text("Go on with")
            done = time.perf_counter()
    finally:
        os.sched_setaffinity(0, all_cores)
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "server answers s": answered - begun,
        "page is shown s": shown - opened,
        "kernel is ready s": ready - opened,
        "first output s": done - opened,
    }


def summary(values: list[float]) -> dict[str, float]:
    """Return median and range in seconds."""
    return {
        "median": round(statistics.median(values), 2),
        "least": round(min(values), 2),
        "most": round(max(values), 2),
    }


# --- twenty learners --------------------------------------------------------------------------


class Learner:
    """Learner with a server and a connection to the kernel of one notebook."""

    def __init__(self, folder: Path) -> None:
        from jupyter_lab import Server

        # Each has a separate home directory, as on a hub; the notebooks are the same.
        (folder / "course").mkdir(parents=True)
        for name in ("lectures", "projects", "img"):
            (folder / "course" / name).symlink_to(REPOSITORY / name)
        self.server = Server(folder / "course", folder / "home")
        self.socket: WebSocketClientConnection
        self.kernel = ""

    async def open(self) -> None:
        """Start the kernel of project 1, as JupyterLab does when the notebook is opened."""
        from tornado.httpclient import AsyncHTTPClient

        from jupyter_lab import TOKEN

        session = {"path": PROJECT, "name": "", "type": "notebook", "kernel": {"name": "python3"}}
        headers = {"Authorization": f"token {TOKEN}"}
        answer = await AsyncHTTPClient().fetch(
            HTTPRequest(
                f"{self.server.address}/api/sessions",
                "POST",
                headers,
                json.dumps(session),
                request_timeout=300,
            )
        )
        self.kernel = json.loads(answer.body)["kernel"]["id"]
        address = self.server.address.replace("http", "ws")
        self.socket = await websocket_connect(
            HTTPRequest(
                f"{address}/api/kernels/{self.kernel}/channels",
                headers=headers,
                request_timeout=300,
            )
        )

    async def run(self, code: str) -> float:
        """Run a cell and return the seconds until its end. Raises RuntimeError for an error."""
        number = uuid.uuid4().hex
        sent = {
            "header": {
                "msg_id": number,
                "msg_type": "execute_request",
                "version": "5.3",
                "session": "room",
                "username": "",
                "date": "",
            },
            "parent_header": {},
            "metadata": {},
            "channel": "shell",
            "content": {"code": code, "silent": False, "store_history": True},
        }
        begun = time.perf_counter()
        await self.socket.write_message(json.dumps(sent))
        while True:
            text = await self.socket.read_message()
            if not isinstance(text, str):
                raise RuntimeError("the connection to the kernel is gone")
            message = json.loads(text)
            if message["parent_header"].get("msg_id") != number:
                continue
            if message["msg_type"] == "error":
                raise RuntimeError(message["content"]["evalue"])
            if message["channel"] == "shell":
                return time.perf_counter() - begun

    def process(self) -> psutil.Process:
        """Return the server's process after it has been started."""
        assert self.server.process is not None
        return psutil.Process(self.server.process.pid)

    def memory_of_server(self) -> float:
        """Return the megabytes (PSS) of the server alone."""
        return self.process().memory_full_info().pss / 1e6

    def memory(self) -> dict[str, float]:
        """Return the megabytes of the server and of its kernel: PSS and resident."""
        server = self.process()
        kernels = [
            one
            for one in server.children(recursive=True)
            if "ipykernel_launcher" in " ".join(one.cmdline())
        ]
        found = {"server": server.memory_full_info(), "kernel": kernels[0].memory_full_info()}
        return {
            f"{name} {kind}": getattr(info, kind) / 1e6
            for name, info in found.items()
            for kind in ("pss", "rss")
        }


def first_cells() -> list[str]:
    """Return the code of project 1 up to the first picture."""
    cells = json.loads((REPOSITORY / PROJECT).read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return code[: next(n for n, text in enumerate(code) if "def draw(" in text) + 1]


async def together(learners: list[Learner], do: Callable[[Learner], Coroutine]) -> list:
    return await asyncio.gather(*(do(learner) for learner in learners))


async def measure(learners: list[Learner]) -> dict:
    """Measure memory and times of learners whose servers already run."""
    alone = [learner.memory_of_server() for learner in learners]
    begun = time.perf_counter()
    await together(learners, Learner.open)
    opened = time.perf_counter() - begun

    async def begin(learner: Learner) -> float:
        return sum([await learner.run(code) for code in first_cells()])

    began = await together(learners, begin)
    memory = [learner.memory() for learner in learners]
    at_once = [
        await together(learners, lambda learner: learner.run(LAUNCH)) for _ in range(REPEATS)
    ]

    async def at_leisure(learner: Learner) -> list[float]:
        taken = []
        for _ in range(REPEATS):
            await asyncio.sleep(random.uniform(0, 2 * THINKING))
            taken.append(await learner.run(LAUNCH))
        return taken

    leisurely = [one for many in await together(learners, at_leisure) for one in many]
    lone = [await learners[0].run(LAUNCH) for _ in range(REPEATS)]
    total = [one["server pss"] + one["kernel pss"] for one in memory]
    return {
        "learners": len(learners),
        "MB of a server before its first kernel": summary(alone),
        "MB for each learner": {
            **{name: summary([one[name] for one in memory]) for name in memory[0]},
            "server and kernel pss": summary(total),
        },
        "MB of all together": round(sum(total)),
        "s until the last of the kernels was there": round(opened, 1),
        "s of the first cells of project 1, all learners at once": percentiles(began),
        "s of a launch, one learner alone": percentiles(lone),
        "s of a launch, all in the same moment": percentiles(
            [one for burst in at_once for one in burst]
        ),
        f"s of a launch, each learner every {THINKING:g} s on average": percentiles(leisurely),
    }


def percentiles(values: list[float]) -> dict[str, float]:
    """Return seconds: the median, the 90th percentile and the maximum."""
    values = sorted(values)
    return {
        "median": round(statistics.median(values), 2),
        "90 %": round(values[math.ceil(0.9 * len(values)) - 1], 2),
        "most": round(values[-1], 2),
    }


def room(number: int) -> dict:
    """Start the servers, measure, and stop them."""
    folder = Path(tempfile.mkdtemp(prefix="room-"))
    learners = [Learner(folder / f"learner-{n:02}") for n in range(number)]
    try:
        begun = time.perf_counter()
        for learner in learners:
            learner.server.start()
            print(f"{time.perf_counter() - begun:6.1f} s: {learner.server.address}", flush=True)
        started = time.perf_counter() - begun
        result = asyncio.run(measure(learners))
    finally:
        for learner in learners:
            learner.server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return {"s to start the servers, one after another": round(started, 1), **result}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.trials.room")
    parser.add_argument("what", nargs="?", choices=("start", "learners"))
    parser.add_argument("-n", type=int, default=20, help="learners (default: 20)")
    options = parser.parse_args()
    path = RESULTS / f"{NAME}.json"
    results = json.loads(path.read_text())["results"] if path.exists() else {}
    results["command"] = "python -m lab.trials.room"
    for what, do in (("start", start), ("learners", lambda: room(options.n))):
        if options.what in (None, what):
            load = os.getloadavg()[0]
            results[what] = {"load of the machine before": round(load, 1), **do()}
            print(json.dumps(results[what], indent=1))
            write(NAME, results)


if __name__ == "__main__":
    main()
