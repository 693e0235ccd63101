"""Recorder of the kernels that a real GPU would have run, expression by expression.

A stand-in computes ``-b + c`` on arrays with NumPy, in one call or several. The library that it
replaces would launch kernels, and this module lists them:

>>> with virtualgpu.launches() as launched:
...     -b + c
>>> print(launched)
1 cupy_negative__float64_float64          1,000,000 elements
2 cupy_add__float64_float64_float64       1,000,000 elements

With ``exact=True``, a :class:`Launched` is exactly one launch of the original library
(element-wise functions, reductions, copies and casts, user-defined kernels). With
``exact=False``, it is a routine that launches an unknown number of kernels (sorting, linear
algebra, FFT, random numbers). Times are never recorded, because no GPU ran.
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
        Name of a kernel, as a profiler would show it, or of a routine's function.
    kind : str
        ``elementwise``, ``reduction``, ``copy``, ``fill``, ``raw``, ``fused`` or ``routine``.
    size : int
        Elements of the result (of the operand, for a reduction); 0 if it has no meaning.
    exact : bool
        True if the original library launches exactly this one kernel.
    details : dict
        Further data: ``grid``, ``block``, ``dtypes``, ``source``.
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

    ``recorded`` is False on a machine with a GPU, where the original libraries run. They keep no
    list, so an empty list then has no meaning.
    """

    recorded: bool = True

    @property
    def names(self) -> list[str]:
        return [one.name for one in self]

    @property
    def exact(self) -> bool:
        """Return True if ``len`` is the number of kernels that the original library launches."""
        return self.recorded and all(one.exact for one in self)

    def __str__(self) -> str:
        if not self.recorded:
            return (
                "not recorded: the GPU runs these kernels, and a profiler lists them "
                "(nsys profile --stats=true python ...)"
            )
        return "\n".join(f"{i:>3} {one}" for i, one in enumerate(self, 1)) or "no kernel"


def listening() -> bool:
    """Return True inside :func:`launches`; only then does :func:`record` need arguments."""
    return bool(_listening)


def record(
    name: str, kind: str = "elementwise", *, size: int = 0, exact: bool = True, **details: Any
) -> None:
    """Record that the original library would have launched ``name`` now."""
    if _listening:
        one = Launched(name, kind, int(size), exact, details)
        for launches_ in _listening:
            launches_.append(one)


@contextmanager
def launches() -> Iterator[Launches]:
    """List the launches that the original libraries would make inside the ``with``."""
    mine = Launches()
    mine.recorded = finder.is_installed()
    _listening.append(mine)
    try:
        yield mine
    finally:
        # remove() would not do, because two empty lists are equal.
        _listening[:] = [other for other in _listening if other is not mine]


@contextmanager
def silence() -> Iterator[None]:
    """Record nothing inside the ``with``, for a step of a launch that is already recorded."""
    before = _listening[:]
    _listening.clear()
    try:
        yield
    finally:
        _listening[:] = before
