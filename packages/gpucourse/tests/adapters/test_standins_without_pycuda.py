"""PyCUDA for GPU machines without PyCUDA: the stand-ins' on CuPy, tried on CuPy's stand-in.

On a GPU the same package runs on real CuPy; that has not been tried. What kernels, memory and
arrays do is asked of it on the virtual GPU too: a program runs on both alike.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import virtualgpu
from gpucourse.adapters import without_pycuda
from gpucourse.notebook import extension
from gpucourse.system.device import DeviceInfo

SOURCE = """
__global__ void scale(float *values, float factor, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] *= factor;
}
"""


@pytest.fixture(scope="module", autouse=True, params=["on CuPy", "stand-in"])
def on_cupy(request: pytest.FixtureRequest) -> Iterator[None]:
    """PyCUDA takes CuPy's stand-in for CuPy on a GPU; then as it is."""
    virtualgpu.activate()
    import cupy

    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in sys.modules if name.split(".")[0] == "pycuda"]:
            patch.delitem(sys.modules, name)
        if request.param == "on CuPy":
            patch.setattr(cupy, "__version__", cupy.__version__.partition("+")[0])
        yield
        for name in [name for name in sys.modules if name.split(".")[0] == "pycuda"]:
            del sys.modules[name]
    virtualgpu.deactivate()


THE_ADAPTER = pytest.mark.parametrize("on_cupy", ["on CuPy"], indirect=True)  # its own cases


@pytest.fixture
def driver():
    import pycuda.autoinit
    import pycuda.driver

    return pycuda.driver


@pytest.fixture
def scale(driver):
    from pycuda.compiler import SourceModule

    return SourceModule(SOURCE).get_function("scale")


@THE_ADAPTER
def test_importing_says_how_to_install_pycuda(capsys: pytest.CaptureFixture[str]):
    for name in [name for name in sys.modules if name.split(".")[0] == "pycuda"]:
        del sys.modules[name]
    import pycuda

    said = capsys.readouterr().out
    assert "PyCUDA is not installed here" in said
    assert "pip install pycuda" in said
    assert not pycuda.VIRTUAL


def test_arrays_are_copied_as_in_out_and_inout_say(driver, scale):
    values = np.arange(40, dtype=np.float32)
    untouched = values.copy()
    scale(driver.In(untouched), np.float32(3), np.int32(40), block=(32, 1, 1), grid=(2, 1))
    assert (untouched == values).all()
    scale(driver.InOut(values), np.float32(3), np.int32(40), block=(32, 1, 1), grid=(2, 1))
    assert (values == 3 * untouched).all()


def test_allocations_and_copies(driver, scale):
    values = np.arange(33, dtype=np.float32)
    one, other = driver.to_device(values), driver.mem_alloc(values.nbytes)
    scale(one, np.float32(2), np.int32(33), block=(64, 1, 1))
    driver.memcpy_dtod(other, one, values.nbytes)
    driver.Context.synchronize()
    result = np.empty_like(values)
    driver.memcpy_dtoh(result, other)
    assert (result == 2 * values).all()
    assert int(one) != int(other)
    one.free()
    # As PyCUDA does, it hands the kernel a null pointer.
    with pytest.raises(driver.LogicError, match="null pointer"):
        scale(one, np.float32(2), np.int32(33), block=(64, 1, 1))


@pytest.mark.parametrize(("argument", "kind"), [(2.0, "float"), (7, "int"), ([1], "list")])
def test_numbers_without_a_width_are_refused(argument, kind: str, driver, scale):
    with pytest.raises(TypeError, match=rf"invalid type on parameter #1 \(0-based\): {kind}"):
        scale(driver.InOut(np.zeros(1, np.float32)), argument, np.int32(1), block=(1, 1, 1))


def test_a_launch_needs_a_block(driver, scale):
    with pytest.raises(ValueError, match="must specify block size"):
        scale(driver.InOut(np.zeros(1, np.float32)), np.float32(1), np.int32(1))


def test_what_does_not_compile_shows_the_compilers_words(driver):
    from pycuda.compiler import SourceModule

    with pytest.raises(driver.CompileError, match='identifier "valeus" is undefined'):
        SourceModule(SOURCE.replace("values[i] *=", "valeus[i] *="))


def test_errors_name_the_lines_of_the_source(driver):
    from pycuda.compiler import SourceModule

    with pytest.raises(driver.CompileError, match=r"line 2|\(2\): error"):
        SourceModule("#define N 4\n__global__ void f(int *x) { x[0] = M; }")


