"""``%load_ext gpucourse``: the first cell of every notebook.

Sets what has to be set before the libraries start, puts the virtual GPU and the stand-ins for CuPy,
PyCUDA and cuDF in place where there is no GPU, teaches diagnostics to name notebook cells, and says
on one line which device answers.

Loading must not cost a learner seconds, and ``numba.cuda`` alone takes most of two: so the virtual
GPU is hooked in when ``numba.cuda`` is imported, not before.
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

#: Set unless the user has set them: variables that libraries read once, when they start.
ENVIRONMENT = {
    # JAX would take three quarters of a GPU's memory, and leave too little for Numba and CuPy.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    # Lessons launch small grids on purpose.
    "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
}

#: Bytes below which ``%load_ext gpucourse`` warns of a full disk.
ENOUGH_DISK = 20_000_000

_DEFINES = re.compile(r"@|def |class |\w+ = ")

#: IPython's events, and where the shell keeps our callbacks.
TICKS = {"pre_run_cell": "_gpucourse_start", "post_run_cell": "_gpucourse_tick"}


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Make this kernel ready for the course and print which device answers."""
    tick_cells(shell)
    replaced = make_ready(shell)
    print(message(device()))
    for news in (last_kernel.watch(shell), full_disk()):
        if news:
            print(news)
    if replaced:
        print(
            f"{' and '.join(replaced)}, imported before this, cannot work here and "
            f"{'are' if replaced[1:] else 'is'} replaced by a stand-in; run cells with "
            f"`from {replaced[0]} import ...` again"
        )


def make_ready(shell: InteractiveShell) -> list[str]:
    """Do the silent part of loading, and return what :func:`prepare_virtual` returns."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if os.environ.get("NBGRADER_EXECUTION") == "autograde":
        # Hidden tests ask for counts and for another order of threads: a real GPU has neither.
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
    """Undo :func:`load_ipython_extension`: no hooks, no stand-ins; variables stay."""
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
    """Run the cell if a library is installed, or print one sentence (``%%needs torch``)."""
    from gpucourse.notebook.magics import needs

    __tracebackhide__ = True
    needs(line, cell)


#: Magics of cells that loading brings.
MAGICS = (gpu_report, needs)


def message(found: DeviceInfo) -> str:
    """Return the line that ``%load_ext gpucourse`` prints."""
    if found.virtual and sys.platform == "darwin":
        # There are no CUDA compilers for macOS at all, so nothing could run a kernel.
        return (
            "macOS has no CUDA compilers, so kernels cannot be compiled here: run the course in "
            "its container, on Binder or on Colab (see README, “macOS”)"
        )
    return str(found)


def full_disk() -> str | None:
    """Return a warning where the disk is nearly full: notebooks and outputs take MBs."""
    from gpucourse.system.resources import gigabytes

    try:
        free = shutil.disk_usage(os.curdir).free
    except OSError:
        return None
    if free > ENOUGH_DISK:
        return None
    left = f" but for {gigabytes(free)}" if free >= 1e6 else ""
    return (
        f"This disk is full{left}: what you write may not be saved. Delete files "
        "that you do not need (also ~/.cache), then save this notebook."
    )


def prepare_virtual(shell: InteractiveShell | None = None) -> list[str]:
    """Put the virtual GPU and the stand-ins in place; nothing slow is imported for it.

    Returns the packages imported before whose stand-ins answer now.

    ``numba.cuda`` talks to the virtual GPU as soon as it is imported (or now, if it is). Names in
    the notebook that hold a package which needs a GPU (``import cupy as cp`` in an earlier cell)
    hold its stand-in afterwards.
    """
    from virtualgpu.api import activate_later

    plugins = ("jax_cuda13_plugin", "jax_cuda12_plugin")
    if any(importlib.util.find_spec(plugin) for plugin in plugins):
        # With a CUDA plugin installed and no GPU, JAX complains at length before it uses the CPU.
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    replaced = activate_later()
    if replaced and shell is not None:
        rebind(shell.user_ns)
    return replaced


def rebind(names: dict[str, object]) -> None:
    """Replace modules that were set aside by their stand-ins under every name that holds them."""
    from virtualgpu.api import is_replaced

    for name, value in list(names.items()):
        if isinstance(value, ModuleType) and is_replaced(value):
            with suppress(ImportError):  # the stand-in lacks it: importing it says so
                names[name] = importlib.import_module(value.__name__)


def name_cells(shell: InteractiveShell) -> None:
    """Have diagnostics say ``cell In[7]`` instead of the file name that IPython compiles under."""
    from virtualgpu import sources

    if not hasattr(shell.compile, "format_code_name"):
        from gpucourse.notebook import colab  # alone keeps an IPython as old as that

        colab.name_cells(shell.compile)

    def name(filename: str) -> str | None:
        label = shell.compile.format_code_name(filename)
        return f"cell {label[1]}" if label else None

    if previous := getattr(shell, "_gpucourse_namer", None):
        sources.unregister_namer(previous)
    shell._gpucourse_namer = name  # type: ignore[attr-defined]
    sources.register_namer(name)


def quiet_commands(shell: InteractiveShell) -> None:
    """Let ``!command`` start without JAX's warning that forks deadlock.

    Its child becomes another program at once. ``!nvidia-smi`` tells which device answers where
    there is no driver.
    """
    if "system" in shell.__dict__:
        return
    system = shell.system

    def quiet(command: str) -> None:
        if command.split()[:1] == ["nvidia-smi"] and not shutil.which("nvidia-smi"):
            print(
                "nvidia-smi comes with NVIDIA's driver, which is not here. What answers:\n"
                f"{message(device())}"
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
    """Show JAX's only device where there is no GPU, beside the one for kernels."""
    printer.text(repr(its))
    found = device()
    if found.virtual and its.platform == "cpu" and len(its.client.devices()) == 1:
        printer.text(f": JAX itself runs on the CPU; kernels on the {found.name}")


