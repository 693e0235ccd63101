"""Errors for names that the stand-in lacks; each message names an alternative."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpustandins.importing import as_import_error


class Missing(NotImplementedError, AttributeError):
    """Error for a part of PyCUDA that the stand-in lacks.

    It is also an AttributeError, so that ``hasattr`` returns False.
    """


def lookup(module: str, lacks: Mapping[str, str] | None = None) -> Callable[[str], None]:
    """Return a module's ``__getattr__``, which raises :class:`Missing` for public names.

    ``lacks`` gives alternatives for some names.
    """

    def __getattr__(name: str) -> None:
        if name.startswith("_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        advice = f"; use {lacks[name]}" if lacks and name in lacks else ""
        raise as_import_error(
            Missing(
                f"{module}.{name} is not in PyCUDA's stand-in for machines without a GPU{advice}"
            )
        )

    return __getattr__


class Absent:
    """Attribute that the stand-in lacks; reading it raises :class:`Missing`."""

    def __init__(self, instead: str, module: str = "pycuda.driver"):
        self._instead, self._module = instead, module

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"{owner.__name__}.{name}"

    def missing(self) -> Missing:
        """Return the error.

        It is not raised here, because after an error in a descriptor Python calls the class's
        ``__getattr__``, which raises it again.
        """
        return Missing(
            f"{self._module}.{self._name} is not in PyCUDA's stand-in for machines "
            f"without a GPU; use {self._instead}"
        )

    def __get__(self, instance: object, owner: type | None = None) -> None:
        raise self.missing()
