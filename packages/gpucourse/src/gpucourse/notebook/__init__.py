"""Notebook extension (``%load_ext gpucourse``): magics, errors that teach, notes, Colab."""
