"""Slider over a parameter: one picture for each setting, from runs made in advance.

Nothing runs while the slider is moved, so it works without a kernel, in a saved notebook, on the
site and on slides. If a page removes styles (as for an untrusted notebook), all pictures are shown
one below the other.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpucourse.views.page import STYLE, View, box, escape, head, stepper
from gpucourse.views.picture import Picture


class Dial(View):
    """A view whose pictures are images, because every page keeps images."""

    def _repr_html_(self) -> str:
        return STYLE + self.markup


def dial(parameter: str, pictures: Mapping[object, Picture]) -> Dial:
    """Return a slider over ``pictures``, in order, labelled by the value of ``parameter``."""
    names = [f"{parameter}: {value}" for value in pictures]
    frames = [
        f"<p><b>{escape(name)}</b></p>{picture._repr_mimebundle_()['text/html']}"
        for name, picture in zip(names, pictures.values(), strict=True)
    ]
    told = "\n".join(
        f"{name}. {picture.alt}" for name, picture in zip(names, pictures.values(), strict=True)
    )
    return Dial(box(head(parameter), stepper(frames, names, list(pictures)), label=parameter), told)
