"""cuTile's kernels give the right results through ``ct.launch``, with no GPU."""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu

RNG = np.random.default_rng(37)


@pytest.fixture(scope="module")
def kernels():
    import tile_kernels

    return tile_kernels


def floats(*shape: int, dtype=np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("size", [1, 16, 100, 1000])
def test_add_with_any_length(arrays, kernels, launch, size):
    a, b = floats(size), floats(size)
    c = arrays.full(size + 3, 7, np.float32)
    launch(kernels.add, (-(-size // 16),), arrays.asarray(a), arrays.asarray(b), c[:size], 16)
    np.testing.assert_array_equal(c.copy_to_host(), [*(a + b), 7, 7, 7])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_matmul_of_sizes_that_no_tile_divides(arrays, kernels, launch, dtype):
    a, b = floats(50, 37, dtype=dtype), floats(37, 41, dtype=dtype)
    c = arrays.zeros((50, 41), np.float32)
    launch(kernels.matmul, (4, 3), arrays.asarray(a), arrays.asarray(b), c, 16, 16, 16)
    np.testing.assert_allclose(c.copy_to_host(), a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)


def test_matmul_of_batches(arrays, kernels, launch):
    a, b = floats(3, 20, 24), floats(3, 24, 18)
    c = arrays.zeros((3, 20, 18), np.float32)
    launch(kernels.batched_matmul, (3, 2, 2), arrays.asarray(a), arrays.asarray(b), c, 16)
    np.testing.assert_allclose(c.copy_to_host(), a @ b, rtol=1e-4, atol=1e-4)


def test_transpose(arrays, kernels, launch):
    x = floats(70, 45)
    y = arrays.zeros((45, 70), np.float32)
    launch(kernels.transpose, (5, 2), arrays.asarray(x), y, 16, 32)
    np.testing.assert_array_equal(y.copy_to_host(), x.T)


def test_softmax_of_padded_rows(arrays, kernels, launch):
    x = floats(6, 50)
    y = arrays.zeros_like(arrays.asarray(x))
    launch(kernels.softmax, (6,), arrays.asarray(x), y, 64)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        y.copy_to_host(), powers / powers.sum(axis=1, keepdims=True), rtol=1e-5
    )


def test_layer_norm(arrays, kernels, launch):
    x, weight, bias = floats(5, 90), floats(90), floats(90)
    y = arrays.zeros_like(arrays.asarray(x))
    launch(kernels.layer_norm, (5,), *map(arrays.asarray, (x, weight, bias)), y, 1e-5, 32)
    wanted = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y.copy_to_host(), wanted * weight + bias, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_attention(arrays, kernels, launch, dtype):
    q, k, v = (floats(2, 64, 32, dtype=dtype) for _ in range(3))
    out = arrays.zeros((2, 64, 32), dtype)
    launch(kernels.attention, (4, 2), *map(arrays.asarray, (q, k, v)), out, 32**-0.5, 16, 32)
    scores = q.astype(np.float64) @ k.transpose(0, 2, 1) * 32**-0.5
    powers = np.exp(scores - scores.max(axis=2, keepdims=True))
    wanted = powers / powers.sum(axis=2, keepdims=True) @ v.astype(np.float64)
    np.testing.assert_allclose(
        out.copy_to_host(), wanted, atol=2e-3 if dtype == np.float16 else 1e-5
    )


def test_atomics_of_elements_that_tiles_share(arrays, kernels, launch):
    x = RNG.integers(0, 10, 256).astype(np.int32)
    bins = arrays.zeros(10, np.int32)
    launch(kernels.histogram, (4,), arrays.asarray(x), bins, 64)
    np.testing.assert_array_equal(bins.copy_to_host(), np.bincount(x, minlength=10))


def test_gather_pads_and_scatter_leaves_out_what_lies_outside(arrays, kernels, launch):
    x, at = np.arange(8, dtype=np.int32) * 10, np.array([3, 9, -1, 0], np.int32)
    y = arrays.zeros(4, np.int32)
    launch(kernels.gathered, (1,), arrays.asarray(x), arrays.asarray(at), y, 4)
    assert y.copy_to_host().tolist() == [30, -1, -1, 0]
    y = arrays.zeros(8, np.int32)
    launch(kernels.scattered, (1,), arrays.asarray(x[:4]), arrays.asarray(at), y, 4)
    assert y.copy_to_host().tolist() == [30, 0, 0, 0, 0, 0, 0, 0]


def test_scans_and_reductions_of_two_tiles(arrays, kernels, launch):
    x = floats(3, 32)
    y, most = arrays.zeros((3, 32), np.float32), arrays.zeros(3, np.int32)
    launch(kernels.running_sums, (3,), arrays.asarray(x), y, most, 32)
    np.testing.assert_allclose(y.copy_to_host(), np.cumsum(x, axis=1), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(most.copy_to_host(), x.argmax(axis=1))


def test_loops_and_branches(arrays, kernels, launch):
    steps = arrays.zeros(9, np.int32)
    launch(kernels.collatz, (9,), arrays.arange(1, 10, dtype=np.int32), steps)
    assert steps.copy_to_host().tolist() == [0, 1, 7, 2, 5, 8, 16, 3, 19]


@pytest.mark.parametrize(("n1", "n2"), [(4, 8), (16, 16)])
def test_fft(arrays, kernels, launch, n1, n2):
    def pairs(complex_numbers: np.ndarray):
        return arrays.asarray(
            np.stack([complex_numbers.real, complex_numbers.imag], -1), np.float32
        )

    def root(size: int, powers: np.ndarray) -> np.ndarray:
        return np.exp(-2j * np.pi * powers / size)

    x = RNG.normal(size=(3, n1 * n2)) + 1j * RNG.normal(size=(3, n1 * n2))
    one, two = np.arange(n1), np.arange(n2)
    roots = np.zeros((2, max(n1, n2), max(n1, n2)), complex)
    roots[0, :n1, :n1] = root(n1, np.outer(one, one))
    roots[1, :n2, :n2] = root(n2, np.outer(two, two))
    y = arrays.zeros((3, n2, n1, 2), np.float32)
    with virtualgpu.check() as report:
        launch(
            kernels.fft,
            (3,),
            pairs(x.reshape(3, n1, n2)),
            y,
            pairs(roots),
            pairs(root(n1 * n2, np.outer(one, two))[None]),
            n1,
            n2,
        )
    assert report.ok, report
    found = y.copy_to_host().reshape(3, -1, 2)
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], np.fft.fft(x), atol=1e-3)


def test_mixture_of_experts(arrays, kernels, launch):
    """Each token goes to the two of four experts that its scores are highest for."""
    x, weights = RNG.normal(size=(13, 16)), RNG.normal(size=(4, 16, 16))
    scores = np.exp(RNG.normal(size=(13, 4)))
    chosen = np.argsort(scores)[:, 2:]
    shares = np.take_along_axis(scores, chosen, 1)
    shares /= shares.sum(1, keepdims=True)
    rows, parts = np.full((4, 16), -1, np.int32), np.zeros((4, 16), np.float32)
    for expert in range(4):
        token, place = np.nonzero(chosen == expert)
        rows[expert, : len(token)], parts[expert, : len(token)] = token, shares[token, place]
    y = arrays.zeros((13, 16), np.float32)
    with virtualgpu.check() as report:
        launch(
            kernels.experts,
            (4, 2),
            arrays.asarray(x, np.float32),
            arrays.asarray(weights, np.float32),
            arrays.asarray(rows),
            arrays.asarray(parts),
            y,
            8,
            16,
        )
    assert report.ok, report
    answers = np.maximum(np.einsum("td,edh->teh", x, weights), 0)
    right = (np.take_along_axis(answers, chosen[..., None], 1) * shares[..., None]).sum(1)
    np.testing.assert_allclose(y.copy_to_host(), right, rtol=1e-4, atol=1e-4)


def test_a_combining_function_reads_what_lies_around_it(arrays, kernels, launch):
    x = RNG.integers(0, 10, (5, 32)).astype(np.int32)
    y, running = arrays.zeros(5, np.int32), arrays.zeros((5, 32), np.int32)
    launch(kernels.sums_modulo, (5,), arrays.asarray(x), y, running, 7, 32)
    assert np.array_equal(y.copy_to_host(), x.sum(1) % 7)
    assert np.array_equal(
        running.copy_to_host(), np.concatenate([x[:, :1], x.cumsum(1)[:, 1:] % 7], 1)
    ), "the first element is combined with nothing"


def test_an_exchange_outside_of_the_array_gives_what_was_expected(arrays, kernels, launch):
    """As cuTile's documentation of ``atomic_cas`` says."""
    x, y = arrays.asarray(np.array([5, 0, 7, 0, 9], np.int32)), arrays.full(8, 1, np.int32)
    launch(kernels.takes_where_zero, (1,), x, y, 8)
    assert x.copy_to_host().tolist() == [5, -1, 7, -3, 9]
    assert y.copy_to_host().tolist() == [5, 0, 7, 0, 9, 0, 0, 0]


def neighbours(name: str, size: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of positive numbers the format's values below and above, and whether the upper one's last
    bit is 0."""
    fraction = {"float16": 10, "bfloat16": 7, "tfloat32": 10, "float32": 23}[name]
    least = -14 if name == "float16" else -126
    step = np.exp2(np.maximum(np.floor(np.log2(size)), least) - fraction)
    low, high = np.floor(size / step), np.ceil(size / step)
    return low * step, high * step, high % 2 == 0


@pytest.mark.parametrize(
    ("there", "modes"),
    [
        ("float16", "RN RZ"),
        ("bfloat16", "RN RZ"),
        ("tfloat32", "RN RZ RA"),
        ("float32", "RN RZ RM RP"),
    ],
)
def test_conversions_round_as_asked(arrays, kernels, launch, there, modes):
    """Of random numbers, of those midway between two of the format, and of the format's own; in
    the modes that cuTile has for them."""
    import cuda.tile as ct

    numbers = np.exp2(RNG.uniform(-20, 15, 300)).astype(np.float32)
    if there == "float32":
        numbers = numbers * (1 + RNG.uniform(size=300) * 2.0**-24)
    low, high, _ = neighbours(there, numbers.astype(np.float64))
    x = np.concatenate([numbers, (low + high) / 2, low])[:768].astype(numbers.dtype)
    x *= RNG.choice([-1, 1], 768)
    low, high, even = neighbours(there, np.abs(x).astype(np.float64))
    middle = (low + high) / 2
    up = {
        "RN": (np.abs(x) > middle) | ((np.abs(x) == middle) & even),
        "RA": np.abs(x) >= middle,
        "RZ": np.zeros(768, bool),
        "RM": x < 0,
        "RP": x > 0,
    }
    for mode in modes.split():
        y = arrays.zeros(768, np.float32)
        kernel = kernels.converting(getattr(ct, there), ct.RoundingMode[mode])
        launch(kernel, (12,), arrays.asarray(x), y, 64)
        assert np.array_equal(y.copy_to_host(), np.copysign(np.where(up[mode], high, low), x)), mode


def test_a_kernel_is_compiled_once_for_arguments_of_a_kind(arrays, kernels, launch, monkeypatch):
    """By cuTile's own function, as it is at that time: programs wrap it to count."""
    from cuda.tile import _compile

    counted, theirs = [], _compile.compile_tile

    def counting(*arguments, **named):
        counted.append(arguments)
        return theirs(*arguments, **named)

    monkeypatch.setattr(_compile, "compile_tile", counting)
    for x in (arrays.ones(32, np.int8), arrays.ones(64, np.int8), arrays.ones(64, np.int16)):
        y = arrays.zeros_like(x)
        launch(kernels.add, (2,), x, x, y, 16)
        assert y[:32].copy_to_host().tolist() == [2] * 32
    assert len(counted) == 2


@pytest.mark.parametrize("first", [0, 1, 3, 6])
def test_rows_are_gathered_and_scattered_from_any_column(arrays, kernels, launch, first):
    """Where a row's part begins is told in elements, not in tiles."""
    x, rows = floats(9, 8), np.array([7, 0, 3, 2], np.int32)
    y, z = arrays.full((4, 4), -1, np.float32), arrays.zeros((9, 8), np.float32)
    with virtualgpu.check() as report:
        launch(kernels.rows_to_rows, (1,), arrays.asarray(x), arrays.asarray(rows), y, z, first, 4)
    assert report.ok, report
    wanted = np.zeros((4, 4), np.float32)
    wanted[:, : 8 - first] = x[rows, first : first + 4]
    assert np.array_equal(y.copy_to_host(), wanted)
    there = np.zeros((9, 8), np.float32)
    there[rows, first : first + 4] = wanted[:, : 8 - first]
    assert np.array_equal(z.copy_to_host(), there)


def test_rows_from_a_column_outside_are_told(arrays, kernels, launch):
    y, z = arrays.zeros((4, 4), np.float32), arrays.zeros((9, 8), np.float32)
    with virtualgpu.check() as report:
        launch(kernels.rows_to_rows, (1,), z, arrays.arange(4, dtype=np.int32), y, z, 8, 4)
    assert "reaches element 8 along dimension 1, of 8" in str(report)
