"""The GPU as a device: every call of the driver, taken by a driver that has no GPU behind it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import gpu_driver_stub
from conftest import REPOSITORY
from virtualgpu_fixtures import SUPPORT

pytestmark = [pytest.mark.compiler, pytest.mark.rehearsal]

START = """
import sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
import gpu_driver_stub as stub
stub.start()
import numpy as np
from lab.gpu_check import recorder
from virtualgpu.devices import comparison, recorded
from virtualgpu.devices.real import cubin, gpu

link = cubin.link
def linked(texts, architecture="sm_90", *, contract=True):
    code = link(texts, architecture, contract=contract)
    stub.code_to_texts[code] = texts
    return code
cubin.link = linked

import virtualgpu
from virtualgpu import devices
kept = []
devices.set_current(recorder.RecordingDevice(kept.append, faulty=True))
virtualgpu.activate(force=True)
from numba import cuda
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory) -> Path:
    return gpu_driver_stub.build(tmp_path_factory.mktemp("driver")).parent


def run(driver: Path, body: str) -> str:
    code = START + textwrap.dedent(body)
    done = subprocess.run(
        [sys.executable, "-c", code, str(SUPPORT)],
        capture_output=True,
        text=True,
        env=os.environ
        | {
            "LD_LIBRARY_PATH": str(driver),
            "CUDA_VISIBLE_DEVICES": "0",
            "PYTHONPATH": str(REPOSITORY),
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_launches_of_every_kind_come_out_as_recorded(driver):
    run(
        driver,
        """
        @cuda.jit
        def scale(x, out, factor):
            i = cuda.grid(1)
            if i < x.size:
                out[i] = x[i] * factor

        table = np.arange(7.0)

        @cuda.jit
        def all_wait(x):
            grid = cuda.cg.this_grid()
            x[cuda.grid(1)] += 1
            grid.sync()
            x[cuda.grid(1)] += table[cuda.threadIdx.x % 7]

        scale[8, 128](np.ones(1000), np.zeros(1000), 3.0)
        all_wait[2, 32](np.ones(64))
        module = virtualgpu.Module.from_cuda('''
            __constant__ float weights[4]; __device__ int count; extern __shared__ float own[];
            extern "C" __global__ void weigh(float *x) {
                own[threadIdx.x] = weights[threadIdx.x % 4]; x[threadIdx.x] *= own[threadIdx.x];
                atomicAdd(&count, 1); }''')
        module.write_symbol("weights", np.arange(4, dtype="f4"))
        module.launch("weigh", 1, 32, [np.ones(32, "f4")], shared_bytes=60_000)
        devices.set_current(None)

        real = gpu.GPUDevice()
        assert (real.name, real.architecture) == ("Stub GPU", "sm_90")
        assert [len(launch.pieces) for launch in kept] == [2, 2, 3]
        assert {p.variable for p in kept[2].pieces} == {"weights", "count", ""}
        for launch in kept:
            found = comparison.compare(launch, recorded.play(launch, real))
            assert found.verdict == comparison.EQUAL, (str(launch), found)
        assert {"cuLaunchKernel", "cuLaunchCooperativeKernel", "cuFuncSetAttribute",
                "cuModuleGetGlobal", "cuMemFree"} <= set(stub.calls)
    """,
    )


def test_a_device_does_what_the_small_interface_says(driver):
    run(
        driver,
        """
        real = gpu.GPUDevice()
        address = real.allocate(64)
        real.write(address, np.arange(8, dtype="i8"))
        real.copy(address + 32, address, 16)
        real.fill(address, 255, 8)
        assert real.read(address, 64).view("i8").tolist() == [-1, 1, 2, 3, 0, 1, 6, 7]
        assert real.allocate(0) == 0 and real.read(0, 0).size == 0
        real.free(address), real.free(0)
        module = real.load('''.version 8.0
            .target sm_90
            .address_size 64
            .visible .entry nothing() { ret; }''')
        real.launch(module, "nothing", (1, 1, 1), (32, 1, 1), [])
        errors, one = virtualgpu.errors, (1, 1, 1)
        for wrong, kind in (
            (lambda: real.launch(module, "no", one, one, []), gpu.GPUError),
            (lambda: real.launch(module, "nothing", one, (2048, 1, 1), []), errors.LaunchError),
            (lambda: real.symbol(module, "no"), errors.LinkError),
            (lambda: real.load_code(b"no code"), errors.LinkError),
            (lambda: real.allocate(1 << 40), errors.OutOfMemory),
        ):
            try:
                wrong()
            except kind as error:
                assert "CUDA_ERROR_" in str(error), error
            else:
                raise SystemExit("no error")
    """,
    )


def test_a_spoiled_gpu_says_so_and_its_process_ends(driver):
    run(
        driver,
        """
        import io
        from virtualgpu.devices import child
        from virtualgpu.devices.real import process as gpu_process

        @cuda.jit
        def too_far(x):
            x[cuda.grid(1) + 100] = 1

        try:
            too_far[1, 32](np.zeros(8))
        except virtualgpu.VirtualGPUError:
            pass
        (launch,) = kept
        assert launch.pieces[0].after is None
        orders, answers = io.BytesIO(), io.BytesIO()
        for _ in range(2):
            child.send(orders, {}, [np.frombuffer(launch.to_bytes(), np.uint8)])
        orders.seek(0)
        gpu_process.serve("gpu", orders, answers)
        answers.seek(0)
        (hello, _), (error, _) = iter(lambda: child.receive(answers), None)  # not tried again
        assert "Stub GPU" in hello["name"] and error["spoiled"]
        assert "CUDA_ERROR_ILLEGAL_ADDRESS" in error["error"]
    """,
    )
