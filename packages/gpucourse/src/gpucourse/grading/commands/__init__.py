"""What ``gpucourse grade``, ``regrade`` and ``demo`` do."""
