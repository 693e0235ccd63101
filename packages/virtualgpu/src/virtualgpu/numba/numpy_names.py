"""NumPy names that numba-cuda needs on import and that NumPy 2.5 removed or deprecated.

``numba.cuda.np.arrayobj`` overloads ``numpy.row_stack``, which was removed, and
``npdatetime_helpers`` creates a time without a unit, which is deprecated. NVIDIA will change
neither, because numba-cuda is in maintenance (numba-cuda issue 907). NumPy has the name only while
these modules are imported.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from virtualgpu.after_import import after_import, forget

_ROW_STACK = "numba.cuda.np.arrayobj"
_TIMES = "numba.cuda.np.npdatetime_helpers"


def lend() -> None:
    """Provide the names during numba-cuda's imports."""
    if _TIMES not in sys.modules:
        _around(_TIMES, *_silence())
    if _ROW_STACK not in sys.modules and not hasattr(np, "row_stack"):
        _around(_ROW_STACK, _give, _drop)


def take_back() -> None:
    """Undo :func:`lend` if the modules have not been imported."""
    forget(_TIMES)
    forget(_ROW_STACK)


def _around(name: str, before: Callable[[], object], after: Callable[[], object]) -> None:
    def imported(module: ModuleType) -> None:
        after()

    after_import(name, imported, before)


def _give() -> None:
    numpy: Any = np
    numpy.row_stack = np.vstack


def _drop() -> None:
    vars(np).pop("row_stack")


def _silence() -> tuple[Callable[[], object], Callable[[], object]]:
    quiet = warnings.catch_warnings(action="ignore", category=DeprecationWarning)
    return quiet.__enter__, lambda: quiet.__exit__(None, None, None)
