"""Draws ``coalescing.svg``: neighbours that read neighbours share sectors; strides waste them."""

import sketch
from sketch import FAINT, INK, NORMAL, SKY, SMALL, VERMILION

ALT = (
    "Two patterns of eight threads that read four-byte numbers. Above, thread i reads element i: "
    "all eight lie in one sector of 32 bytes, and one sector moves. Below, thread i reads element "
    "8 i: each lies in a sector of its own, so eight sectors move and seven eighths of the bytes "
    "are thrown away."
)
CELL = 0.136


def sectors(axes, y: float, wanted: set[int]) -> None:
    """Draw eight sectors of eight elements; wanted ones are filled, sectors in use are framed."""
    for sector in range(8):
        x = 0.3 + sector * 1.19
        used = any(8 * sector + k in wanted for k in range(8))
        for k in range(8):
            element = 8 * sector + k
            sketch.box(
                axes,
                x + k * CELL,
                y,
                CELL,
                0.3,
                SKY if element in wanted else "white",
                FAINT,
                boxstyle="square,pad=0",
                linewidth=0.6,
            )
        sketch.box(
            axes,
            x - 0.02,
            y - 0.03,
            8 * CELL + 0.04,
            0.36,
            "none",
            INK if used else FAINT,
            boxstyle="square,pad=0",
            linewidth=2 if used else 0.8,
        )
        sketch.say(axes, x + 4 * CELL, y - 0.17, f"sector {sector}", SMALL, INK if used else FAINT)


def pattern(axes, top: float, title: str, stride: int, verdict: str, colour: str) -> None:
    sketch.say(axes, 0.3, top, title, 11, ha="left", weight="bold")
    sketch.say(axes, 9.7, top, verdict, NORMAL, colour, ha="right")
    y = top - 1.55
    for thread in range(8):
        x = 2.9 + thread * 0.6
        sketch.box(axes, x - 0.2, top - 0.52, 0.4, 0.3, SKY)
        sketch.say(axes, x, top - 0.37, str(thread), SMALL)
        sector, k = divmod(thread * stride, 8)
        target = 0.3 + sector * 1.19 + (k + 0.5) * CELL
        sketch.arrow(axes, (x, top - 0.52), (target, y + 0.36), linewidth=0.8, mutation_scale=7)
    sketch.say(axes, 2.5, top - 0.37, "threads", SMALL, ha="right")
    sectors(axes, y, {thread * stride for thread in range(8)})


def draw():
    figure, axes = sketch.sheet(8.2, 3.6, 10)
    pattern(axes, 4.15, "coalesced: x[i]", 1, "1 sector moves, all of it is used", INK)
    pattern(
        axes, 1.98, "strided: x[8 * i]", 8, "8 sectors move, 7/8 of each for nothing", VERMILION
    )
    return figure


if __name__ == "__main__":
    sketch.save(draw(), __file__, ALT)
