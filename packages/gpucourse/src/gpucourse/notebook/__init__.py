"""What ``%load_ext gpucourse`` sets up: magics, errors that teach, notes, Colab."""
