"""Checks and hints of "PyTorch as a neighbour": they run with PyTorch and without."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import virtualgpu
from gpucourse.exercises.checks import exercise, require
from gpucourse.exercises.host_side import HOST, with_other_values
from gpucourse.exercises.trials import LEFTOVER, LENGTHS, counted, launched, require_parallel
from gpucourse.wording import is_not, many

#: How much less exact a slope may be than its type, relative to the sizes that meet in it.
BOUND = {np.float32: 1e-5, np.float64: 1e-12}
TWO_STRIPS = "which two strips does the hit change, by floor, and which of them exist?"
_numbers = itertools.count()


@exercise(
    "collect",
    hints=(
        "The idea: find `left` and `share` as `deposit_kernel` does. Then read `g` at both strips, where "
        "they exist, and write the two derivatives of the thread's own hit, which no other thread writes.",
        "The shape: `g_left = g[left] if 0 <= left < g.size else 0.0`, the same for `left + 1`, "
        "and the two formulas, all inside `if i < x.size:`.",
    ),
)
def collect(kernel):
    """Each hit's derivatives come from its own two strips, without an atomic."""
    random = np.random.default_rng(241)
    for n, strips, dtype, threads in zip(LENGTHS, (24, 7, 5, 1, 2, 40, 24, 3, 129, 64, 300),
                                         (np.float64, np.float32) * 6, (64, 32, 128) * 4, strict=False):
        x, charge, g = _drawn(random, n, strips, dtype)
        case = f"with {many(n, 'hit')} and {many(strips, 'strip')}"
        leftover = np.full(n, LEFTOVER, dtype)
        *_, by_x, by_charge = launched(kernel, n // threads + 1, threads, x, charge, g, leftover, leftover,
                                       reads=3)
        _require_slopes((by_x, by_charge), x, charge, g, case)
    n = 1024
    x, charge, g = _drawn(random, n, 64, np.float64)
    require_parallel(kernel, 8, 128, x, charge, g, np.zeros(n), np.zeros(n), items=n,
                     look="use a thread for each hit")
    atomics = counted(kernel, 8, 128, x, charge, g, np.zeros(n), np.zeros(n)).global_atomics
    require(atomics == 0, f"the derivatives are right, but the kernel uses {many(atomics, 'atomic')}",
            look="no other thread writes a hit's derivatives, so a plain assignment is enough")


def _drawn(random: np.random.Generator, n: int, strips: int, dtype: type) -> list[np.ndarray]:
    """Hits, some beyond either end and some right on a strip; charges; slopes by strip."""
    x = random.uniform(-2.5, strips + 1.5, n)
    x[::5] = np.round(x[::5])
    return [one.astype(dtype) for one in
            (x, random.uniform(0.5, 2, n), random.normal(0, 1, strips))]


