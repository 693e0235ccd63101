"""Cache of values that numba-cuda computes repeatedly while it compiles one kernel.

The cache does not change a kernel's IR or PTX. It saves a seventh of the time that Numba takes to
compile a kernel. It contains:

- The size of an LLVM type. llvmlite parses a module with one variable for each query, about a
  hundred times per kernel. CUDA has one data layout, so a type has one size.
- The hash of a node of debug information. It covers all nodes below, and each line of a kernel
  looks one up. The nodes do not change.
- The options of a compilation as a dict. They are a part of the key of each function that Numba's
  typing looks up, and Numba reads about forty properties for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def replacements() -> Iterator[tuple[type, str, Callable]]:
    """Return owner, name and replacement of each method."""
    from llvmlite.ir.values import DIValue
    from numba.cuda.core.targetconfig import TargetConfig
    from numba.cuda.target import CUDATargetContext

    yield CUDATargetContext, "get_abi_sizeof", _sizes(CUDATargetContext.get_abi_sizeof)
    yield DIValue, "__hash__", _kept(DIValue.__hash__)
    yield TargetConfig, "values", _values


def _sizes(original: Callable[[Any, Any], int]) -> Callable[[Any, Any], int]:
    known: dict[str, int] = {}

    def get_abi_sizeof(self: Any, ty: Any) -> int:
        text = str(ty)
        if "%" in text:  # by name, and another module may use the name for another type
            return original(self, ty)
        if text not in known:
            known[text] = original(self, ty)
        return known[text]

    return get_abi_sizeof


def _kept(original: Callable[[Any], int]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        try:
            found: int = self._hash_once
        except AttributeError:
            found = self._hash_once = original(self)
        return found

    return __hash__


def _values(self: Any) -> dict[str, Any]:
    """Return every option, in order, with its value or default, as the original does."""
    given = self._values
    return {
        name: given[name] if name in given else option.default
        for name, option in self.options.items()
    }
