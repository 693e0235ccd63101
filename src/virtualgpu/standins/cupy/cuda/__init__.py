"""``cupy.cuda``: the device, its memory, streams and events."""

from __future__ import annotations
