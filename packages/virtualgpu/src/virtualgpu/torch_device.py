"""``device="cuda"`` in PyTorch without a GPU: CPU tensors that are marked as device tensors.

A ``TorchFunctionMode``, PyTorch's own hook, intercepts each call. ``torch.rand(4,
device="cuda")``, ``.cuda()`` and ``.to("cuda")`` return a CPU tensor with a mark, and every tensor
that is computed from marked tensors is marked too. A launch copies marked tensors to the virtual
GPU and back (:mod:`.devices.host_tensors`). As on a GPU, an operation on both marked and unmarked
tensors raises an error, and so does ``.numpy()`` of a marked tensor.

The mode applies to the thread that imports PyTorch, because PyTorch's modes are per thread.
Elapsed times are NaN.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

from virtualgpu import devices
from virtualgpu.after_import import after_import, forget
from virtualgpu.devices.host_tensors import MARK

_mode: list[Any] = []
_saved: list[tuple[Any, str, Any]] = []

# Functions that a GPU also accepts across devices: the copy itself, and functions with indices,
# which may be on the CPU.
_ACROSS = {
    "copy_",
    "__getitem__",
    "__setitem__",
    "set_",
    "index_put_",
    "_has_compatible_shallow_copy_type",
}
# For these functions, a tensor argument does not determine the device of the result.
_ELSEWHERE = {"cpu", "numpy", "tolist", "item"}


def install() -> None:
    """Adapt PyTorch to the virtual GPU, now or when it is imported."""
    after_import("torch", _adapt)


def remove() -> None:
    """Undo :func:`install`; existing tensors become CPU tensors."""
    forget("torch")
    while _mode:
        _leave(_mode.pop())
    while _saved:
        owner, name, value = _saved.pop()
        setattr(owner, name, value)


def _leave(mode: Any) -> None:
    """Remove the mode from PyTorch's stack, even from below modes that were entered later.

    Each thread has its own stack. If this is called in another thread, the mode stays on its own
    thread's stack and passes every call on.
    """
    from torch import overrides

    stack = overrides._get_current_function_mode_stack()
    above = stack[stack.index(mode) + 1 :] if mode in stack else stack
    if len(above) < len(stack):
        for _ in range(len(above) + 1):
            overrides._pop_mode()
        for one in above:
            overrides._push_mode(one)


def is_installed() -> bool:
    """Return True if PyTorch's ``device="cuda"`` is served by the virtual GPU."""
    return bool(_mode)


def _adapt(torch: ModuleType) -> None:
    with warnings.catch_warnings():  # PyTorch warns that it finds no driver
        warnings.simplefilter("ignore", UserWarning)
        has_gpu = torch.cuda.is_available()
    if _mode or has_gpu:
        return
    from torch.overrides import TorchFunctionMode

    class OnTheVirtualGPU(TorchFunctionMode):
        def __torch_function__(self, function, kinds, args=(), kwargs=None):
            if self not in _mode:  # another thread has switched it off
                return function(*args, **(kwargs or {}))
            return _called(torch, function, args, kwargs or {})

    mode = OnTheVirtualGPU()
    mode.__enter__()
    _mode.append(mode)
    for name, value in _answers(torch).items():
        _replace(torch.cuda, name, value)
    # A C function creates parameters, and no mode intercepts it.
    _replace(torch.nn.Parameter, "__new__", staticmethod(_parameter(torch.nn.Parameter.__new__)))


def _replace(owner: Any, name: str, value: Any) -> None:
    _saved.append((owner, name, vars(owner)[name]))
    setattr(owner, name, value)


def _parameter(new: Any) -> Any:
    @functools.wraps(new)
    def marked(kind: Any, data: Any = None, *args: Any, **kwargs: Any) -> Any:
        made = new(kind, data, *args, **kwargs)
        if getattr(data, MARK, False):
            setattr(made, MARK, True)
        return made

    return marked


def _called(torch: Any, function: Any, args: tuple, kwargs: dict) -> Any:
    """Call a PyTorch function with arguments of which some are marked tensors."""
    name = getattr(function, "__name__", "")
    if name == "__get__":
        return _property(torch, function, args)
    given = [*_tensors(torch, (args, kwargs))]
    marked = [one for one in given if getattr(one, MARK, False)]
    if name in ("cuda", "cpu", "to") and given:
        return _moved(torch, name, function, args, kwargs)
    if marked and name == "numpy":
        raise TypeError(
            "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor "
            "to host memory first."
        )
    if marked and name in ("__repr__", "__str__", "__format__"):
        text = function(*args, **kwargs)
        return f"{text[:-1]}, device='cuda:0')" if text.startswith("tensor(") else text
    if marked and name == "get_device":
        return 0
    if name == "__set__":
        if getattr(function.__self__, "__name__", "") == "data":
            setattr(args[0], MARK, bool(getattr(args[1], MARK, False)))
        return function(*args, **kwargs)
    device, kwargs = _taken(torch, kwargs)
    to_device = device is not None and device.type == "cuda"
    if marked and name not in _ACROSS and device is None:
        _demand_one_device(given)
    result = function(*args, **kwargs)
    if to_device or (device is None and marked and name not in _ELSEWHERE):
        if name in _ACROSS and not getattr(given[0], MARK, False):
            return result
        _mark(torch, result)
    return result


