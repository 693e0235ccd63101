"""A bytecode module loaded on a device."""

from __future__ import annotations

import numpy as np

from virtualgpu.errors import LaunchError
from virtualgpu.memory.global_memory import GlobalMemory
from virtualgpu.tile.blocks import bind
from virtualgpu.tile.body import TileKernel, TileOperation, kernels
from virtualgpu.tile.bytecode import read
from virtualgpu.tile.verify import verify


class TileModule:
    """Kernels over tiles, decoded and type-checked.

    Parameters
    ----------
    raw : bytes
        Tile IR bytecode. Raises BytecodeError with offset and operation if it is damaged, and
        UnsupportedInstruction if it contains an operation that the virtual GPU lacks.
    """

    def __init__(self, raw: bytes, memory: GlobalMemory | None = None):
        self._module = read(raw)
        self._memory = memory
        self.kernels = kernels(self._module, _settle)
        self._addresses: dict[str, int] = {}

    def kernel(self, name: str) -> TileKernel:
        """Return a kernel by its name. Raises LaunchError with the existing names."""
        if name not in self.kernels:
            raise LaunchError(
                f"no kernel {name}; the module has: {', '.join(self.kernels) or 'none'}"
            )
        return self.kernels[name]

    def address(self, name: str) -> int:
        """Return the address of a module's variable, which is allocated on first use."""
        if name not in self._addresses:
            if name not in self._module.globals or self._memory is None:
                raise LaunchError(f"the module has no variable {name}")
            tile, data = self._module.globals[name]
            self._addresses[name] = self._memory.allocate(max(len(data), tile.element.size))
            self._memory.write(self._addresses[name], np.frombuffer(data, np.uint8))
        return self._addresses[name]

    def unload(self) -> None:
        """Free the memory of its variables."""
        while self._addresses and self._memory is not None:
            self._memory.free(self._addresses.popitem()[1])


def _settle(operation: TileOperation) -> None:
    verify(operation)
    bind(operation)
