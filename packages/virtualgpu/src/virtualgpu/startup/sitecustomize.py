"""Start-up file of each Python that a notebook's kernel starts: see virtualgpu/scripts.py.

Any Python may read this file, including an old one or one of another environment. So its syntax is
plain, it imports only modules that Python has already loaded, and it does nothing unless this is
the kernel's Python. A program that imports no GPU package only pays for reading this file.
"""

import os
import sys

#: Packages that need a GPU; importing one of them switches the virtual GPU on.
NAMES = (
    "awkward",
    "cuda.tile",
    "cudf",
    "cupy",
    "cupyx",
    "numba.cuda",
    "numba_cuda_mlir",
    "pycuda",
    "triton",
)
DRIVER = ("cuda.bindings", "cuda.core")


class _Waiting:
    """Finder that switches the virtual GPU on at the first import of one of the names."""

    def find_spec(self, name, path=None, target=None):
        if name not in NAMES and name not in DRIVER:
            return None
        sys.meta_path[:] = [one for one in sys.meta_path if one is not self]
        try:
            if name in DRIVER:
                # Activation imports this module too, which must not happen during its own import.
                from virtualgpu.after_import import after_import

                after_import(name, _activate)
            else:
                from virtualgpu.activation import activate_later

                activate_later()
        except Exception:  # the script then finds no GPU and reports that itself
            pass
        # The list has changed, and a loop over it would skip one finder, so search here.
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                return spec
        return None


def _activate(module):
    try:
        from virtualgpu.activation import activate

        activate()
    except Exception:
        pass


def _others(here):
    """Run the sitecustomize module that Python would have found without this one, if any."""
    sys.path[:] = [one for one in sys.path if os.path.realpath(one or os.curdir) != here]
    this = sys.modules.pop(__name__)
    try:
        __import__(__name__)
    except ImportError as error:
        if getattr(error, "name", None) != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, this)


if os.path.realpath(sys.prefix) == os.environ.get("VIRTUALGPU_SCRIPTS"):
    sys.meta_path.insert(0, _Waiting())
if __name__ == "sitecustomize":
    _others(os.path.dirname(os.path.realpath(__file__)))
