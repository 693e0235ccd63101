"""Lines of kernels in the data of coverage.py.

coverage.py traces Python, which never runs the lines of a kernel. If coverage.py measures this
process (``pytest --cov``, ``coverage run``), each launch adds the lines and branches that its
threads reached (:mod:`.delivery`). These lines are read from the compiled code (:mod:`.evidence`)
or inferred from it (:mod:`.inference`). coverage.py is not a dependency.
"""
