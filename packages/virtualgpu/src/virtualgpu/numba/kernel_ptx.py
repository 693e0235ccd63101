"""Compilation of numba.cuda kernels to linked PTX without a launch, for graders and readers.

Apart from :mod:`virtualgpu.numba.hooks`, only this module depends on numba-cuda's dispatcher. It
needs :func:`virtualgpu.activate`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

#: Kernel classes in addition to numba-cuda's own: its successor's, once that is adapted.
classes: list[type] = []


class CompiledKernel(NamedTuple):
    """PTX modules to load together, the kernel's name in them, and its launch requirements."""

    texts: list[str]
    entry: str
    cooperative: bool


def is_kernel(value: object) -> bool:
    """Return True if ``value`` was created by ``@cuda.jit`` and can be launched."""
    from numba.cuda.dispatcher import CUDADispatcher

    return isinstance(value, (CUDADispatcher, *classes)) and not value.targetoptions.get("device")  # type: ignore[attr-defined]


def compile_kernel(dispatcher: Any, types: tuple) -> CompiledKernel:
    """Compile for argument ``types`` (Numba's). Raises Numba's errors if that is impossible."""
    compiled = dispatcher.compile(types)
    linked = compiled._codelibrary.get_cufunc().kernel
    return CompiledKernel(list(linked.code.texts), linked.name, bool(compiled.cooperative))
