"""Draws ``report_card.png``: what a learner sees of a launch, for the README.

Unlike the other figures it is a photograph: the cell is run in IPython on the virtual GPU, and
Chromium (``make setup`` has its driver, Playwright) takes the picture. The picture's metadata hold
a digest of the page, so that a test can tell whether the card still looks like this.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import shutil
import tempfile
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell

ALT = (
    "The report card of a launch fill[2, 32] in a notebook. A box says: race, thread 0 of block 0 "
    "writes 4 bytes of global memory at line 5 while thread 1 of block 1 reads them, and nothing "
    "orders the two; use cuda.atomic. Below stand the counts of loads and stores in words, and the "
    "kernel's source with each line's share of the cost; the costliest is shaded."
)
SETUP = """\
import numpy as np
from numba import cuda
%load_ext gpucourse
values = np.random.default_rng(0).integers(0, 4, 64, np.int32)
histogram = np.zeros(4, np.int32)
"""
CELL = """\
@cuda.jit
def fill(values, histogram):
    i = cuda.grid(1)
    if i < values.size:
        histogram[values[i]] += 1
"""
CARD = "import gpucourse; gpucourse.report(fill, 2, 32, values, histogram)"
PAGE = """<!doctype html><meta charset="utf-8">
<body style="margin: 0; font: 14px 'DejaVu Sans', sans-serif; background: white">
<div id="card" style="width: 860px; padding: 16px">{card}</div>"""
DIGEST = "page"


def page() -> str:
    """Return the card of a launch that runs now, as a page."""
    shell = InteractiveShell.instance()
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in (SETUP, CELL, CARD):
            shown = shell.run_cell(cell, store_history=True)
            shown.raise_error()
    return PAGE.format(card=shown.result._repr_html_())


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def photograph(text: str, target: Path) -> None:
    """Have Chromium take a picture of the card, and write the page's digest into it."""
    from PIL import Image, PngImagePlugin
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(device_scale_factor=2)
        tab.set_content(text)
        taken = Path(folder) / "card.png"
        tab.locator("#card").screenshot(path=taken)
        browser.close()
        told = PngImagePlugin.PngInfo()
        told.add_text(DIGEST, digest(text))
        told.add_text("Description", ALT)
        Image.open(taken).convert("RGB").quantize(64).save(target, pnginfo=told, optimize=True)


if __name__ == "__main__":
    photograph(page(), Path(__file__).with_suffix(".png"))
