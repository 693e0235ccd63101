"""Copies of a DataFrame to pandas, NumPy and CuPy."""

from __future__ import annotations

import cupy
import numpy as np
import pandas as pd


class HostCopies:
    """Conversions of a DataFrame, including those that cuDF refuses."""

    def to_pandas(self, *, nullable: bool = False) -> pd.DataFrame:
        frame = pd.DataFrame(
            {
                at: self._series(name).to_pandas(nullable=nullable)
                for at, name in enumerate(self._columns)
            },
            index=self._index,
        )
        frame.columns = self.columns
        return frame

    def to_cupy(self, dtype=None, copy: bool = False, na_value=None) -> cupy.ndarray:
        """Return a device matrix in which the columns are contiguous (order F)."""
        return cupy.asarray(self.to_numpy(dtype, True, na_value), order="F")

    def to_numpy(self, dtype=None, copy: bool = True, na_value=None) -> np.ndarray:
        hosts = [self._series(name).to_numpy(na_value=na_value) for name in self._columns]
        for host in hosts:
            if host.dtype.kind not in "biuf":
                raise NotImplementedError(f"{host.dtype} cannot be exposed as an array")
        if dtype is None:
            dtype = np.result_type(*hosts) if hosts else np.float64
        matrix = np.empty(self.shape, dtype, order="F")
        for at, host in enumerate(hosts):
            matrix[:, at] = host
        return matrix

    def to_dict(self, *args, **kwargs):
        raise TypeError(
            "cuDF does not support conversion to host memory via `to_dict()` method. Consider "
            "using `.to_pandas().to_dict()` to construct a Python dictionary."
        )

    def itertuples(self, index=True, name="Pandas"):
        raise TypeError(
            "cuDF does not support iteration of DataFrame via itertuples. Consider using "
            "`.to_pandas().itertuples()` if you wish to iterate over namedtuples."
        )

    def iterrows(self):
        raise TypeError(
            "cuDF does not support iteration of DataFrame via iterrows. Consider using "
            "`.to_pandas().iterrows()` if you wish to iterate over each row."
        )
