import virtualgpu.after_import as _after_import
import virtualgpu.awkward.kernels as _awkward
import virtualgpu.compilers.cache as _cache
import virtualgpu.devices as _devices
import virtualgpu.numba.hooks as _numba_hooks
import virtualgpu.operations.table as _operations
import virtualgpu.standins.finder as _finder
import virtualgpu.successor.choice as _choice
from virtualgpu.activation import activate_later as activate_later
from virtualgpu.activation import deactivate as deactivate
from virtualgpu.after_import import after_import as after_import
from virtualgpu.awkward.kernels import is_awkward as is_awkward
from virtualgpu.awkward.kernels import mend_iteration as mend_iteration
from virtualgpu.cli import first_kernel as first_kernel
from virtualgpu.compilers.headers import HOST_HEADERS as HOST_HEADERS
from virtualgpu.compilers.nvrtc import CompilationError as CompilationError
from virtualgpu.compilers.nvrtc import compile_cuda as compile_cuda
from virtualgpu.compilers.nvrtc import compile_to_ptx as compile_to_ptx
from virtualgpu.compilers.nvrtc import source_path as source_path
from virtualgpu.devices import Triple as Triple
from virtualgpu.devices import VirtualDevice as VirtualDevice
from virtualgpu.devices.comparison import TOLERANCE as TOLERANCE
from virtualgpu.devices.comparison import compare as compare
from virtualgpu.devices.mirrored import MirroredDevice as MirroredDevice
from virtualgpu.devices.real.machine_array import MachineArray as MachineArray
from virtualgpu.devices.real.machine_array import host_copy as host_copy
from virtualgpu.devices.real.presence import driver_without_device as driver_without_device
from virtualgpu.devices.real.process import GPU as GPU
from virtualgpu.devices.real.process import GPUFault as GPUFault
from virtualgpu.devices.real.process import GPUProcess as GPUProcess
from virtualgpu.devices.recorded import RecordedLaunch as RecordedLaunch
from virtualgpu.devices.recorded import capture as capture
from virtualgpu.devices.recorded import finish as finish
from virtualgpu.installing import REPOSITORY as REPOSITORY
from virtualgpu.installing import pip_install as pip_install
from virtualgpu.lanes.events import Access as Access
from virtualgpu.lanes.events import Observer as Observer
from virtualgpu.lanes.schedule import Lockstep as Lockstep
from virtualgpu.lanes.wave import WARP as WARP
from virtualgpu.launch.limits import Budget as Budget
from virtualgpu.launch.linker import LoadedModule as LoadedModule
from virtualgpu.memory.global_memory import POISON as POISON
from virtualgpu.memory.global_memory import GlobalMemory as GlobalMemory
from virtualgpu.memory.plain_dtypes import is_plain as is_plain
from virtualgpu.numba.beside_gpu import without_reroute as without_reroute
from virtualgpu.numba.kernel_ptx import compile_kernel as compile_kernel
from virtualgpu.numba.kernel_ptx import is_kernel as is_kernel
from virtualgpu.observed import reroute as reroute
from virtualgpu.operations.compiler import LazyUfunc as LazyUfunc
from virtualgpu.tile.counts import TileProfile as TileProfile
from virtualgpu.tracebacks import compiled_lines as compiled_lines
from virtualgpu.watch.counters import LARGEST as LARGEST
from virtualgpu.watch.counters import Counters as Counters
from virtualgpu.watch.instruments import hurried as hurried
from virtualgpu.watch.instruments import new_schedule as new_schedule
from virtualgpu.watch.instruments import tell_of_long_launches as tell_of_long_launches
from virtualgpu.watch.instruments import trace as trace
from virtualgpu.watch.instruments import watch as watch
from virtualgpu.watch.nsight import METRICS as METRICS
from virtualgpu.watch.orderless import Orderless as Orderless
from virtualgpu.watch.profiling import LaunchProfile as LaunchProfile
from virtualgpu.watch.profiling import Profile as Profile
from virtualgpu.watch.trace import LaunchTrace as LaunchTrace
from virtualgpu.watch.trace import ThreadStep as ThreadStep

# Names that would say too little alone
AWKWARD_PARAMETERS = _awkward.PARAMETERS
NUMBA_VARIABLE = _choice.VARIABLE
awkward_parameters = _awkward.parameters
awkward_to_device = _awkward.to_device
current_device = _devices.current
is_replaced = _finder.replaced
keep_no_code_on_disk = _cache.switch_off
no_longer_after_import = _after_import.forget
numba_hooks = _numba_hooks
numba_package = _choice.said
operation = _operations.lookup
set_current_device = _devices.set_current
