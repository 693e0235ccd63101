"""``python -m gpucourse``: the same as the command ``gpucourse``."""

from gpucourse.cli import app

if __name__ == "__main__":
    app()
