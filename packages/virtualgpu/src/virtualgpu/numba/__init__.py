"""``numba.cuda`` on the virtual GPU: hooks into numba-cuda, and conversion of its arguments.

No module here may have a name that begins with ``cuda``. numba-cuda's import hook would take it
over, because its full name would contain ``numba.cuda``, and would recurse.
"""
