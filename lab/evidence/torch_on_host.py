"""PyTorch's GPU answered by its CPU, for tests that make their tensors on ``cuda``.

A plugin of pytest (``-p lab.evidence.torch_on_host``); :func:`answer` is for the processes that
tests start, from a ``sitecustomize``. On the virtual GPU PyTorch has no device,
and launches take its CPU tensors; so a tensor asked for on ``cuda`` is made on the CPU, and of
``torch.cuda`` there is what a test of kernels asks: one device of capability 9.0, a stream,
``synchronize``. What has no answer, such as graphs and times, stays PyTorch's own and fails.

For :mod:`lab.evidence.cutile_suite` it writes how each test ended into the file ``OUTCOMES``,
leaves out those that the file ``DONE`` names, and takes at most ``CASES`` of a test function.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

import virtualgpu

_answered: list[TorchFunctionMode] = []


def _there(value: Any) -> Any:
    """``value``, and the CPU where it names the GPU."""
    named = isinstance(value, str) and value.split(":")[0] == "cuda"
    if named or (isinstance(value, torch.device) and value.type == "cuda"):
        return "cpu"
    return value


class _OnHost(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.cuda:
            return args[0]
        named = {name: _there(one) for name, one in (kwargs or {}).items()}
        if func in (torch.mm, torch.bmm) and "out_dtype" in named:  # a form that the CPU lacks
            wide = named.pop("out_dtype")
            args = [one.to(wide) for one in args]
        return func(*map(_there, args), **named)


class Stream:
    """The one stream, under the names by which PyTorch's is asked."""

    cuda_stream = 0
    device = torch.device("cpu")

    def __init__(self, *_, **__):
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream)

    __hash__ = object.__hash__

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def wait_stream(self, other: Stream) -> None:
        pass


def answer() -> None:
    """Switch the virtual GPU on, and PyTorch to it."""
    if _answered:
        return
    virtualgpu.activate()
    _answered.append(_OnHost())
    _answered[0].__enter__()
    answers: dict[str, Any] = {
        "Stream": Stream,
        "current_stream": Stream,
        "default_stream": Stream,
        "stream": lambda stream: stream,
        "synchronize": lambda *_: None,
        "device_count": lambda: 1,
        "is_available": lambda: True,
        "current_device": lambda: 0,
        "device": lambda _: contextlib.nullcontext(),
        "get_device_capability": lambda *_: (9, 0),
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)


def pytest_configure() -> None:
    answer()


def pytest_collection_modifyitems(config, items) -> None:
    done = set(Path(os.environ["DONE"]).read_text().splitlines())
    cases, functions = int(os.environ["CASES"]), defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    taken = set()
    for of_one in functions.values():
        count = min(cases, len(of_one)) if cases else len(of_one)
        taken |= {of_one[len(of_one) * number // count].nodeid for number in range(count)}
    items[:] = [item for item in items if item.nodeid in taken and item.nodeid not in done]


def _note(*what: str) -> None:
    with open(os.environ["OUTCOMES"], "a") as file:
        file.write(json.dumps(what) + "\n")


def pytest_runtest_logstart(nodeid: str) -> None:
    _note(nodeid, "ended the process", "")


def pytest_runtest_logreport(report) -> None:
    if report.when == "call" or report.outcome != "passed":
        told = report.longrepr
        words = str(told[2] if isinstance(told, tuple) else told or "")
        _note(
            report.nodeid,
            "xfailed" if hasattr(report, "wasxfail") else report.outcome,
            words[-3000:],
        )


def pytest_collectreport(report) -> None:
    if report.failed:
        _note(report.nodeid, "failed", str(report.longrepr)[-3000:])
