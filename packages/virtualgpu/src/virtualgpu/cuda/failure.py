"""Failed call of a driver function."""

from __future__ import annotations

from cuda.bindings import driver as binding


class DriverFailure(Exception):
    """Result code of a failed driver call; the frontend raises Numba's own error for it."""

    def __init__(self, code: binding.CUresult, function: str, words: str = ""):
        self.code, self.function, self.words = code, function, words
        super().__init__(f"Call to {function} results in {code.name}")
