"""Views on a machine with a GPU: times from the GPU, counts from the virtual GPU.

Each number is labelled with its source. A kernel is not run on the GPU if the virtual GPU found an
invalid address in it or had to stop it, because after an illegal address a process can no longer
use the GPU.

The lessons' cards were shown on a GPU (``lab/results/gpu_check.json``). In the tests, the virtual
GPU takes the place of the real one.
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

#: Timed launches after one warm-up; their median is shown.
REPEATS = 21


def sentence(launch: Launch, observed: Observed) -> str:
    """Return the kernel's time on the GPU in words, and the source of the counts."""
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

    All launches use the same copies of the arguments, so a kernel that changes its input works on
    changed values.
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
    """Record of Numba launches inside a ``with`` block, which are then repeated on copies.

    The arguments are copied to the host before each launch. This is slow, so it happens only in
    the magic.
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
