"""Damaged bytecode: what reads and runs it must say what is wrong, and never break down."""

from __future__ import annotations

from collections import Counter
from io import BytesIO

import numpy as np

from virtualgpu.errors import BytecodeError, UnsupportedInstruction, VirtualGPUError
from virtualgpu.launch.limits import Budget
from virtualgpu.memory.global_memory import GlobalMemory
from virtualgpu.tile.launch import TileLaunch
from virtualgpu.tile.module import TileModule

EDGES = (0, 1, 2, 4, 0x7F, 0x80, 0xFF)


def bytecode(kernel, *arguments, version: str = "13.4") -> bytes:
    """What cuTile writes for a kernel launched with these arguments."""
    from cuda.tile.compilation import CallingConvention, KernelSignature, export_kernel

    written = BytesIO()
    signature = KernelSignature.from_kernel_args(
        kernel, arguments, CallingConvention.cutile_python_v1()
    )
    export_kernel(
        kernel,
        [signature],
        written,
        gpu_code="sm_90",
        output_format="tileir_bytecode",
        bytecode_version=version,
    )
    return written.getvalue()


def corpus(arrays) -> list[bytes]:
    """Some kernels of each kind of operation."""
    import tile_faults
    import tile_kernels as k

    f32, i32 = arrays.zeros((32, 32), np.float32), arrays.zeros(32, np.int32)
    half = arrays.zeros((32, 32), np.float16)
    return [
        bytecode(k.add, f32[0], f32[0], f32[0], 16),
        bytecode(k.matmul, half, half, half, 16, 16, 16),
        bytecode(k.layer_norm, f32, f32[0], f32[0], f32, 1e-5, 16, version="13.2"),
        bytecode(k.softmax, f32, f32, 32, version="13.1"),
        bytecode(k.running_sums, f32, f32, i32, 32),
        bytecode(k.collatz, i32, i32, version="13.3"),
        bytecode(k.gathered, i32, i32, i32, 16),
        bytecode(tile_faults.last_block_sums, f32[0], f32[0], i32, f32[0], 16),
        bytecode(tile_faults.under_a_lock, f32[0], i32, 16),
        bytecode(tile_faults.asserts, f32[0], 16),
    ]


def damaged(rng: np.random.Generator, raw: bytes) -> bytes:
    """One to four things done to the bytes."""
    found = bytearray(raw)
    for _ in range(int(rng.integers(1, 5))):
        at, kind = int(rng.integers(len(found) or 1)), int(rng.integers(7))
        if not found:
            break
        if kind == 0:
            found[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            found[at] = int(rng.integers(256))
        elif kind == 2:
            found[at] = int(rng.choice(EDGES))
        elif kind == 3:
            del found[at : at + int(rng.integers(1, 9))]
        elif kind == 4:
            found[at:at] = rng.bytes(int(rng.integers(1, 9)))
        elif kind == 5:
            size, to = int(rng.integers(1, 33)), int(rng.integers(len(found)))
            found[to : to + size] = found[at : at + size]
        else:
            del found[at:]
    return bytes(found)


def attempt(memory: GlobalMemory, address: int, raw: bytes) -> str:
    """Load and run it: how that ended, in one word. Anything but the virtual GPU's own errors
    passes through."""
    try:
        module = TileModule(raw, memory)
    except BytecodeError as error:
        if not (0 <= error.offset <= len(raw) and f"{error.offset:#x}" in str(error)):
            raise AssertionError(f"no offset: {error}") from error
        return "damaged"
    except UnsupportedInstruction:
        return "unsupported"
    how = "ran"
    for name, kernel in module.kernels.items():
        values = [
            np.array(address if one.element.kind == "p" else 32, np.int64).tobytes()
            if one.element.kind != "f"
            else np.array(1, one.element.stored).tobytes()
            for one in kernel.parameters
        ]
        parameters = [
            raw[: one.element.size] for raw, one in zip(values, kernel.parameters, strict=True)
        ]
        try:
            TileLaunch(
                memory,
                module,
                name,
                (2, 1, 1),
                parameters,
                budget=Budget(instructions=2000, seconds=5),
            ).run()
        except VirtualGPUError:
            how = "stopped"
    module.unload()
    return how


def case(raws: list[bytes], seed: int, number: int) -> bytes:
    """The damaged bytes of one case."""
    rng = np.random.default_rng([seed, number])
    return damaged(rng, raws[int(rng.integers(len(raws)))])


def fuzz(raws: list[bytes], seed: int, cases: int) -> Counter[str]:
    """How so many cases ended. Raises AssertionError with the seed of the first that broke."""
    memory = GlobalMemory(1 << 30)
    address = memory.allocate(1 << 16)
    memory.fill(address, 0, 1 << 16)
    ended: Counter[str] = Counter()
    for number in range(cases):
        try:
            ended[attempt(memory, address, case(raws, seed, number))] += 1
        except BaseException as error:
            raise AssertionError(
                f"seed {seed}, case {number}: {type(error).__name__}: {error}"
            ) from error
    return ended