def _slopes(x: np.ndarray, charge: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, charge, g = (np.asarray(one, float) for one in (x, charge, g))
    padded = np.concatenate([np.zeros(4), g, np.zeros(4)])
    left = np.floor(x).astype(int)
    here, there = padded[left + 4], padded[left + 5]
    return charge * (there - here), here * (1 - (x - left)) + there * (x - left)


def _require_slopes(found: tuple, x: np.ndarray, charge: np.ndarray, g: np.ndarray, case: str,
                    looks: tuple[str, str] = (f"charge * (g_right - g_left): {TWO_STRIPS}",
                                              f"g_left * (1 - share) + g_right * share: {TWO_STRIPS}")) -> None:
    bound = 10 * BOUND[x.dtype.type] * (1 + np.abs(g).max(initial=0)) * (len(g) + 4)
    for name, got, right, look in zip(("x", "charge"), found, _slopes(x, charge, g), looks,
                                      strict=True):
        got = np.asarray(got)
        require(got.shape == right.shape, f"{case}, the derivative with respect to {name} has the shape {got.shape}, "
                f"not {right.shape}", look=look)
        bad = ~(np.abs(got - right) <= bound)
        if bad.any():
            k = int(np.argmax(bad))
            held = "was never written" if got[k] == LEFTOVER else is_not(got[k], right[k])
            require(False, f"{case}, the derivative with respect to {name} of hit {k} at {x[k]:.4g} {held}", look=look)


class Context:
    """What a rule gets as ``ctx``, where PyTorch isn't there to make one."""

    saved_tensors: tuple = ()

    def save_for_backward(self, *arrays: Any) -> None:
        """Keep arrays for the backward pass: PyTorch takes nothing else here."""
        for one in arrays:
            require(one is None or hasattr(one, "shape"),
                    f"save_for_backward gets {one!r}, but it can store only arrays",
                    look="store a number as an attribute, if you need it: ctx.n = n")
        self.saved_tensors = arrays


EACH = ("return `by_x, by_charge, None`: a derivative for each input, and None for "
       "n, which is a number")
OF_COLLECT = ("call `collect(x, charge, g)` with the saved inputs and the g that backward receives: "
             "it returns both derivatives")


@exercise(
    "rule",
    hints=(
        "The idea: `collect` needs the hits, their charges and `g`. PyTorch passes `g`; the others "
        "have to be saved in the forward pass.",
        "The shape: call `ctx.save_for_backward(…)` with both arrays; then `x, charge = ctx.saved_tensors` and "
        "`by_x, by_charge = collect(x, charge, g)`.",
    ),
)
def rule(setup_context, backward):
    """The rule keeps what it needs, and calls your kernel in the backward pass."""
    torch = _torch()
    random = np.random.default_rng(242)
    for n, strips, dtype in ((8, 24, np.float64), (129, 40, np.float32), (1, 3, np.float64)):
        given = [_drawn(random, n, strips, dtype) for _ in range(2)]
        kept = [_kept(setup_context, x, charge, strips, torch) for x, charge, _ in given]
        for ctx, (x, charge, g), which in zip(kept, given, ("", ", after another call"), strict=True):
            case = f"with {many(n, 'hit')} of {dtype.__name__}{which}"
            found = _back(backward, ctx, g, case, torch)
            looks = (f"by_x comes first: {OF_COLLECT}", f"by_charge comes second: {OF_COLLECT}")
            _require_slopes(found, x, charge, g, case, looks)
    # What PyTorch hands over is often one number, spread over all strips: the slope of a sum.
    x, charge, g = _drawn(random, 33, 12, np.float64)
    ones = np.broadcast_to(np.float64(1), 12)
    ctx = _kept(setup_context, x, charge, 12, torch)
    case = "with the gradient of a plain sum"
    _require_slopes(_back(backward, ctx, ones, case, torch), x, charge, ones, case)
    _require_kernel(setup_context, backward, torch)
    if torch is None:
        print("PyTorch is not installed here. The check called your rule as PyTorch would, with "
              "NumPy arrays, and did not run opcheck and gradcheck.")
    else:
        _ask_pytorch(setup_context, backward, torch)


def _torch() -> Any:
    """PyTorch, or None where it is not installed."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    return torch


def _given(array: np.ndarray, torch: Any) -> Any:
    """The array as PyTorch would hand it over: a tensor where there is PyTorch."""
    if torch is None:
        return array
    if array.strides == (0,):
        return torch.tensor(array[0]).expand(array.shape)
    return torch.from_numpy(array.copy())


def _kept(setup_context: Callable, x: np.ndarray, charge: np.ndarray, n: int, torch: Any) -> Context:
    ctx = Context()
    inputs = _given(x, torch), _given(charge, torch), n
    setup_context(ctx, inputs, _given(np.zeros(n, x.dtype), torch))
    return ctx


def _back(backward: Callable, ctx: Context, g: np.ndarray, case: str, torch: Any) -> tuple:
    """The two slopes that the rule gives, as NumPy's arrays."""
    slopes = backward(ctx, _given(g, torch))
    count = len(slopes) if isinstance(slopes, tuple) else 1
    require(count == 3, f"{case}, backward returns {many(count, 'derivative')} for 3 inputs", look=EACH)
    by_x, by_charge, by_n = slopes
    require(by_n is None, f"{case}, backward returns a derivative for n", look=EACH)
    for name, slope in (("x", by_x), ("charge", by_charge)):
        require(slope is not None, f"{case}, the derivative with respect to {name} is None", look=OF_COLLECT)
    return np.asarray(by_x), np.asarray(by_charge)


def _require_kernel(setup_context: Callable, backward: Callable, torch: Any) -> None:
    """The slopes follow what the device gets, and one launch is enough."""
    random = np.random.default_rng(243)
    (x, charge, g), (_, _, others) = (_drawn(random, 64, 30, np.float64) for _ in range(2))
    look = "`collect` launches your kernel: let it compute the derivatives"
    with virtualgpu.profile() as profile:
        _back(backward, _kept(setup_context, x, charge, 30, torch), g, "counted", torch)
    require(len(profile.launches) == 1,
            f"the derivatives are right, but the backward pass makes {many(len(profile.launches), 'launch', 'launches')}, not 1",
            look=look)
    slopes = with_other_values(
        lambda: _back(backward, _kept(setup_context, x, charge, 30, torch), g, "", torch),
        [(g, others)], "with 64 hits", look)
    if slopes is not None:
        right = _slopes(x, charge, others)
        require(all(np.allclose(got, one, atol=1e-9) for got, one in zip(slopes, right, strict=True)),
                f"with 64 hits, the answer is right, but {HOST}", look=look)


def _ask_pytorch(setup_context: Callable, backward: Callable, torch: Any) -> None:
    """An operator of the check's own with the learner's rule: opcheck, gradcheck, and compiled."""

    def shared(x: torch.Tensor, charge: torch.Tensor, n: int) -> torch.Tensor:
        left = x.floor()
        padded = x.new_zeros(n + 8)
        for beside, part in ((4, 1 - (x - left)), (5, x - left)):
            padded.index_add_(0, (left + beside).long().clamp(0, n + 7), charge * part)
        return padded[4:n + 4].clone()

    shared.__annotations__ = {"x": torch.Tensor, "charge": torch.Tensor, "n": int,
                              "return": torch.Tensor}
    operator = torch.library.custom_op(f"gpucourse::shared_{next(_numbers)}", shared, mutates_args=())
    operator.register_fake(lambda x, charge, n: x.new_empty(n))
    operator.register_autograd(backward, setup_context=setup_context)
    x = torch.tensor([0.3, 1.6, 4.2, -0.4], dtype=torch.float64, requires_grad=True)
    charge = torch.tensor([1.0, 0.5, 2.0, 1.5], dtype=torch.float64, requires_grad=True)
    operators = "run the cell that turns `deposit` and `collect` into operators, and let `backward` call `collect`"
    try:
        torch.library.opcheck(operator, (x, charge, 5))
    except Exception as error:  # of many types
        require(False, f"opcheck rejects the rule: {_first_line(error)}", look=operators)
    try:
        torch.autograd.gradcheck(operator, (x, charge, 5))
    except torch.autograd.gradcheck.GradcheckError as error:
        require(False, f"gradcheck rejects the rule: {_first_line(error)}", look=OF_COLLECT)


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
