"""One teaching kernel: its text, how it is launched, and what NumPy says of its results."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

import virtualgpu

Pairs = Iterable[tuple[Any, Any]]  # what the kernel left, and what is right


@dataclass(frozen=True)
class Sample:
    """``check`` launches and gives pairs to compare; ``refused`` has words of the sentence with
    which the machine turns the kernel down instead, ``told`` those of what ``check()`` must say."""

    name: str
    source: str
    check: Callable[[Kernels], Pairs]
    options: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    refused: str = ""
    told: str = ""


class Kernels:
    """The kernels of one text, by ``k(name, grid, block, *arguments, shared=0)``.

    A NumPy array goes to the device and comes back changed; a Python int is an ``int``, a float a
    ``float``. ``printed`` has what the kernels have printed.
    """

    def __init__(self, sample: Sample):
        self.module = cupy.RawModule(
            code=sample.source,
            options=("-std=c++17", *sample.options),
            name_expressions=sample.names or None,
        )
        self.printed = ""

    def __call__(
        self, name: str, grid: int | tuple, block: int | tuple, *arguments: Any, shared: int = 0
    ) -> None:
        there = {id(a): cupy.asarray(a) for a in arguments if isinstance(a, np.ndarray)}
        given = [there.get(id(a), _number(a)) for a in arguments]
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            self.module.get_function(name)(
                grid if isinstance(grid, tuple) else (grid,),
                block if isinstance(block, tuple) else (block,),
                tuple(given),
                shared_mem=shared,
            )
        self.printed += told.getvalue()
        for a in arguments:
            if isinstance(a, np.ndarray):
                a[...] = there[id(a)].get()

    def constant(self, name: str, values: np.ndarray) -> None:
        """Fill a ``__constant__`` or ``__device__`` array."""
        memory = self.module.get_global(name)
        cupy.ndarray(values.shape, values.dtype, memory)[...] = cupy.asarray(values)


def _number(value: Any) -> Any:
    return {int: np.int32, float: np.float32}.get(type(value), lambda same: same)(value)


class Samples(dict[str, Sample]):
    """Samples by name."""

    def add(self, name: str, source: str, **more: Any) -> Callable[[Callable], Callable]:
        def keep(check: Callable[[Kernels], Pairs]) -> Callable[[Kernels], Pairs]:
            assert name not in self, name
            self[name] = Sample(name, source, check, **more)
            return check

        return keep


def outcome(sample: Sample) -> str:
    """``right``, ``refused``, or what is wrong. Every launch is watched by ``check()``."""
    try:
        with virtualgpu.check() as report:
            pairs = list(sample.check(Kernels(sample)))
    except Exception as error:  # of a compiler, a launch or a check: told in the table
        said = str(error)
        if sample.refused and sample.refused in said:
            return "refused"
        return f"{type(error).__name__}: {said}"
    if sample.refused:
        return "it was to be refused, and ran"
    if sample.told:
        if sample.told not in str(report):
            return f"check() was to say {sample.told!r}: {report}"
    elif not report.ok:
        return str(report)
    if not pairs:
        return "nothing was compared"
    for number, (got, wanted) in enumerate(pairs):
        if (problem := _difference(got, wanted)) is not None:
            return f"result {number}: {problem}"
    return "right"


def _difference(got: Any, wanted: Any) -> str | None:
    if isinstance(wanted, str):
        return None if got == wanted else f"{got!r} where {wanted!r} is right"
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.shape != wanted.shape:
        return f"shape {got.shape} where {wanted.shape} is right"
    if got.dtype.kind in "fc":
        bound = {2: 1e-2, 4: 1e-4, 8: 1e-10}.get(got.dtype.itemsize, 1e-4)
        wrong = ~np.isclose(got, wanted, rtol=bound, atol=bound)
    else:
        wrong = got != wanted
    if not wrong.any():
        return None
    first = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(wrong)))
    return (
        f"{np.count_nonzero(wrong)} wrong, the first at {first}: "
        f"{np.atleast_1d(got)[first]} where {np.atleast_1d(wanted)[first]} is right"
    )
