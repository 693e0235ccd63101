"""Launching the kernels through CuPy's RawKernel, from the module named cupy that is there."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from jaxpile.cuda.codegen import BLOCK, Kernel, generate
from jaxpile.cuda.operations import HELPERS
from jaxpile.errors import NoGPU
from jaxpile.program import Branch, Buffer, Program, Repeat, While


def cupy():
    """CuPy, or a stand-in that is installed under its name. Raises NoGPU."""
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        raise NoGPU(
            "backend='cuda' launches through CuPy, and there is no module cupy here. Install it "
            "(pip install cupy-cuda12x) on a machine with an NVIDIA GPU, activate a stand-in, or "
            "use the default backend. The kernels can be read without: f.lower(…)"
            ".as_text('cuda').") from error


class Launcher:
    """A program as kernels; call it with NumPy arrays, which are copied to the device and back."""

    def __init__(self, program: Program):
        self.program = program
        self.plan = generate(program)
        self.text = self.plan.text
        self.cupy = cupy()
        self.compiled: dict[Kernel, Any] = {}  # cupy.RawKernel
        self.constants: dict[Buffer, object] | None = None

    def __call__(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        cp = self.cupy
        if self.constants is None:
            self.constants = {b: cp.asarray(b.contents.reshape(-1)) for b in self.program.buffers
                              if b.kind == "const"}
        memory = dict(self.constants)
        for buffer, array in zip(self.program.inputs, arrays, strict=True):
            memory[buffer] = cp.asarray(np.array(array).reshape(-1) if array.size
                                        else np.zeros(1, array.dtype))
        for buffer in self.program.buffers:
            if buffer not in memory:
                memory[buffer] = cp.empty(max(buffer.size, 1), buffer.dtype)
        self.run(self.plan.steps, memory, {})
        return [cp.asnumpy(memory[b])[:b.size].reshape(b.shape) for b in self.program.outputs]

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
