"""Which package ``import cupy`` finds: a stand-in without a GPU, the real one otherwise."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from virtualgpu import activation
from virtualgpu.standins import finder


@pytest.fixture
def installed_cupy(tmp_path: Path) -> Path:
    """A folder with a package that is there, as CuPy's wheel is on a machine without a GPU."""
    package = tmp_path / "cupy"
    package.mkdir()
    (package / "__init__.py").write_text("REAL = True\n")
    (package / "linalg.py").write_text("REAL = True\n")
    return tmp_path


def in_fresh_python(code: str, *folders: Path) -> object:
    """Run ``code`` where there is no GPU; it must set ``result``, of which JSON is returned."""
    program = f"import json, sys\n{code}\nprint(json.dumps(result))\n"
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join(
            [*map(str, folders), os.environ.get("PYTHONPATH", "")])})
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def test_a_stand_in_comes_before_an_installed_package(installed_cupy: Path):
    result = in_fresh_python(
        "from virtualgpu import activation\n"
        "activation.use_standins()\n"
        "import cupy, cupy.linalg, numpy\n"
        "result = [hasattr(cupy, 'REAL'), hasattr(cupy.linalg, 'REAL'), cupy.__name__,\n"
        "          cupy.arange(3).get().tolist(), cupy.ndarray.__module__.split('.')[0]]",
        installed_cupy)
    assert result == [False, False, "cupy", [0, 1, 2], "cupy"]


def test_without_activation_the_installed_package_is_found(installed_cupy: Path):
    code = "import virtualgpu, cupy\nresult = cupy.REAL"
    assert in_fresh_python(code, installed_cupy) is True


def test_what_was_imported_before_is_set_aside_and_comes_back(installed_cupy: Path):
    result = in_fresh_python(
        "import warnings, cupy, cupy.linalg\n"
        "import virtualgpu\n"
        "before = dict(sys.modules)\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    virtualgpu.activate()\n"
        "said = [str(w.message) for w in caught if 'cupy' in str(w.message)]\n"
        "import cupy as again\n"
        "stand_in = not hasattr(again, 'REAL')\n"
        "ours = [name for name in sys.modules if name.split('.')[0] == 'cupy']\n"
        "virtualgpu.deactivate()\n"
        "after = [name for name in sys.modules if name.split('.')[0] == 'cupy']\n"
        "result = [said, stand_in, len(ours) > 2, after,\n"
        "          all(sys.modules[n] is before[n] for n in after)]",
        installed_cupy)
    said, stand_in, many, after, same = result
    assert said == [
        "cupy was imported before the virtual GPU was switched on and needs a GPU, which this "
        "machine does not have: `import cupy` again gives the stand-in; let virtualgpu.activate() "
        "come first"]
    assert stand_in and many
    assert after == ["cupy", "cupy.linalg"] and same


def test_switching_on_again_brings_the_same_modules():
    result = in_fresh_python(
        "from virtualgpu import activation\n"
        "activation.use_standins()\n"
        "import cupy\n"
        "array = cupy.arange(3)\n"
        "activation.deactivate()\n"
        "gone = 'cupy' in sys.modules\n"
        "activation.use_standins()\n"
        "import cupy as again\n"
        "result = [gone, again is cupy, isinstance(array, again.ndarray)]")
    assert result == [False, True, True]


def test_find_spec_and_metadata_tell_the_truth():
    result = in_fresh_python(
        "import importlib.metadata\n"
        "from importlib.util import find_spec\n"
        "from virtualgpu import activation\n"
        "activation.use_standins()\n"
        "origins = [find_spec(n).origin.split('/')[-3:] for n in ('cupy', 'cudf', 'pycuda')]\n"
        "try:\n"
        "    importlib.metadata.version('cupy')\n"
        "except importlib.metadata.PackageNotFoundError:\n"
        "    version = None\n"
        "result = [origins, version, 'cupy' in sys.modules]")
    origins, version, imported = result
    assert origins == [["standins", name, "__init__.py"] for name in ("cupy", "cudf", "pycuda")]
    assert version is None, "a stand-in is no installed distribution"
    assert not imported


def test_a_module_that_the_stand_in_lacks_is_named():
    result = in_fresh_python(
        "from virtualgpu import activation\n"
        "activation.use_standins()\n"
        "try:\n"
        "    import cupy.no_such_module\n"
        "except ModuleNotFoundError as error:\n"
        "    result = [str(error), error.name]")
    assert result == [
        "the stand-in for cupy, which answers because there is no GPU, has no module "
        "cupy.no_such_module; docs/standins.md lists what it has", "cupy.no_such_module"]


@pytest.mark.parametrize("name", finder.NAMES)
def test_a_stand_in_has_no_second_name(name: str):
    spec = importlib.util.find_spec(f"virtualgpu.standins.{name}")
    module = importlib.util.module_from_spec(spec)
    with pytest.raises(ImportError, match=rf"is the stand-in for {name} on machines without a GPU"):
        spec.loader.exec_module(module)