#: How a line of a launch that takes long ends.
STOPS_IT = "; ■ stops it"


#: Where a learner's page says how long a launch has been running, while its cell runs.
_running: list[Any] = []


def still_running(location: Location, seconds: float) -> None:
    """Report the place of a launch that has taken so many seconds.

    Red text would stay below a cell that went well: on a learner's page the words are replaced each
    time, and leave with the end of the cell.
    """
    place = location.place().split("\n")[0]  # native code does not know it
    said = (
        f"kernel {location.kernel} after {seconds:.0f} s: "
        f"still {f'in {place}' if place else 'running'}{STOPS_IT}"
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
    """Return True if a failed cell got beyond each name that it defines."""
    last = 0  # of a cell that Python can't read, no line ran
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
    """Show a ✓ under a project's test cell when everything it expects holds.

    An answer that failed as a whole, mostly with a SyntaxError, leaves what it had defined before:
    then there is a ✗ that says so.
    """
    before, running = 0, None
    ran: set[str] = set()  # cells that defined what they define
    # Cells that failed when they last ran: the number in In[…], the error.
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
                    "cell In[{number}] ended with {error} when it last ran, so this check tried "
                    "what it defined before. Correct that cell, run it, then run this cell again"
                ).format(number=number, error=name)
                show(Outcome(_("passed, but not your last answer"), False, told))
                return
            if running and records.asked_by_a_learner():
                records.note(cell=running)
            show(
                Outcome(
                    _("passed"),
                    True,
                    _("what this cell expects holds")
                    if count == 1
                    else _("all {count} things that this cell expects hold").format(count=count),
                )
            )

    for (event, known), callback in zip(TICKS.items(), (start, tick), strict=True):
        if previous := getattr(shell, known, None):
            shell.events.unregister(event, previous)
        setattr(shell, known, callback)
        shell.events.register(event, callback)
