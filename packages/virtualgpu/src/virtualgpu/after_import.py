"""Do something to a module right after it is imported, without importing it earlier.

Libraries that are adapted here take seconds to import, and a program may never use them.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Callback = Callable[[ModuleType], None]


def after_import(name: str, callback: Callback) -> None:
    """Call ``callback(module)`` once the module ``name`` is imported: now, if it is already.

    A second call for the same name replaces the first as long as the module is not imported.
    """
    if (module := sys.modules.get(name)) is not None:
        callback(module)
        return
    _AfterImport.callbacks[name] = callback
    if not any(isinstance(finder, _AfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterImport())


def forget(name: str) -> None:
    """The module ``name`` is awaited no longer; the hook goes with the last one."""
    _AfterImport.callbacks.pop(name, None)
    if not _AfterImport.callbacks:
        sys.meta_path[:] = [one for one in sys.meta_path if not isinstance(one, _AfterImport)]


class _AfterImport(MetaPathFinder):
    """Finds the awaited modules as the others would, and calls back once they are loaded.

    First on ``sys.meta_path``, because numba-cuda puts a finder of its own there.
    """

    callbacks: dict[str, Callback] = {}  # noqa: RUF012  (one list for the process)

    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        # Taken out while the others are asked, or this would be asked again.
        callback = self.callbacks.pop(name, None)
        if callback is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            self.callbacks[name] = callback
            return spec
        spec.loader = _CallingLoader(spec.loader, callback)
        return spec


class _CallingLoader(Loader):
    """Loads as the wrapped loader does, then calls back; all else is the wrapped loader's."""

    def __init__(self, wrapped: Loader, callback: Callback):
        self._wrapped = wrapped
        self._callback = callback

    def __getattr__(self, name: str):
        return getattr(self._wrapped, name)

    def create_module(self, spec: ModuleSpec):
        return self._wrapped.create_module(spec)

    def exec_module(self, module) -> None:
        module.__spec__.loader = module.__loader__ = self._wrapped
        self._wrapped.exec_module(module)
        self._callback(module)
