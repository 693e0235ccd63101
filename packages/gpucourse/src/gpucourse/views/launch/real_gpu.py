"""Views on a machine with a GPU: times from the GPU, counts from the virtual GPU.

Each figure says where it comes from. A kernel in which the virtual GPU found a bad address or that
it had to stop is not run on the GPU: after an illegal address a process has no GPU any more.

On a GPU the lessons' cards were shown (``lab/results/gpu_check.json``); tests have the virtual GPU
in the part of the real one.
"""

from __future__ import annotations

import statistics
import warnings

import numpy as np

from gpucourse.system.device import device
from gpucourse.views.launch import card
from gpucourse.views.launch.runs import Launch, Observed, copies_for, observe, to_host
from gpucourse.views.page import View, box, note
from virtualgpu.errors import VirtualGPUError

#: Launches that are timed, after one that warms up: their median is what counts.
REPEATS = 21


def sentence(launch: Launch, observed: Observed) -> str:
    """Return the kernel's time on the GPU in words, and where the counts come from."""
    counted = "Counts are from the virtual GPU, which measures no time."
    if observed.error is not None:
        return f"Not run on the {device().name}, because the launch fails. {counted}"
    elapsed = milliseconds(launch)
    return (
        f"{elapsed:.3g} ms on the {device().name} (CUDA events, median of {REPEATS} launches "
        f"after one to warm up). {counted}"
    )


def milliseconds(launch: Launch) -> float:
    """Return the median time of a launch on the current device, between two CUDA events.

    All launches work on one set of copies, so a kernel that changes its input sees it changed.
    """
    from numba import cuda

    copies = copies_for(launch.kernel, launch.arguments)
    times = []
    with warnings.catch_warnings(action="ignore"):
        launch.run(launch.kernel, copies)
        cuda.synchronize()
        for _ in range(REPEATS):
            start, stop = cuda.event(), cuda.event()
            start.record()
            launch.run(launch.kernel, copies)
            stop.record()
            stop.synchronize()
            times.append(cuda.event_elapsed_time(start, stop))
    return statistics.median(times)


class WatchedOnGPU:
    """The launches of Numba kernels inside a ``with``, repeated afterwards on copies.

    The arguments are copied to the host before each launch, which is slow, and is why this is a
    magic and not a habit.
    """

    def __init__(self):
        self.error: VirtualGPUError | None = None
        self.launches: list[Launch] = []

    def __enter__(self) -> WatchedOnGPU:
        from numba.cuda.dispatcher import _LaunchConfiguration

        original = self._original = _LaunchConfiguration.__call__
        launches = self.launches

        def call(configured, *args):
            kept = tuple(np.array(a) if isinstance(a, np.ndarray) else to_host(a) for a in args)
            launches.append(
                Launch(
                    configured.dispatcher,
                    configured.griddim,
                    configured.blockdim,
                    kept,
                    configured.sharedmem,
                )
            )
            return original(configured, *args)

        _LaunchConfiguration.__call__ = call
        return self

    def __exit__(self, *raised) -> None:
        from numba.cuda.dispatcher import _LaunchConfiguration

        _LaunchConfiguration.__call__ = self._original

    @property
    def launched(self) -> bool:
        return bool(self.launches)

    def view(self) -> View:
        if not self.launches:
            return View(box(note(card.NOTHING)), card.NOTHING)
        views = []
        for launch in self.launches[: card.MOST_CARDS]:
            observed = observe(launch)
            views.append(card.card(observed, sentence(launch, observed)))
        return View(
            "".join(view.markup for view in views), "\n\n".join(view.text for view in views)
        )
