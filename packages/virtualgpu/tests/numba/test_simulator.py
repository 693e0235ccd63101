"""``NUMBA_ENABLE_CUDASIM=1``, which tutorials for machines without a GPU leave behind."""

from __future__ import annotations

import pytest

from fresh_python import in_fresh_python

KERNEL = """
import os, warnings
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import virtualgpu
    from virtualgpu import activation
    {begin}
    from numba import cuda

    for _ in range(2):  # a compilation reads the environment anew
        @cuda.jit
        def one_more(values):
            values[cuda.grid(1)] += 1

        values = cuda.to_device([1.0, 2.0])
        one_more[1, 2](values)
result = [virtualgpu.is_active(), type(one_more).__name__, values.copy_to_host().tolist(),
          [str(one.message).split()[0] for one in told if "simulator" in str(one.message)]]
"""
VARIABLE = "NUMBA_ENABLE_CUDASIM"
SET = f"os.environ['{VARIABLE}'] = '1'"
ON_THE_VIRTUAL_GPU = [True, "CUDADispatcher", [2.0, 3.0]]


LATER = "activation.activate_later()"  # as in a notebook
# Each is a new Python: 1 s.
later = pytest.mark.rehearsal


@pytest.mark.parametrize(
    ("begin", "variable", "times"),
    [
        (LATER, "1", 1),
        ("import numba; virtualgpu.activate()", "0", 0),
        pytest.param("virtualgpu.activate()", "1", 1, marks=later),
        pytest.param("virtualgpu.activate()", "0", 0, marks=later),
        pytest.param("import numba; virtualgpu.activate()", "1", 1, marks=later),
        pytest.param(LATER, "0", 0, marks=later),
    ],
)
def test_the_virtual_gpu_takes_the_simulators_place(monkeypatch, begin, variable, times):
    monkeypatch.setenv(VARIABLE, variable)
    assert in_fresh_python(KERNEL.format(begin=begin)) == [*ON_THE_VIRTUAL_GPU, [VARIABLE] * times]


@pytest.mark.parametrize(
    ("begin", "times"),
    [
        (f"{LATER}; import numba; {SET}", 1),
        pytest.param(f"{LATER}; {SET}", 1, marks=later),
        pytest.param(f"{LATER}; import numba; numba.config.ENABLE_CUDASIM = 1", 1, marks=later),
        # Too late for the simulator, and for a warning.
        pytest.param(f"virtualgpu.activate(); {SET}", 0, marks=later),
    ],
)
def test_asking_for_it_after_activation_gives_no_kernel_of_the_simulator(monkeypatch, begin, times):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert in_fresh_python(KERNEL.format(begin=begin)) == [*ON_THE_VIRTUAL_GPU, [VARIABLE] * times]


@pytest.mark.parametrize(
    ("begin", "file", "told"),
    [
        ("virtualgpu.activate()", "enable_cudasim: 1\n", [".numba_config.yaml"]),
        pytest.param(LATER, "enable_cudasim: 1\n", [".numba_config.yaml"], marks=later),
        pytest.param(LATER, "debug_print_after: none\n", [], marks=later),
    ],
)
def test_numbas_file_may_ask_for_it_too(monkeypatch, tmp_path, begin, file, told):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".numba_config.yaml").write_text(file)
    assert in_fresh_python(KERNEL.format(begin=begin)) == [*ON_THE_VIRTUAL_GPU, told]


def test_a_simulator_that_was_imported_is_named_with_what_to_do(monkeypatch):
    monkeypatch.setenv(VARIABLE, "1")
    told = in_fresh_python("""
import numba.cuda, virtualgpu
try:
    virtualgpu.activate()
except RuntimeError as error:
    result = str(error)
""")
    assert f"unset {VARIABLE}" in told and "start Python again" in told
