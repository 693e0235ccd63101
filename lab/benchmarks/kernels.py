"""Execution of a notebook in a kernel of another environment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import nbclient
import nbformat
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.provisioning import LocalProvisioner

CELL_TIMEOUT = 900


def execute(
    notebook: nbformat.NotebookNode,
    command: list[str],
    environment: dict[str, str],
    folder: Path,
    started: Callable[[int], None] = lambda pid: None,
) -> bool:
    """Run every cell in place; return True if the kernel survived to the end.

    ``command`` starts the kernel and contains ``{connection_file}``; ``started`` is called with
    the kernel's process id.
    """
    manager = AsyncKernelManager()
    manager._kernel_spec = KernelSpec(argv=command, language="python", env=environment)
    client = nbclient.NotebookClient(
        notebook,
        km=manager,
        timeout=CELL_TIMEOUT,
        startup_timeout=CELL_TIMEOUT,
        allow_errors=True,
        resources={"metadata": {"path": str(folder)}},
    )

    def tell(**_: object) -> None:
        assert isinstance(manager.provisioner, LocalProvisioner)
        assert manager.provisioner.pid is not None
        started(manager.provisioner.pid)

    client.on_notebook_start = tell

    async def run() -> None:
        try:
            await client.async_execute(env=environment)
        finally:  # the client does not stop a kernel that it did not start
            await manager.shutdown_kernel(now=True)

    try:
        asyncio.run(run())
    except nbclient.exceptions.DeadKernelError:
        return False
    return True


def unexpected(notebook: nbformat.NotebookNode) -> list[str]:
    """Return the errors of cells that should not raise any."""
    return [
        f"{output.ename}: {(output.evalue.splitlines() or [''])[0]}"
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "error" and "raises-exception" not in cell.metadata.get("tags", [])
    ]
