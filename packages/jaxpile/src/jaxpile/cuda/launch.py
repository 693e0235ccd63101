"""Launches of the kernels through CuPy's RawKernel, or through a stand-in named cupy."""

from __future__ import annotations

import importlib
from collections import deque
from typing import Any

import numpy as np

from jaxpile.cuda.arrays import taken
from jaxpile.cuda.codegen import BLOCK, Kernel, generate
from jaxpile.cuda.operations import HELPERS
from jaxpile.errors import NoGPU
from jaxpile.program import Branch, Buffer, Program, Repeat, While


def cupy():
    """Import CuPy, or a stand-in that is installed under its name; raise NoGPU."""
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        raise NoGPU(
            "backend='cuda' launches kernels through CuPy, but the module cupy is not "
            "installed. Install it (pip install cupy-cuda12x) on a machine with an NVIDIA "
            "GPU, activate a stand-in, or use the default backend. You can read the kernels "
            "without CuPy: f.lower(…).as_text('cuda')."
        ) from error


class Launcher:
    """A program as kernels; device arguments are read in place, and results stay on the device."""

    def __init__(self, program: Program):
        self.program = program
        self.plan = generate(program)
        self.text = self.plan.text
        self.cupy = cupy()
        self.compiled: dict[Kernel, Any] = {}  # cupy.RawKernel
        self.constants: dict[Buffer, Any] | None = None
        self.queued: deque[tuple[Any, list]] = deque()

    def __call__(self, arrays: list) -> list:
        """Run the kernels and return CuPy arrays."""
        cp = self.cupy
        if self.constants is None:
            self.constants = {
                b: cp.asarray(b.contents.reshape(-1))
                for b in self.program.buffers
                if b.kind == "const"
            }
        memory = dict(self.constants)
        for buffer, array in zip(self.program.inputs, arrays, strict=True):
            memory[buffer] = (
                taken(cp, array, buffer.dtype) if buffer.size else cp.zeros(1, buffer.dtype)
            )
        for buffer in self.program.buffers:
            if buffer not in memory:
                memory[buffer] = cp.empty(max(buffer.size, 1), buffer.dtype)
        self.run(self.plan.steps, memory, {})
        self.keep([memory[buffer] for buffer in self.program.inputs])
        results = []
        for k, b in enumerate(self.program.outputs):
            array = memory[b][: b.size].reshape(b.shape)
            # A result needs its own memory, because arguments and constants belong to others.
            mine = b.kind == "output" and b not in self.program.outputs[:k]
            results.append(array if mine else array.copy())
        return results

    def keep(self, arguments: list) -> None:
        """Keep arguments alive until the launches that read them are done.

        Otherwise another library may reuse the memory for its next array, on a stream that does
        not wait for CuPy's.
        """
        event = self.cupy.cuda.Event(disable_timing=True)
        event.record()
        self.queued.append((event, arguments))
        while self.queued and self.queued[0][0].done:
            self.queued.popleft()

    def run(self, steps: list, memory: dict, variables: dict) -> None:
        for step in steps:
            match step:
                case Kernel():
                    self.launch(step, memory, variables)
                case Repeat():
                    for k in range(step.length):
                        self.run(step.steps, memory, {**variables, step.variable: k})
                case While():
                    self.run(step.test, memory, variables)
                    while self.cupy.asnumpy(memory[step.going])[0]:
                        self.run(step.steps, memory, variables)
                        self.run(step.test, memory, variables)
                case Branch():
                    chosen = int(self.cupy.asnumpy(memory[step.selector])[0])
                    self.run(step.branches[chosen], memory, variables)

    def launch(self, kernel: Kernel, memory: dict, variables: dict) -> None:
        function = self.compiled.get(kernel)
        if function is None:
            function = self.cupy.RawKernel(HELPERS + kernel.text, kernel.name)
            self.compiled[kernel] = function
        block = min(BLOCK, -(-kernel.threads // 32) * 32)
        args = [memory[buffer] for buffer in kernel.buffers]
        args += [np.int64(variables[node]) for node in kernel.variables]
        function((-(-kernel.threads // block),), (block,), tuple(args))
