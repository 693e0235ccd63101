"""cuTile kernels on the virtual GPU, on a machine whose cuTile drives a real GPU.

This does for cuTile what :mod:`virtualgpu.numba.beside_gpu` does for Numba. A tile kernel that
never ends would occupy a real GPU until the process is killed, and no driver reports which line of
a kernel reads outside an array.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from virtualgpu import devices
from virtualgpu.devices import VirtualDevice
from virtualgpu.devices.real.machine_array import MachineArray, give_back, host_copy
from virtualgpu.driver import cutile
from virtualgpu.wording import a_or_an, many

#: Types that cuTile gives to Python's numbers.
_NUMBERS = {bool: np.bool_, int: np.int32, float: np.float32}


@contextmanager
def reroute() -> Iterator[None]:
    """Run kernels of ``cuda.tile.launch`` on the virtual GPU inside the ``with``.

    Arguments may be arrays of NumPy, numba.cuda, CuPy and JAX, and Python numbers; others raise
    :class:`TypeError`. If the virtual GPU is active already, nothing changes.
    """
    tile = sys.modules.get("cuda.tile")
    if tile is None or cutile.is_adapted():
        yield
        return
    before = tile.launch
    tile.launch = _launch  # type: ignore[attr-defined]
    try:
        yield
    finally:
        tile.launch = before  # type: ignore[attr-defined]


def _launch(
    stream: Any,
    grid: Sequence[int],
    kernel: Any,
    kernel_args: Sequence[Any],
    /,
    *,
    programmatic_dependent_launch: bool = False,
) -> None:
    """Launch in place of ``cuda.tile.launch``, and return after the launch has ended.

    ``stream`` belongs to a real GPU and is ignored.
    """
    function = kernel._annotated_function
    if len(kernel_args) != len(function.parameter_annotations):
        taken = many(len(function.parameter_annotations), "argument")
        raise TypeError(f"{function.pyfunc.__name__} takes {taken}, not {len(kernel_args)}")
    machine = devices.current()
    copies: dict[int, tuple[Any, MachineArray]] = {}
    constraints, parameters = [], []
    for value, note in zip(kernel_args, function.parameter_annotations, strict=True):
        if (host := host_copy(value)) is not None:
            if id(value) not in copies:
                copies[id(value)] = value, MachineArray(host, machine)
            value = copies[id(value)][1]
        constraint, handed = _parameter(value, note)
        constraints.append(constraint)
        parameters += handed
    code, entry = _compiled(kernel, constraints)
    if not isinstance(machine, VirtualDevice):
        raise TypeError(f"{machine.name} cannot run Tile IR; the virtual GPU of this process can")
    x, y, z = (*grid, 1, 1)[:3]
    loaded = machine.load_tiles(code)
    try:
        machine.launch_tiles(loaded, entry, (int(x), int(y), int(z)), parameters)
        for value, copy in copies.values():
            if copy.changed:
                give_back(value, copy.copy_to_host())
    finally:
        loaded.unload()


def _parameter(value: Any, note: Any) -> tuple[Any, list[bytes]]:
    """Return cuTile's assumptions about an argument, and the bytes that a launch passes.

    The assumptions are those of cuTile's own launch (calling convention ``cutile_python_v1``).
    """
    from cuda.tile.compilation import ArrayConstraint, ConstantConstraint, ScalarConstraint

    if getattr(note, "constant", False):
        return ConstantConstraint(value), []
    plain = not any(getattr(note, kind, None) for kind in ("scalar", "array", "list", "items"))
    if isinstance(value, MachineArray) and plain:
        steps = [step // value.dtype.itemsize for step in value.strides]
        rows = [None] * value.ndim
        constraint = ArrayConstraint(
            _type(value.dtype),
            value.ndim,
            index_dtype=_type(np.dtype(np.int32)),
            stride_lower_bound_incl=0 if min(steps, default=0) >= 0 else None,
            alias_groups=(),
            may_alias_internally=False,
            stride_constant=[*rows[1:], 1] if steps and steps[-1] == 1 else rows,
            base_addr_divisible_by=1 if value.address % 16 else 16,
        )
        sizes = [np.int32(number).tobytes() for number in (*value.shape, *steps)]
        return constraint, [value.address.to_bytes(8, "little"), *sizes]
    for kind, dtype in _NUMBERS.items():
        if isinstance(value, kind) and plain:
            return ScalarConstraint(_type(np.dtype(dtype))), [dtype(value).tobytes()]
    raise TypeError(
        f"{a_or_an(type(value).__name__)} cannot be passed to a cuTile kernel on the virtual GPU "
        "of a machine with a real one. Pass arrays and Python numbers; the only supported "
        "annotation is ct.Constant"
    )


def _type(dtype: np.dtype) -> Any:
    import cuda.tile as tile

    return getattr(tile, "bool_" if dtype.kind == "b" else dtype.name)


def _compiled(kernel: Any, constraints: list) -> tuple[bytes, str]:
    from cuda.tile._cext import default_tile_context
    from cuda.tile.compilation import CallingConvention, KernelSignature

    signature = KernelSignature(constraints, CallingConvention.cutile_python_v1())
    named = signature.with_mangled_symbol(kernel._annotated_function.pyfunc.__name__)
    code, entry, _ = cutile.bytecode_of(kernel, named, default_tile_context)
    return code, entry
