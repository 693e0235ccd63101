"""Magics of the notebook: ``%%gpu_report`` and ``%%needs``.

``%%gpu_report`` runs a cell and shows a card for each launch in it; ``%%needs`` runs a cell that
needs a package which may be missing.

>>> %%gpu_report
... scale[blocks, threads](x, 2)

The cell runs as it would without the magic, on its own arrays. A kernel that goes wrong gives a
card that says so in place of a traceback, and the cell ends there; any other error is raised.

>>> %%needs torch
... torch.from_numpy(values)

Where PyTorch is not installed, one sentence takes the place of what the cell would show.
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

STOPPED = "The cell stopped here; what follows the launch in it did not run."


def gpu_report(line: str, cell: str) -> None:
    """Run the cell; show what each of its launches did."""
    from IPython import get_ipython
    from IPython.display import display

    __tracebackhide__ = True
    shell = get_ipython()
    if line.strip():
        raise ValueError(
            f"%%gpu_report takes nothing on its line, not {line.strip()!r}: give the "
            "code in the lines below it"
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
        if watched.launched or whole:  # what is shown now is no longer counted
            display(watched.view())


def needs(line: str, cell: str) -> None:
    """Run the cell where the package on its line is installed; elsewhere say that it was not."""
    from IPython import get_ipython

    __tracebackhide__ = True
    if sentence := absent(line.strip()):
        print(sentence)
    else:
        _run(get_ipython(), cell, f"needs {line}")


def _run(shell: InteractiveShell, cell: str, magic: str) -> None:
    """Run a cell's code in the notebook's names; its last expression shows itself.

    A line of comment takes the place of the magic, so that messages name the cell's own lines.
    """
    __tracebackhide__ = True
    source = shell.transform_cell(f"# %%{magic}\n{cell}")
    # The number of the cell that is running; execution_count may be the next one's already.
    number = len(shell.user_ns.get("In", ())) - 1
    name = shell.compile.cache(source, number, raw_code=cell)
    tree = shell.transform_ast(shell.compile.ast_parse(source, filename=name))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    # The shell's own flags, so that a `from __future__` of an earlier cell holds.
    exec(shell.compile(tree, name, "exec"), shell.user_ns)
    if last is not None:
        value = eval(shell.compile(ast.Expression(last.value), name, "eval"), shell.user_ns)
        if not cell.rstrip().endswith(";"):
            shell.displayhook(value)


class _Watched:
    """The launches inside a ``with``, on the virtual GPU."""

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
            # No device takes such a launch, so none began.
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
