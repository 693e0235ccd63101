"""Real GPU as a :class:`virtualgpu.devices.Device`: memory, modules and launches by the driver.

Nothing is checked here. A kernel that accesses a bad address makes the GPU unusable for the rest
of the process. So a GPU that runs other people's kernels gets a separate process
(:mod:`virtualgpu.devices.real.process`), and only launches in which the virtual GPU found no fault
are sent there.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from virtualgpu.devices.protocol import Triple
from virtualgpu.devices.real import cubin
from virtualgpu.errors import LaunchError, LinkError, OutOfMemory, VirtualGPUError
from virtualgpu.memory.plain_dtypes import demand_plain

# Shared memory that a block gets without a request (CUDA C++ Programming Guide, "Technical
# Specifications per Compute Capability").
_PLAIN_SHARED = 48 << 10


class GPUError(VirtualGPUError):
    """Error from the driver, with its name; ``code`` is its number."""

    def __init__(self, call: str, status: Any):
        self.code = int(status)
        self.name = getattr(status, "name", str(status))
        super().__init__(f"{call}: {self.name}")


# After these errors the context is unusable (CUDA driver API, CUresult: "leaves the process in an
# inconsistent state").
FATAL = frozenset(
    {
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "CUDA_ERROR_LAUNCH_TIMEOUT",
        "CUDA_ERROR_ASSERT",
        "CUDA_ERROR_HARDWARE_STACK_ERROR",
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "CUDA_ERROR_MISALIGNED_ADDRESS",
        "CUDA_ERROR_INVALID_ADDRESS_SPACE",
        "CUDA_ERROR_INVALID_PC",
        "CUDA_ERROR_LAUNCH_FAILED",
        "CUDA_ERROR_ECC_UNCORRECTABLE",
        "CUDA_ERROR_UNKNOWN",
    }
)


@dataclass
class GPUModule:
    """Module that the driver has loaded."""

    handle: Any
    code: bytes  # the cubin
    functions: dict[str, Any]


class GPUDevice:
    """GPU with the given number, in its primary context.

    Raises :class:`GPUError` if the driver refuses, and RuntimeError if there is no driver.
    """

    shares_memory = False

    def __init__(self, number: int = 0):
        from cuda.bindings import driver

        self._driver = driver
        self._call("cuInit", 0)
        self._device = self._call("cuDeviceGet", number)
        self._context = self._call("cuDevicePrimaryCtxRetain", self._device)
        self._call("cuCtxSetCurrent", self._context)
        self.name = self._call("cuDeviceGetName", 128, self._device).split(b"\0")[0].decode()
        attribute = driver.CUdevice_attribute
        self.compute_capability = (
            self._call(
                "cuDeviceGetAttribute",
                attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                self._device,
            ),
            self._call(
                "cuDeviceGetAttribute",
                attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                self._device,
            ),
        )
        self.total_memory = int(self._call("cuDeviceTotalMem", self._device))

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a driver function and return its value, a tuple of values, or None."""
        status, *values = getattr(self._driver, name)(*arguments)
        if int(status):
            kind = OutOfMemory if status.name == "CUDA_ERROR_OUT_OF_MEMORY" else None
            raise kind(f"{name}: {status.name}") if kind else GPUError(name, status)
        return tuple(values) if len(values) > 1 else values[0] if values else None

    @property
    def architecture(self) -> str:
        """Return the architecture, for example ``sm_90``."""
        return "sm_{}{}".format(*self.compute_capability)

    # -- memory --------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> int:
        """Allocate bytes; zero bytes give the null pointer. Raises OutOfMemory."""
        return int(self._call("cuMemAlloc", nbytes)) if nbytes else 0

    def free(self, address: int) -> None:
        if address:
            self._call("cuMemFree", address)

    def write(self, address: int, data: np.ndarray) -> None:
        """Copy the bytes of ``data``, in C order, from host to device."""
        demand_plain(data.dtype)
        data = np.ascontiguousarray(data)
        if data.nbytes:
            self._call("cuMemcpyHtoD", address, data.ctypes.data, data.nbytes)

    def read(self, address: int, nbytes: int) -> np.ndarray:
        """Copy from device to host, into a new uint8 array of shape (nbytes,)."""
        data = np.empty(nbytes, np.uint8)
        if nbytes:
            self._call("cuMemcpyDtoH", data.ctypes.data, address, nbytes)
        return data

    def copy(self, target: int, origin: int, nbytes: int) -> None:
        """Copy from device to device."""
        if nbytes:
            self._call("cuMemcpyDtoD", target, origin, nbytes)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        if nbytes:
            self._call("cuMemsetD8", address, byte, nbytes)

    # -- code ----------------------------------------------------------------------------------

    def load(self, ptx: str | list[str], names: dict[str, str] | None = None) -> GPUModule:
        """Link PTX to machine code and load it. Raises LinkError."""
        texts = (ptx,) if isinstance(ptx, str) else tuple(ptx)
        return self.load_code(cubin.link(texts, self.architecture))

    def load_code(self, code: bytes) -> GPUModule:
        """Load machine code of this GPU's architecture. Raises LinkError."""
        try:
            return GPUModule(self._call("cuModuleLoadData", code), code, {})
        except GPUError as error:
            raise LinkError(f"the driver cannot load the kernel: {error.name}") from None

    def unload(self, module: GPUModule) -> None:
        """Free the module's code and device memory."""
        self._call("cuModuleUnload", module.handle)

    def symbol(self, module: GPUModule, name: str) -> tuple[int, int]:
        """Return the address and size of a module's variable. Raises LinkError if it is hidden."""
        try:
            address, nbytes = self._call("cuModuleGetGlobal", module.handle, name.encode())
        except GPUError as error:
            raise LinkError(f"no variable {name}: {error.name}") from None
        return int(address), int(nbytes)

    def launch(
        self,
        module: GPUModule,
        entry: str,
        grid: Triple,
        block: Triple,
        parameters: list[bytes],
        shared_bytes: int = 0,
        cooperative: bool = False,
        cluster: Triple | None = None,
    ) -> None:
        """Start a kernel; :meth:`synchronize` raises errors inside it.

        Raises LaunchError for a launch that the driver refuses.
        """
        if cluster is not None:
            raise LaunchError(
                f"kernel {entry}: on a real GPU, this package launches clusters only for kernels "
                "that declare __cluster_dims__. Add that to the kernel"
            )
        function = module.functions.get(entry)
        if function is None:
            function = self._call("cuModuleGetFunction", module.handle, entry.encode())
            module.functions[entry] = function
        if shared_bytes > _PLAIN_SHARED:
            wish = self._driver.CUfunction_attribute
            self._call(
                "cuFuncSetAttribute",
                function,
                wish.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                shared_bytes,
            )
        # The driver reads each parameter through a pointer to it.
        held = [ctypes.create_string_buffer(raw, max(len(raw), 1)) for raw in parameters]
        pointers = (ctypes.c_void_p * max(len(held), 1))(*map(ctypes.addressof, held))
        common = (function, *grid, *block, shared_bytes, 0, ctypes.addressof(pointers))
        try:
            if cooperative:
                self._call("cuLaunchCooperativeKernel", *common)
            else:
                self._call("cuLaunchKernel", *common, 0)
        except GPUError as error:
            if error.name in FATAL:
                raise
            raise LaunchError(f"kernel {entry}: {error.name}") from None

    def synchronize(self) -> None:
        """Wait for all work. Raises :class:`GPUError` for an error in a kernel."""
        self._call("cuCtxSynchronize")
