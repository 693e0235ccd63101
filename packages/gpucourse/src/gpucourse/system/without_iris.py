"""Faster import of jsonschema, without its grammar of IRIs.

Building this grammar takes 1.2 of the 1.3 s that importing nbformat takes, and no schema of
nbformat uses the format. The package is optional, so jsonschema works without it.
"""

import sys

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # None: not to be had
