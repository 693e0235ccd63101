"""Draws ``host_device_transfers.svg``: copies, launches that return at once, and waiting."""

import sketch
from sketch import FAINT, GREEN, INK, ORANGE, SKY, SMALL, VERMILION

ALT = (
    "Two time lines, each with a host and a device. Above, three kernels, each with its array "
    "copied there and back: most of the time goes into six copies. Below, the array is copied "
    "once, the host launches three kernels, which return at once while the device works through "
    "them, and waits only when it copies the result back."
)
COPY, KERNEL = ORANGE, GREEN


def lane(axes, y: float, name: str) -> None:
    sketch.say(axes, 0.95, y + 0.16, name, SMALL, ha="right")
    axes.plot([1.1, 9.7], [y, y], color=FAINT, linewidth=0.8)


def work(axes, x: float, y: float, width: float, text: str, fill: str) -> float:
    """Draw a stretch of work, and return where it ends."""
    sketch.box(axes, x, y + 0.02, width - 0.04, 0.3, fill)
    sketch.say(axes, x + width / 2 - 0.02, y + 0.17, text, 7.5)
    return x + width


def draw():
    figure, axes = sketch.sheet(8.2, 3.3, 10)
    sketch.say(axes, 0.3, 3.8, "back and forth for every kernel", 11, ha="left", weight="bold")
    lane(axes, 3.15, "host")
    lane(axes, 2.65, "device")
    x = 1.15
    for number in (1, 2, 3):
        x = work(axes, x, 3.15, 1.1, "copy there", COPY)
        work(axes, x, 2.65, 0.55, f"k{number}", KERNEL)
        x = work(axes, x + 0.55, 3.15, 1.1, "copy back", COPY)
    sketch.say(axes, 9.7, 2.42, "most of the time is transfer", SMALL, VERMILION, ha="right")

    sketch.say(axes, 0.3, 1.9, "copied once, then kept on the device", 11, ha="left", weight="bold")
    lane(axes, 1.25, "host")
    lane(axes, 0.75, "device")
    x = device = work(axes, 1.15, 1.25, 1.1, "copy there", COPY)
    for number in (1, 2, 3):
        end = work(axes, x, 1.25, 0.3, "", SKY)
        sketch.arrow(
            axes, (x + 0.13, 1.25), (max(device, x) + 0.1, 1.1), linewidth=0.9, mutation_scale=7
        )
        device = work(axes, max(device, x + 0.05), 0.75, 0.55, f"k{number}", KERNEL)
        x = end
    x = work(axes, x, 1.25, device - x, "waits", "#E4E4E4")
    work(axes, x, 1.25, 1.1, "copy back", COPY)
    sketch.say(
        axes,
        5.55,
        1.4,
        "a launch (blue) returns at once; the copy back waits",
        SMALL,
        INK,
        ha="left",
    )
    sketch.arrow(axes, (1.1, 0.42), (9.2, 0.42))
    sketch.say(axes, 9.3, 0.42, "time", SMALL, ha="left")
    sketch.say(
        axes,
        5,
        0.15,
        "a clock that stops before the device is done measures the launch, "
        "not the kernel: synchronise first",
        SMALL,
        INK,
    )
    return figure


if __name__ == "__main__":
    sketch.save(draw(), __file__, ALT)
