"""``numba.cuda`` on a device of ours: the hooks into numba-cuda, and its arguments.

No module here may begin with ``cuda``: numba-cuda's import hook takes every name that contains
``numba.cuda`` for its own, and recurses.
"""
