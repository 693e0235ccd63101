"""Draws ``warp_divergence.svg``: a warp whose lanes part at an ``if`` runs both sides in turn."""

import sketch
from sketch import FAINT, INK, NORMAL, ORANGE, SKY, SMALL, VERMILION

ALT = (
    "Time runs to the right, eight lanes of a warp lie below each other. Together they reach an if "
    "on odd lanes. First the odd lanes run the if side while the even lanes are masked off, then "
    "the even lanes run the else side while the odd lanes are masked off, then all go on together. "
    "The warp pays for both sides."
)
LANES = 8


def draw():
    figure, axes = sketch.sheet(8.2, 3.1, 10)
    spans = (
        ("x = a[i]", 1.1, 1.8, "all"),
        ("if i % 2:", 2.95, 0.9, "all"),
        ("x = sin(x)", 3.9, 2.1, "odd"),
        ("x = x + 1", 6.05, 1.3, "even"),
        ("a[i] = x", 7.4, 1.8, "all"),
    )
    for code, x, width, _ in spans:
        sketch.say(axes, x + width / 2, 3.42, code, SMALL, family="monospace")
    for lane in range(LANES):
        y = 2.95 - lane * 0.29
        sketch.say(axes, 0.95, y + 0.11, f"lane {lane}", SMALL, ha="right")
        for _, x, width, who in spans:
            busy = who == "all" or (who == "odd") == bool(lane % 2)
            fill = {"all": SKY, "odd": ORANGE, "even": "#45C29B"}[who]
            if busy:
                sketch.box(axes, x, y, width, 0.23, fill)
            else:
                sketch.box(
                    axes, x, y, width, 0.23, "white", FAINT, linewidth=0.7, linestyle=(0, (2, 2))
                )
    axes.plot([3.88, 3.88], [0.83, 3.25], color=VERMILION, linewidth=2)
    axes.plot([7.37, 7.37], [0.83, 3.25], color=VERMILION, linewidth=2)
    sketch.say(axes, 3.88, 0.68, "the lanes part", SMALL, VERMILION)
    sketch.say(axes, 7.37, 0.68, "and meet again", SMALL, VERMILION)
    sketch.arrow(axes, (1.1, 0.42), (9.2, 0.42))
    sketch.say(axes, 9.3, 0.42, "time", NORMAL, ha="left")
    sketch.say(
        axes,
        5,
        0.15,
        "dashed: masked off. The warp takes the time of both sides, whichever a lane needs.",
        SMALL,
        INK,
    )
    return figure


if __name__ == "__main__":
    sketch.save(draw(), __file__, ALT)
