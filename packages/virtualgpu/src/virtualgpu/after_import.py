"""Do something to a module right after it is imported, without importing it earlier.

Libraries that are adapted here take seconds to import, and a program may never use them.
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
    """Call ``callback(module)`` once the module ``name`` is imported: now, if it is already.

    ``before()`` is called right before the module's own code runs. A second call for the same name
    replaces the first as long as the module is not imported.
    """
    if (module := sys.modules.get(name)) is not None:
        callback(module)
        return
    _AfterImport.callbacks[name] = callback, before
    if not any(isinstance(finder, _AfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterImport())


def forget(name: str) -> None:
    """Remove the module ``name`` from those awaited; the hook goes with the last one."""
    _AfterImport.callbacks.pop(name, None)
    if not _AfterImport.callbacks:
        sys.meta_path[:] = [one for one in sys.meta_path if not isinstance(one, _AfterImport)]


class _AfterImport(MetaPathFinder):
    """Finds the awaited modules as the others would, and calls back once they are loaded.

    First on ``sys.meta_path``, because numba-cuda puts a finder of its own there.
    """

    callbacks: dict[  # one list for the process
        str, tuple[Callback, Callable[[], object] | None]
    ] = {}  # noqa: RUF012

    def __init__(self) -> None:
        self._asking = threading.local()

    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        asking = self._asking.__dict__.setdefault("names", set())
        if name not in self.callbacks or name in asking:
            return None
        asking.add(name)  # or this would be asked again while the others are
        try:
            spec = importlib.util.find_spec(name)
        finally:
            asking.discard(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _CallingLoader(name, spec.loader)
        return spec


class _CallingLoader(Loader):
    """Loads as the wrapped loader does, then calls back; all else is the wrapped loader's.

    Who finds a module need not load it (`importlib.util.find_spec` asks whether it is installed):
    it is awaited until it is loaded.
    """

    def __init__(self, name: str, wrapped: Loader):
        self._name, self._wrapped = name, wrapped

    def __getattr__(self, name: str):
        return getattr(self._wrapped, name)

    def create_module(self, spec: ModuleSpec):
        return self._wrapped.create_module(spec)

    def exec_module(self, module) -> None:
        module.__spec__.loader = module.__loader__ = self._wrapped
        # By the name that was asked for: cuda.core gives its module another one.
        _, before = _AfterImport.callbacks.get(self._name, (None, None))
        if before is not None:
            before()
        self._wrapped.exec_module(module)
        callback, _ = _AfterImport.callbacks.get(self._name, (None, None))
        forget(self._name)
        if callback is not None:
            callback(module)
