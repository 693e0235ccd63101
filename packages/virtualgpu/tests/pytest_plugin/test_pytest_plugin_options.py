"""What ``pytest --virtual-gpu`` is told by options, configuration and markers."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuda_project import run

PASSES = {"test_kernels.py": "def test_nothing():\n    pass\n"}
USAGE_ERROR = pytest.ExitCode.USAGE_ERROR


def test_nothing_changes_without_the_option(tmp_path: Path):
    ran = run(
        tmp_path,
        files={
            "test_kernels.py": """
def test_numba_is_not_even_imported():
    import sys
    assert "numba" not in sys.modules
"""
        },
        new=True,
    )
    assert ran.outcomes == {"numba_is_not_even_imported": "PASSED"}, ran.text
    assert "virtual GPU:" not in ran.text


SIMULATOR = "NUMBA_ENABLE_CUDASIM"
LAUNCHES = {
    "test_kernels.py": """
from numba import cuda


def test_launched():
    @cuda.jit
    def one_more(x):
        x[cuda.grid(1)] += 1

    one_more[1, 2](cuda.to_device([1.0, 2.0]))
    assert type(one_more).__name__ == "CUDADispatcher"
"""
}


@pytest.mark.rehearsal
def test_numbas_simulator_gives_way_also_where_warnings_are_errors(tmp_path: Path):
    ran = run(
        tmp_path,
        "--virtual-gpu",
        "-W",
        "error",
        files=LAUNCHES,
        new=True,  # pytest warns of a plugin that the fork has imported
        **{SIMULATOR: "1"},
        PYTHONWARNINGS="error",
    )
    assert ran.outcomes == {"launched": "PASSED"}, ran.text
    assert f"virtual GPU: {SIMULATOR} selects Numba's simulator" in ran.text
    assert f"unset {SIMULATOR}" in ran.text


def test_a_plugin_that_imported_the_simulator_first_is_a_usage_error(tmp_path: Path):
    ran = run(
        tmp_path,
        "--virtual-gpu",
        "-p",
        "early",
        files={**LAUNCHES, "early.py": "import numba.cuda\n"},
        new=True,
        **{SIMULATOR: "1"},
        PYTHONPATH=str(tmp_path),
    )
    assert ran.status == USAGE_ERROR
    assert f"ERROR: because of {SIMULATOR}, numba.cuda was imported" in ran.text
    assert "Traceback" not in ran.text


def test_random_orders(tmp_path: Path):
    """Both by an option; the race is found in either."""
    ran = run(
        tmp_path, "--virtual-gpu", "--virtual-gpu-seed=3", "--virtual-gpu-seed=7", "-k", "right"
    )
    assert ran.outcomes == {
        "right[seed3]": "PASSED",
        "right[seed7]": "PASSED",
        "right_by_luck[seed3]": "FAILED",
        "right_by_luck[seed7]": "FAILED",
    }, ran.text
    assert "threads in random order 3, 7" in ran.text


def test_the_configuration_file(tmp_path: Path):
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\npythonpath = .\nfilterwarnings = ignore\nvirtual_gpu_unchecked = true\n"
        "virtual_gpu_time_limit = 0.2\nvirtual_gpu_seeds = 5\n"
    )
    ran = run(tmp_path, "--virtual-gpu", "-k", "by_luck or orders")
    assert ran.outcomes == {
        "right_by_luck": "PASSED",
        "orders[seed1]": "PASSED",
        "orders[seed2]": "PASSED",
    }, ran.text
    assert (
        "kernels run on the CPU, unchecked, threads in random order 5; a launch may use 0.2 s"
        in ran.text
    )


STREAMS = {
    "test_kernels.py": """
import numpy as np
import pytest
from numba import cuda


@cuda.jit("void(float64[:])")
def add(x):
    x[cuda.grid(1)] += 1


@pytest.fixture
def added():
    x = cuda.to_device(np.zeros(64))
    cuda.synchronize()
    add[1, 64, cuda.stream()](x)
    return x


def test_unordered(added):
    add[1, 64, cuda.stream()](added)


@pytest.mark.virtual_gpu_streams
def test_marked(added):
    add[1, 64, cuda.stream()](added)


@pytest.mark.virtual_gpu_unchecked
def test_unchecked(added):
    add[1, 64, cuda.stream()](added)


def test_ordered(added):
    cuda.synchronize()
    add[1, 64, cuda.stream()](added)


kept = cuda.to_device(np.zeros(64))


@pytest.mark.parametrize("turn", [1, 2])
def test_two_tests_are_not_two_streams(turn):
    add[1, 64, cuda.stream()](kept)
