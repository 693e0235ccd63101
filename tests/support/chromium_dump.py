"""Dump of a page from Chromium."""

from __future__ import annotations

import shutil
import subprocess


def opened(address: str, *options: str) -> str:
    """Return the page after its scripts have run."""
    program = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
    )
    command = [
        program,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--dump-dom",
        "--window-size=1280,720",
        "--virtual-time-budget=30000",
        "--disable-background-networking",
        "--disable-component-update",
        *options,
        address,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
