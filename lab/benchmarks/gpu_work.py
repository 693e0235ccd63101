"""Groups of contenders that do the same work on the same inputs.

A group creates its inputs once. Each contender is prepared separately, so that a missing library
or a failing kernel affects only its own row. The groups are in the files ``gpu_<subject>.py``;
``gpu_measuring.py`` runs them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: The clock of a contender; see ``gpu_measuring.py``. "events": its work uses CUDA's default
#: stream. "queue": it uses its own streams (JAX), which our CUDA events do not cover. "call": it
#: runs on the CPU, or with copies for which the host waits.
CLOCKS = ("events", "queue", "call")


class Untried(Exception):
    """Error for something that needs a GPU, in a trial without one."""


@dataclass
class Ready:
    """Prepared contender: ``run()`` enqueues the work once, ``check(result)`` asserts."""

    run: Callable[[], Any]
    check: Callable[[Any], None]


@dataclass
class Contender:
    """One implementation of a group's work.

    ``made_by`` is its origin, for colours: "course", "tuned", "C++", "CuPy", "JAX", "CPU".
    """

    id: str
    label: str
    make: Callable[[], Ready]
    clock: str
    made_by: str


@dataclass
class Work:
    """Work of one size of a group.

    ``items`` is the number of ``unit``. ``bytes`` and ``flops`` are the minimum that the work
    needs: each input is read once, each output is written once, and the operations are those of
    the formula. They are None if there is no such number.
    """

    items: int
    unit: str
    bytes: int | None = None
    flops: int | None = None
    contenders: list[Contender] = field(default_factory=list)

    def add(self, id: str, label: str, clock: str = "events", made_by: str = "course"):
        """Decorate the function that prepares a contender."""
        assert clock in CLOCKS, clock

        def keep(make: Callable[[], Ready]) -> Callable[[], Ready]:
            self.contenders.append(Contender(id, label, make, clock, made_by))
            return make

        return keep


@dataclass(frozen=True)
class Group:
    """Work of one kind, in one or several sizes.

    ``build(size)`` creates the inputs on the device. ``sizes`` are for a GPU, ``tries`` for a
    trial without one. ``patience`` is the maximum time for one contender [s]; ``x64`` selects
    double precision in JAX.
    """

    id: str
    title: str
    build: Callable[[int], Work]
    sizes: tuple[int, ...]
    tries: tuple[int, ...]
    patience: float = 1.2
    x64: bool = False


# -- functions for the groups --------------------------------------------------------------------

_state = {"virtual": False, "x64": False}


def prepare(*, virtual: bool) -> None:
    """Prepare the process before any group, for a real or the virtual GPU."""
    from virtualgpu.awkward.kernels import mend_iteration

    _state["virtual"] = virtual
    if virtual:
        import virtualgpu

        virtualgpu.activate(force=True)
    # Numba looks up iterable types once, at its first compilation, so this comes before any group.
    mend_iteration()
    with contextlib.suppress(ImportError):  # the groups that need it report the error
        import awkward

        awkward.numba.register_and_check()


def precision(x64: bool) -> None:
    """Set the precision of :func:`jax_ready` from now on."""
    _state["x64"] = x64


def virtual() -> bool:
    """Return True in a trial without a GPU."""
    return _state["virtual"]


def needs_gpu(what: str) -> None:
    """Raise :class:`Untried` in a trial without a GPU."""
    if virtual():
        raise Untried(f"{what} needs a GPU")


def jax_ready():
    """Import JAX with a GPU (except in a trial), with the group's precision."""
    import jax

    jax.config.update("jax_enable_x64", _state["x64"])
    platform = jax.devices()[0].platform
    if not virtual() and platform not in ("gpu", "cuda"):
        raise RuntimeError(f"JAX runs on the {platform} here, not on the GPU: install jax[cuda13]")
    return jax


def on_jax(array):
    """Convert a CuPy array to a JAX array, through the host."""
    import cupy as cp

    return jax_ready().numpy.asarray(cp.asnumpy(array)).block_until_ready()


def on_numba(array):
    """Convert a CuPy array to a Numba array over the same memory.

    This is done once instead of in each launch, where Numba would wait for CuPy's stream every
    time.
    """
    from numba import cuda

    return cuda.as_cuda_array(array, sync=False)


def multiprocessors() -> int:
    """Return the number of the device's multiprocessors."""
    import cupy as cp

    return int(cp.cuda.runtime.getDeviceProperties(0)["multiProcessorCount"])


def full_grid(threads: int) -> int:
    """Return the number of blocks that fill a GPU once, at 2,048 threads per multiprocessor.

    In a trial there are only a few, because the virtual GPU runs them one after the other.
    """
    return 4 if virtual() else max(1, multiprocessors() * (2048 // threads))


def blocks_for(n: int, threads: int) -> int:
    """Return the number of blocks in which each of n elements has a thread."""
    return (n + threads - 1) // threads


def fitting(size: int, bytes_each: int) -> int:
    """Halve ``size`` until its elements fit into a third of the free memory."""
    import cupy as cp

    free = cp.cuda.runtime.memGetInfo()[0] if not virtual() else math.inf
    while size * bytes_each > free / 3 and size > 1024:
        size //= 2
    return size


def on_cupy(array):
    """Convert any library's array to a CuPy array: Numba's by address, others through the host."""
    import cupy as cp

    if isinstance(array, cp.ndarray) or hasattr(array, "copy_to_host"):
        return cp.asarray(array)
    return cp.asarray(np.asarray(array))


def expect_close(got, expected, rtol: float, what: str = "the result") -> None:
    """Raise AssertionError for the first element of ``got`` that is off by more than ``rtol``.

    All elements are compared, on the device. NaN is never close.
    """
    import cupy as cp

    got, expected = on_cupy(got).ravel(), on_cupy(expected).ravel()
    assert got.shape == expected.shape, f"{what} has shape {got.shape}, not {expected.shape}"
    wrong = ~(cp.abs(got - expected) <= rtol * cp.abs(expected))
    many = int(wrong.sum())
    if many:
        at = int(wrong.argmax())
        raise AssertionError(
            f"{what}: element {at} is {float(got[at])}, not "
            f"{float(expected[at])} ({many:,} of {wrong.size:,} differ)"
        )


def expect_number(got, expected: float, rtol: float) -> None:
    """Raise AssertionError if a number on any device is off by more than ``rtol``."""
    number = float(on_cupy(got).ravel()[0])
    assert abs(number - expected) <= rtol * abs(expected), f"the result is {number}, not {expected}"
