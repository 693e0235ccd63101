"""Pictures pasted into a written answer, decoded and encoded again.

A picture's bytes come from a student, so they never reach a teacher's browser. A decoder in a
process with limits reads them, and the page shows a new PNG that contains only the pixels.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence

from gpucourse.grading.submission.bounded import Bounded

# Limits of one answer and of one picture: characters of base64, and pixels per side.
MOST_PICTURES = 6
LARGEST = 8_000_000
SIDE = 1600
# Limit on the characters of a picture as it is shown.
SHOWN = 2_000_000
KINDS = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp")

# First bytes of the accepted file types. The decoder supports others, some of which start programs.
BEGINNINGS = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM")


def attached(cell: Mapping) -> list[str]:
    """Return the base64 text of the pictures that are attached to a submitted cell."""
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
    """Return a picture as a PNG in base64; None if it cannot be decoded within the limits."""
    return _made_anew(data) or None if len(data) <= LARGEST else None


def shown(pictures: Sequence[str]) -> str:
    """Return one line of HTML with pictures returned by :func:`made_anew`."""
    return "".join(
        f'<p><img alt="picture {n}" src="data:image/png;base64,{html.escape(one)}"></p>'
        for n, one in enumerate(pictures, start=1)
    )


def redrawn(data: str) -> str:
    """Decode a base64 picture and write its pixels as PNG; call it through :func:`made_anew`."""
    import numpy as np
    from matplotlib import image
    from PIL import Image

    if not data:  # The first call has no limits, because its imports take up to 0.5 s.
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
