"""``%load_ext gpucourse``: the first cell of every notebook.

Sets what has to be set before the libraries start, puts the virtual GPU in place where there is no
GPU, teaches diagnostics to name notebook cells, and says on one line which device answers.

Loading must not cost a learner seconds, and ``numba.cuda`` alone takes most of two: so the virtual
GPU is hooked in when ``numba.cuda`` is imported, not before.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING

from gpucourse.device import DeviceInfo, device

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

#: Set unless the user has set them: variables that libraries read once, when they start.
ENVIRONMENT = {
    # JAX would take three quarters of a GPU's memory, and leave too little for Numba and CuPy.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    # Lessons launch small grids on purpose.
    "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
}


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Make this kernel ready for the course and print which device answers."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    name_cells(shell)
    tick_cells(shell)
    found = device()
    if found.virtual:
        prepare_virtual()
    print(message(found))


def message(found: DeviceInfo) -> str:
    """The line that ``%load_ext gpucourse`` prints."""
    if found.virtual and sys.platform == "darwin":
        # There are no CUDA compilers for macOS at all, so nothing could run a kernel.
        return (
            "macOS has no CUDA compilers, so kernels cannot be compiled here: run the course in "
            "its container, on Binder or on Colab (see README, “macOS”)"
        )
    return str(found)


def prepare_virtual() -> None:
    """Have the virtual GPU answer as soon as ``numba.cuda`` is imported (or now, if it is)."""
    plugins = ("jax_cuda13_plugin", "jax_cuda12_plugin")
    if any(importlib.util.find_spec(plugin) for plugin in plugins):
        # With a CUDA plugin installed and no GPU, JAX complains at length before it uses the CPU.
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if "numba.cuda" in sys.modules:
        _activate()
    elif not any(isinstance(finder, _AfterNumbaCuda) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterNumbaCuda())


def name_cells(shell: InteractiveShell) -> None:
    """Have diagnostics say ``cell In[7]`` instead of the file name that IPython compiles under."""
    from virtualgpu import sources

    def name(filename: str) -> str | None:
        label = shell.compile.format_code_name(filename)
        return f"cell {label[1]}" if label else None

    if previous := getattr(shell, "_gpucourse_namer", None):
        sources.unregister_namer(previous)
    shell._gpucourse_namer = name
    sources.register_namer(name)


def tick_cells(shell: InteractiveShell) -> None:
    """Show a ✓ under a project's test cell when everything it expects holds."""
    before = 0

    def met() -> int:
        verbs = sys.modules.get("gpucourse.grading.verbs")
        return verbs.met if verbs else 0

    def start(info: object) -> None:
        nonlocal before
        before = met()

    def tick(result: ExecutionResult) -> None:
        count = met() - before
        if count and result.success:
            from gpucourse.verdicts import Outcome, show

            show(Outcome("passed", True, "what this cell expects holds" if count == 1 else
                         f"all {count} things that this cell expects hold"))

    for event, known, callback in (("pre_run_cell", "_gpucourse_start", start),
                                   ("post_run_cell", "_gpucourse_tick", tick)):
        if previous := getattr(shell, known, None):
            shell.events.unregister(event, previous)
        setattr(shell, known, callback)
        shell.events.register(event, callback)


def _activate() -> None:
    import virtualgpu

    if not virtualgpu.is_active():
        virtualgpu.activate()


class _AfterNumbaCuda(MetaPathFinder):
    """Finds ``numba.cuda`` as the others would, and activates the virtual GPU once it is loaded.

    First on ``sys.meta_path``, because numba-cuda puts a finder of its own there.
    """

    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        if name != "numba.cuda":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _ActivatingLoader(spec.loader)
        return spec


class _ActivatingLoader(Loader):
    """Loads as the wrapped loader does, then activates; all else is the wrapped loader's."""

    def __init__(self, wrapped: Loader):
        self._wrapped = wrapped

    def __getattr__(self, name: str):
        return getattr(self._wrapped, name)

    def create_module(self, spec: ModuleSpec):
        return self._wrapped.create_module(spec)

    def exec_module(self, module) -> None:
        module.__spec__.loader = module.__loader__ = self._wrapped
        self._wrapped.exec_module(module)
        _activate()
