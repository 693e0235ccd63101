"""A message during a long check: the time so far, and the present trial."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import virtualgpu
from gpucourse.exercises.bounds import progress
from gpucourse.exercises.outcomes import Said, show
from gpucourse.system.language import _

#: Seconds of silence that a check may keep.
PATIENCE = 2.0


class Waiting:
    """One running check, whose messages its outcome replaces where the page allows that."""

    def __init__(self, name: str):
        self.name = name
        self.trials = 0
        self.now = ""
        self.started = self.spoken = time.monotonic()
        self.place: object = None

    def trial(self, what: str) -> None:
        """Note that the check begins its next trial, ``what`` in words."""
        self.trials += 1
        self.now = _("; trial {number}: {what}").format(number=self.trials, what=what)
        self.going_on()

    def going_on(self) -> None:
        """Say so, unless something was said less than two seconds ago."""
        now = time.monotonic()
        if now - self.spoken >= PATIENCE:
            self.spoken = now
            said = (
                _("… {name}: still checking, for {seconds:.0f} s").format(
                    name=self.name, seconds=now - self.started
                )
                + self.now
            )
            self.say(said)

    def say(self, what: str) -> None:
        self.place = show(Said(what), self.place)

    def end(self, outcome: object) -> None:
        """Replace the messages so far by the outcome."""
        show(outcome, self.place)


_now: Waiting | None = None


@contextmanager
def waiting(name: str) -> Iterator[Waiting]:
    """Show a message while the check of ``name``, which runs inside the ``with``, takes long."""
    global _now
    before, _now = _now, Waiting(name)
    try:
        yield _now
    finally:
        _now = before


def trial(what: str) -> None:
    """Announce a trial of an answer; silent while no learner waits."""
    progress()
    if _now is not None:
        _now.trial(what)


def going_on() -> None:
    """Announce that a check has found something in order, also in checks without trials."""
    progress()
    if _now is not None:
        _now.going_on()


def launches_on_a_gpu() -> None:
    """Announce that a check is about to launch an answer by CuPy or PyCUDA.

    If the machine has a GPU, the answer runs on it. There, this check can neither stop a kernel
    that never ends nor report it afterwards.
    """
    if _now is not None and not virtualgpu.answers():
        _now.say(
            _(
                "… {name}: your answer is launched on the GPU, where this check cannot stop it. If "
                "nothing more appears, a kernel never ends: Kernel › Restart Kernel…, and look at "
                "its loops"
            ).format(name=_now.name)
        )
