"""A numba.cuda kernel as linked PTX, without a launch: for graders and for reading.

Beside :mod:`virtualgpu.numba.hooks` the only place that knows numba-cuda's dispatcher;
needs :func:`virtualgpu.activate`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

#: Of kernels, beside numba-cuda's own: its successor's, once that is adapted.
classes: list[type] = []


class CompiledKernel(NamedTuple):
    """PTX texts to load together, the kernel's name in them, and its launch requirements."""

    texts: list[str]
    entry: str
    cooperative: bool


def is_kernel(value: object) -> bool:
    """Return True if ``value`` came out of ``@cuda.jit`` and can be launched."""
    from numba.cuda.dispatcher import CUDADispatcher

    return isinstance(value, (CUDADispatcher, *classes)) and not value.targetoptions.get("device")  # type: ignore[attr-defined]


def compile_kernel(dispatcher: Any, types: tuple) -> CompiledKernel:
    """Compile for argument ``types`` (numba's). Raises numba's own errors for what cannot be."""
    compiled = dispatcher.compile(types)
    linked = compiled._codelibrary.get_cufunc().kernel
    return CompiledKernel(list(linked.code.texts), linked.name, bool(compiled.cooperative))
