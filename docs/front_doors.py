# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] id="front-doors"
# # One kernel through four libraries
#
# A kernel reaches a GPU through a library. This page runs one kernel, `y = a * x + y`, through the four that the
# virtual GPU supports: Numba CUDA, CuPy's `RawKernel`, PyCUDA and NVIDIA's `cuda.core`. Each cell is what you would write for a real
# GPU, except for `activate()`.
#
# On a machine with a GPU, `activate()` changes nothing, and the same cells run on the GPU.

# %% id="activate"
import numpy as np

import virtualgpu

virtualgpu.activate()

n = 1000
a = np.float32(2)
x = np.linspace(0, 1, n, dtype=np.float32)
y = np.ones(n, np.float32)
expected = a * x + y
blocks, threads = (n + 127) // 128, 128

# %% [markdown] id="numba"
# ## Numba CUDA
#
# The kernel is Python. Numba compiles it to PTX when it is first called, and `cuda.to_device` copies the arrays.

# %% id="numba-saxpy"
from numba import cuda


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


there_x, there_y = cuda.to_device(x), cuda.to_device(y)
saxpy[blocks, threads](a, there_x, there_y)
by_numba = there_y.copy_to_host()
np.testing.assert_allclose(by_numba, expected, rtol=1e-6)

# %% [markdown] id="cupy"
# ## CuPy
#
# The kernel is CUDA C++, in a string. NVRTC compiles it. Arrays are CuPy's, and so is most of NumPy. The size is a
# `np.int32`, because the kernel says `int` and CuPy does not check that they agree.

# %% id="cupy-saxpy"
import cupy as cp

SOURCE = r"""
extern "C" __global__ void saxpy(float a, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""
saxpy_cupy = cp.RawKernel(SOURCE, "saxpy")
there_y = cp.asarray(y)
saxpy_cupy((blocks,), (threads,), (a, cp.asarray(x), there_y, np.int32(n)))
by_cupy = there_y.get()
np.testing.assert_allclose(by_cupy, expected, rtol=1e-6)

# %% [markdown] id="pycuda"
# ## PyCUDA
#
# The kernel is the same string. `In` and `InOut` copy a NumPy array there and back around the launch.

# %% id="pycuda-saxpy"
import pycuda.autoinit
import pycuda.driver as drv
from pycuda.compiler import SourceModule

saxpy_pycuda = SourceModule(SOURCE, no_extern_c=True).get_function("saxpy")
by_pycuda = y.copy()
saxpy_pycuda(a, drv.In(x), drv.InOut(by_pycuda), np.int32(n), grid=(blocks, 1),
             block=(threads, 1, 1))
np.testing.assert_allclose(by_pycuda, expected, rtol=1e-6)

# %% [markdown] id="cuda-core"
# ## cuda.core
#
# The kernel is the same string again. Device, stream, compiling and launching are separate steps. On the virtual GPU
# this is NVIDIA's own package, but the driver below it is ours, and a "cubin" contains PTX.

# %% id="cuda-core-saxpy"
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

device = Device()
device.set_current()
stream = device.create_stream()
program = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}", name="saxpy.cu"))
saxpy_core = program.compile("cubin").get_kernel("saxpy")

there_x, there_y = cp.asarray(x), cp.asarray(y)
device.sync()  # CuPy copies on a stream of its own
launch(stream, LaunchConfig(grid=blocks, block=threads), saxpy_core,
       a, there_x.data.ptr, there_y.data.ptr, np.int32(n))
stream.sync()
by_core = there_y.get()
np.testing.assert_allclose(by_core, expected, rtol=1e-6)

# %% [markdown] id="same"
# ## The same bits
#
# NVVM, which compiles for Numba, and NVRTC both make one fused multiply-add of `a * x + y`.

# %% id="same-bits"
for other in (by_cupy, by_pycuda, by_core):
    assert other.tobytes() == by_numba.tobytes()

# %% [markdown] id="mistake"
# ## The same mistake
#
# Without `if (i < n)` the last block runs past the arrays' ends. A GPU may say nothing, or report an illegal address
# later and elsewhere. With each library `check()` names the line and the thread.

# %% id="mistake-core"
WRONG = SOURCE.replace("if (i < n) ", "")


def by_cuda_core():
    kernel = Program(WRONG, "c++", ProgramOptions(name="wrong.cu")).compile("cubin").get_kernel("saxpy")
    launch(stream, LaunchConfig(grid=blocks, block=threads), kernel,
           a, there_x.data.ptr, there_y.data.ptr, np.int32(n))


def by_raw_kernel():
    cp.RawKernel(WRONG, "saxpy")((blocks,), (threads,), (a, there_x, there_y, np.int32(n)))


for door in (by_cuda_core, by_raw_kernel):
    try:
        with virtualgpu.check() as report:
            door()
    except Exception as error:
        print(f"{type(error).__name__}: {error}\n")

# %% [markdown] id="others"
# ## Other libraries
#
# `numba-cuda-mlir`, the successor of Numba CUDA, is not installed with the course. Its kernels are written as in the
# first cell, with `from numba_cuda_mlir import cuda`. They are compiled to PTX as well, and launched from compiled code
# through the driver, as with `cuda.core`, so they run here (version 0.6.0 was tried), without source lines in messages.
#
# Triton is not installed with the course either (285 MB). If you install it, its kernels run here,
# compiled by Triton itself. See [virtualgpu.md, "Triton"](virtualgpu.md#triton).
