"""Failure of a call of the driver."""

from __future__ import annotations

from cuda.bindings import driver as binding


class DriverFailure(Exception):
    """A result code other than success; the frontend turns it into Numba's own error."""

    def __init__(self, code: binding.CUresult, function: str, words: str = ""):
        self.code, self.function, self.words = code, function, words
        super().__init__(f"Call to {function} results in {code.name}")
