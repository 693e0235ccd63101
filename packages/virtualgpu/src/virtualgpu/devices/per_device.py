"""State that is separate for each device: a module's variables, a kernel's settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from virtualgpu import devices
from virtualgpu.devices.protocol import Device

Thing = TypeVar("Thing")


class PerDevice(Generic[Thing]):
    """One value for each device, created at its first use there."""

    def __init__(self) -> None:
        self._things: dict[Device, Thing] = {}

    def get_or(self, make: Callable[[], Thing], device: Device | None = None) -> Thing:
        """Return the value for ``device`` (by default the current one), created if there is none.

        Values of devices that no longer exist are dropped.
        """
        device = device or devices.current()
        if device not in self._things:
            known = devices.living()
            self._things = {one: thing for one, thing in self._things.items() if one in known}
            self._things[device] = make()
        return self._things[device]

    def clear(self) -> dict[Device, Thing]:
        """Remove all values and return them."""
        gone, self._things = self._things, {}
        return gone
