"""Made-up run of the benchmark, for tests of its readers; no number was measured."""

from __future__ import annotations

import random

WHY = "numbers made up in a test"

#: (group, title, unit, items, bytes, flops): contenders as (id, label, made by, clock, made-up ms).
GROUPS = {
    ("copy", "Copying on the device", "numbers", 1000, 16_000_000, 0): (
        ("memcpy", "cudaMemcpy, on the device", "CuPy", "events", 0.010),
        ("cupy", "CuPy ElementwiseKernel y = x", "CuPy", "events", 0.011),
        ("numba", "Numba kernel, a thread for each number", "course", "events", 0.0105),
    ),
    ("quadratic.float64", "Quadratic formula, float64", "particles", 1000, 32_000_000, 9_000_000): (
        ("numba", "Numba kernel", "course", "events", 0.0215),
        ("cupy-fuse", "CuPy, fused", "CuPy", "events", 0.0225),
        ("cupy-elementwise", "CuPy ElementwiseKernel", "CuPy", "events", 0.0220),
        ("cpp", "CUDA C++ (RawKernel)", "C++", "events", 0.0213),
        ("jax", "JAX, jit", "JAX", "queue", 0.0240),
        ("cupy-arrays", "CuPy, nine kernels", "CuPy", "events", 0.1200),
    ),
    ("reduction", "Sum of float32 numbers", "numbers", 1000, 4_000_000, 1_000_000): (
        ("tree", "Numba, tree in shared memory", "course", "events", 0.0030),
        ("shuffle", "Numba, shuffles", "course", "events", 0.0028),
        ("tuned", "Numba, shuffles and eight loads at once", "tuned", "events", 0.0026),
        ("cpp", "CUDA C++ twin of the tree", "C++", "events", 0.0029),
        ("cupy", "cupy.sum (CUB)", "CuPy", "events", 0.0027),
    ),
    (
        "histogram.peaks",
        "Histogram of 240 bins, values in peaks",
        "values",
        1000,
        8_000_000,
        None,
    ): (
        ("shared", "Numba, one for each block in shared memory", "course", "events", 0.01),
        ("private", "Numba, one for each thread, then a tree", "course", "events", 0.9),
        ("cpp", "CUDA C++ twin of shared", "C++", "events", 0.0099),
        ("cupy", "cupy.histogram (CUB, by edges)", "CuPy", "events", 0.02),
    ),
    (
        "mandelbrot.picture",
        "Picture of the Mandelbrot set, 100 steps",
        "pixels",
        1000,
        4_000,
        300_000_000,
    ): (
        ("numba", "Numba kernel", "course", "events", 0.02),
        ("cpp", "CUDA C++ (RawKernel)", "C++", "events", 0.019),
        ("jax", "JAX, jit with fori_loop", "JAX", "queue", 0.5),
        ("cupy-arrays", "CuPy, a thousand kernels", "CuPy", "events", 2.0),
    ),
    ("peak.float32", "Peak of float32", "threads", 10, None, 100_000_000_000): (
        ("fma", "chains of fma, float", "C++", "events", 2.0),
    ),
    ("peak.float64", "Peak of float64", "threads", 10, None, 100_000_000_000): (
        ("fma", "chains of fma, double", "C++", "events", 4.0),
    ),
    (
        "zmass",
        "Masses of muon pairs from jagged events, to a histogram",
        "events",
        1000,
        30_000,
        None,
    ): (
        ("kernel", "Numba kernel, events on the device already", "course", "events", 0.5),
        ("copies", "Numba kernel, events copied there and counts back", "course", "call", 9.0),
        ("awkward", "Awkward and vector, one core", "CPU", "call", 1000.0),
    ),
}


def document() -> dict:
    """Return the document; ``example`` marks every picture as not measured."""
    dice = random.Random(1)
    rows = []

    def add(group, title, unit, size, items, moved, flops, contender, label, made_by, clock, ms):
        def samples(times):
            return [float(f"{ms * times * dice.uniform(0.97, 1.05):.5g}") for _ in range(9)]

        row = {
            "id": f"{group}/{contender}/{size}",
            "group": group,
            "title": title,
            "size": size,
            "contender": contender,
            "label": label,
            "made_by": made_by,
            "clock": clock,
            "items": items,
            "unit": unit,
            "bytes": moved,
            "flops": flops,
            "right": True,
            "call_ms": samples(1.5 if clock != "call" else 1),
        }
        if clock == "events":
            row["device_ms"] = samples(1)
        if clock != "call":
            row["queue_ms"] = samples(1.1)
        rows.append(row)

    for (group, title, unit, items, moved, flops), contenders in GROUPS.items():
        for contender in contenders:
            add(group, title, unit, items, items, moved, flops, *contender)
    for size in (256, 4096, 65536, 1048576):
        for contender, label, made_by, clock, start, each in (
            ("numba", "Numba kernel", "course", "events", 0.03, 1e-8),
            ("cupy-arrays", "CuPy, nine kernels", "CuPy", "events", 0.12, 6e-8),
            ("numpy", "NumPy, one core", "CPU", "call", 0.004, 9e-6),
        ):
            add(
                "scaling.quadratic",
                "Quadratic formula, float64, by size",
                "particles",
                size,
                size,
                32 * size,
                9 * size,
                contender,
                label,
                made_by,
                clock,
                start + each * size,
            )
    rows.append(
        {
            "id": "reduction/cub/1000",
            "group": "reduction",
            "title": "Sum",
            "size": 1000,
            "contender": "cub",
            "error": "RuntimeError: there is no nvcc here",
        }
    )
    return {
        "about": "made up",
        "example": WHY,
        "date": "2000-01-01T00:00:00+00:00",
        "gpu": {"name": "NVIDIA Example", "driver": "1.2.3", "l2_bytes": 8_000_000},
        "machine": {},
        "versions": {"numpy": "2.0"},
        "minutes": 0.0,
        "left_out": [],
        "rows": rows,
    }
