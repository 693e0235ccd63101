"""``fuse``: the elementwise functions that a Python function calls, in one generated kernel.

A reduction may be the last step.

The function runs once for each combination of argument types, with traced values as its arguments.
They record each operation, and the record becomes one C++ loop body, which an
:class:`~cupy.ElementwiseKernel` compiles and launches.
"""

from __future__ import annotations

import functools
import re
import sys
import traceback
from typing import Any

import numpy as np

from .._arrays import core
from .._tracing import TRACING
from . import elementwise, reduction
from .code import type_name
from .expressions import PREAMBLE
from .trace import NUMBERS, Reduced, Trace, Traced, cast, literal


class FusedKernel(elementwise.ElementwiseKernel):
    """Generated kernel that is recorded as fused."""

    _kind = "fused"


class FusedReduction(reduction.ReductionKernel):
    """Generated kernel that ends with a reduction and is recorded as fused."""

    _kind = "fused"


def _kernel(trace: Trace, result: Any, name: str) -> tuple[Any, dict]:
    """Return the kernel that computes the function's result, and its keyword arguments."""
    name = re.sub(r"\W", "_", name)  # a lambda's name, for example
    if isinstance(result, Reduced):
        return _reduction_kernel(trace, result, name), result.kwargs
    if result is None:
        results = ()
    elif isinstance(result, tuple):
        results = tuple(trace.traced(one) for one in result if one is not None)
    else:
        results = (trace.traced(result),)
    ins = ", ".join(
        f"{'_non_const ' * (one._name in trace.assigned)}{one.dtype} {one._name}"
        for one in trace.arguments
        if one is not None
    )
    outs = ", ".join(f"{one.dtype} r{i}" for i, one in enumerate(results))
    lines = [*trace.lines, *(f"r{i} = {one._name};" for i, one in enumerate(results))]
    return FusedKernel(
        ins,
        outs,
        "\n".join(lines),
        name,
        preamble=PREAMBLE,
        no_return=result is None,
        return_tuple=isinstance(result, tuple),
    ), {}


def _reduction_kernel(trace: Trace, last: Reduced, name: str) -> FusedReduction:
    """Return the kernel that computes the elements and reduces them."""
    if trace.assigned:
        raise NotImplementedError(
            "the stand-in's cupy.fuse cannot combine an assignment to an argument with a reduction"
        )
    given = [one for one in trace.arguments if one is not None]
    declared = ", ".join(f"{type_name(one.dtype)} {one._name}" for one in given)
    body = "\n".join(trace.lines)
    kind = type_name(last.dtype)
    mapping = (
        f"{PREAMBLE}\n__device__ {kind} _mapped({declared}) {{\n{body}\n"
        f"return {cast(last.value._name, last.dtype)};\n}}\n"
    )
    start, expression_ = _reduction(last.name, last.dtype)
    kernel = FusedReduction(
        ", ".join(f"{one.dtype} {one._name}" for one in given),
        f"{last.dtype} r0",
        f"_mapped({', '.join(one._name for one in given)})",
        expression_,
        "r0 = a",
        start if last.name in ("sum", "prod") else None,
        name,
        kind,
        preamble=mapping,
    )
    kernel._start = start
    return kernel


def _reduction(name: str, dtype: np.dtype) -> tuple[str, str]:
    """Return the start value and the expression of a reduction in C++."""
    if name == "sum":
        return "0", "a + b"
    if name == "prod":
        return "1", "a * b"
    if dtype.kind not in "iuf":
        raise NotImplementedError(f"the stand-in's cupy.fuse cannot fuse {name} of {dtype}")
    sign = ">" if name == "max" else "<"
    if dtype.kind == "f":
        worst = dtype.type("-inf" if name == "max" else "inf")
        return literal(worst), f"isnan(a) ? a : isnan(b) ? b : a {sign} b ? a : b"
    limits = np.iinfo(dtype)
    return (literal(dtype.type(limits.min if name == "max" else limits.max)), f"a {sign} b ? a : b")


class Fusion:
    """Function whose elementwise operations run in one kernel; :func:`fuse` creates it."""

    def __init__(self, func, name: str | None = None):
        self.func, self.name = func, name or func.__name__
        self._kernels: dict[tuple, tuple[Any, dict]] = {}

    def __repr__(self) -> str:
        return f"<Fusion '{self.name}'>"

    def __call__(self, *args):
        """Launch the kernel for these argument types.

        If no argument is an array, the function itself is called.
        """
        if any(isinstance(one, Traced) for one in args):
            return self.func(*args)  # inside another fused function
        if not any(isinstance(one, core.ndarray) for one in args):
            return self.func(*args)
        for one in args:
            if not isinstance(one, (core.ndarray, np.generic, *NUMBERS, type(None))):
                raise TypeError(
                    f"Invalid argument type for '{self.name}': "
                    f"({', '.join(repr(type(a)) for a in args)})"
                )
        key = tuple(
            (one.dtype, one.ndim) if isinstance(one, core.ndarray) else type(one) for one in args
        )
        if key not in self._kernels:
            self._kernels[key] = self._trace(args)
        kernel, kwargs = self._kernels[key]
        return kernel(*(one for one in args if one is not None), **kwargs)

    def _trace(self, args: tuple) -> tuple[Any, dict]:
        trace, before = Trace(args), TRACING.trace
        TRACING.trace = trace
        try:
            result = self.func(*trace.arguments)
        except TypeError as error:
            if "Traced" not in str(error) and "Reduced" not in str(error):
                raise
            raise NotImplementedError(
                f"{_refused(error) or self.name} cannot be fused, because it does not accept "
                "traced values. The stand-in's cupy.fuse supports CuPy's elementwise functions "
                "and operators, and a reduction at the end; call other functions outside the "
                "fused function"
            ) from error
        finally:
            TRACING.trace = before
        return _kernel(trace, result, self.name)

    def clear_cache(self) -> None:
        """Discard all compiled kernels."""
        self._kernels.clear()


def _refused(error: TypeError) -> str:
    """Return the CuPy function that refused a traced value, by its public name."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        name = frame.f_code.co_name
        inside = frame.f_globals.get("__name__", "").startswith("cupy.")
        if inside and not name.startswith("_") and hasattr(sys.modules["cupy"], name):
            return f"cupy.{name}"
    return ""


def fuse(*args, **kwargs):
    """Decorate a function of arrays so that it is computed in one kernel.

    >>> @cupy.fuse
    ... def quadratic_formula(a, b, c):
    ...     return (-b + cupy.sqrt(b**2 - 4 * a * c)) / (2 * a)

    ``kernel_name`` is the name of the kernel. The function may use CuPy's ufuncs, ``cupy.where``,
    operators, constants and ``.astype``, and a ``sum``, ``prod``, ``max`` or ``min`` as the last
    step. Other functions that real CuPy can fuse raise NotImplementedError.
    """
    if len(args) == 1 and not kwargs and callable(args[0]):
        return functools.update_wrapper(Fusion(args[0]), args[0])

    def decorate(function, kernel_name: str | None = None):
        return functools.update_wrapper(Fusion(function, kernel_name), function)

    return lambda function: decorate(function, *args, **kwargs)
