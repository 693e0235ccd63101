"""Terms for messages in each kernel language: Numba CUDA, CUDA C++ and Triton."""

from __future__ import annotations

from dataclasses import dataclass

CPP_SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".cpp", "default_program")  # cuda.core's name


@dataclass(frozen=True)
class Language:
    """Terms of one language for messages.

    Attributes
    ----------
    barrier, warp_barrier, fence : str
        The constructs that order the threads of a block, the threads of a warp, and the accesses
        of one thread.
    atomic : str
        An operation that reads, computes and writes back in one step.
    decisive : str
        An operation that reads, compares and writes back in one step.
    shared, local : str
        The place where the size of a shared or local array is given.
    fresh : str
        Advice about global memory that was never written.
    guard : str
        Advice for keeping an index inside its array.
    wide : str
        An expression that makes the number ``{}`` a 64-bit number.
    """

    barrier: str
    warp_barrier: str
    fence: str
    atomic: str
    decisive: str
    shared: str
    local: str
    fresh: str
    guard: str
    wide: str


NUMBA = Language(
    barrier="cuda.syncthreads()",
    warp_barrier="cuda.syncwarp()",
    fence="cuda.threadfence()",
    atomic="cuda.atomic",
    decisive="cuda.atomic.max (or min, or compare_and_swap)",
    shared="given to cuda.shared.array",
    local="given to cuda.local.array",
    fresh="cuda.device_array returns uninitialised memory; fill the array before the launch "
    "(cuda.to_device(np.zeros(...)))",
    guard="guard the index (if i < array.size) or launch fewer threads",
    wide="np.int64({})",
)
CPP = Language(
    barrier="__syncthreads()",
    warp_barrier="__syncwarp()",
    fence="__threadfence()",
    atomic="an atomic (atomicAdd)",
    decisive="atomicMax (or atomicMin, or atomicCAS)",
    shared="in its __shared__ declaration",
    local="in its declaration",
    fresh="cupy.empty, gpuarray.empty and cudaMalloc return uninitialised memory; fill it before "
    "the launch (cupy.zeros, a copy from the host)",
    guard="guard the index (if (i < n)) or launch fewer threads",
    wide="(size_t){}",
)
TRITON = Language(
    barrier="tl.debug_barrier()",
    warp_barrier="tl.debug_barrier()",
    fence='an atomic with sem="acq_rel"',
    atomic="an atomic (tl.atomic_add)",
    decisive="tl.atomic_max (or min, or atomic_cas)",
    shared="that Triton's compiler chose",
    local="that Triton's compiler chose",
    fresh="cupy.empty returns uninitialised memory; fill it before the launch (cupy.zeros, a copy "
    "from the host)",
    guard="give tl.load and tl.store a mask (mask=offsets < n), or launch fewer programs",
    wide="{}.to(tl.int64)",
)
triton_files: set[str] = set()  # source files of the Triton kernels that were loaded


def language_of(source) -> Language:
    """Return the language of a :class:`~virtualgpu.ptx.module.SourceLine`; Numba for None."""
    if source is None:
        return NUMBA
    if source.filename in triton_files:
        return TRITON
    return CPP if source.filename.endswith(CPP_SUFFIXES) else NUMBA
