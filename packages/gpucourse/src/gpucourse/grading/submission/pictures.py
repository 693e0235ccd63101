"""Pictures pasted into a written answer, decoded and encoded again.

A picture's bytes are a student's: no browser of a teacher's gets them. A decoder in a process with
bounds reads them, and what is shown is a PNG made of the pixels alone.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence

from gpucourse.grading.submission.bounded import Bounded

# Of one answer, and of one picture: characters of base64, and pixels a side.
MOST_PICTURES = 6
LARGEST = 8_000_000
SIDE = 1600
# Characters of a picture as it is shown.
SHOWN = 2_000_000
KINDS = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp")

# First bytes of files of these kinds. The decoder knows others, some of which start programs.
BEGINNINGS = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM")


def attached(cell: Mapping) -> list[str]:
    """Return the pictures that are attached to a submitted cell, in base64 as they came."""
    attachments = cell.get("attachments")
    found = []
    for one in attachments.values() if isinstance(attachments, dict) else ():
        for kind in KINDS:
            data = one.get(kind) if isinstance(one, dict) else None
            if isinstance(data, list) and all(isinstance(line, str) for line in data):
                data = "".join(data)
            if isinstance(data, str):
                found.append(data)
    return found


def made_anew(data: str) -> str | None:
    """Return a picture as a PNG in base64; None where it is none, or takes too much to decode."""
    return _made_anew(data) or None if len(data) <= LARGEST else None


def shown(pictures: Sequence[str]) -> str:
    """Return one line of HTML with pictures of :func:`made_anew`."""
    return "".join(
        f'<p><img alt="picture {n}" src="data:image/png;base64,{html.escape(one)}"></p>'
        for n, one in enumerate(pictures, start=1)
    )


def redrawn(data: str) -> str:
    """Decode base64 and a picture, and write its pixels as PNG. Call :func:`made_anew`."""
    import numpy as np
    from matplotlib import image
    from PIL import Image

    if not data:  # the first call, which has no bounds: a first picture imports for up to 0.5 s
        Image.init()
        file = io.BytesIO()
        image.imsave(file, np.zeros((1, 1)), format="png")
        data = base64.b64encode(file.getvalue()).decode()
    picture = base64.b64decode(data, validate=True)
    if not picture.startswith(BEGINNINGS):
        raise ValueError("no picture of a kind that is decoded")
    pixels = np.asarray(image.imread(io.BytesIO(picture), "any"))
    step = -(-max(pixels.shape[:2]) // SIDE)
    while True:
        file = io.BytesIO()
        part = np.ascontiguousarray(pixels[::step, ::step])
        image.imsave(file, part, format="png", cmap="gray" if part.ndim == 2 else None)
        text = base64.b64encode(file.getvalue()).decode()
        if len(text) <= SHOWN:
            return text
        step *= 2


_made_anew = Bounded(__name__, "redrawn")
