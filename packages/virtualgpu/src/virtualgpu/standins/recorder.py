"""The kernels that a real GPU would have run, expression by expression.

A stand-in computes ``-b + c`` on arrays with NumPy, in one call or several. The library that it
stands in for launches kernels instead, and a lecture shows how many:

>>> with virtualgpu.launches() as launched:
...     -b + c
>>> print(launched)
1 cupy_negative__float64_float64          1,000,000 elements
2 cupy_add__float64_float64_float64       1,000,000 elements

Each :class:`Launched` says whether the original's launches are known one for one
(``exact=True``: element-wise functions, reductions, copies and casts, user-defined kernels) or
whether the entry stands for a routine that launches an unknown number of kernels
(``exact=False``: sorting, linear algebra, FFT, random numbers). Times are never recorded: no
GPU ran.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from virtualgpu.standins import finder
from virtualgpu.wording import many

_listening: list[Launches] = []


@dataclass(frozen=True)
class Launched:
    """One kernel, or one routine of unknown kernels.

    Attributes
    ----------
    name : str
        What a profiler would show for a kernel; the function's name for a routine.
    kind : str
        ``elementwise``, ``reduction``, ``copy``, ``fill``, ``raw``, ``fused`` or ``routine``.
    size : int
        Elements of the result (of the operand, for a reduction); 0 where that says nothing.
    exact : bool
        Whether the original launches exactly this one kernel here.
    details : dict
        What else is known: ``grid``, ``block``, ``dtypes``, ``source``.
    """

    name: str
    kind: str = "elementwise"
    size: int = 0
    exact: bool = True
    details: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        size = many(self.size, "element") if self.size else ""
        known = "" if self.exact else "one kernel or more"
        return f"{self.name:<40} {size:>22} {known}".rstrip()


class Launches(list[Launched]):
    """The kernels of one ``with`` block, in order.

    ``recorded`` is False where the originals answer, on a machine with a GPU: they keep no list,
    so an empty one says nothing there.
    """

    recorded: bool = True

    @property
    def names(self) -> list[str]:
        return [one.name for one in self]

    @property
    def exact(self) -> bool:
        """Return True if ``len`` is the number of kernels that the original would launch."""
        return self.recorded and all(one.exact for one in self)

    def __str__(self) -> str:
        if not self.recorded:
            return (
                "not recorded: the GPU runs these kernels, and a profiler lists them "
                "(nsys profile --stats=true python ...)"
            )
        return "\n".join(f"{i:>3} {one}" for i, one in enumerate(self, 1)) or "no kernel"


def listening() -> bool:
    """Return True while a :func:`launches` is open: only then :func:`record` needs arguments."""
    return bool(_listening)


def record(
    name: str, kind: str = "elementwise", *, size: int = 0, exact: bool = True, **details: Any
) -> None:
    """Say that the original would have launched ``name`` now."""
    if _listening:
        one = Launched(name, kind, int(size), exact, details)
        for launches_ in _listening:
            launches_.append(one)


@contextmanager
def launches() -> Iterator[Launches]:
    """List the launches that the originals of the stand-ins would make inside the ``with``."""
    mine = Launches()
    mine.recorded = finder.is_installed()
    _listening.append(mine)
    try:
        yield mine
    finally:
        # Not remove(): two empty lists are equal.
        _listening[:] = [other for other in _listening if other is not mine]


@contextmanager
def silence() -> Iterator[None]:
    """Record nothing inside the ``with``: for a step that is part of a launch already named."""
    before = _listening[:]
    _listening.clear()
    try:
        yield
    finally:
        _listening[:] = before
