"""``cupy.fft.config``: CuPy's settings for cuFFT."""

from __future__ import annotations

from typing import Any

#: CuPy's defaults, which have no effect because NumPy computes the transforms.
enable_nd_planning = True
use_multi_gpus = False

__all__ = ["PlanCache", "clear_plan_cache", "enable_nd_planning", "get_plan_cache",
           "show_plan_cache_info", "use_multi_gpus"]  # fmt: skip


class PlanCache:
    """Cache of plans, always empty because NumPy's transforms need none.

    Its limits (the number of plans and the bytes of their work areas, -1 for no limit) can be set
    and read.
    """

    def __init__(self, size: int = 16, memsize: int = -1, dev: int = -1) -> None:
        self._size, self._memsize = size, memsize

    def get_size(self) -> int:
        return self._size

    def set_size(self, size: int) -> None:
        self._size = int(size)

    def get_memsize(self) -> int:
        return self._memsize

    def set_memsize(self, memsize: int) -> None:
        self._memsize = int(memsize)

    def get_curr_size(self) -> int:
        """Return the number of stored plans."""
        return 0

    def get_curr_memsize(self) -> int:
        """Return the bytes of the plans' work areas."""
        return 0

    def clear(self) -> None:
        """Do nothing, because the cache is always empty."""

    def show_info(self) -> None:
        """Print the stored plans."""
        print("The plan cache is empty, because NumPy's transforms need no plan")


_cache = PlanCache()


def get_plan_cache() -> PlanCache:
    """Return the only cache."""
    return _cache


def clear_plan_cache() -> None:
    _cache.clear()


def show_plan_cache_info() -> None:
    _cache.show_info()


def __getattr__(name: str) -> Any:
    from .._missing import missing

    raise missing(__name__, name, "the transforms with their defaults")
