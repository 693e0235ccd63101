"""Kernel as the CUDA driver presents it: settable attributes, and arguments as bytes.

CuPy's ``RawKernel`` and PyCUDA's ``Function`` are built on it. The driver does not check
arguments, but inside ``virtualgpu.check()`` they are checked all the same.
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
        The kernel's name in the PTX, or a name expression; an unknown one raises LaunchError.
    """

    def __init__(self, module: Module, entry: str):
        self.module, self.entry = module, entry
        self.ptx = module.function(entry)
        self.sizes = [variable.size for variable in self.ptx.parameters]
        self.uses = module.resources(entry)
        # More than 48 KiB must be requested (documentation of cuFuncSetAttribute).
        self.dynamic_limit = SHARED_PER_BLOCK - self.uses.shared
        self.carveout = -1
        self.large_clusters = False  # True allows more blocks than PORTABLE_CLUSTER

    @property
    def attributes(self) -> dict[str, int]:
        """Values of ``cuFuncGetAttribute``, keyed by the names of ``CU_FUNC_ATTRIBUTE_...``."""
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
        """Allow launches to request up to ``nbytes`` of dynamic shared memory.

        Raises LaunchError if a block cannot have that much.
        """
        most = MAX_SHARED - self.uses.shared
        if not 0 <= nbytes <= most:
            raise LaunchError(
                f"{many(nbytes, 'byte')} of dynamic shared memory for {self.entry}: a block can "
                f"have at most {most:,} in addition to the {self.uses.shared:,} that the kernel "
                "declares"
            )
        self.dynamic_limit = int(nbytes)

    def look(self, arguments: Sequence[Argument]) -> None:
        """Report arguments that do not match the kernel's parameters, inside a ``check()``.

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
            Too few arguments, because a GPU would read the memory after them; also for the reasons
            of :meth:`run`.
        VirtualGPUError
            Any error in the kernel.
        """
        self.look(arguments)
        if len(arguments) < len(self.sizes):
            raise LaunchError(
                f"kernel {self.entry} takes {many(len(self.sizes), 'argument')} and was given "
                f"{len(arguments)}. A GPU would read arbitrary memory for the missing ones"
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
        """Run the kernel with parameters given as bytes.

        Raises LaunchError if the dynamic shared memory or the cluster is larger than was allowed,
        or if no device accepts the grid. Errors in the kernel are raised too.
        """
        size = math.prod(cluster or self.ptx.required_cluster or (1,))
        if PORTABLE_CLUSTER < size <= LARGEST_CLUSTER and not self.large_clusters:
            raise LaunchError(
                f"clusters of {size} blocks for {self.entry}: every GPU with clusters supports "
                f"only {PORTABLE_CLUSTER}. Request more before the launch "
                "(non_portable_cluster_size_allowed)"
            )
        if shared_bytes > self.dynamic_limit:
            raise LaunchError(
                f"{many(shared_bytes, 'byte')} of dynamic shared memory for {self.entry}, whose "
                f"limit is {self.dynamic_limit:,}. Request more before the launch "
                "(max_dynamic_shared_size_bytes)"
            )
        self.module.launch_bytes(
            self.entry, three(grid), three(block), parameters, shared_bytes, cooperative, cluster
        )
