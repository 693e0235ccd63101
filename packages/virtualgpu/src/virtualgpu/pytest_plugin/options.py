"""Settings of a run of ``pytest --virtual-gpu``: options, configuration, markers."""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from virtualgpu.accepting import FORM, Acceptance, read
from virtualgpu.pytest_plugin.project import standins_of
from virtualgpu.standins.finder import NAMES, chosen

#: Seconds of processor time for a launch: tests are small, and an endless kernel should be named
#: before the run is stopped by hand.
TIME_LIMIT = 10.0

MARKERS = (
    "virtual_gpu_unchecked: launches a faulty kernel on purpose; --virtual-gpu runs it unchecked",
    "virtual_gpu_seeds(*seeds): with --virtual-gpu, run the test once for each seed, threads in "
    "that random order",
    "virtual_gpu_time_limit(seconds): with --virtual-gpu, processor time for each launch",
    "virtual_gpu_accept(*entries): with --virtual-gpu, accept what is found at a line or in a "
    'kernel: "file.py:LINE: reason" or "kernel: reason"',
    "virtual_gpu_streams: with --virtual-gpu, also find missing synchronisation between streams, "
    "and of the host with a stream",
)

#: Settings that are on or off: options, entries and markers alike.
SWITCHES = ("unchecked", "streams")

#: The parameter of a test that runs once for each of several seeds.
SEED = "virtual_gpu_seed"


@dataclass(frozen=True)
class Settings:
    """Settings for a test's kernels; without seeds, threads run in lockstep."""

    seeds: tuple[int, ...] = ()
    time_limit: float = TIME_LIMIT  # seconds
    unchecked: bool = False
    streams: bool = False
    accepted: tuple[Acceptance, ...] = ()
    standins: tuple[str, ...] | None = None  # None: all
    huge: int | None = None  # allocations from this size on use memory only for touched pages


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("virtualgpu", "CUDA kernels without a GPU")
    group.addoption(
        "--virtual-gpu",
        action="store_true",
        help="run CUDA kernels on the virtual GPU, even beside a real one, and fail tests whose "
        "kernels have races, bad barriers or reads of unwritten memory",
    )
    group.addoption(
        "--virtual-gpu-require",
        action="store_true",
        help="fail a run in which no launch was checked",
    )
    group.addoption(
        "--virtual-gpu-seed",
        type=_as_option(seed),
        metavar="N",
        action="append",
        help="run threads in the random order number N; given several times, each test runs once "
        "for each",
    )
    group.addoption(
        "--virtual-gpu-orders",
        type=_as_option(several),
        metavar="N",
        help=(
            "run each test once for each of the random orders 0 to N - 1: a fault may show only "
            "in some of them"
        ),
    )
    group.addoption(
        "--virtual-gpu-accept",
        action="append",
        metavar="ENTRY",
        default=[],
        help=f"accept what is found at a line or in a kernel, with the reason: {FORM}; may be "
        "given several times",
    )
    group.addoption(
        "--virtual-gpu-standins",
        metavar="NAMES",
        help=f"packages that stand-ins answer for, of {', '.join(NAMES)}, with commas between; "
        "all; or none; by default those that the project's metadata lists or that are "
        "installed",
    )
    group.addoption(
        "--virtual-gpu-time-limit",
        type=_as_option(seconds),
        metavar="SECONDS",
        help=f"processor time for each launch; by default {TIME_LIMIT:g}, or "
        "VIRTUALGPU_TIME_LIMIT of the environment",
    )
    group.addoption(
        "--virtual-gpu-huge",
        type=_as_option(nbytes),
        metavar="SIZE",
        nargs="?",
        const=nbytes("1G"),
        help=(
            "arrays of SIZE or more (such as 512M or 4G; by default 1G) use memory only for "
            "touched pages, and launches with such an argument run a sample of their blocks"
        ),
    )
    group.addoption(
        "--virtual-gpu-unchecked", action="store_true", help="run kernels and check nothing"
    )
    group.addoption(
        "--virtual-gpu-streams",
        action="store_true",
        help="also find missing synchronisation between streams, and of the host with a stream",
    )
    parser.addini("virtual_gpu_seeds", "as --virtual-gpu-seed: one or more", type="args")
    parser.addini("virtual_gpu_orders", "as --virtual-gpu-orders", default=None)
    parser.addini("virtual_gpu_accept", "as --virtual-gpu-accept: an entry a line", type="linelist")
    parser.addini("virtual_gpu_standins", "as --virtual-gpu-standins", type="args")
    parser.addini("virtual_gpu_time_limit", "as --virtual-gpu-time-limit", default=None)
    parser.addini("virtual_gpu_huge", "as --virtual-gpu-huge: a size", default=None)
    for name in SWITCHES:
        parser.addini(f"virtual_gpu_{name}", f"as --virtual-gpu-{name}", type="bool")


