"""What cuTile needs beside the driver, which it finds by itself: kernels end as Tile IR bytecode,
in place of a real GPU's machine code, and what goes wrong in them is raised as it is."""

from __future__ import annotations

import functools
import warnings
from types import ModuleType
from typing import Any

from virtualgpu.driver import code

VERSION = "V_13_4"  # the newest bytecode that virtualgpu.tile reads

_before: list[tuple[Any, str, Any]] = []  # (an object, its attribute, cuTile's own value)


def adapt(tile: ModuleType) -> None:
    """Have the kernels of ``cuda.tile`` run on the virtual GPU."""
    if _before:
        return
    try:
        from cuda.tile._bytecode.version import BytecodeVersion
        from cuda.tile._compile import compile_tile, format_sm_arch
        from cuda.tile._execution import kernel

        version, theirs, launch_of_tile = BytecodeVersion[VERSION], kernel._compile, tile.launch
    except (ImportError, AttributeError, KeyError) as error:  # another version
        warnings.warn(f"the virtual GPU cannot run kernels of this cuda.tile: {error}; "
                      "pip install 'virtualgpu[tile]' gives one that it can", UserWarning,
                      stacklevel=2)
        return

    @functools.wraps(theirs)
    def to_bytecode(self, signature, context, compute_capability=None):
        made = compile_tile(
            self._annotated_function, (signature,),
            format_sm_arch(*(compute_capability or (9, 0))), self._compiler_options, context,
            bytecode_version=version, return_bytecode=True, return_cubin=False)
        [found] = made.kernel_signatures
        return bytes(made.bytecode), found.symbol, None, tuple(made.library_lifecycle_providers)

    @functools.wraps(launch_of_tile)
    def launch(*arguments, **named):
        with code.deferring():
            launch_of_tile(*arguments, **named)

    for where, name, value in ((kernel, "_compile", to_bytecode), (tile, "launch", launch)):
        _before.append((where, name, getattr(where, name)))
        setattr(where, name, value)


def restore() -> None:
    """Undo :func:`adapt`. Kernels that have been launched keep what they were compiled to."""
    while _before:
        setattr(*_before.pop())
