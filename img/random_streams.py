"""Draws ``random_streams.svg``: where the numbers of each thread come from in one long sequence."""

import sketch
from sketch import INK, NORMAL, ORANGE, PURPLE, SKY, SMALL, VERMILION

ALT = (
    "A generator is one long sequence of numbers; each thread takes a stretch of it. With the same "
    "seed in every thread all stretches are the same one: every thread computes the same numbers. "
    "With starts drawn at random or side by side, stretches may overlap: some numbers count twice. "
    "With streams that are kept a fixed long way apart, 2 to the power of 64 numbers for "
    "xoroshiro128+, no stretch reaches the next."
)
THREADS = (SKY, ORANGE, "#45C29B", PURPLE)


def sequence(axes, y: float, title: str, verdict: str, starts: list[float], good: bool) -> None:
    """Draw one long line with four stretches on it, stacked where they overlap."""
    sketch.say(axes, 0.3, y + 0.95, title, 11, ha="left", weight="bold")
    sketch.say(axes, 9.7, y + 0.95, verdict, NORMAL, INK if good else VERMILION, ha="right")
    axes.plot([0.3, 9.7], [y, y], color="#777777", linewidth=1)
    for tick in range(95):
        axes.plot([0.3 + tick * 0.1] * 2, [y - 0.04, y], color="#777777", linewidth=0.6)
    for thread, start in enumerate(starts):
        level = sum(abs(other - start) < 1.3 for other in starts[:thread])
        sketch.box(axes, start, y + 0.05 + 0.19 * level, 1.25, 0.16, THREADS[thread], linewidth=0)
        sketch.say(axes, start + 0.625, y + 0.13 + 0.19 * level, f"thread {thread}", 7.5)


def draw():
    figure, axes = sketch.sheet(8.2, 3.4, 10)
    sequence(
        axes,
        2.93,
        "the same seed in every thread",
        "every thread has the same numbers",
        [1.0, 1.0, 1.0, 1.0],
        False,
    )
    sequence(
        axes,
        1.6,
        "a seed drawn for each thread",
        "stretches may overlap, unseen",
        [0.8, 4.1, 4.9, 7.6],
        False,
    )
    sequence(
        axes,
        0.3,
        "one seed, and a jump for each thread",
        "2⁶⁴ numbers apart: no overlap",
        [0.6, 3.0, 5.4, 7.8],
        True,
    )
    for start in (0.6, 3.0, 5.4):
        sketch.arrow(axes, (start + 1.3, 0.43), (start + 2.37, 0.43), linewidth=1)
        sketch.say(axes, start + 1.83, 0.55, "jump", SMALL)
    return figure


if __name__ == "__main__":
    sketch.save(draw(), __file__, ALT)
