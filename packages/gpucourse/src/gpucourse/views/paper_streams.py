"""Model of streams: queued commands run later, in an order that CUDA's rules permit.

The virtual GPU executes each command when it is called, so it never reveals a missing wait between
two streams. On a GPU, such a fault may show once in a thousand runs. In this model, commands are
only queued, and :meth:`PaperGPU.run` then runs them in a random order that these rules allow:

- commands of one stream run in the order in which they were queued;
- commands of two streams run in any order and may overlap, unless an event orders them:
  commands after ``event.wait(stream)`` begin when all commands before ``event.record(other)`` are
  done. Waiting for an event that was not recorded has no effect;
- ``stream.synchronize()`` and ``gpu.synchronize()`` block the host, so commands queued after the
  call also begin after it.

Names are as in ``numba.cuda``. The default stream, callbacks and graphs are not modelled.

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

#: Engines that work at the same time: one copy in each direction, and kernels.
ENGINES = ("copy in", "kernel", "copy out")


@dataclass(eq=False, slots=True)
class Task:
    """One copy or launch, with the tasks that must finish before it begins."""

    label: str
    engine: str
    stream: int
    action: Callable[[], object]
    after: list[Task] = field(default_factory=list)
    start: int = 0  # start in the timetable, in units of one task


class PaperGPU:
    """Queues of commands, which run in any order that is allowed."""

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
        """Return a new event that is not recorded yet."""
        return Event()

    def buffer(self, size: int) -> np.ndarray:
        """Allocate device memory for ``size`` float64, filled with garbage (NaN)."""
        self.buffers.append(np.full(size, np.nan))
        return self.buffers[-1]

    def synchronize(self) -> None:
        """Wait for everything that was queued."""
        self._host_waited_for = list(self.tasks)

    def run(self, seed: int) -> list[Task]:
        """Run the queue in a random allowed order, and return that order."""
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
        """Set each task's earliest start if every task takes one unit; return the end time.

        Each engine does one task at a time, in the order in which its tasks were queued. This
        models what overlaps and not how long it takes.
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
        """Queue a copy from the host to the device; raise ValueError for other memory."""
        self._demand_device("copy_in", buffer)
        self.gpu._queue(self, "copy in", label, lambda: np.copyto(buffer, host))

    def launch(self, kernel: Callable, *arguments: object, label: str = "kernel") -> None:
        """Queue a launch, which later calls ``kernel(*arguments)``."""
        self.gpu._queue(self, "kernel", label, lambda: kernel(*arguments))

    def copy_out(self, buffer: np.ndarray, host: np.ndarray, label: str = "out") -> None:
        """Queue a copy from the device to the host; raise ValueError for other memory."""
        self._demand_device("copy_out", buffer)
        self.gpu._queue(self, "copy out", label, lambda: np.copyto(host, buffer))

    def _demand_device(self, what: str, buffer: np.ndarray) -> None:
        if not any(np.shares_memory(buffer, one) for one in self.gpu.buffers):
            raise ValueError(f"{what} needs device memory there: gpu.buffer(size) returns it")

    def synchronize(self) -> None:
        """Wait for everything that was queued in this stream."""
        if self.last is not None:
            self.gpu._host_waited_for = [*self.gpu._host_waited_for, self.last]


class Event:
    """A mark in a stream for which other streams can wait."""

    def __init__(self) -> None:
        self._marks: list[Task] = []

    def record(self, stream: Stream) -> None:
        """Mark the current end of the stream's queue, instead of any earlier mark."""
        # A wait at the end of the queue becomes part of the mark.
        self._marks = [*stream.waits, *([stream.last] if stream.last is not None else [])]

    def wait(self, stream: Stream) -> None:
        """Delay the stream's later commands until the event is reached."""
        stream.waits = [*stream.waits, *self._marks]


def draw(gpu: PaperGPU, title: str):
    """Draw the timetable with a row for each engine and a colour for each stream."""
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
        xlabel="time in units; each copy and each launch takes one unit",
        title=title,
    )
    busy = ", ".join(
        f"{engine} {sum(task.engine == engine for task in gpu.tasks)}" for engine in ENGINES
    )
    streams = len({task.stream for task in gpu.tasks})
    alt = (
        f"{title}: {many(len(gpu.tasks), 'task')} of {many(streams, 'stream')} ({busy}) are "
        f"done after {end} units. This models what overlaps, not how long it takes."
    )
    return Picture(figure, alt)
