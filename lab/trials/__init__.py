"""The course in other places, tried here: Binder, Colab, a hub, a room; each one command."""
