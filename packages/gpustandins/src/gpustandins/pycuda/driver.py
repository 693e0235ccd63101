"""``pycuda.driver``: devices, memory, modules, launches, streams and events."""

# ruff: noqa: F401  (what is imported here is the module's own)

from __future__ import annotations

from ._context import (
    Context,
    Device,
    Event,
    Stream,
    ctx_flags,
    device_attribute,
    event_flags,
    get_driver_version,
    get_version,
    init,
    mem_get_info,
)
from ._errors import CompileError, Error, LaunchError, LogicError, MemoryError, RuntimeError
from ._function import (
    ArgumentHandler,
    Function,
    In,
    InOut,
    Module,
    Out,
    func_cache,
    function_attribute,
    module_from_buffer,
    module_from_file,
)
from ._memory import (
    DeviceAllocation,
    HostAllocation,
    ManagedAllocation,
    PointerHolderBase,
    aligned_empty,
    aligned_empty_like,
    aligned_zeros,
    aligned_zeros_like,
    from_device,
    from_device_like,
    host_alloc_flags,
    managed_empty,
    managed_empty_like,
    managed_zeros,
    managed_zeros_like,
    mem_alloc,
    mem_alloc_like,
    mem_alloc_managed,
    mem_alloc_pitch,
    mem_attach_flags,
    memcpy_dtod,
    memcpy_dtod_async,
    memcpy_dtoh,
    memcpy_dtoh_async,
    memcpy_htod,
    memcpy_htod_async,
    memcpy_peer,
    memset_d8,
    memset_d8_async,
    memset_d16,
    memset_d16_async,
    memset_d32,
    memset_d32_async,
    pagelocked_empty,
    pagelocked_empty_like,
    pagelocked_zeros,
    pagelocked_zeros_like,
    register_host_memory,
    to_device,
)
from ._missing import lookup

#: Names of PyCUDA's driver that the virtual GPU does not support, with alternatives.
MISSING = {
    "limit": "nothing instead: stack and heap grow as needed",
    "shared_config": "nothing instead: banks are four bytes wide",
    "array_format": "cupy.cuda.texture",
    "address_mode": "cupy.cuda.texture",
    "filter_mode": "cupy.cuda.texture",
    "memory_type": "type(argument)",
    "initialize_profiler": "virtualgpu.profile()",
    **dict.fromkeys(
        (
            "Array",
            "ArrayDescriptor",
            "ArrayDescriptor3D",
            "matrix_to_array",
            "np_to_array",
            "gpuarray_to_array",
            "make_multichannel_2d_array",
        ),
        "a linear array, or CUDA arrays and texture objects in cupy.cuda.texture",
    ),
    **dict.fromkeys(
        ("TextureReference", "matrix_to_texref", "bind_array_to_texref"),
        "texture objects (cupy.cuda.texture), as CUDA 12 has removed texture references",
    ),
    "SurfaceReference": "surface objects (cupy.cuda.texture)",
    **dict.fromkeys(
        ("Memcpy2D", "Memcpy3D"), "a copy for each row with memcpy_htod, memcpy_dtoh or memcpy_dtod"
    ),
    **dict.fromkeys(("Memcpy3DPeer", "memcpy_peer_async"), "memcpy_peer"),
    "memcpy_atoh": "memcpy_dtoh",
    "memcpy_htoa": "memcpy_htod",
    **dict.fromkeys(("memcpy_atod", "memcpy_dtoa", "memcpy_atoa"), "memcpy_dtod"),
    "memset_d2d8": "memset_d8 for each row",
    "memset_d2d16": "memset_d16 for each row",
    "memset_d2d32": "memset_d32 for each row",
    **dict.fromkeys(("Graph", "GraphExec"), "single launches"),
    **dict.fromkeys(("Linker", "jit_input_type"), "one source with all kernels"),
    "IPCMemoryHandle": "host memory",
    "IPCEventHandle": "host synchronisation",
    "mem_host_register_flags": "register_host_memory without flags",
    **dict.fromkeys(("ipc_mem_flags", "mem_get_ipc_handle"), "host memory"),
    **dict.fromkeys(("pointer_attribute", "mem_get_address_range"), "the array that was made"),
    **dict.fromkeys(("profiler_output_mode",), "virtualgpu.profile()"),
    **dict.fromkeys(("jit_option", "jit_target", "jit_fallback"), "SourceModule(options=[...])"),
    **dict.fromkeys(("array3d_flags", "array_cubemap_face"), "cupy.cuda.texture"),
    "compute_mode": "nothing instead: a program has the device to itself",
    "graphics_register_flags": "a copy on the host, as there is no OpenGL here",
}


def start_profiler() -> None:
    """Do nothing, because no profiler is attached.

    ``virtualgpu.profile()`` counts the work of kernels.
    """


def stop_profiler() -> None:
    """Do nothing, like :func:`start_profiler`."""


__all__ = [
    name for name in dir() if name[0] != "_" and name not in ("MISSING", "annotations", "lookup")
]

__getattr__ = lookup("pycuda.driver", MISSING)
