"""Registry with one translator for each primitive, which users can extend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

#: Kind of a translator that reads its operands only at the index that it writes.
POINTWISE = "pointwise"


class Translator:
    """Translator of the equations of one or more primitives.

    ``primitives`` are their names. ``kind`` is "pointwise" if element i of the result needs only
    the elements i of the operands, so that a program can share such work. ``translate`` receives
    the driver, the equation and its operands as Values. It returns the result as a Value, or a
    list of Values.
    """

    primitives: tuple[str, ...] = ()
    kind: str = "other"

    def translate(self, driver, equation, *operands):
        raise NotImplementedError


class FunctionTranslator(Translator):
    """A translator that calls a function (driver, equation, *operands)."""

    def __init__(self, function: Callable, primitives: tuple[str, ...], kind: str):
        self.function, self.primitives, self.kind = function, primitives, kind
        self.__doc__ = function.__doc__

    def translate(self, driver, equation, *operands):
        return self.function(driver, equation, *operands)


def translates(*primitives: str, kind: str = "other") -> Callable[[Callable], FunctionTranslator]:
    """Register the decorated function as the translator of these primitives.

    >>> @translates("sin", kind="pointwise")
    ... def sine(driver, equation, x):
    ...     return pointwise("sin", x.dtype, x)
    """
    return lambda function: FunctionTranslator(function, primitives, kind)


class Registry(Mapping):
    """Translators by the name of the primitive; copies are independent.

    >>> mine = jaxpile.default_registry().extended(my_translator)
    >>> jaxpile.jit(f, translators=mine)
    """

    def __init__(self, translators: Mapping[str, Translator] | None = None):
        self._translators = dict(translators or {})

    def register(self, *translators: Translator) -> None:
        """Add translators for their primitives; a later one replaces an earlier one."""
        for translator in translators:
            if not translator.primitives:
                raise ValueError(f"{translator!r} names no primitive; set its .primitives")
            for name in translator.primitives:
                self._translators[name] = translator

    def extended(self, *translators: Translator) -> Registry:
        """Return a copy with additional or replaced translators."""
        copy = Registry(self._translators)
        copy.register(*translators)
        return copy

    def __getitem__(self, name: str) -> Translator:
        return self._translators[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._translators)

    def __len__(self) -> int:
        return len(self._translators)
