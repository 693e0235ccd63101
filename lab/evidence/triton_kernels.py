"""Triton's kernels on the virtual GPU, each launch under ``check()``, against NumPy.

    python -m lab.evidence.triton_kernels

Needs Triton, which the course does not install: ``pip install triton``. The kernels are those of
``lab/evidence/triton_samples``: what Triton's tutorials on adding, softmax, products and layer norm
teach, and other parts of the language; three are wrong on purpose, and must be told so by the line.
Ends with status 1 where an outcome is another than ``right`` or ``told``.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # what Triton 3.9 does without, and says so

import numpy as np
from rich.console import Console
from rich.table import Table

import virtualgpu
from lab.benchmarks.report import write

virtualgpu.activate()

import cupy  # noqa: E402
import triton  # noqa: E402
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

from lab.evidence.triton_samples import kernels  # noqa: E402

RNG = np.random.default_rng(19)
CASES: dict[str, Callable[[], None]] = {}


class Tensor:
    """An array of CuPy's as Triton takes arguments: by ``data_ptr()`` and ``dtype``."""

    def __init__(self, array):
        self.array = cupy.asarray(array)
        self.dtype, self.shape = self.array.dtype, self.array.shape
        self.strides = tuple(step // self.array.itemsize for step in self.array.strides)

    def data_ptr(self) -> int:
        return self.array.data.ptr

    def stride(self, axis: int | None = None):
        return self.strides if axis is None else self.strides[axis]

    def numpy(self) -> np.ndarray:
        return self.array.get()


def zeros(shape, dtype=np.float32) -> Tensor:
    return Tensor(np.zeros(shape, dtype))


def normal(*shape: int, dtype=np.float32) -> np.ndarray:
    return RNG.normal(size=shape).astype(dtype)


def case(function: Callable[[], None]) -> Callable[[], None]:
    CASES[function.__name__.replace("_", " ")] = function
    return function


def near(found: Tensor, right: np.ndarray, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(found.numpy(), right, rtol=tolerance, atol=tolerance)


@case
def vector_add():
    x, y, out = normal(1000), normal(1000), zeros(1000)
    kernels.add[(triton.cdiv(1000, 256),)](Tensor(x), Tensor(y), out, 1000, BLOCK=256)
    near(out, x + y, 0)


@case
def fused_softmax():
    x, out = normal(37, 781), zeros((37, 781))
    kernels.softmax[(5,)](Tensor(x), out, 37, 781, BLOCK=1024, STAGES=2)
    powers = np.exp(x - x.max(1, keepdims=True))
    near(out, powers / powers.sum(1, keepdims=True))


@case
def matrix_product_autotuned():
    m, n, k = 100, 72, 96
    a, b, c = normal(m, k, dtype=np.float16), normal(k, n, dtype=np.float16), zeros((m, n), "f2")
    kernels.product[lambda meta: (triton.cdiv(m, meta["M"]) * triton.cdiv(n, meta["N"]),)](
        Tensor(a), Tensor(b), c, m, n, k
    )
    near(c, a.astype("f4") @ b.astype("f4"), 1e-2)


def one_product(kind: str, to: str, precision: str, tolerance: float) -> None:
    small = kind.startswith("i")
    a, b = (
        RNG.integers(-100, 100, (32, 32)).astype(kind) if small else normal(32, 32).astype(kind)
        for _ in range(2)
    )
    c = zeros((32, 32), to)
    kernels.product_of[(1,)](Tensor(a), Tensor(b), c, SIZE=32, PRECISION=precision)
    near(c, a.astype(to) @ b.astype(to), tolerance)


@case
def product_of_float32_by_tf32():
    one_product("f4", "f4", "tf32", 3e-2)


@case
def product_of_float32_exact():
    one_product("f4", "f4", "ieee", 1e-4)


@case
def product_of_float64():
    one_product("f8", "f8", "ieee", 1e-12)


@case
def product_of_int8():
    one_product("i1", "i4", "ieee", 0)


@case
def layer_norm_forward_and_backward():
    rows, columns, groups = 24, 100, 4
    x, slope = normal(rows, columns), normal(rows, columns)
    w, b = normal(columns), normal(columns)
    out, to_x = zeros(x.shape), zeros(x.shape)
    means, scales = zeros(rows), zeros(rows)
    kernels.layer_norm[(rows,)](
        Tensor(x), out, Tensor(w), Tensor(b), means, scales, columns, 1e-5, BLOCK=128
    )
    apart = x - x.mean(1, keepdims=True)
    scale = 1 / np.sqrt((apart**2).mean(1, keepdims=True) + 1e-5)
    near(out, apart * scale * w + b, 1e-4)

    to_w, to_b = zeros((groups, columns)), zeros((groups, columns))
    kernels.layer_norm_backward[(rows,)](
        Tensor(slope),
        Tensor(x),
        Tensor(w),
        means,
        scales,
        to_x,
        to_w,
        to_b,
        zeros(groups, np.int32),
        zeros(groups, np.int32),
        columns,
        GROUPS=groups,
        BLOCK=128,
    )
    straight, wdy = apart * scale, w * slope
    near(
        to_x,
        (wdy - straight * (straight * wdy).mean(1, keepdims=True) - wdy.mean(1, keepdims=True))
        * scale,
        1e-4,
    )
    np.testing.assert_allclose(to_w.numpy().sum(0), (slope * straight).sum(0), 1e-4, 1e-4)
    np.testing.assert_allclose(to_b.numpy().sum(0), slope.sum(0), 1e-4, 1e-4)


@case
def attention():
    length, depth = 128, 32
    q, k, v = (normal(length, depth, dtype=np.float16) for _ in range(3))
    out = zeros((length, depth))
    kernels.attention[(length // 32,)](
        Tensor(q), Tensor(k), Tensor(v), out, length, 0.2, BLOCK=32, DEPTH=depth
    )
    scores = np.exp(0.2 * q.astype("f4") @ k.astype("f4").T)
    near(out, scores / scores.sum(1, keepdims=True) @ v.astype("f4"), 1e-2)


@case
def histogram_by_atomics():
    x, counts = RNG.integers(0, 10, 1000).astype(np.int32), zeros(10, np.int32)
    kernels.histogram[(4,)](Tensor(x), counts, 1000, BLOCK=256)
    near(counts, np.bincount(x, minlength=10), 0)


@case
def running_sum():
    x, out = normal(512), zeros(512)
    kernels.running_sum[(1,)](Tensor(x), out, BLOCK=512)
    near(out, np.cumsum(x), 1e-4)


@case
def sort():
    x, out = normal(256), zeros(256)
    kernels.in_order[(1,)](Tensor(x), out, BLOCK=256)
    near(out, np.sort(x), 0)


@case
def transpose():
    x, out = normal(70, 50), zeros((50, 70))
    kernels.turned[(3, 2)](Tensor(x), out, 70, 50, M=32, N=32)
    near(out, x.T, 0)


@case
def random_numbers():
    out = zeros(1000)
    kernels.random_numbers[(4,)](out, 7, 1000, BLOCK=256)
    found = out.numpy()
    assert 0 <= found.min() and found.max() < 1 and abs(found.mean() - 0.5) < 0.05
    assert len(np.unique(found)) > 990


@case
def device_print():
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        kernels.telling[(1,)](Tensor(np.arange(32, dtype=np.int32)), BLOCK=32)
    lines = set(told.getvalue().splitlines())  # each of the four warps prints all
    assert lines == {f"pid (0, 0, 0) idx ({i:2}) value: {i}" for i in range(32)}, lines


@case
def tensor_descriptor():
    x, out = normal(64, 64), zeros(1)
    kernels.tile_sum[(4, 2)](
        TensorDescriptor(Tensor(x), [64, 64], [64, 1], [16, 32]), out, M=16, N=32
    )
    near(out, x.sum(keepdims=True).reshape(1), 1e-3)


def told(line: str, words: str, launch: Callable[[], None]) -> None:
    """``launch`` is wrong, and is told so with ``words`` at the kernel's ``line``."""
    try:
        with virtualgpu.check() as report:
            launch()
        text = str(report)
    except virtualgpu.VirtualGPUError as error:
        text = str(error)
    assert words in text and line in text, text
    raise Told


class Told(Exception):
    """A wrong kernel was found out."""


@case
def no_mask_told():
    x = Tensor(normal(1000))
    told(
        "tl.store(out + at, tl.load(x + at) + tl.load(y + at))",
        "give tl.load and tl.store a",
        lambda: kernels.add_unmasked[(4,)](x, x, zeros(1024), BLOCK=256),
    )


@case
def programs_that_race_told():
    told(
        "tl.store(out + at, tl.load(x + tl.program_id(0) * BLOCK + at))",
        "race",
        lambda: kernels.last_wins[(4,)](Tensor(normal(1024)), zeros(256), BLOCK=256),
    )


@case
def failing_assert_told():
    told(
        "tl.device_assert",
        "values are positive",
        lambda: kernels.asserting[(1,)](
            Tensor(np.arange(32, dtype=np.int32)), BLOCK=32, debug=True
        ),
    )


def outcome(run: Callable[[], None]) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # nothing is timed when it autotunes
            with virtualgpu.check() as report:
                run()
        return "right" if report.ok else f"check(): {report}"
    except Told:
        return "told"
    except Exception as error:  # what it is becomes the outcome
        return f"{type(error).__name__}: {error}"


def main() -> int:
    table = Table("kernel", "outcome")
    outcomes = {name: outcome(run) for name, run in CASES.items()}
    for name, found in outcomes.items():
        table.add_row(name, found)
    Console().print(table)
    counts = Counter(
        found if found in ("right", "told") else "wrong" for found in outcomes.values()
    )
    print(
        write(
            "triton_kernels",
            {
                "command": "python -m lab.evidence.triton_kernels",
                "triton": triton.__version__,
                **{word: counts[word] for word in ("right", "told", "wrong")},
                "outcomes": outcomes,
            },
        )
    )
    return bool(counts["wrong"])


if __name__ == "__main__":
    sys.exit(main())
