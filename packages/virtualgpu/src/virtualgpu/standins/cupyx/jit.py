"""``cupyx.jit``: not here. ``numba.cuda`` compiles Python kernels, and for CuPy's arrays too."""

from __future__ import annotations

from cupy._missing import missing

_INSTEAD = ("@numba.cuda.jit, whose kernels take CuPy arrays as they are, or cupy.RawKernel with "
            "CUDA C++")


#: All of it.
MISSING = dict.fromkeys("""
rawkernel threadIdx blockDim blockIdx gridDim grid gridsize laneid warpsize range syncthreads
syncwarp shfl_sync shfl_up_sync shfl_down_sync shfl_xor_sync shared_memory atomic_add atomic_sub
atomic_exch atomic_min atomic_max atomic_inc atomic_dec atomic_cas atomic_and atomic_or atomic_xor
cg cub thrust
""".split(), _INSTEAD)

__all__: list[str] = []


def rawkernel(*, mode: str = "cuda", device: bool = False):
    """Raises NotImplementedError: ``@numba.cuda.jit`` does what this does."""
    raise missing("cupyx.jit", "rawkernel", _INSTEAD)


def __getattr__(name: str):
    raise missing("cupyx.jit", name, _INSTEAD)