def _property(torch: Any, function: Any, args: tuple) -> Any:
    if getattr(args[0], MARK, False):
        name = getattr(function.__self__, "__name__", "")
        if name == "is_cuda":
            return True
        if name == "is_cpu":
            return False
        if name == "device":
            return torch.device("cuda", 0)
        return _mark(torch, function(*args))
    return function(*args)


def _taken(torch: Any, kwargs: dict) -> tuple[Any, dict]:
    """Return the device that a call asks for, or None, and the call's arguments for the CPU."""
    if kwargs.get("device") is None:
        return None, kwargs
    device = kwargs["device"]
    device = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if device.type != "cuda":
        return device, kwargs
    _demand_number(device.index)
    left = {**kwargs, "device": torch.device("cpu")}
    left.pop("pin_memory", None)
    return device, left


def _moved(torch: Any, name: str, function: Any, args: tuple, kwargs: dict) -> Any:
    """Call ``.cuda()``, ``.cpu()`` or ``.to(…)``; the result is a copy if the device changes."""
    tensor, *rest = args
    here = bool(getattr(tensor, MARK, False))
    there, left = here, []
    if name == "cuda":
        there, rest = True, []
        kwargs = {}
    elif name == "cpu":
        there, rest = False, []
    else:
        for one in [*rest, *([kwargs["device"]] if kwargs.get("device") is not None else [])]:
            if isinstance(one, str | torch.device) or (
                isinstance(one, int) and not isinstance(one, bool)
            ):
                device = torch.device("cuda", one) if isinstance(one, int) else torch.device(one)
                there = device.type == "cuda"
                if there:
                    _demand_number(device.index)
                elif device.type != "cpu":
                    left.append(one)
            elif isinstance(one, torch.Tensor):
                there = bool(getattr(one, MARK, False))
                left.append(one.dtype)
            else:
                left.append(one)
        kwargs = {key: value for key, value in kwargs.items() if key != "device"}
    result = torch.Tensor.to(tensor, *left, **kwargs) if left or kwargs else tensor
    if there != here and result is tensor:
        result = tensor.clone()
    if there != here or result is not tensor:
        setattr(result, MARK, there)
    return result


def _demand_number(index: int | None) -> None:
    if index is not None and index >= len(devices.every()):
        raise RuntimeError(
            f"CUDA error: invalid device ordinal: cuda:{index}; the number of virtual GPUs is "
            f"{len(devices.every())} (set by VIRTUALGPU_DEVICES)"
        )


def _demand_one_device(given: list[Any]) -> None:
    """Raise RuntimeError as a GPU does; a zero-dimensional tensor may be on the CPU."""
    if any(not getattr(one, MARK, False) and one.dim() for one in given):
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, cuda:0 "
            "and cpu! (On the virtual GPU both are in CPU memory, but a GPU refuses this. Move "
            "one of them with .cuda() or .cpu().)"
        )


def _tensors(torch: Any, value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors(torch, one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _tensors(torch, one)


def _mark(torch: Any, value: Any) -> Any:
    for tensor in _tensors(torch, value):
        setattr(tensor, MARK, True)
    return value


class Stream:
    """Replacement for ``torch.cuda.Stream``; work is complete when its call returns."""

    cuda_stream = 0
    device_index = 0

    def __init__(self, *_, **__) -> None:
        pass

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 0

    def synchronize(self) -> None:
        pass

    wait_stream = wait_event = record_event = lambda self, *_: None

    def query(self) -> bool:
        return True


class Event:
    """Replacement for ``torch.cuda.Event``, which measures no time."""

    def __init__(self, *_, **__) -> None:
        pass

    record = synchronize = wait = lambda self, *_: None

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Event) -> float:
        """Return NaN, because no GPU ran."""
        warnings.warn("no GPU ran, so there is no elapsed time", UserWarning, stacklevel=2)
        return float("nan")


def _answers(torch: Any) -> dict[str, Any]:
    """Return replacements for names of ``torch.cuda``."""

    def capability(device: Any = None) -> tuple[int, int]:
        return tuple(devices.current().compute_capability)  # type: ignore[return-value]

    def properties(device: Any = None) -> SimpleNamespace:
        major, minor = capability()
        return SimpleNamespace(
            name=devices.current().name,
            major=major,
            minor=minor,
            multi_processor_count=1,
            warp_size=32,
        )

    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "device_count": lambda: len(devices.every()),
        "current_device": devices.number,
        "set_device": lambda device: (
            _demand_number(torch.device("cuda", device).index) if isinstance(device, int) else None
        ),
        "get_device_name": lambda device=None: devices.current().name,
        "get_device_capability": capability,
        "get_device_properties": properties,
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "manual_seed": torch.manual_seed,
        "manual_seed_all": lambda seed: None,
        "current_stream": lambda device=None: Stream(),
        "default_stream": lambda device=None: Stream(),
        "stream": lambda stream: contextlib.nullcontext(stream),
        "Stream": Stream,
        "Event": Event,
    }
