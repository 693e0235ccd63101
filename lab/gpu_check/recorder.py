"""Virtual GPU that records its launches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from virtualgpu.devices import Triple, VirtualDevice
from virtualgpu.devices.recorded import RecordedLaunch, capture, finish
from virtualgpu.errors import VirtualGPUError
from virtualgpu.lanes.schedule import Lockstep
from virtualgpu.launch.linker import LoadedModule
from virtualgpu.watch import instruments

#: Maximum number of launches saved for one kernel; their geometries or sizes differ.
EACH = 3
#: Maximum bytes of memory for one launch, and for all saved launches.
LARGEST = 64 << 20
ALL = 512 << 20


class RecordingDevice(VirtualDevice):
    """Virtual GPU that passes each launch to ``keep``, with the memory before and after.

    A launch in a random order (:func:`virtualgpu.schedule`) is not saved, nor are more than
    :data:`EACH` of one kernel. A launch that ends with an error is saved with ``faulty`` set, and
    without the memory after it.
    """

    def __init__(self, keep: Callable[[RecordedLaunch], None], *, faulty: bool = False, **options):
        super().__init__(**options)
        self._keep = keep
        self._faulty = faulty
        self._seen: set[tuple] = set()
        self._count: Counter[tuple] = Counter()
        self._bytes = 0

    def launch(
        self,
        module: LoadedModule,
        entry: str,
        grid: Triple,
        block: Triple,
        parameters: list[bytes],
        shared_bytes: int = 0,
        cooperative: bool = False,
        cluster: Triple | None = None,
    ) -> None:
        what = (module, entry, grid, block, parameters, shared_bytes, cooperative, cluster)
        kernel, key = self._describe(what)
        if (
            key in self._seen
            or self._count[kernel] >= EACH
            or not isinstance(instruments.new_schedule(), Lockstep)
        ):
            super().launch(*what)
            return
        launch = capture(self, *what)
        try:
            super().launch(*what)
        except VirtualGPUError:
            if self._faulty:
                self._keep(launch)
            raise
        self._seen.add(key)
        if launch.nbytes <= LARGEST and self._bytes + launch.nbytes <= ALL:
            self._count[kernel] += 1
            self._bytes += launch.nbytes
            self._keep(finish(launch, self))

    def _describe(self, what: tuple) -> tuple[tuple, tuple]:
        """Describe the kernel and everything except data that distinguishes its launches."""
        module, entry, grid, block, parameters, shared_bytes, _, cluster = what
        kernel = entry, hash(tuple(module.texts))
        # The parameters include sizes; addresses are not informative.
        sizes = tuple(raw for raw in parameters if len(raw) != 8 or not self._is_address(raw))
        return kernel, (*kernel, tuple(grid), tuple(block), shared_bytes, cluster, sizes)

    def _is_address(self, raw: bytes) -> bool:
        return self.memory.extent(int.from_bytes(raw, "little")) is not None


def into_folder(folder: Path, note: Callable[[], str] = lambda: "") -> Callable:
    """Return a ``keep`` that writes launches as ``0001.npz`` …; ``note()`` adds their origin."""
    folder.mkdir(parents=True, exist_ok=True)
    written = 0

    def keep(launch: RecordedLaunch) -> None:
        nonlocal written
        written += 1
        launch.note = note()
        launch.save(folder / f"{written:04}.npz")

    return keep
