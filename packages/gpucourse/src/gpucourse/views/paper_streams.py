"""Streams on paper: queued commands run later, in an order that CUDA's rules permit.

The virtual GPU does everything when it is called, so a wait that is missing between two streams
never shows there; on a GPU it may show once in a thousand runs. Here work is only queued, and
:meth:`PaperGPU.run` then takes a random order out of those that are allowed:

- work of one stream runs in the order in which it was queued;
- work of two streams runs in any order, and at the same time, unless an event stands between:
  what is queued after ``event.wait(stream)`` begins when all that stood before
  ``event.record(other)`` is done. Waiting for an event that was not recorded is no wait at all;
- ``stream.synchronize()`` and ``gpu.synchronize()`` hold up the host: what is queued later begins
  later.

The names are those of ``numba.cuda``. Not modelled: the default stream, callbacks, graphs.

>>> gpu = PaperGPU()
>>> buffer, answer = gpu.buffer(4), np.zeros(4)
>>> stream = gpu.stream()
>>> stream.copy_in(np.arange(4.0), buffer)
>>> stream.launch(lambda values: np.square(values, out=values), buffer)
>>> stream.copy_out(buffer, answer)
>>> order = gpu.run(seed=1)
>>> answer
array([0., 1., 4., 9.])
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gpucourse.wording import many

#: What works at the same time: one copy in each direction, and kernels.
ENGINES = ("copy in", "kernel", "copy out")


@dataclass(eq=False, slots=True)
class Task:
    """One copy or launch, and the tasks that must be done before it begins."""

    label: str
    engine: str
    stream: int
    action: Callable[[], object]
    after: list[Task] = field(default_factory=list)
    start: int = 0  # in the timetable, whose unit is the length of any one task


class PaperGPU:
    """Queues of work, to be run in any order that is allowed."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.buffers: list[np.ndarray] = []
        self._streams: list[Stream] = []
        self._host_waited_for: list[Task] = []

    def stream(self) -> Stream:
        """Return a new stream."""
        self._streams.append(Stream(self, len(self._streams)))
        return self._streams[-1]

    def event(self) -> Event:
        """Return a new event, recorded nowhere."""
        return Event()

    def buffer(self, size: int) -> np.ndarray:
        """Allocate device memory for ``size`` float64; it contains garbage (NaN)."""
        self.buffers.append(np.full(size, np.nan))
        return self.buffers[-1]

    def synchronize(self) -> None:
        """Wait for all that was queued."""
        self._host_waited_for = list(self.tasks)

    def run(self, seed: int) -> list[Task]:
        """Run the queue in a random one of the allowed orders, and return that order."""
        choose = random.Random(seed)
        waiting = {task: set(task.after) for task in self.tasks}
        order = []
        while waiting:
            task = choose.choice([task for task, missing in waiting.items() if not missing])
            del waiting[task]
            for missing in waiting.values():
                missing.discard(task)
            task.action()
            order.append(task)
        return order

    def timetable(self) -> int:
        """Give every task its earliest start, if each takes one unit; the end of the last.

        Each engine does one task at a time, in the order in which tasks were queued for it.
        A model of what overlaps, not a time.
        """
        free = dict.fromkeys(ENGINES, 0)
        for task in self.tasks:
            ready = max((before.start + 1 for before in task.after), default=0)
            task.start = max(ready, free[task.engine])
            free[task.engine] = task.start + 1
        return max((task.start + 1 for task in self.tasks), default=0)

    def _queue(self, stream: Stream, engine: str, label: str, action: Callable) -> None:
        task = Task(label, engine, stream.number, action)
        task.after = [*stream.waits, *self._host_waited_for]
        if stream.last is not None:
            task.after.append(stream.last)
        stream.waits, stream.last = [], task
        self.tasks.append(task)


class Stream:
    """A queue of a :class:`PaperGPU`."""

    def __init__(self, gpu: PaperGPU, number: int) -> None:
        self.gpu, self.number = gpu, number
        self.last: Task | None = None
        self.waits: list[Task] = []

    def copy_in(self, host: np.ndarray, buffer: np.ndarray, label: str = "in") -> None:
        """Queue a copy from the host to the device. Raises ValueError for other memory."""
        self._demand_device("copy_in", buffer)
        self.gpu._queue(self, "copy in", label, lambda: np.copyto(buffer, host))

    def launch(self, kernel: Callable, *arguments: object, label: str = "kernel") -> None:
        """Queue a launch: ``kernel(*arguments)`` runs when its turn comes."""
        self.gpu._queue(self, "kernel", label, lambda: kernel(*arguments))

    def copy_out(self, buffer: np.ndarray, host: np.ndarray, label: str = "out") -> None:
        """Queue a copy from the device to the host. Raises ValueError for other memory."""
        self._demand_device("copy_out", buffer)
        self.gpu._queue(self, "copy out", label, lambda: np.copyto(host, buffer))

    def _demand_device(self, what: str, buffer: np.ndarray) -> None:
        if not any(np.shares_memory(buffer, one) for one in self.gpu.buffers):
            raise ValueError(f"{what} needs device memory there: gpu.buffer(size) gives it")

    def synchronize(self) -> None:
        """Wait for all that was queued in this stream."""
        if self.last is not None:
            self.gpu._host_waited_for = [*self.gpu._host_waited_for, self.last]


class Event:
    """A mark in a stream, for others to wait for."""

    def __init__(self) -> None:
        self._marks: list[Task] = []

    def record(self, stream: Stream) -> None:
        """Mark the present end of the stream's queue; an earlier mark is discarded."""
        # A wait that nothing was queued behind is passed on with the mark.
        self._marks = [*stream.waits, *([stream.last] if stream.last is not None else [])]

    def wait(self, stream: Stream) -> None:
        """Delay the stream's commands from now on until the event is reached."""
        stream.waits = [*stream.waits, *self._marks]


def draw(gpu: PaperGPU, title: str):
    """Draw the timetable: a row for each engine, a colour for each stream."""
    from gpucourse.views.picture import COLOURS, INK, Picture, canvas

    end = gpu.timetable()
    figure, axes = canvas(9, 1.7)
    for task in gpu.tasks:
        row = ENGINES[::-1].index(task.engine)
        axes.barh(row, 0.94, left=task.start + 0.03, color=COLOURS[task.stream % len(COLOURS)])
        middle = task.start + 0.5
        axes.text(middle, row, task.label, ha="center", va="center", color=INK, fontsize=8)
    axes.set(
        yticks=range(len(ENGINES)),
        yticklabels=ENGINES[::-1],
        xlim=(0, max(end, 1)),
        xlabel="units: each copy and each launch is said to take one",
        title=title,
    )
    busy = ", ".join(
        f"{engine} {sum(task.engine == engine for task in gpu.tasks)}" for engine in ENGINES
    )
    streams = len({task.stream for task in gpu.tasks})
    alt = (
        f"{title}: {many(len(gpu.tasks), 'task')} of {many(streams, 'stream')} ({busy}) are "
        f"done after {end} units. A model of what overlaps, not a time."
    )
    return Picture(figure, alt)
