"""Public context managers ``check()``, ``profile()`` and ``schedule()``.

Inside them, Numba and cuTile launches that would go to a real GPU go to the virtual GPU instead
(:func:`reroute`), so that no launch is missed.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ParamSpec, TypeVar

from virtualgpu import devices
from virtualgpu.findings import Report
from virtualgpu.numba import beside_gpu as of_numba
from virtualgpu.watch import instruments
from virtualgpu.watch.streamcheck import Streamcheck

_Given = ParamSpec("_Given")
_Value = TypeVar("_Value")


@contextmanager
def reroute() -> Iterator[None]:
    """Run launches inside the context on the virtual GPU, even if there is a real one.

    This applies to launches of ``numba.cuda`` (:mod:`virtualgpu.numba.beside_gpu`) and of cuTile
    (:mod:`virtualgpu.driver.cutile_beside`).
    """
    with of_numba.reroute(), _tiles():
        yield


def _tiles() -> AbstractContextManager[None]:
    if "cuda.tile" not in sys.modules:
        return nullcontext()
    from virtualgpu.driver import cutile_beside  # needs the driver's bindings, which macOS lacks

    return cutile_beside.reroute()


def _rerouted(
    instrument: Callable[_Given, AbstractContextManager[_Value]],
) -> Callable[_Given, AbstractContextManager[_Value]]:
    @contextmanager
    @functools.wraps(inspect.unwrap(instrument))
    def on_the_virtual_gpu(*arguments: _Given.args, **named: _Given.kwargs) -> Iterator[_Value]:
        with reroute(), instrument(*arguments, **named) as value:
            yield value

    return on_the_virtual_gpu


@contextmanager
def check(*, streams: bool = False) -> Iterator[Report]:
    """Look for faults in every kernel that is launched inside the ``with``.

    >>> with virtualgpu.check() as report:
    ...     kernel[blocks, threads](a, b)
    >>> report.ok, report.findings
    >>> print(report)

    The report has races, barriers that some threads of a block do not reach, and reads of
    uninitialised memory. Bad addresses, deadlocks and all other errors that stop a kernel are
    raised as usual, and are in the report too.

    Parameters
    ----------
    streams : bool
        Look for missing synchronisation between streams, and between a stream and the host
        (findings of the kind ``stream``: :mod:`virtualgpu.watch.streamcheck`). Launches are then
        interpreted, never compiled to native code.
    """
    with reroute(), instruments.check(streamcheck if streams else None) as report:
        yield report


def streamcheck(report: Report, races: Any) -> Streamcheck:
    """Return an observer that finds missing synchronisation of streams.

    ``races`` is the Racecheck that fills ``report``.
    """
    return Streamcheck(report, races, devices.number, devices.device_address)


profile = _rerouted(instruments.profile)
schedule = _rerouted(instruments.schedule)
sample = _rerouted(instruments.sample)
