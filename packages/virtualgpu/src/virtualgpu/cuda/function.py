"""A kernel as the CUDA driver sees it: attributes that can be set, bytes for arguments.

CuPy's ``RawKernel`` and PyCUDA's ``Function`` are such kernels with other clothes. The driver
does not look at arguments; inside ``virtualgpu.check()`` they are looked at all the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from virtualgpu.cuda import kernel_arguments
from virtualgpu.cuda.device_attributes import SHARED_PER_BLOCK
from virtualgpu.cuda.kernel_arguments import Argument
from virtualgpu.cuda.module import Module, three
from virtualgpu.errors import LaunchError
from virtualgpu.launch.limits import MAX_SHARED
from virtualgpu.memory.windows import LARGEST_CLUSTER
from virtualgpu.wording import many

PORTABLE_CLUSTER = 8  # blocks (CUDA C++ Programming Guide, "Thread Block Clusters")


class CudaFunction:
    """A kernel of a loaded module.

    Parameters
    ----------
    module : Module
    entry : str
        Its name in the PTX, or a name expression. Raises LaunchError for unknown ones.
    """

    def __init__(self, module: Module, entry: str):
        self.module, self.entry = module, entry
        self.ptx = module.function(entry)
        self.sizes = [variable.size for variable in self.ptx.parameters]
        self.uses = module.resources(entry)
        # cuFuncSetAttribute's documentation: more than 48 KiB must be asked for.
        self.dynamic_limit = SHARED_PER_BLOCK - self.uses.shared
        self.carveout = -1
        self.large_clusters = False  # more blocks than every GPU with clusters takes

    @property
    def attributes(self) -> dict[str, int]:
        """Values of ``cuFuncGetAttribute``, by the names of ``CU_FUNC_ATTRIBUTE_...``."""
        return {
            "max_threads_per_block": self.uses.maximum_threads,
            "shared_size_bytes": self.uses.shared,
            "const_size_bytes": self.uses.constant,
            "local_size_bytes": self.uses.local,
            "num_regs": self.uses.registers,
            "ptx_version": self.uses.architecture,
            "binary_version": self.uses.architecture,
            "cache_mode_ca": 0,
            "max_dynamic_shared_size_bytes": self.dynamic_limit,
            "preferred_shared_memory_carveout": self.carveout,
            "cluster_size_must_be_set": int(
                self.ptx.explicit_cluster and self.ptx.required_cluster is None
            ),
            "non_portable_cluster_size_allowed": int(self.large_clusters),
            **{
                f"required_cluster_{what}": number
                for what, number in zip(
                    ("width", "height", "depth"),
                    self.ptx.required_cluster or (0, 0, 0),
                    strict=True,
                )
            },
        }

    def allow_dynamic(self, nbytes: int) -> None:
        """Let launches ask for ``nbytes`` of dynamic shared memory.

        Raises LaunchError past what a block can have.
        """
        most = MAX_SHARED - self.uses.shared
        if not 0 <= nbytes <= most:
            raise LaunchError(
                f"{many(nbytes, 'byte')} of dynamic shared memory for {self.entry}: a block can "
                f"have at most {most:,} beside the {self.uses.shared:,} that the kernel declares"
            )
        self.dynamic_limit = int(nbytes)

    def look(self, arguments: Sequence[Argument]) -> None:
        """Report arguments that are not what the kernel declares, inside ``virtualgpu.check()``.

        They are findings of the kind ``arguments``.
        """
        if kernel_arguments.is_checking():
            kernel_arguments.report(
                self.ptx,
                self.entry,
                kernel_arguments.misfits(
                    self.entry, arguments, self.sizes, self.module.signature(self.entry)
                ),
            )

    def launch(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[Argument],
        shared_bytes: int = 0,
        cooperative: bool = False,
    ) -> None:
        """Check the arguments (:meth:`look`) and run the kernel to its end.

        As in the driver, extra arguments are ignored and extra bytes are cut off.

        Raises
        ------
        LaunchError
            Arguments too few: a GPU would read what lies behind them. And as :meth:`run`.
        VirtualGPUError
            What goes wrong in the kernel.
        """
        self.look(arguments)
        if len(arguments) < len(self.sizes):
            raise LaunchError(
                f"kernel {self.entry} takes {many(len(self.sizes), 'argument')} and was given "
                f"{len(arguments)}. A GPU would read arbitrary memory for missing ones"
            )
        self.run(
            grid,
            block,
            [
                kernel_arguments.fit(argument.raw, size)
                for argument, size in zip(arguments, self.sizes, strict=False)
            ],
            shared_bytes,
            cooperative,
        )

    def run(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        parameters: list[bytes],
        shared_bytes: int = 0,
        cooperative: bool = False,
        cluster: tuple[int, int, int] | None = None,
    ) -> None:
        """Run the kernel on parameters that are bytes already.

        Raises LaunchError for more dynamic shared memory, or larger clusters, than were allowed and
        for a grid that no device takes, and what goes wrong in the kernel.
        """
        size = math.prod(cluster or self.ptx.required_cluster or (1,))
        if PORTABLE_CLUSTER < size <= LARGEST_CLUSTER and not self.large_clusters:
            raise LaunchError(
                f"clusters of {size} blocks for {self.entry}: every GPU that has clusters takes "
                f"{PORTABLE_CLUSTER}; more must be asked for before the launch "
                "(non_portable_cluster_size_allowed)"
            )
        if shared_bytes > self.dynamic_limit:
            raise LaunchError(
                f"{many(shared_bytes, 'byte')} of dynamic shared memory for {self.entry}, which "
                f"may have {self.dynamic_limit:,}: more must be asked for before the launch "
                "(max_dynamic_shared_size_bytes)"
            )
        self.module.launch_bytes(
            self.entry, three(grid), three(block), parameters, shared_bytes, cooperative, cluster
        )
