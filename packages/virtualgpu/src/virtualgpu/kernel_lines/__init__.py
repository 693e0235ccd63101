"""Lines of kernels in the data of coverage.py.

coverage.py follows Python, which never runs a kernel's lines. Where it measures this process
(``pytest --cov``, ``coverage run``), each launch adds the lines and branches that its threads
reached (:mod:`.delivery`), as far as the compiled code tells them (:mod:`.evidence`) or they follow
from what it tells (:mod:`.inference`). coverage.py is no dependency: it is used if it is running.
"""
