from virtualgpu.activation import activate as activate
from virtualgpu.activation import answers as answers
from virtualgpu.activation import deactivate as deactivate
from virtualgpu.activation import is_active as is_active
from virtualgpu.compilers.nvrtc import CompilationError as CompilationError
from virtualgpu.cuda.module import Module as Module
from virtualgpu.devices import VirtualDevice as VirtualDevice
from virtualgpu.devices.huge_array import HugeArray as HugeArray
from virtualgpu.devices.huge_array import huge as huge
from virtualgpu.errors import BarrierError as BarrierError
from virtualgpu.errors import BudgetExceeded as BudgetExceeded
from virtualgpu.errors import BytecodeError as BytecodeError
from virtualgpu.errors import DeadlockError as DeadlockError
from virtualgpu.errors import EndlessError as EndlessError
from virtualgpu.errors import LaunchError as LaunchError
from virtualgpu.errors import LinkError as LinkError
from virtualgpu.errors import MemoryAccessError as MemoryAccessError
from virtualgpu.errors import MisalignedAddressError as MisalignedAddressError
from virtualgpu.errors import OutOfMemory as OutOfMemory
from virtualgpu.errors import PTXSyntaxError as PTXSyntaxError
from virtualgpu.errors import TrapError as TrapError
from virtualgpu.errors import UnsupportedInstruction as UnsupportedInstruction
from virtualgpu.errors import VirtualGPUError as VirtualGPUError
from virtualgpu.observed import check as check
from virtualgpu.observed import profile as profile
from virtualgpu.observed import sample as sample
from virtualgpu.observed import schedule as schedule
from virtualgpu.standins.recorder import launches as launches

__all__: list[str]
__version__: str
