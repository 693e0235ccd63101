"""State that is separate for each device: a module's variables, a kernel's settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from virtualgpu import devices
from virtualgpu.devices.protocol import Device

Thing = TypeVar("Thing")


class PerDevice(Generic[Thing]):
    """One thing for each device, made at its first use there."""

    def __init__(self) -> None:
        self._things: dict[Device, Thing] = {}

    def get_or(self, make: Callable[[], Thing], device: Device | None = None) -> Thing:
        """Return the thing of ``device`` (the current one); ``make()`` it where there is none.

        What belonged to devices that are no longer there goes.
        """
        device = device or devices.current()
        if device not in self._things:
            known = devices.living()
            self._things = {one: thing for one, thing in self._things.items() if one in known}
            self._things[device] = make()
        return self._things[device]

    def clear(self) -> dict[Device, Thing]:
        """Forget all; they are returned."""
        gone, self._things = self._things, {}
        return gone
