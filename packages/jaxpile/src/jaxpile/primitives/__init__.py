"""Translators of JAX's primitives, by subject."""

from __future__ import annotations

from functools import cache

from jaxpile.registry import Registry, Translator


@cache
def _all() -> Registry:
    from jaxpile.primitives import (
        algebra,
        control,
        elementwise,
        indexing,
        products,
        randomness,
        reductions,
        scatters,
        sorting,
        special,
        views,
        windows,
    )

    registry = Registry()
    for module in (
        elementwise,
        views,
        indexing,
        scatters,
        reductions,
        control,
        randomness,
        sorting,
        products,
        algebra,
        special,
        windows,
    ):
        for thing in vars(module).values():
            found = thing.values() if isinstance(thing, dict) else [thing]
            registry.register(*(t for t in found if isinstance(t, Translator)))
    return registry


def default_registry() -> Registry:
    """Return a copy of the registry of all translators of this package."""
    return _all().extended()
