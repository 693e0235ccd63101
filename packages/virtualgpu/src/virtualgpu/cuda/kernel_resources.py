"""Registers, memory and thread limit of a kernel, read from its PTX."""

from __future__ import annotations

from typing import NamedTuple

from virtualgpu.cuda.device_attributes import SHARED_PER_BLOCK
from virtualgpu.errors import LaunchError, VirtualGPUError
from virtualgpu.launch.limits import MAX_SHARED
from virtualgpu.program.shared_layout import lay_out
from virtualgpu.ptx import Function, PTXModule, parse


class Resources(NamedTuple):
    """Resources of a kernel as ``cuFuncGetAttribute`` reports them; sizes are in bytes.

    ``registers`` is the number of PTX registers that the kernel uses, at most 255. PTX has an
    unlimited number of registers, and only the assembler for a real GPU assigns physical ones.
    """

    registers: int
    constant: int
    local: int
    shared: int
    maximum_threads: int
    architecture: int  # the compute capability that the code was compiled for, 10 * major + minor


def find_kernel(texts: list[str], name: str) -> tuple[PTXModule, Function]:
    """Return the translation unit and the function of the kernel ``name``.

    Raises VirtualGPUError if there is no such kernel.
    """
    for text in texts:
        module = parse(text)
        if name in module.functions and not module.functions[name].is_declaration:
            return module, module.functions[name]
    raise VirtualGPUError(f"no kernel {name} in the linked PTX")


def resources(texts: list[str], name: str) -> Resources:
    """Return the resources of the kernel ``name``.

    Raises VirtualGPUError if there is no such kernel, and LaunchError if its static shared memory
    exceeds the limit of ``ptxas`` (48 KiB on every device: CUDA C++ Programming Guide, "Shared
    Memory" of each compute capability).
    """
    module, function = find_kernel(texts, name)
    if (fixed := lay_out([function], module.variables).packed) > SHARED_PER_BLOCK:
        raise LaunchError(
            f"the kernel needs {fixed:,} bytes of static shared memory, but a block may use at "
            f'most {SHARED_PER_BLOCK:,} (ptxas: "too much shared data"). Make the shared arrays '
            "smaller, or make one dynamic and request its bytes at the launch, up to "
            f"{MAX_SHARED:,}"
        )

    def used(space, *variables):
        return sum(v.size for v in variables if v.space == space)

    own, common = function.variables.values(), module.variables.values()
    architecture = "".join(filter(str.isdigit, module.target.split(",")[0])) or "0"
    return Resources(
        min(255, len(function.registers)),
        used("const", *common),
        used("local", *own),
        used("shared", *own, *common),
        function.maximum_threads or 1024,
        int(architecture),
    )
