"""What the stand-in does not have: said by name, with what to use instead."""

from __future__ import annotations

from collections.abc import Callable

from gpustandins.importing import as_import_error


class Missing(NotImplementedError, AttributeError):
    """A part of PyCUDA that the stand-in lacks.

    Also an AttributeError, so that ``hasattr`` answers False rather than fail.
    """


def lookup(module: str, lacks: dict[str, str]) -> Callable[[str], None]:
    """A module's ``__getattr__``: :class:`Missing` for the names in ``lacks``."""

    def __getattr__(name: str) -> None:
        if name in lacks:
            raise as_import_error(
                Missing(
                    f"{module}.{name} is not in PyCUDA's stand-in for machines without a "
                    f"GPU; use {lacks[name]}"
                )
            )
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__


class Absent:
    """An attribute of a class of PyCUDA's that the stand-in lacks: looking it up raises
    :class:`Missing`."""

    def __init__(self, instead: str):
        self._instead = instead

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"{owner.__name__}.{name}"

    def missing(self) -> Missing:
        """The error; classes with a ``__getattr__`` raise it there, which Python asks once more."""
        return Missing(
            f"pycuda.driver.{self._name} is not in PyCUDA's stand-in for machines "
            f"without a GPU; use {self._instead}"
        )

    def __get__(self, instance: object, owner: type | None = None) -> None:
        raise self.missing()
