"""cuFFT plans for ``cupy.fft`` and ``cupyx.scipy.fft``, each valid for one kind of array."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable

import numpy as np
from cupy._arrays.operands import as_array
from cupy.cuda import cufft

#: The plan's type, by the array's type and the kind of transform.
_KINDS = {
    ("C2C", "F"): cufft.CUFFT_C2C,
    ("C2C", "D"): cufft.CUFFT_Z2Z,
    ("R2C", "f"): cufft.CUFFT_R2C,
    ("R2C", "d"): cufft.CUFFT_D2Z,
    ("C2R", "F"): cufft.CUFFT_C2R,
    ("C2R", "D"): cufft.CUFFT_Z2D,
}


def get_fft_plan(a, shape=None, axes=None, value_type="C2C"):
    """Return the plan for transforms of arrays like ``a``.

    Use it as ``plan=plan`` or ``with plan:``.

    Parameters
    ----------
    a : cupy.ndarray
        Contiguous.
    shape : int or tuple of int, optional
        Lengths of the transformed axes; those of ``a`` by default.
    axes : int or tuple of int, optional
        At most three, all at one end of the array; all by default (the last ones with ``shape``).
    value_type : 'C2C', 'R2C' or 'C2R'

    Returns
    -------
    cupy.cuda.cufft.Plan1d or cupy.cuda.cufft.PlanNd
        Depends on the number of axes. NumPy needs no plan, so it makes nothing faster here and its
        work area is empty.
    """
    if not a.flags.forc:
        raise ValueError("Input array a must be contiguous")
    shape = (shape,) if isinstance(shape, int | np.integer) else shape
    axes = (axes,) if isinstance(axes, int | np.integer) else axes
    if shape is not None and axes is not None and len(shape) != len(axes):
        raise ValueError("Shape and axes have different lengths.")
    if axes is None:
        axes = range(-(a.ndim if shape is None else len(shape)), 0)
    for axis in axes:
        if not -a.ndim <= axis < a.ndim:
            raise ValueError(
                f"The chosen axis ({axis}) exceeds the number of dimensions of a ({a.ndim})"
            )
    places = [axis % a.ndim for axis in axes]
    whole = list(a.shape)  # full lengths; a real transform halves the last elsewhere
    for place, length in zip(places, [None] * len(places) if shape is None else shape, strict=True):
        if length is not None:
            whole[place] = int(length)
        elif value_type == "C2R" and place == places[-1]:
            whole[place] = 2 * (a.shape[place] - 1)
    kind = _kind(a.dtype, value_type)
    batch = math.prod(n for place, n in enumerate(whole) if place not in places)
    if len(places) == 1:
        return cufft.Plan1d(whole[places[0]], kind, batch)
    return _over_axes(a, places, whole, kind, batch, value_type)


def _over_axes(a, places, whole, kind, batch, value_type):
    order = "C" if a.flags.c_contiguous else "F"
    if len(places) > 3:
        raise ValueError("Only up to three axes is supported")
    if order == "F":
        if value_type != "C2C":
            raise ValueError("C2R/R2C PlanNd for F-order arrays is not supported")
        places, whole = [a.ndim - 1 - place for place in places], whole[::-1]
    last = places[-1]
    places = sorted(places)
    first = places[0] == 0
    if places != [*range(places[0], places[0] + len(places))] or not (
        first or places[-1] == a.ndim - 1
    ):
        raise ValueError(
            "General subsets of FFT axes not currently supported for GPU case (Can only batch FFT "
            "over the first or last spatial axes)."
        )
    if value_type != "C2C" and last != places[-1]:
        raise NotImplementedError(
            "CuPy's stand-in does not support a plan of a real transform whose last axis is not "
            "the array's last one; use the transform without a plan, which gives the same result"
        )
    lengths = [whole[place] for place in places]
    halves = [*lengths[:-1], lengths[-1] // 2 + 1]
    sides = (
        halves if value_type == "C2R" else lengths,
        halves if value_type == "R2C" else lengths,
    )
    # If the first axes are transformed, neighbouring elements are one batch apart.
    layout = [(side, batch, 1) if first else (side, 1, math.prod(side)) for side in sides]
    return cufft.PlanNd(lengths, *layout[0], *layout[1], kind, batch, order, last, whole[last])


def _kind(dtype: np.dtype, value_type: str) -> int:
    if value_type not in ("C2C", "R2C", "C2R"):
        raise ValueError(f"value_type {value_type} must be 'C2C', 'R2C' or 'C2R'")
    if value_type == "R2C":
        if dtype.kind == "c":
            raise TypeError("R2C transforms take real numbers")
        char = "f" if dtype.char in "ef" else "d"
    else:
        char = "F" if dtype.char in "efF" else "D"
    return _KINDS[value_type, char]


# -- checks ----------------------------------------------------------------------------------------


def planned(function: Callable, signature: inspect.Signature, *, packed: bool = False) -> Callable:
    """Return the transform `function`, extended by the current plan and ``plan=``.

    `signature` is that of the transform: the array, the lengths and then the axes. With `packed`,
    a transform to real numbers has an input of the same length, as in FFTPACK. The result raises
    ValueError for arrays for which the plan was not made, and RuntimeError for two plans at once.
    """
    name = function.__name__
    array, lengths, axes = list(signature.parameters)[:3]
    real = "R2C" if name in ("rfft", "rfft2", "rfftn", "ihfft", "ihfft2", "ihfftn") else None
    value_type = real or ("C2R" if name in _BACK_TO_REAL else "C2C")

    @functools.wraps(function)
    def transform(*args, plan=None, **kwargs):
        current = cufft.get_current_plan()
        if current is not None and plan is not None:
            raise RuntimeError("Use the cuFFT plan either as a context manager or as an argument.")
        if (plan := plan or current) is not None:
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            named = given.arguments
            _demand(
                plan, as_array(named[array]), named[lengths], named[axes], value_type,
                one=axes == "axis", packed=packed,
            )  # fmt: skip
        return function(*args, **kwargs)

    return transform


_BACK_TO_REAL = ("irfft", "irfft2", "irfftn", "hfft", "hfft2", "hfftn")


def _demand(plan, a, lengths, axes, value_type: str, *, one: bool, packed: bool) -> None:
    """Raise ValueError unless `plan` was made for this transform of `a`."""
    if a is None:
        return  # not a device array: the transform raises the error
    if not isinstance(plan, cufft.Plan1d | cufft.PlanNd):
        raise ValueError("expected plan to have type cufft.Plan1d or cufft.PlanNd")
    if one:
        lengths, axes = None if lengths is None else (lengths,), (axes,)
    if axes is None:
        axes = tuple(range(-(a.ndim if lengths is None else len(lengths)), 0))
    whole = dict(zip(axes, lengths or [a.shape[axis] for axis in axes], strict=True))
    if value_type == "C2R" and lengths is None and not packed:
        whole[axes[-1]] = 2 * (a.shape[axes[-1]] - 1)
    if isinstance(plan, cufft.Plan1d):
        _demand_one(plan, a, whole, value_type)
        return
    if one:
        raise ValueError("expected plan to have type cufft.Plan1d")
    _same_kind(plan, a, value_type)
    order = "C" if a.flags.c_contiguous else "F"
    if order != plan.order:
        raise ValueError(f"array orders mismatch (plan: {plan.order}, input: {order})")
    found = [length for _, length in sorted((axis % a.ndim, n) for axis, n in whole.items())]
    found = tuple(found if order == "C" else found[::-1])
    if found != plan.shape:
        raise ValueError(
            f"The cuFFT plan and a.shape do not match: plan.shape = {plan.shape}, "
            f"expected_shape={found}, a.shape = {a.shape}"
        )
    places = {axis % a.ndim for axis in axes}
    _same_batch(plan, math.prod(n for place, n in enumerate(a.shape) if place not in places))


def _demand_one(plan, a, whole: dict[int, int], value_type: str) -> None:
    """Raise ValueError unless each axis in turn fits a plan of one axis."""
    _same_kind(plan, a, value_type)
    done = dict(enumerate(a.shape))
    for axis, length in reversed(whole.items()):
        done[axis % a.ndim] = length
        if length != plan.nx:
            raise ValueError("Target array size does not match the plan.", length, plan.nx)
        others = (n for place, n in done.items() if place != axis % a.ndim)
        _same_batch(plan, math.prod(others))


def _same_kind(plan, a, value_type: str) -> None:
    if plan.fft_type != _kind(a.dtype, value_type):
        raise ValueError(
            f"cuFFT plan dtype mismatch: the array has dtype {a.dtype}, and the transform is "
            f"{value_type}"
        )


def _same_batch(plan, batch: int) -> None:
    if batch != plan.batch:
        raise ValueError(
            f"Batch size does not match the plan: {batch} transforms, but {plan.batch} in the plan"
        )
