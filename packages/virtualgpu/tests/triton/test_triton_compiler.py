"""Kernels through Triton's own compiler, each launch under ``check()``, against NumPy.

Needs Triton (``pip install triton``, 285 MB), which nothing here installs. The kernels cover what
Triton's tutorials teach (adding, softmax, products, layer norm) and other parts of the language.
Three are wrong on purpose: the report names their line.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import numpy as np
import pytest

import virtualgpu
from virtualgpu import devices

triton = pytest.importorskip("triton", reason="needs Triton")

from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

import triton_kernels as kernels  # noqa: E402

RNG = np.random.default_rng(19)


@pytest.fixture(autouse=True)
def report(active, monkeypatch):
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # Triton 3.9's default, said aloud
    with virtualgpu.check() as report:
        yield report


@pytest.fixture
def clean(report):
    yield
    assert report.ok, report


class Tensor:
    """An array on the virtual GPU, with the attributes that Triton reads."""

    def __init__(self, values):
        self.like = np.ascontiguousarray(values)
        self.dtype, self.shape = self.like.dtype, self.like.shape
        self.strides = tuple(step // self.like.itemsize for step in self.like.strides)
        self.address = devices.current().allocate(self.like.nbytes)
        devices.current().write(self.address, self.like)

    def data_ptr(self) -> int:
        return self.address

    def stride(self, axis: int | None = None):
        return self.strides if axis is None else self.strides[axis]

    def numpy(self) -> np.ndarray:
        found = devices.current().read(self.address, self.like.nbytes)
        return found.view(self.dtype).reshape(self.shape)


def zeros(shape, dtype=np.float32) -> Tensor:
    return Tensor(np.zeros(shape, dtype))


def normal(*shape: int, dtype=np.float32) -> np.ndarray:
    return RNG.normal(size=shape).astype(dtype)


def near(found: Tensor, right: np.ndarray, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(found.numpy(), right, rtol=tolerance, atol=tolerance)


def test_vector_add(clean):
    x, y, out = normal(1000), normal(1000), zeros(1000)
    kernels.add[(triton.cdiv(1000, 256),)](Tensor(x), Tensor(y), out, 1000, BLOCK=256)
    near(out, x + y, 0)


def test_fused_softmax(clean):
    x, out = normal(37, 781), zeros((37, 781))
    kernels.softmax[(5,)](Tensor(x), out, 37, 781, BLOCK=1024, STAGES=2)
    powers = np.exp(x - x.max(1, keepdims=True))
    near(out, powers / powers.sum(1, keepdims=True))


@pytest.mark.filterwarnings("ignore:the virtual GPU is not a GPU:UserWarning")
def test_matrix_product_autotuned(clean):
    m, n, k = 100, 72, 96
    a, b, c = normal(m, k, dtype=np.float16), normal(k, n, dtype=np.float16), zeros((m, n), "f2")
    kernels.product[lambda meta: (triton.cdiv(m, meta["M"]) * triton.cdiv(n, meta["N"]),)](
        Tensor(a), Tensor(b), c, m, n, k
    )
    near(c, a.astype("f4") @ b.astype("f4"), 1e-2)


@pytest.mark.parametrize(
    ("kind", "to", "precision", "tolerance"),
    [
        ("f4", "f4", "tf32", 3e-2),
        ("f4", "f4", "ieee", 1e-4),
        ("f8", "f8", "ieee", 1e-12),
        ("i1", "i4", "ieee", 0),
    ],
)
def test_product_of_one_tile(clean, kind, to, precision, tolerance):
    a, b = (
        RNG.integers(-100, 100, (32, 32)).astype(kind)
        if kind == "i1"
        else normal(32, 32).astype(kind)
        for _ in range(2)
    )
    c = zeros((32, 32), to)
    kernels.product_of[(1,)](Tensor(a), Tensor(b), c, SIZE=32, PRECISION=precision)
    near(c, a.astype(to) @ b.astype(to), tolerance)


def test_layer_norm_forward_and_backward(clean):
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


def test_attention(clean):
    length, depth = 128, 32
    q, k, v = (normal(length, depth, dtype=np.float16) for _ in range(3))
    out = zeros((length, depth))
    kernels.attention[(length // 32,)](
        Tensor(q), Tensor(k), Tensor(v), out, length, 0.2, BLOCK=32, DEPTH=depth
    )
    scores = np.exp(0.2 * q.astype("f4") @ k.astype("f4").T)
    near(out, scores / scores.sum(1, keepdims=True) @ v.astype("f4"), 1e-2)


def test_histogram_by_atomics(clean):
    x, counts = RNG.integers(0, 10, 1000).astype(np.int32), zeros(10, np.int32)
    kernels.histogram[(4,)](Tensor(x), counts, 1000, BLOCK=256)
    near(counts, np.bincount(x, minlength=10), 0)


def test_running_sum(clean):
    x, out = normal(512), zeros(512)
    kernels.running_sum[(1,)](Tensor(x), out, BLOCK=512)
    near(out, np.cumsum(x), 1e-4)


def test_sort(clean):
    x, out = normal(256), zeros(256)
    kernels.in_order[(1,)](Tensor(x), out, BLOCK=256)
    near(out, np.sort(x), 0)


def test_transpose(clean):
    x, out = normal(70, 50), zeros((50, 70))
    kernels.turned[(3, 2)](Tensor(x), out, 70, 50, M=32, N=32)
    near(out, x.T, 0)


def test_random_numbers(clean):
    out = zeros(1000)
    kernels.random_numbers[(4,)](out, 7, 1000, BLOCK=256)
    found = out.numpy()
    assert 0 <= found.min() and found.max() < 1 and abs(found.mean() - 0.5) < 0.05
    assert len(np.unique(found)) > 990


def test_device_print(clean):
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        kernels.telling[(1,)](Tensor(np.arange(32, dtype=np.int32)), BLOCK=32)
    lines = set(told.getvalue().splitlines())  # each of the four warps prints all
    assert lines == {f"pid (0, 0, 0) idx ({i:2}) value: {i}" for i in range(32)}, lines


def test_tensor_descriptor(clean):
    x, out = normal(64, 64), zeros(1)
    kernels.tile_sum[(4, 2)](
        TensorDescriptor(Tensor(x), [64, 64], [64, 1], [16, 32]), out, M=16, N=32
    )
    near(out, x.sum(keepdims=True).reshape(1), 1e-3)


def line_of(text: str) -> int:
    """Return the number of a line of the kernels."""
    lines = Path(kernels.__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_load_without_mask_is_an_error_of_its_line():
    x = Tensor(normal(1000))
    with pytest.raises(virtualgpu.VirtualGPUError, match="give tl") as caught:
        kernels.add_unmasked[(4,)](x, x, zeros(1024), BLOCK=256)
    line = line_of("tl.store(out + at, tl.load(x + at) + tl.load(y + at))")
    assert caught.value.location.line == line


def test_programs_that_store_to_one_place_are_a_race(report):
    kernels.last_wins[(4,)](Tensor(normal(1024)), zeros(256), BLOCK=256)
    line = line_of("tl.store(out + at, tl.load(x + tl.program_id(0) * BLOCK + at))")
    assert {(one.kind, one.location.line) for one in report.findings} == {("race", line)}


def test_failing_device_assert_is_an_error_with_its_words():
    with pytest.raises(virtualgpu.VirtualGPUError, match="values are positive") as caught:
        kernels.asserting[(1,)](Tensor(np.arange(32, dtype=np.int32)), BLOCK=32, debug=True)
    assert caught.value.location.line == line_of("tl.device_assert")
