"""Notebook extension that the first cell of every notebook loads (``%load_ext gpucourse``).

It sets the variables that libraries read when they start. Without a GPU it activates the virtual
GPU and the stand-ins for CuPy, PyCUDA and cuDF. It makes messages name notebook cells, and it
prints one line that names the device.

Loading must be fast, but importing ``numba.cuda`` takes almost two seconds. So the virtual GPU is
activated only when ``numba.cuda`` is imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import sys
import traceback
import warnings
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gpucourse.adapters import without_pycuda
from gpucourse.notebook import errors, figures, last_kernel
from gpucourse.system.device import DeviceInfo, device
from gpucourse.system.language import _
from virtualgpu.api import (
    after_import,
    mend_iteration,
    no_longer_after_import,
    tell_of_long_launches,
)

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

    from virtualgpu.errors import Location

#: Variables that libraries read once, when they start; values that the user has set are kept.
ENVIRONMENT = {
    # Otherwise JAX takes three quarters of a GPU's memory, and too little is left for Numba and
    # CuPy.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    # Lessons launch small grids on purpose, so the warning would only disturb.
    "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
}

#: Free bytes below which ``%load_ext gpucourse`` warns that the disk is full.
ENOUGH_DISK = 20_000_000

_DEFINES = re.compile(r"@|def |class |\w+ = ")

#: IPython events, with the shell attribute that holds our callback for each.
TICKS = {"pre_run_cell": "_gpucourse_start", "post_run_cell": "_gpucourse_tick"}


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Prepare this kernel for the course, and print which device runs kernels."""
    tick_cells(shell)
    replaced = make_ready(shell)
    print(message(device()))
    for news in (last_kernel.watch(shell), full_disk()):
        if news:
            print(news)
    if replaced:
        print(
            f"{' and '.join(replaced)}, imported before this cell, cannot work without a GPU "
            f"and {'are' if replaced[1:] else 'is'} replaced by a stand-in. Run cells with "
            f"`from {replaced[0]} import ...` again"
        )


def make_ready(shell: InteractiveShell) -> list[str]:
    """Do the silent part of loading; return the result of :func:`prepare_virtual`."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if os.environ.get("NBGRADER_EXECUTION") == "autograde":
        # Hidden tests need counters and other orders of threads, which a real GPU does not have.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    name_cells(shell)
    for magic in MAGICS:
        shell.register_magic_function(magic, "cell")  # type: ignore[arg-type]  # traitlets' own
    mend_iteration()
    errors.shorten(shell)
    shell.events.register("pre_run_cell", _follow_theme)
    after_import("matplotlib", figures.follow_theme)
    tell_of_long_launches(still_running)
    shell.events.register("post_run_cell", no_longer_running)
    quiet_commands(shell)
    shell.display_formatter.formatters["text/plain"].for_type_by_name(  # type: ignore[union-attr]
        "jaxlib._jax", "Device", _show_jax_device
    )
    if device().virtual:
        return prepare_virtual(shell)
    without_pycuda.offer()
    return []


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Undo :func:`load_ipython_extension`, except for environment variables."""
    from virtualgpu import sources
    from virtualgpu.api import deactivate

    no_longer_after_import("matplotlib")
    errors.undo(shell)
    if _follow_theme in shell.events.callbacks["pre_run_cell"]:
        shell.events.unregister("pre_run_cell", _follow_theme)
    figures.undo()
    tell_of_long_launches(None)
    if no_longer_running in shell.events.callbacks["post_run_cell"]:
        shell.events.unregister("post_run_cell", no_longer_running)
    shell.__dict__.pop("system", None)
    without_pycuda.withdraw()
    deactivate()
    if namer := shell.__dict__.pop("_gpucourse_namer", None):
        sources.unregister_namer(namer)
    for event, known in TICKS.items():
        if callback := shell.__dict__.pop(known, None):
            shell.events.unregister(event, callback)
    for magic in MAGICS:
        shell.magics_manager.magics["cell"].pop(magic.__name__, None)


def gpu_report(line: str, cell: str) -> None:
    """Run the cell and show a card for each launch (``%%gpu_report``)."""
    from gpucourse.notebook.magics import gpu_report

    __tracebackhide__ = True
    gpu_report(line, cell)


