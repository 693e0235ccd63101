"""Trials of the course in other environments: Binder, Colab, a hub, a room; one command each."""
