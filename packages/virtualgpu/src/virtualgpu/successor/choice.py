"""Choice of the package that answers to ``numba.cuda``: numba-cuda or numba-cuda-mlir.

``VIRTUALGPU_NUMBA`` names one; by default numba-cuda answers where it is installed, else the
successor. Where the successor is chosen, ``from numba import cuda`` gives ``numba_cuda_mlir.cuda``,
with and without a GPU, so the same source runs on either.
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
# Where the successor has a module of numba.cuda: the first that is there.
_PLACES = ("numba_cuda_mlir.cuda", "numba_cuda_mlir.numba_cuda")


def chosen() -> str:
    """Return :data:`NUMBA_CUDA` or :data:`SUCCESSOR`. Raises ValueError for another value."""
    asked = os.environ.get(VARIABLE, "").strip()
    if asked:
        if asked not in (NUMBA_CUDA, SUCCESSOR):
            raise ValueError(f"{VARIABLE}={asked}: {NUMBA_CUDA} or {SUCCESSOR}")
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
    """Return True if neither is installed: kernels of other front ends run all the same."""
    return not (_is_installed(NUMBA_CUDA) or _is_installed(SUCCESSOR))


def said() -> str:
    """Return the chosen package, its version where it is known, and the reason.

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
    with suppress(importlib.metadata.PackageNotFoundError):  # not there, or there by PYTHONPATH
        words += f" {importlib.metadata.version(package)}"
    return f"{words} ({why})" if why else words


def take() -> None:
    """Have ``numba.cuda`` be the chosen package's.

    Raises RuntimeError where the other one was imported before.
    """
    if is_none_installed():
        if not any(isinstance(one, _Refuser) for one in sys.meta_path):
            sys.meta_path.insert(0, _Refuser())
        return
    if chosen() == NUMBA_CUDA or is_taken():
        return
    if _ALIAS in sys.modules:
        raise RuntimeError(
            f"numba.cuda was imported as numba-cuda before {SUCCESSOR} was to take its place: "
            "start Python again, and let virtualgpu.activate() or %load_ext gpucourse come first"
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
    """Return True if ``numba.cuda`` is the successor's."""
    return any(isinstance(one, _Finder) for one in sys.meta_path)


class _Finder(MetaPathFinder):
    """Finds the successor's modules under the names that numba-cuda's have."""

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
            # A ModuleNotFoundError would be lost: `from numba import cuda` says its own.
            raise ImportError(f"no numba.cuda for the virtual GPU: {_INSTALL}", name=_ALIAS)
        return None


class _Known(Loader):
    """Gives a module that is loaded under its own name already."""

    def __init__(self, module: ModuleType):
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec
