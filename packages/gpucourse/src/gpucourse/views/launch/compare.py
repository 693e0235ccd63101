"""Comparison of several implementations of one problem: agreement and cost.

Each kind of cost has its own source. Runs on this machine's processor or GPU have a time. Runs on
the virtual GPU have counts and no time. Recorded runs name their machine and date.
"""

from __future__ import annotations

import copy
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

import virtualgpu
from gpucourse.system.device import device
from gpucourse.views.launch.costs import Comparison, Recorded, Result
from gpucourse.views.launch.runs import to_host
from gpucourse.wording import a_or_an, many

#: Timed runs after one warm-up, unless they take longer than the seconds below.
REPEATS, PATIENCE = 7, 1.0


def compare(
    implementations: Mapping[str, Callable],
    *arguments: object,
    recorded: str | Path | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-8,
) -> Comparison:
    """Run every implementation on copies of the arguments; check that they agree; show the costs.

    Parameters
    ----------
    implementations : dict of str to callable
        Each takes the arguments and returns the answer: an array of any library, a number, or a
        tuple of these. The others must agree with the first.
    *arguments
        Arrays are copied for each call, so yours do not change.
    recorded : path, optional
        Times that :meth:`Comparison.save` wrote on a machine with a GPU. A machine without one
        shows them beside its own results.
    rtol, atol : float
        Tolerances, as in :func:`numpy.allclose`.

    Raises
    ------
    TypeError
        An implementation is not callable, for example a result instead of the function.
    """
    if not isinstance(implementations, Mapping) or not implementations:
        raise TypeError(
            'compare takes a dict of functions: compare({"NumPy": np.sort, "mine": my_sort}, x)'
        )
    for name, function in implementations.items():
        kernel = hasattr(function, "py_func") and hasattr(function, "forall")
        if kernel or not callable(function):
            what = "a kernel, which needs brackets" if kernel else a_or_an(type(function).__name__)
            raise TypeError(
                f"'{name}' is {what}. Pass a function that takes the input and returns the "
                "answer, such as lambda x: ..."
            )
    results, expected = [], None
    for name, function in implementations.items():
        result, answer = _measure(name, function, arguments)
        if answer is not None:
            if expected is None:
                expected = answer
            else:
                result.trouble = _difference(answer, expected, rtol, atol)
                result.agrees = not result.trouble
        results.append(result)
    kept = Recorded.read(recorded) if recorded is not None and device().virtual else None
    return Comparison(results, kept)


def _measure(name: str, function: Callable, arguments: tuple) -> tuple[Result, list | None]:
    """Call once to warm up and to count, then again for the time if it is measured."""
    result = Result(name)
    with virtualgpu.profile() as profile, virtualgpu.launches() as array_kernels:
        try:
            answer = _call(function, arguments)[0]
        except Exception as error:  # any exception from the learner's code becomes the result
            lines = str(error).strip().split("\n")
            result.trouble, result.agrees = f"{type(error).__name__}: {lines[0][:200]}", False
            return result, None
    # NumPy computes the stand-ins' array functions, so their kernels have no grid.
    unseen = [one for one in array_kernels if "grid" not in one.details]
    result.launches = len(profile.launches) + len(unseen)
    if profile.launches:
        result.counters = profile.counters
    if not result.launches or not device().virtual:
        result.seconds = _seconds(function, arguments)
    return result, answer


def _seconds(function: Callable, arguments: tuple) -> float:
    times: list[float] = []
    while len(times) < REPEATS and sum(times) < PATIENCE:
        times.append(_call(function, arguments)[1])
    return statistics.median(times)


def _call(function: Callable, arguments: tuple) -> tuple[list, float]:
    """Return the answer as NumPy arrays, and the seconds that the call took."""
    copies = copy.deepcopy(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        answer = function(*copies)
        parts = list(answer) if isinstance(answer, tuple) else [answer]
        for part in parts:
            if hasattr(part, "block_until_ready"):  # JAX returns before its result is computed
                part.block_until_ready()
        _synchronise()
        elapsed = time.perf_counter() - start
        return [np.asarray(to_host(part)) for part in parts], elapsed


def _synchronise() -> None:
    if not device().virtual:
        from numba import cuda

        cuda.synchronize()


def _difference(answer: list, expected: list, rtol: float, atol: float) -> str:
    """Describe the difference between two answers; empty if they agree."""
    if len(answer) != len(expected):
        return f"returns {many(len(answer), 'value')}, not {len(expected)}"
    for got, right in zip(answer, expected, strict=True):
        if got.shape != right.shape:
            return f"has shape {got.shape}, not {right.shape}"
        close = (
            np.isclose(got, right, rtol, atol, equal_nan=True)
            if right.dtype.kind in "fciub"
            else got == right
        )
        wrong = np.argwhere(~np.asarray(close))
        if len(wrong):
            at = tuple(wrong[0].tolist())
            where = f"element {at[0] if len(at) == 1 else at} " if at else ""
            return f"{where}is {got[at]:.6g}, not {right[at]:.6g}" + (
                f" ({len(wrong):,} of {got.size:,} differ)" if got.size > 1 else ""
            )
    return ""