def known_options(config: pytest.Config) -> argparse.Namespace:
    """Return the options' values, even before all plugins have added theirs."""
    known = config.known_args_namespace
    return known if hasattr(known, "virtual_gpu") else config.option


def refuse_without_switch(config: pytest.Config) -> None:
    """Raise pytest.UsageError for options that have no effect without --virtual-gpu."""
    if config.getoption("virtual_gpu"):
        return
    for name in (
        "require",
        "seed",
        "orders",
        "accept",
        "standins",
        "time-limit",
        "huge",
        *SWITCHES,
    ):
        if config.getoption(f"virtual_gpu_{name.replace('-', '_')}") not in (None, False, []):
            raise pytest.UsageError(f"--virtual-gpu-{name} does nothing without --virtual-gpu")


def of_run(config: pytest.Config) -> Settings:
    """Return the settings of a run.

    A setting without an option comes from the configuration file or the environment.

    Raises pytest.UsageError for invalid values.
    """
    options = known_options(config)
    entries = config.getini("virtual_gpu_seeds")
    on = {}
    for name in SWITCHES:
        entry = f"virtual_gpu_{name}"
        try:
            on[name] = bool(getattr(options, entry) or config.getini(entry))
        except ValueError as error:  # set by pytest before 9
            raise pytest.UsageError(f"{entry}: {error}") from None
    limit = options.virtual_gpu_time_limit
    if limit is None:
        limit = TIME_LIMIT
        for place, text in (
            ("virtual_gpu_time_limit", config.getini("virtual_gpu_time_limit")),
            ("VIRTUALGPU_TIME_LIMIT", os.environ.get("VIRTUALGPU_TIME_LIMIT")),
        ):
            if text is not None:
                limit = _usage(place, seconds, text)
                break
    seeds = tuple(options.virtual_gpu_seed or ())
    orders = options.virtual_gpu_orders
    if seeds and orders is not None:
        raise pytest.UsageError(
            "--virtual-gpu-orders N means --virtual-gpu-seed 0 to N - 1: pass only one of the two"
        )
    if not seeds and orders is None:
        seeds = tuple(_usage("virtual_gpu_seeds", seed, one) for one in entries)
        if (text := config.getini("virtual_gpu_orders")) is not None and not seeds:
            orders = _usage("virtual_gpu_orders", several, text)
    huge = options.virtual_gpu_huge
    if huge is None and (text := config.getini("virtual_gpu_huge")) is not None:
        huge = _usage("virtual_gpu_huge", nbytes, text)
    accepted = _accepted(
        "virtual_gpu_accept", [*config.getini("virtual_gpu_accept"), *options.virtual_gpu_accept]
    )
    return Settings(
        seeds if orders is None else tuple(range(orders)),
        limit,
        **on,
        accepted=accepted,
        standins=_standins(config, options),
        huge=huge,
    )


def _accepted(place: str, entries: Iterable[str]) -> tuple[Acceptance, ...]:
    try:
        return read(entries)
    except (TypeError, ValueError, AttributeError) as error:
        raise pytest.UsageError(f"{place}: {str(error)!r} is not an entry: {FORM}") from None


