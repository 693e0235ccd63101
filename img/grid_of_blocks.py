"""Draws ``grid_of_blocks.svg``: a launch is a grid of blocks, a block is warps, a warp is lanes."""

import sketch
from sketch import GREEN, INK, NORMAL, ORANGE, PAPER, SKY, SMALL

ALT = (
    "A launch with three blocks of 64 threads. Each block consists of two warps of 32 lanes. "
    "Threads are numbered from 0 in each block; the position in the grid is "
    "blockIdx times blockDim plus threadIdx: thread 40 of block 2 is number 168. Blocks run in any "
    "order on the multiprocessors of the GPU."
)
FILLS = (SKY, ORANGE, GREEN)


def warp(axes, x: float, y: float, first: int, fill: str, marked: int | None) -> None:
    """Draw 32 lanes in a row."""
    for lane in range(32):
        edge = INK if lane + first == marked else "white"
        sketch.box(
            axes,
            x + lane * 0.082,
            y,
            0.08,
            0.34,
            fill,
            edge,
            boxstyle="square,pad=0",
            linewidth=1.6 if edge == INK else 0.4,
            zorder=3 if edge == INK else 2,
        )
    sketch.say(
        axes, x, y + 0.5, f"warp {first // 32}: threads {first} to {first + 31}", SMALL, ha="left"
    )


def draw():
    figure, axes = sketch.sheet(8.2, 3.3, 10)
    sketch.box(axes, 0.15, 0.85, 9.7, 3.0, PAPER, "#BBBBBB")
    sketch.say(axes, 0.35, 3.62, "grid: kernel[3, 64](…), one launch", 11, ha="left", weight="bold")
    for block in range(3):
        x = 0.4 + 3.15 * block
        sketch.box(axes, x, 1.1, 2.9, 2.2, "white", INK)
        sketch.say(axes, x + 0.13, 3.08, f"block {block}: blockIdx.x = {block}", NORMAL, ha="left")
        marked = 40 if block == 2 else None
        warp(axes, x + 0.13, 2.15, 0, FILLS[block], None)
        warp(axes, x + 0.13, 1.3, 32, FILLS[block], marked)
    sketch.arrow(axes, (7.6, 0.6), (7.53, 1.28))
    sketch.say(
        axes,
        5.0,
        0.42,
        "i = blockIdx.x · blockDim.x + threadIdx.x = 2 · 64 + 40 = 168, "
        "which is what cuda.grid(1) gives",
        NORMAL,
    )
    sketch.say(
        axes, 5.0, 0.14, "blocks start in any order, and none waits for another", SMALL, "#555555"
    )
    return figure


if __name__ == "__main__":
    sketch.save(draw(), __file__, ALT)
