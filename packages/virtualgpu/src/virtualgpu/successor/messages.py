"""Names, source lines and errors of numba-cuda-mlir's kernels, for messages.

The successor launches kernels from compiled code through the driver, so its launches arrive in
:mod:`virtualgpu.driver` without a hook. After its import, these parts are changed:

- *Lines.* Line information is switched on, so that every message names the line.
- *Names.* Messages use the function's name for a kernel, and the parameters' names for its arrays.
- *Errors.* A launch raises an error that is both the virtual GPU's and the successor's own
  ``CUDAError``.
- *Warnings.* Warnings of grids that underuse a GPU are switched off.

The changes rely on these parts of numba-cuda-mlir 0.6. ``mlir_compiler.mlir_compiler_entry`` takes
``targetoptions``. ``descriptor.MLIRDispatcher._compile`` returns ``(image, entry, ...)`` and stores
compiled kernels in ``overloads`` and ``_launch_config_overloads``. A failed launch calls
``descriptor._raise_as_cuda_error``. An array is an MLIR memref: two addresses, of which the second
is used, an offset, the shape, and the strides in elements.
"""

from __future__ import annotations

import functools
import weakref
from types import ModuleType
from typing import Any

from virtualgpu.after_import import after_import, forget
from virtualgpu.driver import entries, kernels
from virtualgpu.errors import LaunchError, VirtualGPUError
from virtualgpu.memory import array_names
from virtualgpu.numba import kernel_ptx
from virtualgpu.numba.arguments import ArrayLayout, array_parameters

PACKAGE = "numba_cuda_mlir"
MODULE = f"{PACKAGE}.cuda"


def _item_size(kind: Any) -> int | None:
    """Return an element's bytes; booleans, dates, strings and records have no ``bitwidth``."""
    from numba_cuda_mlir.numba_cuda.core.errors import NumbaNotImplementedError
    from numba_cuda_mlir.numba_cuda.np.numpy_support import as_dtype

    if (bits := getattr(kind, "bitwidth", None)) is not None:
        return bits // 8
    try:
        return as_dtype(kind).itemsize
    except NumbaNotImplementedError:
        return None


_MEMREF = ArrayLayout(fixed=3, address=1, item_size=_item_size)

_saved: list[tuple[Any, str, Any]] = []
_on = False
_arrays: weakref.WeakKeyDictionary[Any, list[array_names.Arrays]] = weakref.WeakKeyDictionary()


def activate() -> None:
    """Adapt the successor, now or when it is imported."""
    global _on
    if not _on:
        _on = True
        after_import(MODULE, _adapt)


def is_active() -> bool:
    """Return True if its launches go to a device of this package."""
    return _on


def deactivate() -> None:
    """Restore the successor's own parts."""
    global _on
    _on = False
    forget(MODULE)
    while _saved:
        owner, name, value = _saved.pop()
        setattr(owner, name, value)


def _replace(owner: Any, name: str, value: Any) -> None:
    _saved.append((owner, name, getattr(owner, name)))
    setattr(owner, name, value)


def _adapt(cuda: ModuleType) -> None:
    from numba_cuda_mlir import descriptor, mlir_compiler
    from numba_cuda_mlir.numba_cuda.core import config

    _replace(mlir_compiler, "mlir_compiler_entry", _with_lines(mlir_compiler.mlir_compiler_entry))
    dispatcher = descriptor.MLIRDispatcher
    _replace(kernel_ptx, "classes", [dispatcher])
    _replace(dispatcher, "_compile", _named(dispatcher._compile))
    _replace(descriptor, "_raise_as_cuda_error", _raised(descriptor._raise_as_cuda_error))
    _replace(config, "CUDA_LOW_OCCUPANCY_WARNINGS", 0)


def _with_lines(compile_kernel):
    @functools.wraps(compile_kernel)
    def with_lines(*arguments, targetoptions, **named):
        if not (targetoptions.get("debug") or targetoptions.get("lineinfo")):
            targetoptions = {**targetoptions, "lineinfo": True}
        return compile_kernel(*arguments, targetoptions=targetoptions, **named)

    return with_lines


def _named(compile_kernel):
    @functools.wraps(compile_kernel)
    def named(self, args):
        made = compile_kernel(self, args)
        image, entry = made[0], made[1]
        _name(self, bytes(getattr(image, "code", image)).rstrip(b"\0").decode(), entry)
        return made

    return named


def _name(dispatcher: Any, image: str, entry: str) -> None:
    from numba_cuda_mlir.numba_cuda import types

    function = dispatcher.py_func
    for text in kernels.texts(image):
        kernels.expressions.setdefault(text, {})[function.__name__] = entry
    for compiled in [*dispatcher.overloads.values(), *dispatcher._launch_config_overloads.values()]:
        if compiled.metadata["func_name"] == entry:
            arrays = array_parameters(function, compiled.signature.args, _MEMREF, types)
            _arrays.setdefault(dispatcher, []).append(array_names.register(entry, arrays))
            return


def _raised(raise_error):
    @functools.wraps(raise_error)
    def raised(failure):
        if (error := entries.error_of(str(failure))) is not None:
            raise _both(error) from None
        raise_error(failure)

    return raised


def _both(error: VirtualGPUError) -> Exception:
    """Return the device's error as one that is also cuda.core's, which GPU programs catch."""
    from cuda.core._utils.cuda_utils import CUDAError

    if type(error) is LaunchError:  # as for numba-cuda
        error = LaunchError(f"{error.message} (CUDA_ERROR_INVALID_VALUE)", error.location)
    kind = type(error)
    made: Any = type(
        kind.__name__,
        (kind, CUDAError),
        {"__module__": kind.__module__, "__init__": Exception.__init__},
    )(*error.args)
    made.__dict__.update(error.__dict__)
    return made
