"""Start-up of each Python that a notebook's kernel starts: see virtualgpu/scripts.py.

Any Python may meet it, also an old one and one of another environment: so the syntax is plain, what
is imported is there already, and where this is not the kernel's Python nothing happens. A program
that imports nothing for a GPU pays for this file alone.
"""

import os
import sys

#: A program that imports one of these wants a GPU.
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
    """A finder that switches the virtual GPU on at the first import of one of the names."""

    def find_spec(self, name, path=None, target=None):
        if name not in NAMES and name not in DRIVER:
            return None
        sys.meta_path[:] = [one for one in sys.meta_path if one is not self]
        try:
            if name in DRIVER:
                # Activation imports it too: not inside of its own import.
                from virtualgpu.after_import import after_import

                after_import(name, _activate)
            else:
                from virtualgpu.activation import activate_later

                activate_later()
        except Exception:  # the script then meets a machine without a GPU, and says so itself
            pass
        # The list has changed, and who walks through it would leave one out: asked here.
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
    """Run the sitecustomize that would have been found without this one, if there is one."""
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
