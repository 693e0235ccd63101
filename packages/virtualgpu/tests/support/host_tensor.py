"""What the device asks of PyTorch's CPU tensors. PyTorch itself (3 GB) is not there."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np


class HostTensor:
    """A view of NumPy memory, asked as PyTorch's CPU tensors are."""

    device = SimpleNamespace(type="cpu")

    def __init__(self, storage: np.ndarray, first: int = 0, stop: int | None = None):
        self.storage, self.view = storage, storage.reshape(-1)[first:stop]
        if not first and stop is None:
            self.view = storage

    def data_ptr(self) -> int:
        return self.view.ctypes.data

    def untyped_storage(self):
        return SimpleNamespace(
            data_ptr=lambda: self.storage.ctypes.data, nbytes=lambda: self.storage.nbytes
        )

    def detach(self) -> HostTensor:
        return self

    def __dlpack__(self):
        return self.view.__dlpack__()
