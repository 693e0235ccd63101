"""cuDF's options, with errors for values that the stand-in does not support."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_options = {
    "copy_on_write": False,
    "default_integer_bitwidth": None,
    "default_float_bitwidth": None,
    "spill": False,
    "mode.pandas_compatible": False,
}
# These options have only the value above; the stand-in behaves accordingly.
_FIXED = {
    "copy_on_write",
    "default_integer_bitwidth",
    "default_float_bitwidth",
    "mode.pandas_compatible",
}


def get_option(name: str):
    """Return an option's value.

    Raises KeyError for an unknown option.
    """
    if name not in _options:
        raise KeyError(f'"{name}" does not exist.')
    return _options[name]


def set_option(name: str, value) -> None:
    """Set an option.

    Raises KeyError for an unknown option and NotImplementedError for a value that the stand-in
    does not support.
    """
    if name in _FIXED and value != get_option(name):
        raise NotImplementedError(
            f"option {name}={value!r} is not in the stand-in for cuDF, which supports only "
            f"{_options[name]!r}"
        )
    get_option(name)
    _options[name] = value


def describe_option(name: str | None = None) -> None:
    for one in [name] if name else _options:
        print(f"{one}: {get_option(one)!r}")


@contextmanager
def option_context(*pairs) -> Iterator[None]:
    """Set options within a block: ``with option_context("spill", True):``."""
    names = pairs[::2]
    before = {name: get_option(name) for name in names}
    try:
        for name, value in zip(names, pairs[1::2], strict=True):
            set_option(name, value)
        yield
    finally:
        _options.update(before)
