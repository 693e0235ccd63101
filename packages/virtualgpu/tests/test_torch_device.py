"""PyTorch's ``device="cuda"`` beside the virtual GPU; needs PyTorch (3 GB), which CI lacks."""

from __future__ import annotations

import importlib.util
import math
import threading

import pytest

import virtualgpu

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"
    ),
    pytest.mark.filterwarnings("ignore:CUDA initialization"),  # where the virtual GPU is off
]


@pytest.fixture
def torch():
    virtualgpu.activate()
    import torch

    yield torch
    virtualgpu.deactivate()


def test_tensors_are_made_on_the_device_and_stay_there(torch):
    x = torch.rand(4, device="cuda")
    there = [
        x,
        torch.rand(4).cuda(),
        torch.rand(4).to("cuda"),
        torch.rand(4).to(x),
        torch.zeros(3, device=x.device),
        torch.empty_like(x),
        x + 1,
        x * torch.tensor(2.0),
        x[1:],
        x[None].T,
        x.data,
        x.to(torch.float64),
        torch.cat([x, x]),
        torch.nn.Linear(4, 3).cuda().weight,
        torch.nn.Linear(4, 3, device="cuda")(x),
    ]
    assert all(one.is_cuda and one.device == torch.device("cuda", 0) for one in there)
    assert "device='cuda:0'" in repr(x)
    back = [x.cpu(), x.to("cpu"), torch.rand(4), torch.rand(4, device="cpu")]
    assert not any(one.is_cuda or one.device.type == "cuda" for one in back)


def test_a_copy_on_the_host_is_no_view(torch):
    x = torch.zeros(4, device="cuda")
    x.cpu()[0] = 5
    host = torch.ones(4)
    host.cuda()[0] = 5
    assert x.tolist() == [0.0] * 4 and host.tolist() == [1.0] * 4


def test_gradients_and_parameters_lie_on_the_device(torch):
    layer = torch.nn.Linear(4, 3).cuda()
    layer(torch.rand(4, device="cuda")).sum().backward()
    assert layer.weight.grad.is_cuda


def test_across_devices_only_copies_and_indices_are_taken(torch):
    x, host = torch.zeros(4, device="cuda"), torch.ones(4)
    x.copy_(host)
    x[torch.tensor([0, 1])] = 3.0
    host.copy_(x)
    assert x.tolist() == host.tolist() == [3.0, 3.0, 1.0, 1.0]
    assert x.is_cuda and not host.is_cuda
    for mixed in (lambda: x + host, lambda: torch.cat([x, host]), lambda: torch.dot(host, x)):
        with pytest.raises(RuntimeError, match="two devices, cuda:0 and cpu"):
            mixed()
    with pytest.raises(RuntimeError, match="two devices"):
        torch.nn.Linear(4, 3).cuda()(host)
    with pytest.raises(TypeError, match="can't convert cuda:0"):
        x.numpy()
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.zeros(1, device="cuda:7")


def test_questions_about_the_device_are_answered(torch):
    cuda = torch.cuda
    assert cuda.is_available() and cuda.device_count() == 1
    assert cuda.get_device_name() == "Virtual GPU (CPU)"
    assert cuda.get_device_capability() == (9, 0)
    cuda.synchronize()
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    start.record()
    end.record()
    with pytest.warns(UserWarning, match="no GPU ran"):
        assert math.isnan(start.elapsed_time(end))


def test_deactivation_gives_pytorch_its_own_answers_back(torch):
    virtualgpu.deactivate()
    assert not torch.cuda.is_available()
    assert not torch.nn.Parameter(torch.zeros(1)).is_cuda
    with pytest.raises((RuntimeError, AssertionError)):
        torch.zeros(1, device="cuda")


def test_deactivation_leaves_modes_of_others_in_place(torch):
    from torch.overrides import TorchFunctionMode

    called = []

    class Mine(TorchFunctionMode):
        def __torch_function__(self, function, kinds, args=(), kwargs=None):
            called.append(function)
            return function(*args, **(kwargs or {}))

    with Mine():
        virtualgpu.deactivate()
        torch.zeros(1)
    assert called == [torch.zeros]
    torch.zeros(1)
    assert called == [torch.zeros]


def test_deactivation_in_another_thread_ends_the_answers_in_all(torch):
    other = threading.Thread(target=virtualgpu.deactivate)
    other.start()
    other.join()
    with pytest.raises((RuntimeError, AssertionError)):
        torch.zeros(1, device="cuda")
