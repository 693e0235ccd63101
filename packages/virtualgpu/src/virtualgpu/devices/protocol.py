"""Protocol of a device: the methods that a front end may call.

:class:`Device` is any machine that runs PTX: the virtual GPU, a real one, one in another process.
A :class:`SharedDevice` is one whose memory this process reaches as well, so that array work can be
NumPy's in place; the stand-ins of CuPy, PyCUDA and cuDF need such a one.

Addresses are ints, 0 is the null pointer, sizes are bytes. What goes wrong is a
:class:`~virtualgpu.errors.VirtualGPUError`.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

import numpy as np

Triple = tuple[int, int, int]  # (x, y, z)


class Device(Protocol):
    """A machine that runs PTX.

    Attributes
    ----------
    name : str
        What it calls itself.
    compute_capability : tuple of two ints
        Major and minor.
    total_memory : int
        Bytes of device memory.
    shares_memory : bool
        Whether it is a :class:`SharedDevice` (:func:`shared`).
    """

    name: str
    compute_capability: tuple[int, int]
    total_memory: int
    shares_memory: bool

    def allocate(self, nbytes: int) -> int:
        """Return the address of ``nbytes`` new bytes. Raises OutOfMemory."""

    def free(self, address: int) -> None:
        """Give an allocation back. Raises VirtualGPUError where none starts at ``address``."""

    def write(self, address: int, data: np.ndarray) -> None:
        """Copy the bytes of ``data``, of any shape, in C order, from host to device.

        Raises TypeError for a dtype with Python objects (:mod:`virtualgpu.memory.plain_dtypes`).
        """

    def read(self, address: int, nbytes: int) -> np.ndarray:
        """Copy from device to host: a new array, uint8, shape (nbytes,)."""

    def copy(self, target: int, origin: int, nbytes: int) -> None:
        """Copy ``nbytes`` bytes from ``origin`` to ``target`` on the device."""

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        """Set ``nbytes`` bytes to ``byte`` (0 to 255)."""

    def load(self, ptx: str | list[str], names: dict[str, str] | None = None) -> Any:
        """Return a module of linked PTX, an object that only the device understands.

        ``names`` says what to call an entry in messages, where the mangled name would puzzle.
        Raises PTXSyntaxError, LinkError, UnsupportedInstruction.
        """

    def unload(self, module: Any) -> None:
        """Give the memory of a module's variables back."""

    def symbol(self, module: Any, name: str) -> tuple[int, int]:
        """Return address and bytes of a module's variable. Raises LinkError for unknown names."""

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
            All blocks resident at once, so that ``grid.sync()`` works.
        cluster : tuple of three ints, optional
            Blocks of a thread block cluster, where the kernel does not say it itself.

        Raises
        ------
        LaunchError
            Dimensions or parameters that the device does not take.
        VirtualGPUError
            What goes wrong in the kernel, with its line, block and thread; of a real GPU only
            :meth:`synchronize` tells it, and only the driver's name for it.
        """

    def synchronize(self) -> None:
        """Wait for all launches."""


class SharedDevice(Device, Protocol):
    """A device whose memory this process reaches.

    Attributes
    ----------
    allocated : int
        Bytes in use.
    heeds_writes : bool
        Whether :meth:`wrote` would make a difference now. It may be asked before each write, since
        it costs less than to find out what was written.
    """

    @property
    def allocated(self) -> int: ...

    @property
    def heeds_writes(self) -> bool: ...

    def allocate(self, nbytes: int, *, poison: bool = True) -> int:
        """Allocate as :meth:`Device.allocate` does.

        Without ``poison``, the caller writes all of it.
        """

    def retire(self, address: int) -> None:
        """Free an allocation for its users, while a memory pool keeps the place.

        Its bytes still count, and touching them is an error, until :meth:`revive` hands them out
        again or :meth:`free` gives them back.
        """

    def revive(self, address: int, nbytes: int, *, poison: bool = True) -> None:
        """Hand out a retired allocation again, with as many bytes as fit in its place."""

    def extent(self, address: int) -> tuple[int, int] | None:
        """Return ``(start, end)`` of the live allocation that holds ``address``, or None."""

    def demand(self, address: int, nbytes: int, what: str) -> None:
        """Raise VirtualGPUError unless the bytes from ``address`` lie in one live allocation.

        The message begins with ``what``. No bytes lie anywhere.
        """

    def view(
        self,
        address: int,
        shape: tuple[int, ...],
        dtype: Any,
        strides: tuple[int, ...] | None = None,
    ) -> np.ndarray:
        """Return the device's own bytes as a NumPy array; report changes by :meth:`wrote`.

        ``strides`` are in bytes (by default: C order). Nothing is checked: :meth:`demand` does.
        """

    def host_view(self, address: int, nbytes: int) -> np.ndarray:
        """Return the bytes of mapped or managed memory: uint8, shape (nbytes,).

        The host writes them without notice, so the whole allocation counts as written from now on.
        """

    def address_of(self, host: int) -> int:
        """Return the device address of what lies at the host address ``host``, inside a view."""

    def wrote(self, address: int, nbytes: int) -> None:
        """Tell observers that the host wrote ``nbytes`` from ``address`` through a view."""


def shared(device: Device) -> SharedDevice | None:
    """Return ``device`` itself if this process reaches its memory, else None."""
    return cast(SharedDevice, device) if device.shares_memory else None
