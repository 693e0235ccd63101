"""``gpucourse.report``: launch a kernel on copies of its arguments and show its card."""

from __future__ import annotations

import virtualgpu
from gpucourse.system.device import device
from gpucourse.views.launch import real_gpu
from gpucourse.views.launch.card import card
from gpucourse.views.launch.runs import Launch, is_tiled, observe
from gpucourse.views.page import View, box, note

TILES = (
    "Launches over tiles are counted only on the virtual GPU. To see this card here, start "
    "Jupyter with CUDA_VISIBLE_DEVICES= (an empty value)."
)


def report(
    kernel: object,
    grid: object = None,
    block: object = None,
    *arguments: object,
    shared_bytes: int = 0,
) -> View:
    """Launch a kernel on copies of its arguments and show its effects.

    Parameters
    ----------
    kernel : a kernel of ``@cuda.jit`` or ``@ct.kernel``, or a ``cupy.RawKernel``
    grid, block : int or tuple of up to three ints
        Blocks in the grid and threads per block, as in the brackets of a launch. For a kernel over
        tiles the block is 1.
    *arguments
        The kernel's arguments. Arrays are copied, so yours do not change.
    shared_bytes : int
        Dynamic shared memory per block in bytes.

    Returns
    -------
    View
        A card with the findings, the counts, and the cost of each source line. Counts come from
        the virtual GPU; on a machine with a GPU the card also shows the time measured on it.

    Raises
    ------
    TypeError
        An argument is not a kernel, a grid or a block; the message says what to write.
    """
    launch = Launch.of(kernel, grid, block, arguments, shared_bytes)
    if is_tiled(kernel) and not virtualgpu.answers():
        return View(box(note(TILES)), TILES)
    observed = observe(launch)
    timing = "" if device().virtual else real_gpu.sentence(launch, observed)
    return card(observed, timing=timing)
