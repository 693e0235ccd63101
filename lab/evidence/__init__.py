"""Long checks of the whole tree, one command each; each continues where it was stopped."""
