"""Files for other places: the handout, a class's tree, environments, Binder, JupyterHub."""
