"""Settings of the next launch: observers, schedule, budget and limits, as one record."""

from __future__ import annotations

from dataclasses import dataclass, field

from virtualgpu.lanes.events import Observer
from virtualgpu.lanes.schedule import Lockstep, Schedule
from virtualgpu.launch.limits import Budget
from virtualgpu.launch.progress import Patience
from virtualgpu.launch.sampling import Sample


@dataclass(frozen=True, slots=True)
class Conditions:
    """Settings that hold for a launch whatever its kernel is.

    Attributes
    ----------
    observers : list of Observer
        Who hears what its threads do.
    schedule : Schedule
        In which order warps and lanes run.
    budget : Budget
        What it may use before it is stopped.
    patience : Patience, optional
        Is told where the kernel is when the launch takes long.
    sample : Sample, optional
        Chooses the blocks that run; by default all do.
    """

    observers: list[Observer] = field(default_factory=list)
    schedule: Schedule = field(default_factory=Lockstep)
    budget: Budget = field(default_factory=Budget)
    patience: Patience | None = None
    sample: Sample | None = None