def needs(line: str, cell: str) -> None:
    """Run the cell if a library is installed, else print one sentence (``%%needs torch``)."""
    from gpucourse.notebook.magics import needs

    __tracebackhide__ = True
    needs(line, cell)


#: Cell magics that the extension adds.
MAGICS = (gpu_report, needs)


def message(found: DeviceInfo) -> str:
    """Return the line that ``%load_ext gpucourse`` prints."""
    if found.virtual and sys.platform == "darwin":
        # CUDA has no compilers for macOS, so no kernel could run.
        return (
            "macOS has no CUDA compilers, so kernels cannot be compiled here. Run the course "
            "in its container, on Binder or on Colab (see README, “macOS”)"
        )
    return str(found)


def full_disk() -> str | None:
    """Return a warning if the disk is nearly full; notebooks and outputs need megabytes."""
    from gpucourse.system.resources import gigabytes

    try:
        free = shutil.disk_usage(os.curdir).free
    except OSError:
        return None
    if free > ENOUGH_DISK:
        return None
    left = f" except for {gigabytes(free)}" if free >= 1e6 else ""
    return (
        f"This disk is full{left}, so your work may not be saved. Delete files that you do not "
        "need (for example in ~/.cache), then save this notebook."
    )


def prepare_virtual(shell: InteractiveShell | None = None) -> list[str]:
    """Activate the virtual GPU and the stand-ins, and return the replaced packages.

    No slow import happens here. ``numba.cuda`` uses the virtual GPU as soon as it is imported, or
    at once if it was imported before. If a name in the notebook holds a package that needs a GPU
    (``import cupy as cp`` in an earlier cell), it holds the stand-in afterwards.
    """
    from virtualgpu.api import activate_later

    plugins = ("jax_cuda13_plugin", "jax_cuda12_plugin")
    if any(importlib.util.find_spec(plugin) for plugin in plugins):
        # With a CUDA plugin but no GPU, JAX prints a long warning before it uses the CPU.
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    replaced = activate_later()
    if replaced and shell is not None:
        rebind(shell.user_ns)
    return replaced


def rebind(names: dict[str, object]) -> None:
    """Replace modules that need a GPU by their stand-ins under every name in the notebook."""
    from virtualgpu.api import is_replaced

    for name, value in list(names.items()):
        if isinstance(value, ModuleType) and is_replaced(value):
            with suppress(ImportError):  # a stand-in may lack the module
                names[name] = importlib.import_module(value.__name__)


def name_cells(shell: InteractiveShell) -> None:
    """Make messages say ``cell In[7]`` instead of the file name that IPython uses."""
    from virtualgpu import sources

    if not hasattr(shell.compile, "format_code_name"):
        from gpucourse.notebook import colab  # only Colab has an IPython that is so old

        colab.name_cells(shell.compile)

    def name(filename: str) -> str | None:
        label = shell.compile.format_code_name(filename)
        return f"cell {label[1]}" if label else None

    if previous := getattr(shell, "_gpucourse_namer", None):
        sources.unregister_namer(previous)
    shell._gpucourse_namer = name  # type: ignore[attr-defined]
    sources.register_namer(name)


def quiet_commands(shell: InteractiveShell) -> None:
    """Let ``!command`` start without JAX's warning that a fork may deadlock.

    The child process starts another program at once, so it cannot deadlock. If there is no driver,
    ``!nvidia-smi`` prints which device runs kernels.
    """
    if "system" in shell.__dict__:
        return
    system = shell.system

    def quiet(command: str) -> None:
        if command.split()[:1] == ["nvidia-smi"] and not shutil.which("nvidia-smi"):
            print(
                "nvidia-smi comes with NVIDIA's driver, which is not installed here. Kernels "
                f"run on this device:\n{message(device())}"
            )
            return
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message=r"os\.fork\(\) was called|This process .*fork"
            )
            system(command)

    shell.system = quiet  # type: ignore[method-assign]


def _follow_theme(info: object = None) -> None:
    figures.follow_theme()


