"""Callbacks that run right after a module is imported, without importing it earlier.

The libraries that this package adapts take seconds to import, and a program may never use them.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Callback = Callable[[ModuleType], None]


def after_import(name: str, callback: Callback, before: Callable[[], object] | None = None) -> None:
    """Call ``callback(module)`` once the module ``name`` is imported, or now if it already is.

    ``before()`` runs right before the module's own code. A second call for the same name replaces
    the first if the module is not imported yet.
    """
    if (module := sys.modules.get(name)) is not None:
        callback(module)
        return
    _AfterImport.callbacks[name] = callback, before
    if not any(isinstance(finder, _AfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterImport())


def forget(name: str) -> None:
    """Stop waiting for the module ``name``; without awaited modules the import hook is removed."""
    _AfterImport.callbacks.pop(name, None)
    if not _AfterImport.callbacks:
        sys.meta_path[:] = [one for one in sys.meta_path if not isinstance(one, _AfterImport)]


class _AfterImport(MetaPathFinder):
    """Finder that locates awaited modules with the other finders and calls back after loading.

    It is first on ``sys.meta_path``, because numba-cuda inserts its own finder there.
    """

    callbacks: dict[  # one dictionary for the process
        str, tuple[Callback, Callable[[], object] | None]
    ] = {}  # noqa: RUF012

    def __init__(self) -> None:
        self._asking = threading.local()

    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        asking = self._asking.__dict__.setdefault("names", set())
        if name not in self.callbacks or name in asking:
            return None
        asking.add(name)  # avoids recursion, because the search below asks this finder too
        try:
            spec = importlib.util.find_spec(name)
        finally:
            asking.discard(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _CallingLoader(name, spec.loader)
        return spec


class _CallingLoader(Loader):
    """Loader that loads with the wrapped loader and then calls back.

    Finding a module does not mean loading it (`importlib.util.find_spec` only tests whether it is
    installed), so the callback waits until the module is loaded.
    """

    def __init__(self, name: str, wrapped: Loader):
        self._name, self._wrapped = name, wrapped

    def __getattr__(self, name: str):
        return getattr(self._wrapped, name)

    def create_module(self, spec: ModuleSpec):
        return self._wrapped.create_module(spec)

    def exec_module(self, module) -> None:
        module.__spec__.loader = module.__loader__ = self._wrapped
        # Use the imported name, because cuda.core gives its module a different one.
        _, before = _AfterImport.callbacks.get(self._name, (None, None))
        if before is not None:
            before()
        self._wrapped.exec_module(module)
        callback, _ = _AfterImport.callbacks.get(self._name, (None, None))
        forget(self._name)
        if callback is not None:
            callback(module)
