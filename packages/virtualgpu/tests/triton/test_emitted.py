"""What Triton emits runs, is right under ``check()``, and is told of by the user's lines.

The texts in ``emitted`` are Triton 3.9.0's for sm_80, of the kernels in
``tests/support/triton_kernels.py``, without comments and debugging sections. Where Triton itself
(285 MB) is installed, ``test_triton_compiler.py`` runs the kernels through it.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import virtualgpu
from virtualgpu import devices
from virtualgpu.errors import MemoryAccessError
from virtualgpu.ptx import parse
from virtualgpu.triton.arguments import pack
from virtualgpu.triton.lines import mended

EMITTED = Path(__file__).parent / "emitted"
RNG = np.random.default_rng(19)
THREADS = 128


@pytest.fixture
def device():
    with devices.use(devices.VirtualDevice()) as device:
        yield device


class Tensor:
    """What Triton takes for a pointer."""

    def __init__(self, values: np.ndarray):
        self.like = np.ascontiguousarray(values)
        self.address = devices.current().allocate(values.nbytes)
        devices.current().write(self.address, self.like)

    def data_ptr(self) -> int:
        return self.address

    def numpy(self) -> np.ndarray:
        found = devices.current().read(self.address, self.like.nbytes)
        return found.view(self.like.dtype).reshape(self.like.shape)


def text(name: str) -> str:
    return (EMITTED / f"{name}.ptx").read_text()


def launch(name: str, grid: int, shared: int, types: list[str], *arguments) -> None:
    device = devices.current()
    module = device.load(mended(text(name)))
    device.launch(
        module,
        name,
        (grid, 1, 1),
        (THREADS, 1, 1),
        pack([*types, "*i8", "*i8"], [*arguments, None, None]),
        shared,
    )


def softmax(rows: int = 7, columns: int = 200, extra: int = 0) -> tuple[np.ndarray, Tensor]:
    x = RNG.normal(size=(rows, columns)).astype(np.float32)
    out = Tensor(np.zeros_like(x))
    launch(
        "softmax", 3, 16, ["*fp32", "*fp32", "i32", "i32"], Tensor(x), out, rows + extra, columns
    )
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True), out


@pytest.fixture(params=["0", "always"], ids=["interpreted", "native"])
def native(request, monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", request.param)


def test_softmax(device, native):
    with virtualgpu.check() as report:
        right, out = softmax()
    assert report.ok, report
    np.testing.assert_allclose(out.numpy(), right, rtol=1e-5)


def test_a_product_by_tensor_cores_and_asynchronous_copies(device, native):
    assert "cp.async" in text("product") and "mma.sync" in text("product")
    a, b = (RNG.normal(size=(64, 64)).astype(np.float16) for _ in range(2))
    c = Tensor(np.zeros((64, 64), np.float16))
    with virtualgpu.check() as report:
        launch("product", 4, 4096, ["*fp16"] * 3 + ["i32"] * 3, Tensor(a), Tensor(b), c, 64, 64, 64)
    assert report.ok, report
    np.testing.assert_allclose(c.numpy(), a.astype("f4") @ b.astype("f4"), rtol=1e-2, atol=1e-2)


def test_programs_that_take_a_lock_in_turn(device, native):
    rows, columns, groups = 24, 100, 4
    x, slope = (RNG.normal(size=(rows, columns)).astype(np.float32) for _ in range(2))
    weight = Tensor(np.ones(columns, np.float32))
    means, scales = Tensor(np.zeros(rows, np.float32)), Tensor(np.ones(rows, np.float32))
    sums = [Tensor(np.zeros((groups, columns), np.float32)) for _ in range(2)]
    states = [Tensor(np.zeros(groups, np.int32)) for _ in range(2)]
    with virtualgpu.check() as report:
        launch(
            "layer_norm_backward",
            rows,
            16,
            ["*fp32"] * 8 + ["*i32"] * 2 + ["i32"],
            Tensor(slope),
            Tensor(x),
            weight,
            means,
            scales,
            Tensor(np.zeros_like(x)),
            *sums,
            *states,
            columns,
        )
    assert report.ok, report
    np.testing.assert_allclose(sums[0].numpy().sum(0), (slope * x).sum(0), 1e-4, 1e-4)
    np.testing.assert_allclose(sums[1].numpy().sum(0), slope.sum(0), 1e-4, 1e-4)


def test_a_fault_is_told_by_the_kernels_line_in_tritons_words(device):
    with pytest.raises(MemoryAccessError) as caught:
        softmax(extra=1)
    assert caught.value.location.filename.endswith("kernels.py")
    assert caught.value.location.line == 25  # here = tl.load(x + row * columns + at, ...
    assert "give tl.load and tl.store a mask" in str(caught.value)


def test_offsets_of_32_bits_wrap_beyond_two_thousand_million_elements(device, native):
    """They become negative, and the mask lets them pass."""
    x, y, out = (virtualgpu.huge(2**32, np.float32, fill) for fill in ("index", 1, None))
    given = "add", 2**22, 0, ["*fp32"] * 3 + ["i64"], x, y, out, 2**32
    with virtualgpu.sample(blocks=0), pytest.raises(MemoryAccessError) as caught:
        launch(*given)
    assert caught.value.location.line == 11  # tl.store(out + at, tl.load(x + at, ...
    assert caught.value.location.block == (2**22 - 1, 0, 0)
    with virtualgpu.sample(blocks=0), virtualgpu.check() as report:
        launch("add", 2**21, *given[2:])  # half of the elements: 2**31 - 1 is the last
    assert report.ok, report
    assert out[2**31 - 1].get() == np.float32(2**31) and out[2**31].get() == 0


def test_no_line_is_tritons_own():
    assert "inlined_at" in text("softmax")
    body = parse(mended(text("softmax"))).functions["softmax"].body
    files = {instruction.source.filename for instruction in body if instruction.source}
    assert files == {"kernels.py"}


def test_inline_assembly_is_one_line():
    """LLVM counts on in it: the load of line 33 would be line 34's."""
    found = mended(
        "\t.loc\t1 33 29\n\t// begin inline asm\n\t.loc\t1 33 29\n\tmov.u32 %r1, 0;\n"
        "\t.loc\t1 34 29\n\tld.global.u32 %r1, [%rd1];\n\t// end inline asm\n"
        "\t.loc\t1 40 1"
    )
    assert [line for line in found.splitlines() if ".loc" in line] == [
        "\t.loc\t1 33 29",
        "\t.loc\t1 40 1",
    ]


def test_arguments_become_parameters(device):
    here = Tensor(np.zeros(4))
    found = pack(
        ["*fp64", "constexpr", ("i32", ("fp32", "constexpr")), "u1", "fp16", "bf16", "*i8", "*i8"],
        [here, 64, (-2, (0.5, 3)), True, 1.5, 1.0, None, 4096],
    )
    assert [len(one) for one in found] == [8, 4, 4, 1, 2, 2, 8, 8]
    kinds = ["u8", "i4", "f4", "u1", "f2", "u2", "u8", "u8"]
    values = [np.frombuffer(one, kind)[0] for one, kind in zip(found, kinds, strict=True)]
    assert values == [here.address, -2, 0.5, 1, 1.5, 0x3F80, 0, 4096]


def test_memory_of_the_host_is_refused(device):
    array = np.zeros(4)
    with pytest.raises(ValueError, match=r"no live allocation of the virtual GPU.*CuPy"):
        pack(["*fp64"], [SimpleNamespace(data_ptr=lambda: array.ctypes.data)])