def _show_jax_device(its: Any, printer: Any, cycle: bool) -> None:
    """Explain JAX's CPU device on a machine without a GPU, where kernels run elsewhere."""
    printer.text(repr(its))
    found = device()
    if found.virtual and its.platform == "cpu" and len(its.client.devices()) == 1:
        printer.text(f": JAX itself runs on the CPU, kernels run on the {found.name}")


#: End of the message about a launch that takes long.
STOPS_IT = "; ■ stops it"


#: Display of the message about a running launch on a learner's page, while its cell runs.
_running: list[Any] = []


def still_running(location: Location, seconds: float) -> None:
    """Report where a launch is that has run for ``seconds``.

    On a learner's page, each message replaces the previous one and disappears at the end of the
    cell, because red text would remain below a successful cell.
    """
    place = location.place().split("\n")[0]  # empty in native code, which does not record it
    said = (
        f"kernel {location.kernel} after {seconds:.0f} s: still "
        f"{f'in {place}' if place else 'running'}{STOPS_IT}"
    )
    from gpucourse.exercises.outcomes import Said, show
    from gpucourse.learner import records

    if records.asked_by_a_learner():
        _running[:] = [show(Said(said), *_running)]
    else:
        print(said, file=sys.stderr, flush=True)


def no_longer_running(result: object = None) -> None:
    """Remove the message of :func:`still_running` at the end of a cell."""
    if _running:
        from gpucourse.exercises.outcomes import Said

        _running.pop().update(Said(""))


def defined(shell: InteractiveShell, result: ExecutionResult) -> bool:
    """Return True if a failed cell ran past every line that defines a name."""
    last = 0  # if Python cannot read the cell, none of its lines ran
    if result.error_in_exec is not None:
        last = next(
            (
                line
                for frame, line in traceback.walk_tb(result.error_in_exec.__traceback__)
                if shell.compile.format_code_name(frame.f_code.co_filename)
            ),
            0,
        )
    text: str = result.info.raw_cell if result.info else ""
    return not any(_DEFINES.match(line) for line in text.split("\n")[max(last - 1, 0) :])


def tick_cells(shell: InteractiveShell) -> None:
    """Show a ✓ below a project's test cell if everything that it expects holds.

    If the cell of an answer failed, usually with a SyntaxError, the names that it had defined
    before still exist. The test cell then shows a ✗ with a message about that.
    """
    before, running = 0, None
    ran: set[str] = set()  # cells that have run to their end once
    # Cells that failed in their latest run, with the number in In[…] and the error.
    stale: dict[str, tuple[int | None, str]] = {}

    def met() -> int:
        verbs = sys.modules.get("gpucourse.grading.testing.verbs")
        return verbs.met if verbs else 0

    def start(info: object) -> None:
        nonlocal before, running
        before, running = met(), getattr(info, "cell_id", None)

    def tick(result: ExecutionResult) -> None:
        count = met() - before
        if running and result.success:
            ran.add(running)
            stale.pop(running, None)
        elif running in ran and not defined(shell, result):
            error = result.error_before_exec or result.error_in_exec
            stale[running] = result.execution_count, type(error).__name__
        if count and result.success:
            from gpucourse.exercises.outcomes import Outcome, show
            from gpucourse.learner import records

            if stale:
                number, name = next(iter(stale.values()))
                told = _(
                    "cell In[{number}] ended with {error} when it last ran, so this test used "
                    "its earlier definitions. Correct that cell, run it, then run this cell "
                    "again"
                ).format(number=number, error=name)
                show(Outcome(_("passed, but not with your last answer"), False, told))
                return
            if running and records.asked_by_a_learner():
                records.note(cell=running)
            show(
                Outcome(
                    _("passed"),
                    True,
                    _("your answer meets this test")
                    if count == 1
                    else _("your answer meets all {count} conditions of this test").format(
                        count=count
                    ),
                )
            )

    for (event, known), callback in zip(TICKS.items(), (start, tick), strict=True):
        if previous := getattr(shell, known, None):
            shell.events.unregister(event, previous)
        setattr(shell, known, callback)
        shell.events.register(event, callback)
