"""``cupyx.jit``: kernels in Python, which ``numba.cuda`` compiles here.

The names of this module in a kernel are replaced by those of ``numba.cuda`` before it is compiled.
Types follow Numba's rules instead of CuPy's.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
from typing import Any

import cupy as _cupy
import numpy as _numpy
from cupy import _launches
from cupy._missing import missing

#: Names for kernels → the same in ``numba.cuda``. The arguments of a call stay unchanged.
_NUMBA = {
    **{
        name: name
        for name in (
            "threadIdx",
            "blockDim",
            "blockIdx",
            "gridDim",
            "grid",
            "gridsize",
            "laneid",
            "warpsize",
            "syncthreads",
            "syncwarp",
            "shfl_sync",
            "shfl_up_sync",
            "shfl_down_sync",
            "shfl_xor_sync",
        )
    },
    **{
        f"atomic_{name}": f"atomic.{name}"
        for name in ("add", "sub", "exch", "min", "max", "inc", "dec", "cas", "xor")
    },
    "atomic_and": "atomic.and_",
    "atomic_or": "atomic.or_",
    "shared_memory": "shared.array",
    "range": "range",
}

_INSTEAD = "@numba.cuda.jit, whose kernels accept CuPy arrays, or cupy.RawKernel with CUDA C++"
_PTX = "kernel.compiled.inspect_asm(), the PTX that Numba generates for each combination of types"
#: Names that the stand-in lacks, with alternatives.
MISSING = dict.fromkeys(("cg", "cub", "thrust"), _INSTEAD)

__all__ = ["rawkernel", *_NUMBA]


class _Member:
    """Name of this module that only kernels may use."""

    def __init__(self, name: str):
        self._name = name

    def __call__(self, *arguments, **options):
        raise RuntimeError(
            f"cupyx.jit.{self._name} is for kernels: call it in a function under @jit.rawkernel()"
        )

    def __repr__(self) -> str:
        return f"<cupyx.jit.{self._name}>"


globals().update({_name: _Member(_name) for _name in _NUMBA})


def rawkernel(*, mode: str = "cuda", device: bool = False):
    """Turn a function into a kernel, or with ``device`` into one that kernels call.

    ``kernel(grid, block, arguments)`` or ``kernel[grid, block](*arguments)`` launches the kernel.
    ``mode`` has no effect, as Numba's types are used in both modes.
    """

    def decorate(function):
        return functools.update_wrapper(_RawKernel(function, device), function)

    return decorate


class _RawKernel:
    def __init__(self, function, device: bool):
        self._function, self._device = function, device

    @functools.cached_property
    def compiled(self):
        """The Numba dispatcher."""
        from numba import cuda

        return cuda.jit(_rewritten(self._function), device=self._device)

    @property
    def cached_codes(self) -> dict:
        """Raise NotImplementedError: CuPy returns CUDA C++ here, but Numba generates none."""
        raise missing("cupyx.jit.rawkernel", "cached_codes", _PTX)

    @property
    def cached_code(self) -> str:
        """Raise NotImplementedError, as :attr:`cached_codes` does."""
        raise missing("cupyx.jit.rawkernel", "cached_code", _PTX)

    def __call__(self, grid, block, args, shared_mem: int = 0, stream=None) -> None:
        for value in args:
            if isinstance(value, _numpy.ndarray):
                raise TypeError(
                    f"{type(value)} is not supported: a NumPy array lies on the host; "
                    "copy it to the device with cupy.asarray(array)"
                )
        grid, block = ((one,) if isinstance(one, int) else tuple(one) for one in (grid, block))
        _launches.record(self._function.__name__, "raw", size=0, grid=grid, block=block)
        self.compiled[grid, block, 0, shared_mem](*args)

    def __getitem__(self, grid_and_block):
        grid, block = grid_and_block
        return lambda *args, **options: self(grid, block, args, **options)


def _rewritten(function):
    """Return ``function`` with the names of ``numba.cuda``, at the same source lines."""
    from numba import cuda

    try:
        lines, first = inspect.getsourcelines(function)
    except OSError:
        raise ValueError(
            f"{function.__name__}: cupyx.jit needs the kernel's source, which is not available: "
            "write the kernel in a file or a notebook"
        ) from None
    tree = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(tree, first - 1)
    inside = inspect.getclosurevars(function)
    namespace: dict[str, Any] = {**function.__globals__, **inside.nonlocals}
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list.clear()
    definition.body = [_Names(namespace).visit(one) for one in definition.body]
    # Only globals that the kernel uses. In a notebook's top level, the kernel itself and kernels
    # that are never launched are also globals.
    used = {one.id for one in ast.walk(definition) if isinstance(one, ast.Name)}
    known = {
        name: value.compiled
        if isinstance(value, _RawKernel) and name in used and value._function is not function
        else _numpy
        if value is _cupy
        else value
        for name, value in namespace.items()
    }
    known["__cuda"] = cuda
    exec(compile(ast.fix_missing_locations(tree), function.__code__.co_filename, "exec"), known)
    return known[function.__name__]


class _Names(ast.NodeTransformer):
    def __init__(self, namespace: dict[str, Any]):
        self._namespace = namespace

    def _meant(self, node: ast.AST) -> Any:
        """Return the object of a dotted name defined outside the function."""
        if isinstance(node, ast.Name):
            return self._namespace.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self._meant(node.value)
            if owner is _cupy or getattr(owner, "__name__", None) in ("cupyx", __name__):
                return getattr(owner, node.attr)
        return None

    def visit_Call(self, node: ast.Call) -> ast.AST:
        member = self._meant(node.func)
        self.generic_visit(node)
        if not isinstance(member, _Member):
            return node
        if member._name == "laneid":  # a function in CuPy, a value in Numba
            return node.func
        if member._name == "range":
            node.keywords = [one for one in node.keywords if one.arg != "unroll"]
        elif member._name == "shared_memory" and len(node.args) == 2:
            node.args.reverse()  # CuPy: dtype, size; Numba: shape, dtype
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return self._member(node) or self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._member(node) or node

    def _member(self, node: ast.expr) -> ast.AST | None:
        meant = self._meant(node)
        if not isinstance(meant, _Member):
            return None
        written = _NUMBA[meant._name]
        found = ast.parse(written if written == "range" else f"__cuda.{written}", mode="eval").body
        for one in ast.walk(found):
            if isinstance(one, ast.expr):
                ast.copy_location(one, node)
        return found


def __getattr__(name: str):
    if name.startswith("_") or name not in MISSING:
        raise AttributeError(f"module {sys.modules[__name__].__name__!r} has no attribute {name!r}")
    raise missing("cupyx.jit", name, MISSING[name])
