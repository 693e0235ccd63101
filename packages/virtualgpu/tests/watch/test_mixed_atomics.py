"""Atomics of two sizes over the same bytes are a race; over different arrays they are none."""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu

WIDE = "unsigned long long"
MIXED = {
    "two blocks": f"""if (blockIdx.x) atomicAdd((int *)p, 1); else atomicAdd(({WIDE} *)p, 1ULL);""",
    "the upper half": f"""if (threadIdx.x == 3) atomicMax((int *)p + 1, 5);
        if (threadIdx.x == 40) atomicAdd(({WIDE} *)p, 1ULL);""",
    "shared memory": f"""__shared__ {WIDE} s; if (threadIdx.x == 0) s = 0; __syncthreads();
        if (threadIdx.x < 32) atomicAdd((int *)&s, 1); else atomicAdd(&s, 1ULL);
        __syncthreads(); p[threadIdx.x] = s;""",
    "a swap of half a word": """if (blockIdx.x) atomicCAS((unsigned short *)p, 0, 1);
        else atomicAdd((int *)p, 1);""",
}
CLEAN = {
    "two arrays": f"""atomicAdd((int *)q, 1); atomicAdd(({WIDE} *)p, 1ULL);""",
    "two places": f"""atomicAdd((int *)p + 8, 1); atomicAdd(({WIDE} *)p, 1ULL);""",
    "an order": f"""if (blockIdx.x) return; if (threadIdx.x < 9) atomicAdd((int *)p, 1);
        __syncthreads(); atomicAdd(({WIDE} *)p, 1ULL);""",
    "one thread": f"""if (blockIdx.x || threadIdx.x) return;
        atomicAdd((int *)p, 1); atomicAdd(({WIDE} *)p, 1ULL);""",
}


def launch(body: str):
    text = f'extern "C" __global__ void k({WIDE} *p, {WIDE} *q) {{ {body} }}'
    with virtualgpu.check() as report:
        virtualgpu.Module.from_cuda(text).launch(
            "k", 2, 64, [np.zeros(64, np.uint64), np.zeros(64, np.uint64)]
        )
    return report


@pytest.mark.parametrize("native", ["0", "always"])
@pytest.mark.parametrize("name", MIXED)
def test_atomics_of_two_sizes_race(name, native, monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", native)
    body = MIXED[name] if name != "shared memory" else f"if (blockIdx.x) return; {MIXED[name]}"
    (found,) = launch(body).findings
    assert found.kind == "race" and "use one size for these bytes" in found.message


@pytest.mark.parametrize("native", ["0", "always"])
@pytest.mark.parametrize("name", CLEAN)
def test_atomics_that_do_not_overlap_are_clean(name, native, monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", native)
    report = launch(CLEAN[name])
    assert report.ok, str(report)
