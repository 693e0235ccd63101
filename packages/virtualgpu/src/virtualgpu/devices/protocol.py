"""Protocol of a device: the methods that a frontend may call.

A :class:`Device` is any machine that runs PTX: the virtual GPU, a real one, or one in another
process. A :class:`SharedDevice` also lets this process access its memory, so that NumPy can
compute there in place. The stand-ins of CuPy, PyCUDA and cuDF need a shared device.

Addresses are ints, 0 is the null pointer, and sizes are in bytes. Errors are
:class:`~virtualgpu.errors.VirtualGPUError`.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

import numpy as np

Triple = tuple[int, int, int]  # (x, y, z)


class Device(Protocol):
    """Machine that runs PTX.

    Attributes
    ----------
    name : str
        Name of the device.
    compute_capability : tuple of two ints
        Major and minor version.
    total_memory : int
        Bytes of device memory.
    shares_memory : bool
        True for a :class:`SharedDevice` (:func:`shared`).
    """

    name: str
    compute_capability: tuple[int, int]
    total_memory: int
    shares_memory: bool

    def allocate(self, nbytes: int) -> int:
        """Allocate ``nbytes`` bytes and return their address. Raises OutOfMemory."""

    def free(self, address: int) -> None:
        """Free an allocation. Raises VirtualGPUError if none starts at ``address``."""

    def write(self, address: int, data: np.ndarray) -> None:
        """Copy the bytes of ``data``, of any shape, in C order from host to device.

        Raises TypeError for a dtype with Python objects (:mod:`virtualgpu.memory.plain_dtypes`).
        """

    def read(self, address: int, nbytes: int) -> np.ndarray:
        """Copy from device to host, into a new uint8 array of shape (nbytes,)."""

    def copy(self, target: int, origin: int, nbytes: int) -> None:
        """Copy ``nbytes`` bytes from ``origin`` to ``target`` on the device."""

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        """Set ``nbytes`` bytes to ``byte`` (0 to 255)."""

    def load(self, ptx: str | list[str], names: dict[str, str] | None = None) -> Any:
        """Return a module of linked PTX, an object that only the device understands.

        ``names`` gives the names of kernels in messages, to replace mangled names. Raises
        PTXSyntaxError, LinkError, UnsupportedInstruction.
        """

    def unload(self, module: Any) -> None:
        """Free the memory of a module's variables."""

    def symbol(self, module: Any, name: str) -> tuple[int, int]:
        """Return address and size of a module's variable. Raises LinkError for unknown names."""

    def launch(
        self,
        module: Any,
        entry: str,
        grid: Triple,
        block: Triple,
        parameters: list[bytes],
        shared_bytes: int = 0,
        cooperative: bool = False,
        cluster: Triple | None = None,
    ) -> None:
        """Run the kernel ``entry``.

        Parameters
        ----------
        grid, block : tuple of three ints
            Blocks in the grid and threads in a block, (x, y, z).
        parameters : list of bytes
            One entry per kernel parameter, in the parameter's own size.
        shared_bytes : int
            Dynamic shared memory of each block.
        cooperative : bool
            Keep all blocks resident at once, so that ``grid.sync()`` works.
        cluster : tuple of three ints, optional
            Blocks in a thread block cluster, if the kernel does not declare it.

        Raises
        ------
        LaunchError
            The device does not accept the dimensions or parameters.
        VirtualGPUError
            An error in the kernel, with its line, block and thread. For a real GPU, only
            :meth:`synchronize` raises it, and only with the driver's name for it.
        """

    def synchronize(self) -> None:
        """Wait for all launches."""


class SharedDevice(Device, Protocol):
    """Device whose memory this process can access.

    Attributes
    ----------
    allocated : int
        Bytes in use.
    heeds_writes : bool
        True if :meth:`wrote` would have an effect now. Callers test it before each write, because
        that costs less than finding out what was written.
    """

    @property
    def allocated(self) -> int: ...

    @property
    def heeds_writes(self) -> bool: ...

    def allocate(self, nbytes: int, *, poison: bool = True) -> int:
        """Allocate as :meth:`Device.allocate` does.

        Without ``poison``, the caller must write all bytes.
        """

    def retire(self, address: int) -> None:
        """Free an allocation for its users, while a memory pool keeps its memory.

        The bytes still count as allocated, and accessing them is an error, until :meth:`revive`
        reuses the memory or :meth:`free` releases it.
        """

    def revive(self, address: int, nbytes: int, *, poison: bool = True) -> None:
        """Reuse a retired allocation, with as many bytes as fit in its memory."""

    def extent(self, address: int) -> tuple[int, int] | None:
        """Return ``(start, end)`` of the live allocation that holds ``address``, or None."""

    def demand(self, address: int, nbytes: int, what: str) -> None:
        """Raise VirtualGPUError unless the bytes from ``address`` are in one live allocation.

        The message begins with ``what``. Zero bytes are always accepted.
        """

    def view(
        self,
        address: int,
        shape: tuple[int, ...],
        dtype: Any,
        strides: tuple[int, ...] | None = None,
    ) -> np.ndarray:
        """Return device memory as a NumPy array without a copy; report changes by :meth:`wrote`.

        ``strides`` are in bytes (by default C order). Nothing is checked here; :meth:`demand` does
        that.
        """

    def host_view(self, address: int, nbytes: int) -> np.ndarray:
        """Return the bytes of mapped or managed memory: uint8, shape (nbytes,).

        The host can write them without notice, so the whole allocation counts as written from now
        on.
        """

    def address_of(self, host: int) -> int:
        """Return the device address of the host address ``host``, which is inside a view."""

    def wrote(self, address: int, nbytes: int) -> None:
        """Tell observers that the host wrote ``nbytes`` from ``address`` through a view."""


def shared(device: Device) -> SharedDevice | None:
    """Return ``device`` itself if this process can access its memory, else None."""
    return cast(SharedDevice, device) if device.shares_memory else None
