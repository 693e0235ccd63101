"""Magics of the notebook: ``%%gpu_report`` and ``%%needs``.

``%%gpu_report`` runs a cell and shows a card for each launch in it. ``%%needs`` runs a cell only
if the package that it needs is installed.

>>> %%gpu_report
... scale[blocks, threads](x, 2)

The cell runs as it would without the magic, on its own arrays. If a kernel fails, a card shows the
error instead of a traceback, and the cell ends there. Any other error is raised.

>>> %%needs torch
... torch.from_numpy(values)

If PyTorch is not installed, the cell does not run and one sentence is printed.
"""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING, Any

import virtualgpu
from gpucourse.system.device import device
from gpucourse.system.libraries import absent
from gpucourse.views.launch import card
from gpucourse.views.launch.real_gpu import WatchedOnGPU
from gpucourse.views.launch.runs import Observed
from gpucourse.views.page import View, box, escape, note
from virtualgpu.api import Profile
from virtualgpu.errors import VirtualGPUError
from virtualgpu.findings import Report, from_error

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

STOPPED = "The cell stopped here. The lines after this launch did not run."


def gpu_report(line: str, cell: str) -> None:
    """Run the cell and show a card for each of its launches."""
    from IPython import get_ipython
    from IPython.display import display

    __tracebackhide__ = True
    shell = get_ipython()
    if line.strip():
        raise ValueError(
            f"%%gpu_report takes no arguments, but {line.strip()!r} follows it. Write the code "
            "in the lines below the magic"
        )
    watched = _Watched() if device().virtual else WatchedOnGPU()
    whole = False
    try:
        with watched, warnings.catch_warnings():
            _run(shell, cell, "gpu_report")
        whole = True
    except VirtualGPUError as error:
        watched.error, whole = error, True
    finally:
        if watched.launched or whole:  # code that is run for the display must not be counted
            display(watched.view())


def needs(line: str, cell: str) -> None:
    """Run the cell if the package named after the magic is installed, else print a sentence."""
    from IPython import get_ipython

    __tracebackhide__ = True
    if sentence := absent(line.strip()):
        print(sentence)
    else:
        _run(get_ipython(), cell, f"needs {line}")


def _run(shell: InteractiveShell, cell: str, magic: str) -> None:
    """Run a cell's code in the notebook's namespace and display its last expression.

    A comment replaces the magic's line, so that line numbers in messages are the cell's own.
    """
    __tracebackhide__ = True
    source = shell.transform_cell(f"# %%{magic}\n{cell}")
    # execution_count may already be the number of the next cell.
    number = len(shell.user_ns.get("In", ())) - 1
    name = shell.compile.cache(source, number, raw_code=cell)
    tree = shell.transform_ast(shell.compile.ast_parse(source, filename=name))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    # The shell's own compiler is used, so that a `from __future__` of an earlier cell applies.
    exec(shell.compile(tree, name, "exec"), shell.user_ns)
    if last is not None:
        value = eval(shell.compile(ast.Expression(last.value), name, "eval"), shell.user_ns)
        if not cell.rstrip().endswith(";"):
            shell.displayhook(value)


class _Watched:
    """Record of the launches inside a ``with`` block on the virtual GPU."""

    def __init__(self):
        self.error: VirtualGPUError | None = None
        self._profiler, self._checker = virtualgpu.profile(), virtualgpu.check()

    def __enter__(self) -> _Watched:
        self.profile: Profile = self._profiler.__enter__()
        self.report: Report = self._checker.__enter__()
        return self

    def __exit__(self, *raised) -> None:
        self._checker.__exit__(None, None, None)
        self._profiler.__exit__(None, None, None)

    @property
    def launched(self) -> bool:
        return bool(self.profile.launches)

    def observed(self) -> list[Observed]:
        found = [
            card.from_profile(launch, [f for f in self.report.findings if number in f.launches])
            for number, launch in enumerate(self.profile.launches, start=1)
        ]
        if self.error is not None and not any(
            self.error.message == f.message for f in self.report.findings
        ):
            # No device accepts such a launch, so none was recorded.
            where = self.error.location
            name = where.kernel if where else "A launch"
            nowhere: Any = ()
            found.append(
                Observed(name, nowhere, nowhere, findings=[from_error(self.error, name, 0)])
            )
        return found

    def view(self) -> View:
        found = self.observed()
        if not found:
            return View(box(note(card.NOTHING)), card.NOTHING)
        view = card.cards(found, card.MOST_CARDS)
        if self.error is not None:
            stop = f'<p class="costly">{escape(STOPPED)}</p>'
            view = View(view.markup + box(stop), f"{view.text}\n\n{STOPPED}")
        return view
