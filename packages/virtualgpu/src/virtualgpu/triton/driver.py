"""Driver interface of Triton, implemented by the current device of :mod:`virtualgpu.devices`.

The names are those of Triton's ``DriverBase`` and of its driver for NVIDIA's GPUs.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

from triton.backends.compiler import GPUTarget
from triton.backends.driver import (
    DriverBase,
    decompose_descriptor,
    expand_signature,
    wrap_handle_tensordesc_impl,
)
from triton.runtime import _allocation

from virtualgpu import devices
from virtualgpu.cuda.device_attributes import ATTRIBUTES
from virtualgpu.cuda.kernel_resources import resources
from virtualgpu.devices.host_tensors import copies
from virtualgpu.triton.arguments import on_device, pack
from virtualgpu.triton.lines import mended

# The virtual GPU runs the instructions that Triton emits for sm_80: mma.sync, ldmatrix, cp.async.
# For sm_90 Triton emits wgmma, which the virtual GPU lacks.
ARCHITECTURE, WARP = 80, 32


class Loaded(NamedTuple):
    """A kernel on the device; ``shared`` bytes of dynamic shared memory."""

    module: Any
    name: str
    shared: int


class VirtualUtils:
    """Replacement of ``CudaUtils``, which a C compiler would build."""

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int):
        """Return ``(module, function, registers, spills, maximum threads per block)`` from PTX.

        Raises LinkError, PTXSyntaxError, UnsupportedInstruction.
        """
        text = mended(kernel.decode())
        module, found = devices.current().load(text), resources([text], name)
        return module, Loaded(module, name, shared), found.registers, 0, found.maximum_threads

    def unload_module(self, module) -> None:
        devices.current().unload(module)

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Return the device's limits; rates and widths are 0: it has no clock and no bus."""
        return {
            "max_shared_mem": ATTRIBUTES["MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"],
            "max_num_regs": ATTRIBUTES["MAX_REGISTERS_PER_MULTIPROCESSOR"],
            "multiprocessor_count": ATTRIBUTES["MULTIPROCESSOR_COUNT"],
            "warpSize": WARP,
            "sm_clock_rate": 0,
            "mem_clock_rate": 0,
            "mem_bus_width": 0,
        }


class VirtualLauncher:
    """Launcher of one kernel, which replaces ``CudaLauncher``.

    Parameters
    ----------
    source : triton.compiler.ASTSource
        Only the types of its arguments are used.
    metadata
        The compiler's description of the kernel.
    """

    def __init__(self, source, metadata):
        descriptors = getattr(metadata, "tensordesc_meta", None)
        self._types = expand_signature(source.signature.values(), descriptors, "nvTmaDesc")
        self._metadata = metadata
        self._launch = wrap_handle_tensordesc_impl(
            self._packed,
            source.signature,
            descriptors,
            lambda descriptor, *_: decompose_descriptor(descriptor),
        )

    def __call__(
        self,
        x: int,
        y: int,
        z: int,
        stream,
        function: Loaded,
        packed_metadata,
        launch_metadata,
        enter_hook,
        exit_hook,
        *arguments,
    ) -> None:
        """Launch ``x * y * z`` blocks (Triton's programs), unless that is zero."""
        if enter_hook is not None:
            enter_hook(launch_metadata)
        if x * y * z > 0:
            self._launch((x, y, z), stream, function, arguments)
        if exit_hook is not None:
            exit_hook(launch_metadata)

    def _packed(self, grid: devices.Triple, stream, function: Loaded, arguments) -> None:
        has = self._metadata
        blocks = grid[0] * grid[1] * grid[2] * has.num_ctas
        scratch = _allocate(
            _allocation._allocator,
            blocks * has.global_scratch_size,
            has.global_scratch_align,
            stream,
        )
        profile = _allocate(
            _allocation._profile_allocator,
            blocks * has.profile_scratch_size,
            has.profile_scratch_align,
            stream,
        )
        with copies() as address:
            given = [on_device(one, address) for one in arguments]
            parameters = pack((*self._types, "*i8", "*i8"), (*given, scratch, profile))
            devices.current().launch(
                function.module,
                function.name,
                grid,
                (has.num_warps * WARP, 1, 1),
                parameters,
                function.shared,
                has.launch_cooperative_grid,
            )


def _allocate(allocator, nbytes: int, alignment: int, stream):
    """Allocate a kernel's scratch memory with the user's allocator."""
    return allocator.get()(nbytes, alignment, stream) if nbytes else None


class VirtualDriver(DriverBase):
    """Triton driver that uses the current device: one target, ``sm_80``, and one stream."""

    def __init__(self):
        self.utils = VirtualUtils()
        self.launcher_cls = VirtualLauncher

    @staticmethod
    def is_active() -> bool:
        return True

    def get_current_device(self) -> int:
        return devices.number()

    def set_current_device(self, device: int) -> None:
        devices.select(device)

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_device_capability(self, device: int) -> tuple[int, int]:
        return divmod(ARCHITECTURE, 10)

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", ARCHITECTURE, WARP)

    def map_python_to_cpp_type(self, ty: str) -> str:
        raise NotImplementedError("no launcher is compiled for the virtual GPU")

    def get_active_torch_device(self):
        """Return the PyTorch device that stands for the virtual GPU."""
        import torch

        from virtualgpu import torch_device

        return torch.device("cuda", 0) if torch_device.is_installed() else torch.device("cpu")

    def get_device_interface(self):
        raise NotImplementedError(
            "PyTorch has no device on the virtual GPU, so it has no events and streams: remove "
            'the timing code (docs/virtualgpu.md, "Triton")'
        )

    def get_benchmarker(self):
        return untimed


def untimed(kernel_call, *, quantiles=None, **_):
    """Replace ``triton.testing.do_bench``: run once, with NaN for every time."""
    warnings.warn(
        "the virtual GPU is not a GPU, so nothing is timed. Each function runs once, "
        "every time is NaN, and the first of an autotuned kernel's configurations is used",
        UserWarning,
        stacklevel=2,
    )
    kernel_call()
    return [float("nan")] * len(quantiles) if quantiles is not None else float("nan")