"""
}
ORDERED = {
    "ordered": "PASSED",
    "unchecked": "PASSED",
    "two_tests_are_not_two_streams[1]": "PASSED",
    "two_tests_are_not_two_streams[2]": "PASSED",
}


@pytest.mark.rehearsal
def test_streams_by_a_marker(tmp_path: Path):
    ran = run(tmp_path, "--virtual-gpu", files=STREAMS)
    assert ran.outcomes == ORDERED | {"unordered": "PASSED", "marked": "FAILED"}, ran.text


def test_streams_by_an_option(tmp_path: Path):
    """The earlier work may be a fixture's; what another test left is not asked about."""
    ran = run(tmp_path, "--virtual-gpu", "--virtual-gpu-streams", files=STREAMS)
    assert ran.outcomes == ORDERED | {"unordered": "FAILED", "marked": "FAILED"}, ran.text
    assert "every launch checked, streams too;" in ran.text
    assert "FAILED test_kernels.py::test_unordered - stream at test_kernels.py:21 (add)" in ran.text


@pytest.mark.rehearsal
def test_streams_by_the_configuration(tmp_path: Path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nvirtual_gpu_streams = true\n")
    ran = run(tmp_path, "--virtual-gpu", "-k", "ordered", files=STREAMS)
    assert ran.outcomes == {"unordered": "FAILED", "ordered": "PASSED"}, ran.text


def test_a_run_without_launches_fails_where_launches_are_required(tmp_path: Path):
    ran = run(tmp_path, "--virtual-gpu", "--virtual-gpu-require", files=PASSES)
    assert ran.outcomes == {"nothing": "PASSED"}
    assert ran.status == pytest.ExitCode.TESTS_FAILED
    assert ran.text.splitlines()[-1] == (
        "virtual GPU: 0 launches checked, 0 findings: --virtual-gpu-require fails the run"
    )


@pytest.mark.rehearsal
def test_the_launches_of_xdist_s_workers_count(tmp_path: Path):
    ran = run(
        tmp_path,
        "--virtual-gpu",
        "--virtual-gpu-require",
        "-p",
        "xdist.plugin",
        "-n1",
        "-k",
        "by_luck or error_is",
    )
    assert ran.text.splitlines()[-1] == "virtual GPU: 3 launches checked, 2 findings", ran.text
    assert "FAILED test_kernels.py::test_right_by_luck - race at kernels.py:" in ran.text


@pytest.mark.parametrize(
    ("options", "entries", "says"),
    [
        (["--virtual-gpu", "--virtual-gpu-seed=x"], "", "'x' is not a seed, a whole number from 0"),
        (
            ["--virtual-gpu", "--virtual-gpu-time-limit=0"],
            "",
            "'0' is not a positive number of seconds",
        ),
        (["--virtual-gpu-require"], "", "--virtual-gpu-require does nothing without --virtual-gpu"),
        (["--virtual-gpu"], "virtual_gpu_seeds = 1 -2", "virtual_gpu_seeds: '-2' is not a seed"),
        (
            ["--virtual-gpu"],
            "virtual_gpu_time_limit = soon",
            "virtual_gpu_time_limit: 'soon' is not a positive number of seconds",
        ),
        (["--virtual-gpu"], "virtual_gpu_unchecked = perhaps", "perhaps"),
        (["--virtual-gpu"], "virtual_gpu_streams = perhaps", "perhaps"),
        (["--virtual-gpu-streams"], "", "--virtual-gpu-streams does nothing without --virtual-gpu"),
        (["--virtual-gpu-huge"], "", "--virtual-gpu-huge does nothing without --virtual-gpu"),
        (["--virtual-gpu", "--virtual-gpu-huge=2T"], "", "'2T' is not a size, such as 512M or 4G"),
        (["--virtual-gpu"], "virtual_gpu_huge = 0", "virtual_gpu_huge: '0' is not a size"),
    ],
)
def test_a_wrong_value_is_a_usage_error(
    tmp_path: Path, options: list[str], entries: str, says: str
):
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{entries}\n")
    ran = run(tmp_path, *options, files=PASSES)
    assert ran.status == USAGE_ERROR, ran.text
    assert says in ran.text


HUGE = {
    "test_kernels.py": """
import numpy as np
from numba import cuda


@cuda.jit
def number(out):
    i = np.uint32(cuda.grid(1))
    if i < out.size:
        out[i] = 1


@cuda.jit
def count(out):
    cuda.atomic.add(out, 0, 1)


def test_ends_are_numbered():
    out = cuda.device_array(2**35, np.int8)
    number[2**27, 256](out)
    assert out[:3].copy_to_host().tolist() == [1, 1, 1]
    assert out[-3:].copy_to_host().tolist() == [1, 1, 1]


def test_other_launches_run_whole():
    out = cuda.to_device(np.zeros(1, np.int64))
    count[1000, 32](out)
    assert out[0] == 32_000
"""
}


@pytest.mark.parametrize(
    ("options", "entry"), [(["--virtual-gpu-huge"], ""), ([], "virtual_gpu_huge = 512M")]
)
def test_huge_arrays_take_a_sample_of_each_launch(tmp_path: Path, options: list[str], entry: str):
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{entry}\n")
    ran = run(tmp_path, "--virtual-gpu", *options, files=HUGE)
    assert ran.outcomes == {"ends_are_numbered": "FAILED", "other_launches_run_whole": "PASSED"}
    assert "bytes or more use memory only for touched pages" in ran.text
    assert "number ran 10 of its 134,217,728 blocks: the first, the last" in ran.text


def test_a_wrong_value_in_the_environment(tmp_path: Path):
    ran = run(tmp_path, "--virtual-gpu", files=PASSES, VIRTUALGPU_TIME_LIMIT="long")
    assert ran.status == USAGE_ERROR
    assert "VIRTUALGPU_TIME_LIMIT: 'long' is not a positive number of seconds" in ran.text


@pytest.mark.parametrize(
    ("marker", "says"),
    [
        ("virtual_gpu_seeds()", "needs at least one seed"),
        ("virtual_gpu_seeds(1.5)", "1.5 is not a seed"),
        ("virtual_gpu_time_limit(-1)", "-1 is not a positive number of seconds"),
        ("virtual_gpu_time_limit(1, 2)", "takes one argument"),
        ("virtual_gpu_unchecked(True)", "takes no arguments"),
        ('virtual_gpu_accept(entry="kernel: why")', "takes entries"),
        ("virtual_gpu_accept()", "takes entries: file.py:LINE: reason, or kernel: reason"),
        (
            'virtual_gpu_accept("kernel")',
            "'kernel' is not an entry: file.py:LINE: reason, or kernel",
        ),
        ('virtual_gpu_accept("kernel: why", "a.py:3: ")', "is not an entry"),
        ('virtual_gpu_accept(["kernel: why"])', "is not an entry"),
    ],
)
def test_a_wrong_marker_is_a_usage_error(marker: str, says: str):
    from virtualgpu.pytest_plugin import options

    mark = eval(f"mark.{marker}", {"mark": pytest.mark}).mark

    class Test:
        nodeid = "test_a.py::test_b"

        def get_closest_marker(self, name):
            return mark if mark.name == name else None

        def iter_markers(self, name):
            return [mark] if mark.name == name else []

    with pytest.raises(pytest.UsageError, match=rf"test_a\.py::test_b: .*{says}"):
        options.of_test(Test(), options.Settings())


@pytest.mark.rehearsal
def test_a_wrong_marker_stops_the_run(tmp_path: Path):
    ran = run(
        tmp_path,
        "--virtual-gpu",
        files={
            "test_kernels.py": """
import pytest

@pytest.mark.virtual_gpu_time_limit("a while")
def test_nothing():
    pass
"""
        },
    )
    assert ran.status == USAGE_ERROR
    assert "test_kernels.py::test_nothing: @pytest.mark.virtual_gpu_time_limit: 'a while' is" in (
        ran.text
    )


@pytest.mark.rehearsal
def test_a_race_in_a_conftest_stops_the_run(tmp_path: Path):
    from cuda_project import KERNELS

    ran = run(
        tmp_path,
        "--virtual-gpu",
        files={
            **PASSES,
            "kernels.py": KERNELS,
            "conftest.py": """
import numpy as np
from kernels import turned

turned[1, 64](np.ones(64, np.float32), np.ones(64, np.float32))
""",
        },
    )
    assert ran.status == USAGE_ERROR
    assert "in a conftest.py, race at kernels.py:" in ran.text


@pytest.mark.rehearsal
def test_a_race_in_a_module_that_is_imported_fails_its_collection(tmp_path: Path):
    from cuda_project import KERNELS

    ran = run(
        tmp_path,
        "--virtual-gpu",
        files={
            "kernels.py": KERNELS,
            "test_kernels.py": """
import numpy as np
from kernels import turned

turned[1, 64](np.ones(64, np.float32), np.ones(64, np.float32))

def test_nothing():
    pass
""",
        },
    )
    assert ran.status == pytest.ExitCode.INTERRUPTED
    assert "ERROR collecting test_kernels.py" in ran.text
    assert ran.text.splitlines()[-1] == "virtual GPU: 1 launch checked, 1 finding"


def test_a_stand_in_that_is_not_installed_is_named(tmp_path: Path):
    ran = run(
        tmp_path,
        "--virtual-gpu",
        "--virtual-gpu-standins=cupy",
        files={
            "conftest.py": "from virtualgpu.standins import finder\n"
            "finder.entry_points = lambda **names: ()\n",
            "test_kernels.py": "import pytest\n\n\n"
            "def test_import():\n"
            "    with pytest.raises(ModuleNotFoundError, match='not installed: pip install'):\n"
            "        import cupy\n",
        },
    )
    assert ran.outcomes == {"import": "PASSED"}, ran.text
    assert "; stand-ins: cupy, cupyx, of which cupy, cupyx not installed (vir" in ran.text