def test_constant_memory_is_set_from_an_array(driver):
    from pycuda.compiler import SourceModule

    module = SourceModule(
        "__constant__ float weights[4]; __global__ void weigh(float *x) "
        "{ x[threadIdx.x] *= weights[threadIdx.x]; }"
    )
    address, _ = module.get_global("weights")
    weights, x = np.array([1, 2, 3, 4], np.float32), np.full(4, 10, np.float32)
    driver.memcpy_htod(address, weights)
    module.get_function("weigh")(driver.InOut(x), block=(4, 1, 1))
    assert x.tolist() == [10, 20, 30, 40]
    back = np.empty_like(weights)
    driver.memcpy_dtoh(back, address)
    assert (back == weights).all()


def test_arrays_know_operators_and_go_to_kernels(scale):
    from pycuda import gpuarray

    x = gpuarray.to_gpu(np.arange(5, dtype=np.float32))
    scale(x, np.float32(3), np.int32(5), block=(32, 1, 1))
    assert (x.get() == [0, 3, 6, 9, 12]).all()
    assert ((1 - x / 3).get() == [1, 0, -1, -2, -3]).all()
    assert gpuarray.empty_like(x).dtype == np.float32


@pytest.mark.parametrize("n", [0, 1, 127, 128, 129, 1009])
def test_an_elementwise_kernel_runs_for_each_element(n: int, driver):
    from pycuda import gpuarray
    from pycuda.elementwise import ElementwiseKernel

    add = ElementwiseKernel(
        "float a, const float *x, unsigned int b, double *z", "z[i] = a * x[i] + b", "add"
    )
    x = gpuarray.to_gpu(np.arange(n, dtype=np.float32))
    z = gpuarray.zeros(n, np.float64)
    add(2, x, 5, z)
    assert (z.get() == 2.0 * np.arange(n) + 5).all()


def test_an_elementwise_kernel_says_what_is_wrong_with_its_arguments(driver):
    from pycuda import gpuarray
    from pycuda.elementwise import ElementwiseKernel

    double = ElementwiseKernel("float *x", "x[i] *= 2", "twice")
    x = gpuarray.to_gpu(np.arange(6, dtype=np.float32))
    with pytest.raises(TypeError, match="twice takes 1 argument, not 2"):
        double(x, x)
    with pytest.raises(RuntimeError, match="non-contiguous"):
        double(x[::2])
    with pytest.raises(RuntimeError, match="at least one vector"):
        ElementwiseKernel("float a", "a = 1")
    with pytest.raises(driver.CompileError, match='"y" is undefined'):
        ElementwiseKernel("float *x", "x[i] = y", "mistaken")(x)


def test_the_device_is_described(driver):
    assert driver.Device.count() == 1
    assert driver.Device(0).compute_capability() == (9, 0)
    assert driver.Device(0).name()


def ours(finder: object) -> bool:
    return isinstance(finder, without_pycuda._PyCUDAFinder)


@THE_ADAPTER
def test_it_is_offered_last_and_only_beside_a_gpu(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "meta_path", [one for one in sys.meta_path if not ours(one)])
    monkeypatch.setattr(extension, "device", lambda: DeviceInfo("NVIDIA H200", False, (9, 0)))
    prepared = []
    monkeypatch.setattr(extension, "prepare_virtual", lambda shell: prepared.append(shell))
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    extension.load_ipython_extension(shell)
    extension.load_ipython_extension(shell)
    places = [at for at, one in enumerate(sys.meta_path) if ours(one)]
    assert len(places) == 1
    assert places[0] > sys.meta_path.index(PathFinder)
    assert not prepared
    without_pycuda.withdraw()
    assert not any(map(ours, sys.meta_path))


@THE_ADAPTER
def test_an_installed_pycuda_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "pycuda").mkdir()
    (tmp_path / "pycuda" / "__init__.py").touch()
    finders = [
        one for one in sys.meta_path if type(one).__name__ not in ("StandInFinder", "_PyCUDAFinder")
    ]
    monkeypatch.setattr(sys, "meta_path", finders)
    for name in [name for name in sys.modules if name.split(".")[0] == "pycuda"]:
        monkeypatch.delitem(sys.modules, name)
    without_pycuda.offer()
    assert Path(find_spec("pycuda").origin).parts[-3:-1] == ("gpustandins", "pycuda")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_spec("pycuda").origin.startswith(str(tmp_path))
