"""Notebook extension (``%load_ext gpucourse``): magics, short errors, messages, Colab."""
