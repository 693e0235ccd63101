"""Choice of the package that ``numba.cuda`` refers to: numba-cuda or numba-cuda-mlir.

``VIRTUALGPU_NUMBA`` selects one. By default it is numba-cuda, or its successor if numba-cuda is
not installed. If the successor is chosen, ``from numba import cuda`` imports
``numba_cuda_mlir.cuda``, with and without a GPU, so that the same source runs on either.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from virtualgpu.successor import numba_types

VARIABLE = "VIRTUALGPU_NUMBA"
NUMBA_CUDA, SUCCESSOR = "numba-cuda", "numba-cuda-mlir"
_ALIAS = "numba.cuda"
_INSTALL = "pip install 'virtualgpu[numba-cuda]', or 'virtualgpu[mlir]' for its successor"
# Candidates for the successor's module of each numba.cuda module; the first that exists is used.
_PLACES = ("numba_cuda_mlir.cuda", "numba_cuda_mlir.numba_cuda")


def chosen() -> str:
    """Return :data:`NUMBA_CUDA` or :data:`SUCCESSOR`. Raises ValueError for another value."""
    asked = os.environ.get(VARIABLE, "").strip()
    if asked:
        if asked not in (NUMBA_CUDA, SUCCESSOR):
            raise ValueError(f"{VARIABLE}={asked} is not valid: use {NUMBA_CUDA} or {SUCCESSOR}")
        if not _is_installed(asked):
            raise ValueError(
                f"{VARIABLE}={asked}, which is not installed: pip install {asked}, "
                f"or unset {VARIABLE}"
            )
        return asked
    return SUCCESSOR if _is_installed(SUCCESSOR) and not _is_installed(NUMBA_CUDA) else NUMBA_CUDA


def _is_installed(package: str) -> bool:
    return PathFinder.find_spec(package.replace("-", "_")) is not None


def is_none_installed() -> bool:
    """Return True if neither is installed. Kernels of other front ends run all the same."""
    return not (_is_installed(NUMBA_CUDA) or _is_installed(SUCCESSOR))


def said() -> str:
    """Return the chosen package, its version if known, and the reason.

    Raises ValueError as :func:`chosen` does.
    """
    package = chosen()
    if is_none_installed():
        return f"none: {_INSTALL}"
    why = (
        f"by {VARIABLE}"
        if os.environ.get(VARIABLE, "").strip()
        else "numba-cuda is not installed"
        if package == SUCCESSOR
        else f"{VARIABLE}={SUCCESSOR} takes its successor"
        if _is_installed(SUCCESSOR)
        else ""
    )
    words = package
    with suppress(importlib.metadata.PackageNotFoundError):  # absent, or found by PYTHONPATH
        words += f" {importlib.metadata.version(package)}"
    return f"{words} ({why})" if why else words


def take() -> None:
    """Make ``numba.cuda`` refer to the chosen package.

    Raises RuntimeError if the other one was already imported.
    """
    if is_none_installed():
        if not any(isinstance(one, _Refuser) for one in sys.meta_path):
            sys.meta_path.insert(0, _Refuser())
        return
    if chosen() == NUMBA_CUDA or is_taken():
        return
    if _ALIAS in sys.modules:
        raise RuntimeError(
            f"numba.cuda was already imported as numba-cuda, so {SUCCESSOR} cannot replace it: "
            "start Python again, and call virtualgpu.activate() or run %load_ext gpucourse first"
        )
    sys.meta_path.insert(0, _Finder())


def give_back() -> None:
    """Undo :func:`take`."""
    sys.meta_path[:] = [one for one in sys.meta_path if not isinstance(one, _Refuser)]
    if not is_taken():
        return
    sys.meta_path[:] = [one for one in sys.meta_path if not isinstance(one, _Finder)]
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{_ALIAS}.")]:
        del sys.modules[name]
    if (numba := sys.modules.get("numba")) is not None:
        numba.__dict__.pop("cuda", None)


def is_taken() -> bool:
    """Return True if ``numba.cuda`` refers to the successor."""
    return any(isinstance(one, _Finder) for one in sys.meta_path)


class _Finder(MetaPathFinder):
    """Import finder of the successor's modules under the names of numba-cuda's modules."""

    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        if not f"{name}.".startswith(f"{_ALIAS}."):
            return None
        if name == _ALIAS:
            numba_types.accept()
        for place in _PLACES:
            real = place + name.removeprefix(_ALIAS)
            try:
                module = importlib.import_module(real)
            except ModuleNotFoundError as missing:
                if missing.name is None or not f"{real}.".startswith(f"{missing.name}."):
                    raise
                continue
            return ModuleSpec(name, _Known(module), is_package=hasattr(module, "__path__"))
        return None


class _Refuser(MetaPathFinder):
    """Import finder that refuses Numba's old `numba.cuda`, which needs a GPU, with advice."""

    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        if name == _ALIAS:
            # ModuleNotFoundError would not do: `from numba import cuda` replaces its message.
            raise ImportError(f"no numba.cuda for the virtual GPU: {_INSTALL}", name=_ALIAS)
        return None


class _Known(Loader):
    """Import loader that returns a module already loaded under its own name."""

    def __init__(self, module: ModuleType):
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec
