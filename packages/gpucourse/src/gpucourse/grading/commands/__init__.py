"""Commands ``gpucourse grade``, ``regrade`` and ``demo``."""
