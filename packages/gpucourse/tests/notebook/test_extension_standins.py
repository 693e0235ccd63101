"""``%load_ext gpucourse`` and the stand-ins: which package ``import cupy`` finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from fresh_python import in_fresh_python


def test_the_extension_touches_nothing_where_there_is_a_gpu():
    """Simulated: device() tells of a GPU. The hooks that stay are listed, and nothing else."""
    result = in_fresh_python(
        "import contextlib, io, os\n"
        "from importlib.util import find_spec\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "from gpucourse.system import device\n"
        "from gpucourse.notebook import extension\n"
        "from gpucourse.adapters import without_pycuda\n"
        "from virtualgpu import activation, after_import\n"
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
        "          sorted(set(os.environ) - set(variables) - set(extension.ENVIRONMENT))]"
    )
    assert result == [
        ["_AfterImport", "_PyCUDAFinder"],
        ["awkward._connect.numba.arrayview"],
        False,
        [],
        [False, False],
        [],
    ]


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
        installed_cupy,
    )
    assert result == [
        True,
        False,
        False,
        True,
        False,
        "cupy, imported before this cell, cannot work without a GPU and is replaced by a stand-in. "
        "Run cells with `from cupy import ...` again",
    ]


@pytest.mark.rehearsal
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
        installed_cupy,
    )
    assert result == [[True, False, False], False, True, True, ["cupy"], True, [], False]


@pytest.mark.parametrize(
    "order", ["cupy numba.cuda", pytest.param("numba.cuda cupy", marks=pytest.mark.rehearsal)]
)
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
        "result = values.get().tolist()"
    )
    assert result == [0, 2, 4, 6, 8]