def _standins(config: pytest.Config, options: argparse.Namespace) -> tuple[str, ...] | None:
    said = options.virtual_gpu_standins
    words = config.getini("virtual_gpu_standins") if said is None else [said]
    names = [word for text in words for word in re.split(r"[\s,]+", text) if word]
    if names == ["all"]:
        return None
    try:
        if names:
            return tuple(chosen([] if names == ["none"] else names))
    except ValueError as error:
        raise pytest.UsageError(f"virtual_gpu_standins: {error}; or all, or none") from None
    found = standins_of(config.rootpath)
    return None if found is None else tuple(found)


def of_test(node: pytest.Item, run: Settings) -> Settings:
    """Return the settings of a test: those of ``run``, changed by the test's markers.

    Raises pytest.UsageError for invalid values.
    """
    found = run
    for accepting in node.iter_markers("virtual_gpu_accept"):
        place = f"{node.nodeid}: @pytest.mark.virtual_gpu_accept"
        if accepting.kwargs or not accepting.args:
            raise pytest.UsageError(f"{place} takes entries: {FORM}")
        own = _accepted(place, accepting.args)
        found = replace(found, accepted=(*own, *found.accepted))
    for name in (
        "virtual_gpu_seeds",
        "virtual_gpu_time_limit",
        *(f"virtual_gpu_{one}" for one in SWITCHES),
    ):
        if (marker := node.get_closest_marker(name)) is None:
            continue
        place = f"{node.nodeid}: @pytest.mark.{name}"
        if marker.kwargs:
            raise pytest.UsageError(f"{place} takes no named arguments")
        if name == "virtual_gpu_seeds":
            if not marker.args:
                raise pytest.UsageError(f"{place} needs at least one seed")
            seeds = tuple(_usage(place, seed, one) for one in marker.args)
            found = replace(found, seeds=seeds)
        elif name == "virtual_gpu_time_limit":
            if len(marker.args) != 1:
                raise pytest.UsageError(f"{place} takes one argument, seconds")
            found = replace(found, time_limit=_usage(place, seconds, marker.args[0]))
        elif marker.args:
            raise pytest.UsageError(f"{place} takes no arguments")
        elif name == "virtual_gpu_streams":
            found = replace(found, streams=True)
        else:
            found = replace(found, unchecked=True)
    return found


def seed(value: Any) -> int:
    """Parse an integer from 0 up. Raises ValueError."""
    number = int(value)
    if number < 0 or isinstance(value, float):
        raise ValueError(value)
    return number


def several(value: Any) -> int:
    """Parse an integer from 1 up. Raises ValueError."""
    number = seed(value)
    if not number:
        raise ValueError(value)
    return number


def seconds(value: Any) -> float:
    """Parse a positive number. Raises ValueError."""
    number = float(value)
    if not 0 < number < math.inf:
        raise ValueError(value)
    return number


def nbytes(value: Any) -> int:
    """Parse a size: a positive integer, optionally followed by K, M or G. Raises ValueError."""
    text = str(value).strip().upper()
    shift = {"K": 10, "M": 20, "G": 30}.get(text[-1:], 0)
    return several(text[:-1] if shift else text) << shift


def _wrong(read: Callable, value: object) -> str:
    wanted = {
        seed: "a seed, a whole number from 0",
        several: "a whole number from 1",
        seconds: "a positive number of seconds",
        nbytes: "a size, such as 512M or 4G (paths go before the option)",
    }[read]
    return f"{value!r} is not {wanted}"


def _as_option(read: Callable) -> Callable:
    def convert(text: str) -> Any:
        try:
            return read(text)
        except ValueError:
            raise argparse.ArgumentTypeError(_wrong(read, text)) from None

    return convert


def _usage(place: str, read: Callable, value: object) -> Any:
    try:
        return read(value)
    except (TypeError, ValueError):
        raise pytest.UsageError(f"{place}: {_wrong(read, value)}") from None
