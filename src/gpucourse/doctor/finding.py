"""What the doctor's parts hand back."""

from __future__ import annotations

from dataclasses import dataclass

OK, WARN, FAIL = "ok", "warn", "fail"

#: Installs what the course needs anew, whatever is broken in the environment.
REINSTALL = "make setup   (without make: pip install --require-hashes -r requirements/base.txt)"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: ``status`` ok, warn or fail; ``mend`` says what to do, if anything."""

    group: str
    name: str
    status: str
    found: str
    mend: str | None = None
