"""The long checks in full, each one command that goes on where it was stopped."""
