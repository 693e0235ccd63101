"""Faster imports: jsonschema is loaded without its grammar of IRIs.

Building that grammar takes 1.2 of the 1.3 s that importing nbformat takes, and no schema of
nbformat's asks for the format. The package is optional: jsonschema works without it.
"""

import sys

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # None: not to be had
