"""Patches that make cuTile use the virtual GPU's driver.

Kernels are compiled to Tile IR bytecode instead of machine code. Errors in kernels are raised
unchanged. PyTorch's CPU tensors are copied to the device for a launch and back afterwards.
"""

from __future__ import annotations

import functools
import warnings
from types import ModuleType
from typing import Any

from virtualgpu.devices.host_tensors import copies
from virtualgpu.driver import interrupts, kernels
from virtualgpu.driver.tensors import on_device
from virtualgpu.installing import pip_install

VERSION = "V_13_4"  # the newest bytecode that virtualgpu.tile reads

_before: list[tuple[Any, str, Any]] = []  # (an object, its attribute, cuTile's own value)


def adapt(tile: ModuleType) -> None:
    """Make the kernels of ``cuda.tile`` run on the virtual GPU."""
    if _before:
        return
    try:
        from cuda.tile._bytecode.version import BytecodeVersion
        from cuda.tile._execution import kernel
        from cuda.tile.compilation import KernelSignature

        _, theirs, launch_of_tile = BytecodeVersion[VERSION], kernel._compile, tile.launch
        signature_of = KernelSignature.from_kernel_args
    except (ImportError, AttributeError, KeyError) as error:  # another version
        warnings.warn(
            f"the virtual GPU cannot run kernels of this version of cuda.tile: {error}. To "
            f"install a version that it can run: {pip_install('virtualgpu[tile]')}",
            UserWarning,
            stacklevel=2,
        )
        return

    @functools.wraps(theirs)
    def to_bytecode(self, signature, context, compute_capability=None):
        code, symbol, made = bytecode_of(self, signature, context, compute_capability)
        return code, symbol, None, tuple(made.library_lifecycle_providers)

    @functools.wraps(launch_of_tile)
    def launch(*arguments, **named):
        with interrupts.keeping_lost(), copies() as address, kernels.deferring():
            stream_grid_kernel, given = arguments[:3], arguments[3:]
            launch_of_tile(
                *stream_grid_kernel,
                *(on_device(one, address) for one in given),
                **{name: on_device(one, address) for name, one in named.items()},
            )

    @functools.wraps(signature_of)
    def from_kernel_args(kernel, kernel_args, *arguments, **named):
        with copies() as address:
            return signature_of(kernel, on_device(tuple(kernel_args), address), *arguments, **named)

    signed = KernelSignature, "from_kernel_args", staticmethod(from_kernel_args)
    for where, name, value in ((kernel, "_compile", to_bytecode), (tile, "launch", launch), signed):
        _before.append((where, name, vars(where)[name]))
        setattr(where, name, value)


def is_adapted() -> bool:
    """Return True if launches of ``cuda.tile`` go to the virtual GPU."""
    return bool(_before)


def bytecode_of(
    kernel: Any, signature: Any, context: Any, compute_capability: tuple[int, int] | None = None
) -> tuple[bytes, str, Any]:
    """Return a kernel's Tile IR for a signature, its name in the bytecode, and all results."""
    from cuda.tile import _compile
    from cuda.tile._bytecode.version import BytecodeVersion

    made = _compile.compile_tile(  # looked up at each call, because tests replace it
        kernel._annotated_function,
        (signature,),
        _compile.format_sm_arch(*(compute_capability or (9, 0))),
        kernel._compiler_options,
        context,
        bytecode_version=BytecodeVersion[VERSION],
        return_bytecode=True,
        return_cubin=False,
    )
    [found] = made.kernel_signatures
    return bytes(made.bytecode), found.symbol, made


def restore() -> None:
    """Undo :func:`adapt`. Kernels that were launched before keep their compiled form."""
    while _before:
        setattr(*_before.pop())
