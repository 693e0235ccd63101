"""Finder that makes ``import cupy`` import CuPy's stand-in if there is no GPU.

:func:`install` puts the finder first on ``sys.meta_path`` and removes packages that are already
imported (the real CuPy imports without a driver, and fails when it is used). :func:`remove` undoes
both, so that ``sys.modules`` is as if there had been no stand-ins. The next :func:`install` brings
back the same modules, so that arrays created before keep their class.

The stand-ins are in other distributions, which declare them as entry points (:data:`GROUP`). If
none does, ``import cupy`` raises ModuleNotFoundError with the command that installs it.

On a machine with a GPU nothing happens: the real packages work, or Python reports that they are
missing.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable, Collection, Iterable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import FrameType, ModuleType

from virtualgpu.after_import import after_import, forget
from virtualgpu.installing import pip_install

#: The packages that may have a stand-in.
NAMES = ("cudf", "cupy", "cupyx", "pycuda")
#: Entry points: name of a package, and the package that replaces it.
GROUP = "virtualgpu.standins"
#: Entry points: a module of another library, and the function that adapts it to the stand-ins. It
#: is called with the module after its import, and returns the function that undoes the change.
FITTED = "virtualgpu.standins.fitted"

#: A stand-in that is imported by another one.
TOGETHER = {
    "cupy": ("cupyx",),
    "cupyx": ("cupy",),
    "cudf": ("cupy", "cupyx"),
    "pycuda": ("cupy", "cupyx"),
}
#: The readable name of each package, and the extra of virtualgpu that installs its stand-in.
_ORIGINALS = {
    "cudf": ("cuDF", "cudf"),
    "cupy": ("CuPy", "cupy"),
    "cupyx": ("CuPy", "cupy"),
    "pycuda": ("PyCUDA", "pycuda"),
}


def chosen(names: Iterable[str]) -> list[str]:
    """Return ``names`` and the packages that belong to them. Raises ValueError for another name."""
    names = list(names)
    for name in names:
        if name not in NAMES:
            raise ValueError(
                f"there is no stand-in for {name!r}; those available are {', '.join(NAMES)}"
            )
    return sorted({*names, *(other for name in names for other in TOGETHER[name])})


def folder(name: str) -> Path | None:
    """Return the folder of the stand-in for ``name``, or None if it is not installed."""
    for point in entry_points(group=GROUP, name=name):
        if (spec := importlib.util.find_spec(point.value)) and spec.submodule_search_locations:
            return Path(spec.submodule_search_locations[0])
    return None


class StandInFinder(MetaPathFinder):
    """Import finder for the stand-ins of ``names`` and their modules, only in their own folders."""

    names: Collection[str] = NAMES

    def __init__(self) -> None:
        self._folders: dict[str, Path] = {}

    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        package, _, rest = name.partition(".")
        if package not in self.names:
            return None
        if not rest:
            where = folder(package)
            if where is not None:
                self._folders[package] = where
                return PathFinder.find_spec(name, [str(where.parent)])
            if _is_asked_by_an_import():
                original, extra = _ORIGINALS[package]
                raise ModuleNotFoundError(
                    f"{original} needs a GPU, which this machine does not have, and its stand-in "
                    f"is not installed: {pip_install(f'virtualgpu[{extra}]')}",
                    name=package,
                )
            return None
        if not any(self._is_ours(package, entry) for entry in path or ()):
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None:
            raise ModuleNotFoundError(
                f"the stand-in for {package}, which answers because there is no GPU, has no "
                f"module {name}; docs/standins.md lists what it has",
                name=name,
            )
        return spec

    def _is_ours(self, package: str, entry: str) -> bool:
        where = self._folders.get(package)
        return where is not None and Path(entry).is_relative_to(where)


def _is_asked_by_an_import() -> bool:
    """Return False for ``importlib.util.find_spec``, which asks if a package is installed."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib.util":
            return False
        if frame.f_code.co_name == "_find_and_load":  # of importlib._bootstrap
            return True
        frame = frame.f_back
    return False


_finder = StandInFinder()
_set_aside: dict[str, ModuleType] = {}  # modules of the real packages
_ours: dict[str, ModuleType] = {}  # modules of the stand-ins, while these are off
_awaited: list[str] = []  # modules of other libraries, to be adapted
_undo: list[Callable[[], object]] = []


def is_installed() -> bool:
    """Return True while the stand-ins are installed."""
    return _finder in sys.meta_path


def install(names: Collection[str] | None = None) -> list[str]:
    """Import the stand-ins from now on.

    :func:`virtualgpu.activation.use_standins` first checks if there is a GPU. ``names`` are the
    members of :data:`NAMES` to switch on, by default all.

    Returns the packages that were imported before and are replaced in ``sys.modules`` now. Names
    bound to them (``import cupy as cp``) still hold the package that needs a GPU.
    """
    if is_installed():
        return []
    _finder.names = NAMES if names is None else chosen(names)
    _set_aside.update(_take_modules(folder))
    sys.modules.update(_ours)
    _ours.clear()
    sys.meta_path.insert(0, _finder)
    for point in entry_points(group=FITTED):
        _awaited.append(point.name)
        after_import(point.name, functools.partial(_fit, point))
    return sorted({name.partition(".")[0] for name in _set_aside})


def _fit(point: EntryPoint, module: ModuleType) -> None:
    _undo.append(point.load()(module))


def remove() -> None:
    """Undo :func:`install`: remove the finder and restore ``sys.modules``."""
    if is_installed():
        while _awaited:
            forget(_awaited.pop())
        while _undo:
            _undo.pop()()
        sys.meta_path.remove(_finder)
        _ours.update(_take_modules())
        sys.modules.update(_set_aside)
        _set_aside.clear()


def replaced(module: ModuleType) -> bool:
    """Return True for a module of a real package that a stand-in replaces."""
    return any(module is other for other in _set_aside.values())


def _take_modules(of: Callable[[str], object] = lambda package: True) -> dict[str, ModuleType]:
    """Remove the packages for which ``of`` is true from ``sys.modules``, and return them."""
    packages = {name.partition(".")[0] for name in sys.modules} & set(_finder.names)
    taken = {package for package in packages if of(package)}
    names = [name for name in sys.modules if name.partition(".")[0] in taken]
    return {name: sys.modules.pop(name) for name in names}
