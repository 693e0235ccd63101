"""Record of the settings of the next launch: observers, schedule, budget and limits."""

from __future__ import annotations

from dataclasses import dataclass, field

from virtualgpu.lanes.events import Observer
from virtualgpu.lanes.schedule import Lockstep, Schedule
from virtualgpu.launch.limits import Budget
from virtualgpu.launch.progress import Patience
from virtualgpu.launch.sampling import Sample


@dataclass(frozen=True, slots=True)
class Conditions:
    """Settings of a launch that do not depend on its kernel.

    Attributes
    ----------
    observers : list of Observer
        Objects that receive the events of its threads.
    schedule : Schedule
        Order in which warps and lanes run.
    budget : Budget
        Resources that the launch may use before it is stopped.
    patience : Patience, optional
        Receives the kernel's current line when the launch takes long.
    sample : Sample, optional
        Chooses the blocks that run; by default all blocks run.
    """

    observers: list[Observer] = field(default_factory=list)
    schedule: Schedule = field(default_factory=Lockstep)
    budget: Budget = field(default_factory=Budget)
    patience: Patience | None = None
    sample: Sample | None = None
