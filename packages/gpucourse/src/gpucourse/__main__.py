"""Entry point of ``python -m gpucourse``, which is the same as the command ``gpucourse``."""

import sys

if __name__ == "__main__":
    # Installers refuse other versions of Python, but a checkout on Python's path does not.
    if not (3, 11) <= sys.version_info < (3, 14):
        here = ".".join(map(str, sys.version_info[:2]))
        sys.exit(
            f"The course needs Python 3.11, 3.12 or 3.13, and this is Python {here} "
            f"({sys.executable}). Run `make setup`, which uses an installed Python or "
            "downloads one."
        )
    from gpucourse.cli import app

    app()
