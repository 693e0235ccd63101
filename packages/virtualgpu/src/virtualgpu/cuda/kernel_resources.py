"""What a kernel uses, read from its PTX."""

from __future__ import annotations

from typing import NamedTuple

from virtualgpu.errors import VirtualGPUError
from virtualgpu.ptx import Function, Module, parse


class Resources(NamedTuple):
    """As ``cuFuncGetAttribute`` reports them; bytes.

    ``registers`` is the number of PTX registers that the kernel names, at most 255: registers are
    given out by the assembler of a real GPU, and PTX has as many as it likes.
    """

    registers: int
    constant: int
    local: int
    shared: int
    maximum_threads: int
    architecture: int  # the compute capability that the code was compiled for, 10 * major + minor


def find_kernel(texts: list[str], name: str) -> tuple[Module, Function]:
    """The translation unit and the function. Raises VirtualGPUError where there is none."""
    for text in texts:
        module = parse(text)
        if name in module.functions and not module.functions[name].is_declaration:
            return module, module.functions[name]
    raise VirtualGPUError(f"no kernel {name} in the linked PTX")


def resources(texts: list[str], name: str) -> Resources:
    """What the kernel ``name`` uses. Raises VirtualGPUError where there is none."""
    module, function = find_kernel(texts, name)

    def used(space, *variables):
        return sum(v.size for v in variables if v.space == space)

    own, common = function.variables.values(), module.variables.values()
    architecture = "".join(filter(str.isdigit, module.target.split(",")[0])) or "0"
    return Resources(
        min(255, len(function.registers)), used("const", *common), used("local", *own),
        used("shared", *own, *common), function.maximum_threads or 1024, int(architecture))
