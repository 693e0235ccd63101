"""Which package ``import cupy`` finds: a stand-in without a GPU, the real one otherwise."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from fresh_python import in_fresh_python
from virtualgpu import activation
from virtualgpu.standins import finder


def test_a_stand_in_comes_before_an_installed_package(installed_cupy: Path):
    result = in_fresh_python(
        "from virtualgpu import activation\n"
        "activation.use_standins()\n"
        "import cupy, cupy.linalg, numpy\n"
        "result = [hasattr(cupy, 'REAL'), hasattr(cupy.linalg, 'REAL'), cupy.__name__,\n"
        "          cupy.arange(3).get().tolist(), cupy.ndarray.__module__.split('.')[0]]",
        installed_cupy,
    )
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
        installed_cupy,
    )
    said, stand_in, many, after, same = result
    assert said == [
        "cupy was imported before the virtual GPU was switched on, and needs a GPU, which this "
        "machine does not have. Import cupy again to get the stand-in, and call "
        "virtualgpu.activate() first next time"
    ]
    assert stand_in and many
    assert after == ["cupy", "cupy.linalg"] and same


def test_the_warning_about_two_packages_imported_before_is_in_the_plural(installed_cupy: Path):
    (installed_cupy / "cudf.py").touch()
    said = in_fresh_python(
        "import warnings, cudf, cupy\n"
        "import virtualgpu\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    virtualgpu.activate()\n"
        "result = [str(w.message) for w in caught if 'cupy' in str(w.message)]",
        installed_cupy,
    )
    assert said == [
        "cudf and cupy were imported before the virtual GPU was switched on, and need a GPU, which "
        "this machine does not have. Import them again to get the stand-ins, and call "
        "virtualgpu.activate() first next time"
    ]


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
        "result = [gone, again is cupy, isinstance(array, again.ndarray)]"
    )
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
        "result = [origins, version, 'cupy' in sys.modules]"
    )
    origins, version, imported = result
    assert origins == [["gpustandins", name, "__init__.py"] for name in ("cupy", "cudf", "pycuda")]
    assert version is None, "a stand-in is no installed distribution"
    assert not imported


def test_a_module_that_the_stand_in_lacks_is_named():
    result = in_fresh_python(
        "from virtualgpu import activation\n"
        "activation.use_standins()\n"
        "try:\n"
        "    import cupy.no_such_module\n"
        "except ModuleNotFoundError as error:\n"
        "    result = [str(error), error.name]"
    )
    assert result == [
        "the stand-in for cupy, which answers because there is no GPU, has no module "
        "cupy.no_such_module; docs/standins.md lists what it has",
        "cupy.no_such_module",
    ]


@pytest.mark.parametrize("name", finder.NAMES)
def test_a_stand_in_has_no_second_name(name: str):
    spec = importlib.util.find_spec(f"gpustandins.{name}")
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


def test_libraries_that_know_cupy_are_not_led_astray():
    result = in_fresh_python(
        "from virtualgpu import activation\n"
        "activation.use_standins()\n"
        "import pandas, awkward, vector\n"
        "import numpy as np\n"
        "total = int(pandas.DataFrame({'a': [1, 2]})['a'].sum() + awkward.sum([[1], [2, 3]]))\n"
        "result = [total, [n for n in ('cupy', 'cudf', 'pycuda') if n in sys.modules]]"
    )
    assert result == [9, []]