def test_nothing_is_touched_where_there_is_a_gpu(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(activation, "gpu_is_present", lambda: True)
    was, finders, modules = finder.is_installed(), list(sys.meta_path), set(sys.modules)
    assert activation.use_standins() == []
    assert finder.is_installed() is was
    assert sys.meta_path == finders
    assert set(sys.modules) == modules


def test_the_extension_touches_nothing_where_there_is_a_gpu():
    """Simulated: device() tells of a GPU. The hooks that stay are listed, and nothing else."""
    result = in_fresh_python(
        "import contextlib, io, os\n"
        "from importlib.util import find_spec\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "from gpucourse import after_import, device, extension, without_pycuda\n"
        "from virtualgpu import activation\n"
        "device.find_gpu = lambda: device.DeviceInfo('NVIDIA H200', False, (9, 0))\n"
        "activation.gpu_is_present = lambda: True\n"
        "shell = InteractiveShell.instance()\n"
        "before, variables = list(sys.meta_path), dict(os.environ)\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    shell.run_line_magic('load_ext', 'gpucourse')\n"
        "added = [type(f).__name__ for f in sys.meta_path if f not in before]\n"
        "libraries = ('cupy', 'cudf', 'pycuda', 'numba', 'awkward')\n"
        "awaited = after_import._AfterImport.callbacks\n"
        "result = [added, [n for n in awaited if n.split('.')[0] == 'awkward'],\n"
        "          'numba.cuda' in awaited, [n for n in libraries if n in sys.modules],\n"
        "          ['standins' in str(find_spec(name)) for name in ('cupy', 'cudf')],\n"
        "          sorted(set(os.environ) - set(variables) - set(extension.ENVIRONMENT))]")
    assert result == [["_AfterImport", "_PyCUDAFinder"], ["awkward._connect.numba.arrayview"],
                      False, [], [False, False], []]


def test_a_notebook_that_imported_cupy_first_has_the_stand_in(installed_cupy: Path):
    result = in_fresh_python(
        "import contextlib, io\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "shell.run_cell('import cupy as cp, cupy.linalg as la')\n"
        "first = hasattr(shell.user_ns['cp'], 'REAL')\n"
        "said = io.StringIO()\n"
        "with contextlib.redirect_stdout(said):\n"
        "    shell.run_line_magic('load_ext', 'gpucourse')\n"
        "result = [first, *(hasattr(shell.user_ns[n], 'REAL') for n in ('cp', 'la')),\n"
        "          shell.user_ns['cp'] is sys.modules['cupy'], 'numba' in sys.modules,\n"
        "          said.getvalue().splitlines()[1]]",
        installed_cupy)
    assert result == [True, False, False, True, False,
                      "cupy, imported before this, cannot work here and is replaced by a stand-in; "
                      "run cells with `from cupy import ...` again"]


def test_unloading_the_extension_leaves_nothing_behind(installed_cupy: Path):
    result = in_fresh_python(
        "import contextlib, io\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "import cupy, numba.cuda, awkward._connect.cuda, awkward._backends.cupy as backends\n"
        "real, kernels = cupy, backends.CupyBackend.__getitem__\n"
        "finders = list(sys.meta_path)\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    shell.run_line_magic('load_ext', 'gpucourse')\n"
        "import cupy.cuda, virtualgpu\n"
        "between = [virtualgpu.is_active(), sys.modules['cupy'] is real,\n"
        "           backends.CupyBackend.__getitem__ is kernels]\n"
        "shell.run_line_magic('unload_ext', 'gpucourse')\n"
        "names = ('cupy', 'cupyx', 'cudf', 'pycuda')\n"
        "left = [name for name in sys.modules if name.split('.')[0] in names]\n"
        "result = [between, virtualgpu.is_active(), sys.modules['cupy'] is real,\n"
        "          backends.CupyBackend.__getitem__ is kernels, left,\n"
        "          sys.meta_path == finders, sorted(v for v in vars(shell) if 'gpucourse' in v),\n"
        "          'gpu_report' in shell.magics_manager.magics['cell']]",
        installed_cupy)
    assert result == [[True, False, False], False, True, True, ["cupy"], True, [], False]


@pytest.mark.parametrize("order", ["cupy numba.cuda", "numba.cuda cupy"])
def test_after_the_first_cell_the_order_of_imports_does_not_matter(order: str):
    result = in_fresh_python(
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "shell.run_line_magic('load_ext', 'gpucourse')\n"
        + "".join(f"import {name}\n" for name in order.split())
        + "from numba import cuda\n"
        "@cuda.jit\n"
        "def double(values):\n"
        "    i = cuda.grid(1)\n"
        "    if i < values.size:\n"
        "        values[i] *= 2\n"
        "values = cupy.arange(5)\n"
        "double[1, 32](values)\n"
        "result = values.get().tolist()")
    assert result == [0, 2, 4, 6, 8]


def test_libraries_that_know_cupy_are_not_led_astray():
    result = in_fresh_python(
        "from virtualgpu import activation\n"
        "activation.use_standins()\n"
        "import pandas, awkward, vector\n"
        "import numpy as np\n"
        "total = int(pandas.DataFrame({'a': [1, 2]})['a'].sum() + awkward.sum([[1], [2, 3]]))\n"
        "result = [total, [n for n in ('cupy', 'cudf', 'pycuda') if n in sys.modules]]")
    assert result == [9, []]
