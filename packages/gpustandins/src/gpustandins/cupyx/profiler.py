"""``cupyx.profiler``: host times, as there are no GPU times here.

No GPU runs here, so :func:`benchmark` measures how long the host needs for the GPU's work, which
says nothing about a GPU. ``virtualgpu.profile()`` counts the work of a kernel exactly.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["benchmark", "profile", "time_range"]

PATIENCE = 10.0  # seconds, if no max_duration is given


class _PerfCaseResult:
    """Result of :func:`benchmark`.

    Attributes
    ----------
    name : str
    cpu_times : numpy.ndarray
        Seconds that the host needed for each call, including the virtual GPU's work. float64,
        shape (calls,).
    gpu_times : numpy.ndarray
        NaN, because no GPU ran. float64, shape (devices, calls).
    """

    def __init__(self, name: str, cpu_times: list[float], devices: tuple[int, ...]):
        self.name = name
        self.cpu_times = np.asarray(cpu_times, np.float64)
        self.gpu_times = np.full((len(devices), len(cpu_times)), np.nan)
        self._devices = devices

    def to_str(self, show_gpu: bool = False) -> str:
        """Return CuPy's line of text; ``show_gpu`` adds that there is no GPU time."""
        us = self.cpu_times * 1e6
        text = f"{self.name:<20s}:    CPU:{us.mean():9.03f} us"
        if us.size > 1:
            text += f"   +/-{us.std():6.03f} (min:{us.min():9.03f} / max:{us.max():9.03f}) us"
        if show_gpu:
            for device in self._devices:
                text += f"     GPU-{device}:      nan us"
            text += (
                f"\n{'':<20s}     (the virtual GPU has no times: the host did its work, which is "
                "in the CPU time)"
            )
        return text

    def __str__(self) -> str:
        return self.to_str(show_gpu=True)

    __repr__ = __str__


def benchmark(
    func: Callable,
    args: tuple = (),
    kwargs: dict | None = None,
    n_repeat: int = 10000,
    *,
    name: str | None = None,
    n_warmup: int = 10,
    max_duration: float = math.inf,
    devices: tuple[int, ...] | None = None,
) -> _PerfCaseResult:
    """Call a function repeatedly and measure the host time of each call.

    Parameters
    ----------
    func : callable
    args, kwargs : tuple, dict
        Its arguments.
    n_repeat, n_warmup : int
        The numbers of timed calls and of calls before them.
    name : str, optional
        The name in the report.
    max_duration : float
        Seconds after which no further call is made. The default is 10 s (CuPy has no limit),
        because ten thousand calls would take the host too long.
    devices : tuple of int, optional

    Returns
    -------
    an object with ``cpu_times`` (seconds), ``gpu_times`` (NaN) and a text
    """
    kwargs = {} if kwargs is None else kwargs
    devices = (0,) if devices is None else devices
    for wanted, value, words in (
        (tuple, args, "`args` should be of tuple type."),
        (dict, kwargs, "`kwargs` should be of dict type."),
        (int, n_repeat, "`n_repeat` should be an integer."),
        (int, n_warmup, "`n_warmup` should be an integer."),
        (tuple, devices, "`devices` should be of tuple type"),
    ):
        if not isinstance(value, wanted):
            raise ValueError(words)
    if not callable(func):
        raise ValueError("`func` should be a callable object.")
    if not isinstance(max_duration, int | float):
        raise ValueError("`max_duration` should be given in seconds")
    if name is None:
        name = getattr(func, "__name__", type(func).__name__)
    if not isinstance(name, str):
        raise ValueError("`name` should be a string.")
    patience = PATIENCE if math.isinf(max_duration) else max_duration
    begun = time.perf_counter()
    for _ in range(n_warmup):
        func(*args, **kwargs)
        if time.perf_counter() - begun > patience / 2:
            break
    times, begun = [], time.perf_counter()
    for _ in range(n_repeat):
        start = time.perf_counter()
        func(*args, **kwargs)
        end = time.perf_counter()
        times.append(end - start)
        if end - begun > patience:
            break
    return _PerfCaseResult(name, times, devices)


class time_range:
    """Named range for a profiler's timeline, as a decorator or in a ``with`` statement.

    It has no effect, as there is no such profiler here.

    Parameters
    ----------
    message : str, optional
        Its name; for a decorator, by default the function's name.
    color_id, argb_color : int, optional
        Only one of them may be given.
    sync : bool
        Has no effect, because work is done when a call returns.
    """

    def __init__(
        self,
        message: str | None = None,
        color_id: int | None = None,
        argb_color: int | None = None,
        sync: bool = False,
    ):
        if color_id is not None and argb_color is not None:
            raise ValueError("Only either color_id or argb_color can be specified")
        self.message = message

    def __enter__(self) -> time_range:
        if self.message is None:
            raise ValueError("Specify message parameter")
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """End the range."""

    def __call__(self, func: Callable) -> Callable:
        self.message = self.message or func.__name__

        @functools.wraps(func)
        def inner(*args, **kwargs):
            with self:
                return func(*args, **kwargs)

        return inner


@contextmanager
def profile():
    """Do nothing; ``virtualgpu.profile()`` counts the work of kernels."""
    yield
