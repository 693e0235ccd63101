"""Messages during a long check: the time so far and the current trial."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import virtualgpu
from gpucourse.exercises.bounds import progress
from gpucourse.exercises.outcomes import Said, show
from gpucourse.system.language import _

#: Seconds that a check may run without a message.
PATIENCE = 2.0


class Waiting:
    """One running check; its outcome replaces its messages if the page allows that."""

    def __init__(self, name: str):
        self.name = name
        self.trials = 0
        self.now = ""
        self.started = self.spoken = time.monotonic()
        self.place: object = None

    def trial(self, what: str) -> None:
        """Count the next trial of the check and keep its description."""
        self.trials += 1
        self.now = _("; trial {number}: {what}").format(number=self.trials, what=what)
        self.going_on()

    def going_on(self) -> None:
        """Show that the check is running, unless a message appeared in the last two seconds."""
        now = time.monotonic()
        if now - self.spoken >= PATIENCE:
            self.spoken = now
            said = (
                _("… {name}: still checking after {seconds:.0f} s").format(
                    name=self.name, seconds=now - self.started
                )
                + self.now
            )
            self.say(said)

    def say(self, what: str) -> None:
        self.place = show(Said(what), self.place)

    def end(self, outcome: object) -> None:
        """Replace the messages with the outcome."""
        show(outcome, self.place)


_now: Waiting | None = None


@contextmanager
def waiting(name: str) -> Iterator[Waiting]:
    """Show messages if the check of ``name`` inside the ``with`` block takes long."""
    global _now
    before, _now = _now, Waiting(name)
    try:
        yield _now
    finally:
        _now = before


def trial(what: str) -> None:
    """Report the next trial of an answer; without a waiting learner, show nothing."""
    progress()
    if _now is not None:
        _now.trial(what)


def going_on() -> None:
    """Report that a check is still running, for checks without trials as well."""
    progress()
    if _now is not None:
        _now.going_on()


def launches_on_a_gpu() -> None:
    """Tell the learner that CuPy or PyCUDA is about to launch the answer."""
    if _now is not None and not virtualgpu.answers():
        _now.say(
            _(
                "… {name}: your answer runs on the GPU, where this check cannot stop it. If "
                "nothing more appears, one of its kernels never ends. Choose Kernel › Restart "
                "Kernel…, then look at the loops of that kernel"
            ).format(name=_now.name)
        )
