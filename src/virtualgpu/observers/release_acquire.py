"""Order through fences and atomics."""


def orders_memory(instructions) -> bool:
    """Whether a program has fences, releases or acquires."""
    return False


class Messages:
    """Releases and acquires of one launch."""
