"""Patches of ``cuda.core`` that the driver alone cannot provide, applied when it is imported.

- *Machine code.* ``Program.compile("cubin")`` returns PTX, which is the virtual GPU's own code.
  Line information is always generated, and messages quote the lines of the source string.
- *Messages.* ``CUDAError`` contains the virtual GPU's message, with the line, block and thread.
- *Arguments.* ``launch`` checks the number of arguments: with too few, a GPU would read arbitrary
memory.
- *Linking.* The driver links, and the result is PTX. nvJitLink would produce machine code, so
where it is installed it only compiles LTO-IR to PTX before that.
- *The runtime.* ``Device.sync`` calls ``cudaDeviceSynchronize`` of NVIDIA's runtime library.

The patches rely on these parts of cuda.core 1.x: ``cuda.core.Program`` and ``Linker``, which can
be base classes, and ``cuda.core.launch``. ``_utils.cuda_utils`` looks up the message of an error
code with ``get`` in its global ``DRIVER_CU_RESULT_EXPLANATIONS``. ``_linker`` chooses a linker
once, in ``_decide_nvjitlink_or_driver``, and chooses the driver if nvJitLink has no version.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from types import ModuleType
from typing import Any

from virtualgpu.compilers.messages import explain
from virtualgpu.compilers.nvjitlink import link_to_ptx
from virtualgpu.compilers.nvrtc import source_path
from virtualgpu.cuda.driver_api import API
from virtualgpu.driver import entries, kernels

_saved: list[tuple[ModuleType, str, Any]] = []


class ResultExplanations:
    """Explanations of result codes: the virtual GPU's own message if it has one, or cuda.core's."""

    def __init__(self, explanations: Any):
        self._explanations = explanations

    def get(self, key: int, default: Any = None) -> Any:
        return entries.words_of(key) or self._explanations.get(key, default)


def adapt(core: ModuleType) -> None:
    """Patch ``cuda.core``, which has just been imported. A second call changes nothing."""
    if _saved:
        return
    from cuda.bindings import runtime
    from cuda.core import _launcher, _linker, _program
    from cuda.core._utils import cuda_utils

    _replace(
        [cuda_utils],
        "DRIVER_CU_RESULT_EXPLANATIONS",
        ResultExplanations(cuda_utils.DRIVER_CU_RESULT_EXPLANATIONS),
    )
    _replace([core, _program], "Program", _program_class(core, cuda_utils))
    _replace([core, _launcher], "launch", _launch(core))
    _replace([core, _linker], "Linker", _linker_class(core))
    _link_by_the_driver(_linker)
    _replace([runtime], "cudaDeviceSynchronize", _device_synchronize)


def _link_by_the_driver(linker: ModuleType) -> None:
    _replace([linker], "_use_nvjitlink_backend", None)
    _replace([linker], "_nvjitlink_has_version_symbol", lambda *_: False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nvJitLink is too old
        linker._decide_nvjitlink_or_driver()


def restore() -> None:
    """Undo :func:`adapt`."""
    while _saved:
        module, name, value = _saved.pop()
        setattr(module, name, value)


def _replace(modules: list[ModuleType], name: str, value: Any) -> None:
    for module in modules:
        _saved.append((module, name, getattr(module, name)))
        setattr(module, name, value)


def _program_class(core: Any, utils: Any) -> type:
    base: Any = core.Program

    class Program(base):
        def __init__(self, code, code_type, options=None):
            self._text = None
            if str(code_type).lower() == "ptx":
                self._text = code
            elif isinstance(code, str):
                options = utils.check_or_create_options(
                    core.ProgramOptions, options, "Program options"
                )
                options.lineinfo = options.lineinfo is None or options.lineinfo or True
                path = source_path(code, options.name or "kernel.cu")
                code = f'#line 1 "{path}"\n{code}'
            super().__init__(code, code_type, options)

        def compile(self, target_type, name_expressions=(), logs=None, **more):
            target = str(target_type)
            if self._text is not None:
                return core.ObjectCode.from_cubin(self._text.encode())
            try:
                made = super().compile(
                    "ltoir" if target == "ltoir" else "ptx", name_expressions, logs, **more
                )
            except utils.NVRTCError as error:
                log = re.sub(r"/cuda-[0-9a-f]{12}/", "", str(error))
                raise utils.NVRTCError(explain(log)) from None
            if target == "ltoir":
                return made
            text = bytes(made.code).rstrip(b"\0").decode()
            names = {
                key if isinstance(key, str) else key.decode(): value
                if isinstance(value, str)
                else value.decode()
                for key, value in made.symbol_mapping.items()
            }
            kernels.expressions[text] = names
            if target == "ptx":
                return made
            return core.ObjectCode.from_cubin(
                bytes(made.code), name=made.name, symbol_mapping=made.symbol_mapping
            )

    Program.__doc__ = core.Program.__doc__
    Program.__module__ = core.Program.__module__
    return Program


def _linker_class(core: Any) -> type:
    base: Any = core.Linker

    class Linker(base):
        def __init__(self, *object_codes, options=None):
            options = options or core.LinkerOptions()
            parts = [one for one in object_codes if one.code_type == "ltoir"]
            others = [one for one in object_codes if one.code_type != "ltoir"]
            self._linked = None
            if parts:
                self._linked = core.ObjectCode.from_ptx(
                    link_to_ptx([bytes(one.code) for one in parts], _of_the_link(options)).encode(),
                    name=options.name,
                )
                others.append(self._linked)
                options = replace(options, link_time_optimization=None, ptx=None)
            super().__init__(*others, options=options)

        def link(self, target_type):
            if str(target_type) == "ptx" and self._linked is not None:
                return self._linked
            return super().link(target_type)

    Linker.__doc__ = core.Linker.__doc__
    Linker.__module__ = core.Linker.__module__
    return Linker


def _of_the_link(options: Any) -> list[str]:
    """Return the nvJitLink options that change the PTX, without those for ptxas."""
    values = {
        "-ftz": options.ftz,
        "-prec-div": options.prec_div,
        "-prec-sqrt": options.prec_sqrt,
        "-fma": options.fma,
    }
    return [
        f"-arch={options.arch or 'sm_90'}",
        *(f"{word}={str(value).lower()}" for word, value in values.items() if value is not None),
    ]


def _device_synchronize():
    """Implement ``Device.sync`` with a driver call.

    NVIDIA's runtime library would request undocumented tables from the driver.
    """
    from cuda.bindings import runtime

    API.cuCtxSynchronize()
    return (runtime.cudaError_t.cudaSuccess,)


def _launch(core: ModuleType):
    launch_of_core = core.launch

    def launch(stream, config, kernel, *arguments):
        wanted = kernel.num_arguments
        if len(arguments) != wanted:
            raise TypeError(
                f"the kernel takes {wanted} argument{'s' * (wanted != 1)} and was given "
                f"{len(arguments)}. A GPU would read arbitrary memory for a missing argument and "
                "ignore an extra one"
            )
        launch_of_core(stream, config, kernel, *arguments)

    launch.__doc__ = launch_of_core.__doc__
    return launch
