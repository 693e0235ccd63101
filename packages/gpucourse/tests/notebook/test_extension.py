"""``%load_ext gpucourse`` and the device it announces, in fresh interpreters and kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from cuda.bindings.driver import CUdevice_attribute

from gpucourse.notebook import extension
from gpucourse.system import device
from gpucourse.system.device import DeviceInfo, NoGPU
from notebook_cells import run_cells
from virtualgpu.errors import Location

H200 = DeviceInfo("NVIDIA H200", False, (9, 0), 150 * 10**9, "570.86.15", "12.8")
NONE = DeviceInfo("Virtual GPU (CPU)", True, (9, 0), reason="no NVIDIA driver here")


def in_ipython(code: str, **environment: str) -> dict:
    """Run ``code`` after ``%load_ext gpucourse`` without a GPU; it must set ``result``."""
    program = (
        "import json, time\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "start = time.process_time()\n"
        "shell.run_line_magic('load_ext', 'gpucourse')\n"
        "seconds = time.process_time() - start\n"
        f"{code}\n"
        "print(json.dumps(result))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", **environment},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    line, result = ran.stdout.splitlines()
    return {"line": line, "result": json.loads(result)}


def test_loading_is_quick_and_says_one_line():
    ran = in_ipython("import sys; result = {'seconds': seconds, 'numba': 'numba' in sys.modules}")
    assert ran["line"].startswith("Virtual GPU (CPU), compute capability 9.0: ")
    assert ran["line"].endswith("run on the CPU")
    assert ran["result"]["seconds"] < 5  # of processor time; 0.3 on a quiet machine
    assert not ran["result"]["numba"]


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch):
    for free, said in ((3_000_000, "full except for 3 MB"), (0, "disk is full, so"), (10**9, None)):
        monkeypatch.setattr(
            extension.shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free)
        )
        news = extension.full_disk()
        assert said in news if said else news is None


def test_the_environment_is_set_unless_the_user_has_set_it():
    names = tuple(extension.ENVIRONMENT)
    code = f"import os; result = [os.environ[name] for name in {names}]"
    assert in_ipython(code, **dict.fromkeys(names, ""))["result"] == [""] * len(names)
    assert in_ipython(code)["result"] == list(extension.ENVIRONMENT.values())


@pytest.mark.rehearsal
def test_stock_nbgrader_grades_on_the_virtual_gpu_beside_a_real_one():
    code = "import os; result = os.environ['CUDA_VISIBLE_DEVICES']"
    for execution, seen in (("autograde", ""), ("validate", "0")):
        ran = in_ipython(code, CUDA_VISIBLE_DEVICES="0", NBGRADER_EXECUTION=execution)
        assert ran["result"] == seen


def test_the_virtual_gpu_answers_once_numba_cuda_is_imported():
    ran = in_ipython(
        "import virtualgpu\n"
        "before = virtualgpu.is_active()\n"
        "import numba.cuda\n"
        "from importlib.util import find_spec\n"
        "spec = numba.cuda.__spec__\n"
        "result = [before, virtualgpu.is_active(), numba.cuda.is_available(),\n"
        "          type(spec.loader).__name__, 'numba_cuda' in spec.origin]"
    )
    assert ran["result"] == [False, True, True, "SourceFileLoader", True]


@pytest.mark.rehearsal
def test_it_is_in_time_where_numba_cuda_came_first():
    ran = in_ipython(
        "import numba.cuda, virtualgpu\n"
        "virtualgpu.deactivate()\n"
        "before = virtualgpu.is_active()\n"
        "from gpucourse.notebook.extension import prepare_virtual\n"
        "prepare_virtual()\n"
        "result = [before, virtualgpu.is_active()]"
    )
    assert ran["result"] == [False, True]


def test_loading_twice_registers_once():
    ran = in_ipython(
        "import contextlib, io, sys\n"
        "from gpucourse.notebook import extension\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    extension.load_ipython_extension(shell)\n"
        "from virtualgpu import sources\n"
        "result = [len(sources._namers),\n"
        "          sum(type(f).__name__ == '_AfterImport' for f in sys.meta_path)]"
    )
    assert ran["result"] == [1, 1]


@pytest.mark.slow
def test_a_notebook_runs_a_kernel_and_an_error_names_the_cell_and_the_line():
    outputs = run_cells(
        "import numpy as np\nfrom numba import cuda",
        "@cuda.jit\ndef shift(values):\n    i = cuda.grid(1)\n    values[i] = values[i + 1]",
        "values = cuda.to_device(np.arange(32.0))\nshift[1, 31](values)\n"
        "print(values.copy_to_host()[:3])",
        "shift[1, 64](values)",
    )
    assert outputs[0][0].text.startswith(str(device.device().name))
    assert outputs[3][0].text == "[1. 2. 3.]\n"
    (error,) = outputs[4]
    assert "cell In[3] line 4" in error.evalue
    assert "values[i] = values[i + 1]" in error.evalue
    shown = "\n".join(error.traceback)
    assert "dispatcher.py" not in shown
    assert "ipykernel" not in shown
    assert len(shown.splitlines()) < 20


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (H200, "NVIDIA H200, compute capability 9.0, driver 570.86.15, CUDA 12.8"),
        (
            NONE,
            "Virtual GPU (CPU), compute capability 9.0: no NVIDIA driver here; kernels go through "
            "the real compilers and run on the CPU",
        ),
    ],
)
def test_the_line_names_the_device(found: DeviceInfo, line: str):
    assert extension.message(found) == line


def test_macos_is_told_plainly(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "macOS has no CUDA compilers" in extension.message(NONE)


class FakeDriver:
    """Answers like ``cuda.bindings.driver`` on a machine with one GPU, or with an error."""

    CUresult = SimpleNamespace(CUDA_SUCCESS=SimpleNamespace(name="CUDA_SUCCESS"))

    def __init__(self, init: str = "CUDA_SUCCESS", count: int = 1):
        self.CUdevice_attribute = CUdevice_attribute  # an enum in a way of its own
        self.ok = self.CUresult.CUDA_SUCCESS
        self.init = self.ok if init == "CUDA_SUCCESS" else SimpleNamespace(name=init)
        self.count = count

    def cuInit(self, flags):
        return (self.init,)

    def cuDeviceGetCount(self):
        return self.ok, self.count

    def cuDeviceGet(self, ordinal):
        return self.ok, ordinal

    def cuDeviceGetAttribute(self, attribute, handle):
        return self.ok, {75: 8, 76: 6}[int(attribute)]

    def cuDriverGetVersion(self):
        return self.ok, 13010

    def cuDeviceGetName(self, length, handle):
        return self.ok, b"NVIDIA RTX A2000".ljust(length, b"\0")

    def cuDeviceTotalMem(self, handle):
        return self.ok, 6 * 2**30


def with_driver(driver: object, monkeypatch: pytest.MonkeyPatch) -> DeviceInfo:
    import cuda.bindings

    monkeypatch.setattr(cuda.bindings, "driver", driver, raising=False)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", driver)
    monkeypatch.delitem(sys.modules, "virtualgpu.driver.install", raising=False)
    return device.find_gpu.__wrapped__()


def test_a_gpu_is_described(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    banner = tmp_path / "version"
    banner.write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n"
        "GCC version:  gcc version 12.3.0\n"
    )
    monkeypatch.setattr(device, "_KERNEL_MODULE", banner)
    found = with_driver(FakeDriver(), monkeypatch)
    assert found == DeviceInfo(
        "NVIDIA RTX A2000", False, (8, 6), 6 * 2**30, "570.86.15", "13.1", None
    )
    monkeypatch.setattr(device, "_KERNEL_MODULE", tmp_path / "absent")
    assert with_driver(FakeDriver(), monkeypatch).driver is None


@pytest.mark.parametrize(
    ("driver", "hidden", "reason"),
    [
        (FakeDriver("CUDA_ERROR_NO_DEVICE"), None, "no GPU found"),
        (FakeDriver("CUDA_ERROR_NO_DEVICE"), "", "CUDA_VISIBLE_DEVICES='' hides it"),
        (FakeDriver(count=0), None, "no GPU found"),
        (
            FakeDriver("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
            None,
            "the NVIDIA driver answers CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        ),
    ],
)
def test_why_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch, driver, hidden, reason):
    if hidden is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    with pytest.raises(NoGPU) as caught:
        with_driver(driver, monkeypatch)
    assert str(caught.value) == reason


def test_a_driver_without_a_device_is_let_go_before_cuda_bindings_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("virtualgpu.api.driver_without_device", lambda: 100)
    monkeypatch.delitem(sys.modules, "virtualgpu.driver.install", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("cuda.bindings.driver.cuInit", lambda flags: pytest.fail("was asked"))
    with pytest.raises(NoGPU, match=r"^no GPU found$"):
        device.find_gpu.__wrapped__()


@pytest.mark.rehearsal
def test_the_driver_of_the_virtual_gpu_is_no_gpu():
    code = (
        "import virtualgpu; virtualgpu.activate()\n"
        "from cuda.bindings import driver; answered = int(driver.cuInit(0)[0])\n"
        "from gpucourse.system.device import device; result = answered, device().reason"
    )
    assert in_ipython(code)["result"] == [0, "no NVIDIA driver here"]


def test_pick_takes_the_value_for_the_device(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(device, "device", lambda: NONE)
    assert device.pick(gpu=10**8, virtual=10**6) == 10**6
    monkeypatch.setattr(device, "device", lambda: H200)
    assert device.pick(gpu=10**8, virtual=10**6) == 10**8


@pytest.mark.gpu
def test_a_real_gpu_answers():
    found = device.device()
    assert not found.virtual
    assert found.memory > 0
    assert found.cuda is not None


def test_a_test_cell_whose_expectations_hold_gets_a_tick():
    _, imports, passing, plain, failing = run_cells(
        "from gpucourse import expect, expect_equal\n%reload_ext gpucourse",
        "expect(1 + 1 == 2, 'adds wrongly')\nexpect_equal([1, 2], [1, 2], 'differs')",
        "1 + 1",
        "expect(True, 'no')\nexpect(1 + 1 == 3, 'adds wrongly')",
    )
    texts = [output.data["text/plain"] for output in passing]
    assert texts == ["✓ passed: your answer meets all 2 conditions of this test"]
    assert all("✓" not in str(output) for output in (*imports, *plain, *failing))
    assert "adds wrongly" in str(failing)


STARTER = "def answer():\n    return 1"


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        ("def answer():\n    return 1 +", "SyntaxError"),
        ("@cuda.jitt\ndef answer():\n    return 2", "NameError"),
    ],
)
def test_a_test_cell_below_an_answer_that_failed_says_that_it_tried_the_older(broken, error):
    runs = [
        ("setup", "from gpucourse import expect\n%reload_ext gpucourse"),
        ("answer", STARTER),
        ("test", "expect(answer() == 1, 'differs')"),
        ("answer", broken),
        ("test", "expect(answer() == 1, 'differs')"),
        ("answer", STARTER),
        ("test", "expect(answer() == 1, 'differs')"),
    ]
    code = (
        "from IPython import get_ipython\nfrom contextlib import redirect_stdout\nimport io\n"
        f"result = []\nfor cell, text in {runs!r}:\n"
        "    with redirect_stdout(io.StringIO()) as out:\n"
        "        get_ipython().run_cell(text, store_history=True, cell_id=cell)\n"
        "    result.append(out.getvalue())"
    )
    _, _, first, _, second, _, third = in_ipython(code)["result"]
    assert "✓ passed" in first
    assert "✓" not in second
    assert f"✗ passed, but not with your last answer: cell In[4] ended with {error}" in second
    assert "✓ passed" in third


@pytest.mark.parametrize(
    "scratch", ["print(", pytest.param("note = 3\nnote / 0", marks=pytest.mark.rehearsal)]
)
def test_a_cell_that_fails_and_defines_nothing_more_takes_no_tick_away(scratch):
    runs = [
        ("setup", "from gpucourse import expect\n%reload_ext gpucourse"),
        ("scratch", "note = 3"),
        ("scratch", scratch),
        ("test", "expect(True, 'no')"),
    ]
    code = (
        "from IPython import get_ipython\nfrom contextlib import redirect_stdout\nimport io\n"
        f"for cell, text in {runs!r}:\n"
        "    with redirect_stdout(io.StringIO()) as out:\n"
        "        get_ipython().run_cell(text, store_history=True, cell_id=cell)\n"
        "result = out.getvalue()"
    )
    assert "✓ passed" in in_ipython(code)["result"]


def test_what_a_long_launch_says_leaves_with_its_cell(monkeypatch: pytest.MonkeyPatch):
    said: list[str] = []
    place = SimpleNamespace(update=lambda shown: said.append(str(shown)))

    def show(shown: object, where: object = None) -> object:
        assert where in (None, place)
        place.update(shown)
        return place

    monkeypatch.setattr("gpucourse.exercises.outcomes.show", show)
    monkeypatch.setattr("gpucourse.learner.records.asked_by_a_learner", lambda: True)
    for seconds in (5, 10):
        extension.still_running(Location("fill"), seconds)
    assert said[-1] == "kernel fill after 10 s: still running; ■ stops it"
    for _ in range(2):
        extension.no_longer_running()
    assert said[2:] == [""]
